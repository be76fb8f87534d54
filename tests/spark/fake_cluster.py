"""A cluster of numbers: queues that begin and end, brokers that may be away; and a clock."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from orbitmq.errors import ConnectFailed, NoRoute, OrbitError
from orbitmq.message.model import MessageQueue
from orbitmq.spark.offsets import Bound, Range
from orbitmq.spark.options import Access, ReadOptions, Topics


def queue(number: int, broker: str = "broker-a", topic: str = "orders") -> MessageQueue:
    return MessageQueue(topic, broker, number)


def options(**said: Any) -> ReadOptions:
    """Return options that read all of the topic orders, but for what is said."""
    read_all = ReadOptions(
        access=Access(nameserver="127.0.0.1:9876"),
        topics=Topics(names=("orders",)),
        start=Bound("earliest"),
        end=Bound("latest"),
    )
    return msgspec.structs.replace(read_all, **said)


class FakeClock:
    """Stands still unless it is told otherwise."""

    def __init__(self) -> None:
        self.ms = 1_000

    def now_ms(self) -> int:
        return self.ms

    def monotonic_ms(self) -> int:
        return self.ms

    def pass_ms(self, duration: int) -> None:
        self.ms += duration


class FakeCluster:
    """What tests say that it is; all that is asked of it is counted."""

    def __init__(self, ranges: Mapping[MessageQueue, tuple[int, int]]) -> None:
        self.ranges = {one: Range(*bounds) for one, bounds in ranges.items()}
        self.away: dict[str, OrbitError] = {}
        self.times: dict[int, dict[MessageQueue, int]] = {}
        self.keys: dict[str, dict[MessageQueue, list[int]] | None] = {}
        self.commits: list[tuple[str, dict[MessageQueue, int]]] = []
        self.routes_asked = 0
        self.bounds_asked = 0

    def lose(self, broker: str, error: OrbitError | None = None) -> None:
        """Take a broker away."""
        self.away[broker] = error or ConnectFailed(f"no connection to {broker}", address=broker)

    def resolve(self, topics: Topics) -> tuple[MessageQueue, ...]:
        self.routes_asked += 1
        there = [one for one in self.ranges if one.broker_name not in self.away]
        found = sorted(topics.assigned or (one for one in there if one.topic in topics.names))
        if not found:
            raise NoRoute("no route", topic=topics.names[0], is_missing=True, answers={})
        return tuple(found)

    def bounds(self, queues: Iterable[MessageQueue]) -> dict[MessageQueue, Range]:
        self.bounds_asked += 1
        asked = list(queues)
        for one in asked:
            if one.broker_name in self.away:
                raise self.away[one.broker_name]
        return {one: self.ranges[one] for one in asked}

    def offsets_at(
        self, queues: Iterable[MessageQueue], timestamp_ms: int
    ) -> dict[MessageQueue, int]:
        return {one: self.times[timestamp_ms][one] for one in queues}

    def offsets_of_key(
        self, queues: Iterable[MessageQueue], key: str
    ) -> Mapping[MessageQueue, Sequence[int]] | None:
        found = self.keys[key]
        return None if found is None else {one: found.get(one, []) for one in queues}

    def commit(self, group: str, offsets: Mapping[MessageQueue, int]) -> None:
        for one in offsets:
            if one.broker_name in self.away:
                raise self.away[one.broker_name]
        self.commits.append((group, dict(offsets)))
