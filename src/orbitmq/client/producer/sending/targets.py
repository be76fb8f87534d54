"""Where sends go: per topic and per queue, all that sends share until the route changes.

::

    topic ──▶ TopicTarget ── round-robin, selector or key ──▶ QueueTarget ──▶ headers, connection

A queue's header template and open connection are at hand, so that the next send looks nothing up.
"""

from asyncio import get_running_loop
from collections.abc import Sequence
from typing import Final

from orbitmq.client.arguments import check_queue, check_queue_topic, check_selector
from orbitmq.client.core.client_core import ClientCore
from orbitmq.client.core.publish_route import DefaultTopic, PublishRoute
from orbitmq.client.producer.health.health import Health
from orbitmq.client.producer.sending.packing import Packer, SendHeaders
from orbitmq.client.producer.sending.queue_choice import QueueChoice, QueueSelector, select, sharded
from orbitmq.client.settings import ProducerSettings
from orbitmq.errors import ConnectFailed, InvalidInput
from orbitmq.message.model import Message, MessageQueue
from orbitmq.message.names import wrap_namespace
from orbitmq.net.address import Address
from orbitmq.net.connection import Connection

__all__ = ["Destination", "QueueTarget", "TopicTarget", "TopicTargets", "destination_of"]

Destination = MessageQueue | QueueSelector | str | None
"""What the caller chose: a queue, a selector, a sharding key, or nothing."""

_TOPICS_MAX: Final = 100_000
"""Topics of one producer; beyond them the oldest target is dropped, and made again when needed."""
_QUEUES_MAX: Final = 65_536
"""Queues of one topic that are kept; no route has more."""


def destination_of(
    queue: MessageQueue | None,
    selector: QueueSelector | None = None,
    sharding_key: str | None = None,
) -> Destination:
    """Return the caller's choice of a queue, None if there is none; several are refused."""
    if queue is not None:
        check_queue(queue)
    if selector is not None:
        check_selector(selector)
    given = [one for one in (queue, selector, sharding_key) if one is not None]
    if len(given) > 1:
        raise InvalidInput(
            "queue, selector and sharding_key each say where to send; give one of them",
            field="queue",
        )
    return given[0] if given else None


class QueueTarget:
    """One queue: its address, its headers, and the connection that was used last."""

    __slots__ = ("address", "connection", "forms", "headers", "queue")

    def __init__(self, queue: MessageQueue, headers: SendHeaders, address: Address | None) -> None:
        self.queue = queue
        """As the user knows it."""
        self.headers = headers
        self.address = address
        """None: its broker has no master now."""
        self.connection: Connection | None = None
        """It may have closed since."""
        self.forms: dict[str | None, bytes] = {}
        """The forms of requests with plain messages, by their tag."""

    def __repr__(self) -> str:
        return f"<QueueTarget {self.queue.broker_name}:{self.queue.queue_id} at {self.address}>"


class TopicTarget:
    """The queues of one topic, as long as its route stays the same."""

    def __init__(
        self, topic: str, route: PublishRoute, packer: Packer, choice: QueueChoice
    ) -> None:
        self.topic = topic
        self.route = route
        self._packer = packer
        self._choice = choice
        self._next_position = choice.next_position
        self._by_queue: dict[MessageQueue, QueueTarget] = {}
        self.queues: Sequence[MessageQueue] = tuple(
            queue
            if queue.topic == topic
            else MessageQueue(topic, queue.broker_name, queue.queue_id)
            for queue in route.queues
        )
        """The queues that can be written to, as the user knows them."""
        self._ring: list[QueueTarget | None] = [None] * len(self.queues)

    def __repr__(self) -> str:
        return f"<TopicTarget {self.topic}, {len(self.queues)} queues>"

    def in_turn(self) -> QueueTarget:
        """Return the queue for the running task's next send: round-robin, without health."""
        ring = self._ring
        index = self._next_position() % len(ring)
        found = ring[index]
        if found is None:
            found = ring[index] = self.of(self.queues[index])
        return found

    def pick(self, now_ms: int, avoid: str | None = None) -> QueueTarget:
        """Return the queue for the running task's next attempt; see ``QueueChoice.pick``."""
        queue = self._choice.pick(self.queues, now_ms, avoid)
        return self._by_queue.get(queue) or self.of(queue)

    def chosen(self, destination: Destination, message: Message) -> MessageQueue | None:
        """Return the queue of the caller's choice, None if there is no choice.

        Raise InvalidInput for a queue of another topic. Errors of a selector pass unchanged.
        """
        if destination is None:
            return None
        if isinstance(destination, str):
            return sharded(self.queues, destination)
        if isinstance(destination, MessageQueue):
            check_queue_topic(destination, self.topic)
            return destination
        return select(destination, self.queues, message)

    def of(self, queue: MessageQueue) -> QueueTarget:
        """Return the target of a queue. If the route doesn't have it, its broker will decide."""
        found = self._by_queue.get(queue)
        if found is None:
            route = self.route
            broker = route.broker_of(MessageQueue(route.topic, queue.broker_name, queue.queue_id))
            headers = self._packer.headers_for(queue, broker)
            found = QueueTarget(queue, headers, route.addresses.get(broker))
            if len(self._by_queue) < _QUEUES_MAX:
                self._by_queue[queue] = found
        return found


class TopicTargets:
    """The targets of one producer, by topic."""

    def __init__(
        self, core: ClientCore, settings: ProducerSettings, packer: Packer, health: Health
    ) -> None:
        self._core = core
        self._packer = packer
        self._health = health
        self._namespace = core.settings.namespace
        self._default = DefaultTopic(settings.create_topic_key, settings.default_topic_queues)
        self._by_topic: dict[str, TopicTarget] = {}
        self._published = core.routes.published

    def __repr__(self) -> str:
        return f"<TopicTargets of {len(self._by_topic)} topics>"

    def ready(self, topic: str) -> TopicTarget | None:
        """Return the target of a topic whose route is known, None if it must be looked up."""
        found = self._by_topic.get(topic)
        if found is None or found.route is not self._published.get(found.route.topic):
            return None
        return found

    def last(self, topic: str) -> TopicTarget | None:
        """Return the last known target of a topic, even if its route has changed since."""
        return self._by_topic.get(topic)

    async def find(self, topic: str, *, must_exist: bool = False) -> TopicTarget:
        """Return the target of a topic, looked up unless it is known.

        ``topic`` is the name that the user knows; ``must_exist`` refuses one that the first send
        would create.
        """
        found = self.ready(topic)
        if found is not None and not (must_exist and found.route.is_default):
            return found
        wire_topic = wrap_namespace(self._namespace, topic)
        default = None if must_exist else self._default
        route = await self._core.routes.publish_route(wire_topic, default)
        before = self._by_topic.get(topic)
        if before is not None and before.route is route:
            return before
        if before is not None:
            choice = before._choice
        else:
            choice = QueueChoice(self._health, self._core.machine.randomness, get_running_loop())
            if len(self._by_topic) >= _TOPICS_MAX:
                del self._by_topic[next(iter(self._by_topic))]
        found = self._by_topic[topic] = TopicTarget(topic, route, self._packer, choice)
        return found

    async def connect(self, target: QueueTarget) -> Connection:
        """Return an open connection to the broker of a queue; ConnectFailed if there is none."""
        if target.address is None:
            raise ConnectFailed(
                f"broker {target.queue.broker_name} has no master now, and only masters take writes"
            )
        target.connection = connection = await self._core.connection(target.address)
        return connection
