"""The registered topics: topic → broker name → numbers of queues and permission. Pure."""

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
"""More than any cluster has (a broker slows down at about 50,000 topics); about 500 MB of memory.
Keeps a single client from filling the memory."""

_NONE: Final[Mapping[str, QueueData]] = MappingProxyType({})


class TopicTable:
    """The topics of all brokers; a topic without brokers is removed."""

    def __init__(self) -> None:
        self._queues: dict[str, dict[str, QueueData]] = {}
        self._mappings: dict[str, dict[str, TopicQueueMappingInfo]] = {}

    def __repr__(self) -> str:
        return f"<TopicTable {len(self._queues)} topics>"

    def queues(self, topic: str) -> Mapping[str, QueueData]:
        """Return the queues of a topic by broker name; none if the topic is unknown."""
        return self._queues.get(topic, _NONE)

    def mappings(self, topic: str) -> dict[str, TopicQueueMappingInfo] | None:
        """Return the queue mappings of a static topic by broker; None if it is not static."""
        return self._mappings.get(topic)

    def of_broker(self, broker_name: str) -> list[str]:
        """Return the topics of a broker."""
        return [topic for topic, queues in self._queues.items() if broker_name in queues]

    def check_room(self, topics: Collection[str]) -> None:
        """Raise Refusal if the table would exceed its limit with these topics."""
        if len(self._queues) + len(topics) <= TOPICS_MAX:
            return
        new = sum(topic not in self._queues for topic in topics)
        if len(self._queues) + new > TOPICS_MAX:
            raise Refusal(
                ResponseCode.SYSTEM_ERROR,
                f"{new} new topics in addition to {len(self._queues)} exceed the limit of "
                f"{TOPICS_MAX}; delete some first",
            )

    def put(self, topic: str, queue: QueueData) -> None:
        """Set the queues of a topic on one broker; call ``check_room`` first."""
        self._queues.setdefault(topic, {})[queue.broker_name] = queue

    def put_mapping(self, topic: str, mapping: TopicQueueMappingInfo) -> None:
        """Set a broker's queue mapping of a static topic."""
        self._mappings.setdefault(topic, {})[mapping.bname] = mapping

    def remove(self, topic: str, broker_name: str) -> None:
        """Remove a topic from a broker; a topic is deleted with its last broker."""
        _remove(self._queues, topic, broker_name)
        _remove(self._mappings, topic, broker_name)

    def set_writable(self, broker_name: str, *, writable: bool) -> int:
        """Set or remove the write permission of all topics of a broker; return how many.

        As in Java, setting it also sets the read permission.
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
        """Return the topics whose system flag on their first broker has these bits."""
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
