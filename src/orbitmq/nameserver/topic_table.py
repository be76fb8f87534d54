"""Topics as brokers registered them: topic → broker name → numbers of queues, permission. Pure."""

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from orbitmq.net.refusal import Refusal
from orbitmq.wire.bodies.route import QueueData
from orbitmq.wire.bodies.static_topic import TopicQueueMappingInfo
from orbitmq.wire.bodies.topic import TopicList
from orbitmq.wire.codes import READ, WRITE, ResponseCode

__all__ = ["TOPICS_MAX", "UNIT", "UNIT_SUBSCRIBED", "TopicTable"]

UNIT, UNIT_SUBSCRIBED = 1, 2
"""Bits of a topic's system flag (``TopicSysFlag`` in Java)."""
TOPICS_MAX: Final = 1_000_000
"""Far over what clusters have (a broker slows down at some 50,000 topics), some 500 MB of memory;
without a bound one client could fill all there is."""

_NONE: Final[Mapping[str, QueueData]] = MappingProxyType({})


class TopicTable:
    """The topics of all brokers. A topic without a broker is not in it."""

    def __init__(self) -> None:
        self._queues: dict[str, dict[str, QueueData]] = {}
        self._mappings: dict[str, dict[str, TopicQueueMappingInfo]] = {}

    def __repr__(self) -> str:
        return f"<TopicTable {len(self._queues)} topics>"

    def queues(self, topic: str) -> Mapping[str, QueueData]:
        """Return the queues of a topic by broker name; none if it isn't known."""
        return self._queues.get(topic, _NONE)

    def mappings(self, topic: str) -> dict[str, TopicQueueMappingInfo] | None:
        """Return how a static topic is laid over brokers; None if it is none."""
        return self._mappings.get(topic)

    def of_broker(self, broker_name: str) -> list[str]:
        """Return the topics that a broker has."""
        return [topic for topic, queues in self._queues.items() if broker_name in queues]

    def check_room(self, topics: Collection[str]) -> None:
        """Raise Refusal if the table would pass its bound with these topics."""
        if len(self._queues) + len(topics) <= TOPICS_MAX:
            return
        new = sum(topic not in self._queues for topic in topics)
        if len(self._queues) + new > TOPICS_MAX:
            raise Refusal(
                ResponseCode.SYSTEM_ERROR,
                f"{new} topics beside the {len(self._queues)} here are over the bound of "
                f"{TOPICS_MAX}; delete some first",
            )

    def put(self, topic: str, queue: QueueData) -> None:
        """Set the queues of a topic on the broker they name; ``check_room`` was asked before."""
        self._queues.setdefault(topic, {})[queue.broker_name] = queue

    def put_mapping(self, topic: str, mapping: TopicQueueMappingInfo) -> None:
        """Set a broker's share of a static topic."""
        self._mappings.setdefault(topic, {})[mapping.bname] = mapping

    def remove(self, topic: str, broker_name: str) -> None:
        """Take a topic away from a broker; with its last one it is gone."""
        _remove(self._queues, topic, broker_name)
        _remove(self._mappings, topic, broker_name)

    def set_writable(self, broker_name: str, *, writable: bool) -> int:
        """Give or take the permission to write to all topics of a broker; return how many.

        To give it sets the permission to read as well, whatever it was before, as Java does.
        """
        topics = self.of_broker(broker_name)
        for topic in topics:
            queue = self._queues[topic][broker_name]
            perm = READ | WRITE if writable else queue.perm & ~WRITE
            self._queues[topic][broker_name] = msgspec.structs.replace(queue, perm=perm)
        return len(topics)

    def names(self) -> TopicList:
        """Return the names of all topics."""
        return TopicList(topic_list=tuple(sorted(self._queues)))

    def with_flags(self, flags: int, *, without: int = 0) -> TopicList:
        """Return the topics whose system flag, as their first broker has it, has these bits."""
        found = []
        for topic, queues in self._queues.items():
            flag = next(iter(queues.values())).topic_sys_flag
            if flag & flags == flags and not flag & without:
                found.append(topic)
        return TopicList(topic_list=tuple(sorted(found)))


def _remove(
    table: dict[str, dict[str, QueueData]] | dict[str, dict[str, TopicQueueMappingInfo]],
    topic: str,
    broker_name: str,
) -> None:
    parts = table.get(topic)
    if parts is not None:
        parts.pop(broker_name, None)
        if not parts:
            del table[topic]
