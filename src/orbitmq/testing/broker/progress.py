"""Whether a group has consumed what it can see.

Clients commit every few seconds only, so those that are connected are asked how far they are.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from orbitmq.broker.clients.client_calls import ClientCalls
from orbitmq.broker.server import Broker
from orbitmq.message.names import retry_topic

__all__ = ["Behind", "behind"]


class Behind(NamedTuple):
    """A queue that a group has not consumed to its end."""

    topic: str
    broker: str
    queue_id: int
    consumed: int
    """Where the group is."""
    end: int

    def __str__(self) -> str:
        return (
            f"queue {self.queue_id} of {self.topic} on {self.broker}: {self.consumed} of {self.end}"
        )


async def behind(brokers: Iterable[Broker], group: str, topic: str | None) -> list[Behind] | None:
    """Return the queues in which a group is behind; None if no broker knows the group yet.

    The queues are those of ``topic``, or of all topics that the group subscribes to or has
    committed offsets in, and of its retry topic.
    """
    found: list[Behind] = []
    is_known = False
    for broker in brokers:
        topics = _topics(broker, group) if topic is None else [topic, retry_topic(group)]
        is_known = is_known or bool(topics)
        for name in topics:
            found += await _behind_in(broker, group, name)
    return found if is_known else None


def _topics(broker: Broker, group: str) -> Sequence[str]:
    state = broker.state
    consumers = state.members.consumers(group)
    subscribed = () if consumers is None else consumers.subscriptions
    return sorted({*subscribed, *state.offsets.topics_of(group)})


async def _behind_in(broker: Broker, group: str, topic: str) -> list[Behind]:
    """Return the queues of one topic; clients are asked only if offsets at the broker are old."""
    name, offsets = broker.settings.broker.broker_name, broker.state.offsets.of(group, topic)
    ends = {
        queue.queue_id: queue.max_offset
        for queue in broker.state.store.queues.queues_of(topic)
        if queue.max_offset > queue.min_offset
    }
    if any(offsets.get(queue_id, 0) < end for queue_id, end in ends.items()):
        for queue_id, offset in (await _said(broker, group, topic)).items():
            offsets[queue_id] = max(offset, offsets.get(queue_id, 0))
    return [
        Behind(topic, name, queue_id, offset, end)
        for queue_id, end in sorted(ends.items())
        if (offset := offsets.get(queue_id, 0)) < end
    ]


async def _said(broker: Broker, group: str, topic: str) -> dict[int, int]:
    """Return how far the connected consumers say they are, by queue of this broker."""
    if broker.state.members.consumers(group) is None:
        return {}
    statuses = await ClientCalls(broker.state.members).statuses(group, topic, None)
    name = broker.settings.broker.broker_name
    return {
        queue.queue_id: offset
        for table in statuses.consumer_table.values()
        for queue, offset in table.items()
        if queue.topic == topic and queue.broker_name == name
    }
