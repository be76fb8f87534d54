"""A cluster in memory, whose brokers may be down, and a clock."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec

from orbitmq.errors import ConnectFailed, NoRoute, OrbitError, RequestTimeout
from orbitmq.message.model import MessageQueue
from orbitmq.spark.cluster.brokers import QueueConnection
from orbitmq.spark.cluster.cluster import Cluster
from orbitmq.spark.offsets import Bound, Range
from orbitmq.spark.options.options import DEFAULT_PULL_GROUP, Access, ReadOptions, Topics
from orbitmq.wire.codes import ResponseCode
from orbitmq.wire.frame import Frame
from tests.spark.fake_queue import FakeConnection, FakeQueue
from tests.spark.records import record


def queue(number: int, broker: str = "broker-a", topic: str = "orders") -> MessageQueue:
    return MessageQueue(topic, broker, number)


def options(**said: Any) -> ReadOptions:
    """Return options that read all of the topic orders, with some changes."""
    read_all = ReadOptions(
        access=Access(nameserver="127.0.0.1:9876"),
        topics=Topics(names=("orders",)),
        start=Bound("earliest"),
        end=Bound("latest"),
    )
    return msgspec.structs.replace(read_all, **said)


def missing(topic: str) -> NoRoute:
    return NoRoute(f"topic {topic} is missing", topic=topic, is_missing=True, answers={})


class FakeClock:
    """Advances only by ``pass_ms``."""

    def __init__(self) -> None:
        self.ms = 1_000

    def now_ms(self) -> int:
        return self.ms

    def monotonic_ms(self) -> int:
        return self.ms

    def pass_ms(self, duration: int) -> None:
        self.ms += duration


class TimedQueue(FakeQueue):
    """A queue whose store times come from a function."""

    def __init__(self, has: Range, stored_ms: Callable[[int], int]) -> None:
        super().__init__(has.min, has.max)
        self.stored_ms = stored_ms

    def answer(self, offset: int, count: int) -> Frame:
        if not self.least <= offset < self.end:
            return super().answer(offset, count)
        offsets = range(offset, min(self.end, offset + count))
        records = [record(one, b"1 pizza", stored_ms=self.stored_ms(one)) for one in offsets]
        return self.frame(ResponseCode.SUCCESS, offsets[-1] + 1, b"".join(records))


class FakeBroker(FakeConnection):
    """A connection to a broker that has several queues."""

    def __init__(self, queues: Mapping[tuple[str, str], FakeQueue]) -> None:
        super().__init__(next(iter(queues.values())))
        self.queues = queues
        self.silent: set[str] = set()

    def result(self, number: int) -> Frame:
        texts = self.in_flight[number]
        if texts["queueId"] in self.silent:
            del self.in_flight[number]
            self.silent.discard(texts["queueId"])
            raise RequestTimeout("no answer within 1 ms", address=self.peer, timeout_ms=1)
        self.queue = self.queues[texts["topic"], texts["queueId"]]
        return super().result(number)


class FakeCluster(Cluster):
    """Answers as tests set it up, and counts requests."""

    def __init__(self, ranges: Mapping[MessageQueue, tuple[int, int]]) -> None:
        super().__init__(Access(nameserver="127.0.0.1:9876"))
        self.ranges = {one: Range(*bounds) for one, bounds in ranges.items()}
        self.away: dict[str, OrbitError] = {}
        self.times: dict[int, dict[MessageQueue, int]] = {}
        self.stored: dict[MessageQueue, Sequence[int]] = {}
        self.looked_at: list[int] = []
        self.brokers: dict[str, FakeBroker] = {}
        self.keys: dict[str, dict[MessageQueue, list[int]] | None] = {}
        self.commits: list[tuple[str, dict[MessageQueue, int]]] = []
        self.closed: set[MessageQueue] = set()
        self.routes_asked = 0
        self.bounds_asked = 0
        self.nameservers_away: OrbitError | None = None

    def lose(self, broker: str, error: OrbitError | None = None) -> None:
        """Stop a broker."""
        self.away[broker] = error or ConnectFailed(f"no connection to {broker}", address=broker)

    def delete(self, topic: str) -> None:
        """Delete a topic."""
        self.ranges = {one: has for one, has in self.ranges.items() if one.topic != topic}

    def resolve(self, topics: Topics) -> tuple[MessageQueue, ...]:
        self.routes_asked += 1
        if self.nameservers_away is not None:
            raise self.nameservers_away
        there = [
            one
            for one in sorted(self.ranges)
            if one.broker_name not in self.away and one not in self.closed
        ]
        if topics.pattern is not None:
            return tuple(one for one in there if re.fullmatch(topics.pattern, one.topic))
        for name in topics.names:
            if not any(one.topic == name for one in there):
                raise missing(name)
        return topics.assigned or tuple(one for one in there if one.topic in topics.names)

    def bounds(self, queues: Iterable[MessageQueue]) -> dict[MessageQueue, Range]:
        self.bounds_asked += 1
        asked = list(queues)
        for one in asked:
            if one.broker_name in self.away:
                raise self.away[one.broker_name]
            if one not in self.ranges:
                raise missing(one.topic)
        return {one: self.ranges[one] for one in asked}

    def offsets_at(
        self, queues: Iterable[MessageQueue], timestamp_ms: int
    ) -> dict[MessageQueue, int]:
        return {one: self.times[timestamp_ms][one] for one in queues}

    def stored_ms(self, queue: MessageQueue, offset: int) -> int:
        """Return the store time of a message: as set, or consistent with the answers by time."""
        self.looked_at.append(offset)
        if queue in self.stored:
            return self.stored[queue][offset]
        return max((ms for ms, at in self.times.items() if offset >= at[queue]), default=0)

    def connection(
        self, queue: MessageQueue, broker_id: int = 0, *, exact: bool = False
    ) -> QueueConnection:
        assert (broker_id, exact) == (0, False)
        if queue.broker_name in self.away:
            raise self.away[queue.broker_name]
        if queue.broker_name not in self.brokers:
            queues = {
                (one.topic, str(one.queue_id)): TimedQueue(has, partial(self.stored_ms, one))
                for one, has in self.ranges.items()
                if one.broker_name == queue.broker_name
            }
            self.brokers[queue.broker_name] = FakeBroker(queues)
        return QueueConnection(self.brokers[queue.broker_name], 0)

    def forget(self, queue: MessageQueue) -> None:
        raise AssertionError(f"a pull of {queue} failed")

    def wire_name(self, name: str) -> str:
        return name

    def offsets_of_key(
        self, queues: Iterable[MessageQueue], key: str, *, group: str = DEFAULT_PULL_GROUP
    ) -> dict[MessageQueue, list[int]] | None:
        assert group == DEFAULT_PULL_GROUP
        found = self.keys[key]
        return None if found is None else {one: found.get(one, []) for one in queues}

    def commit(self, group: str, offsets: Mapping[MessageQueue, int]) -> None:
        for one in offsets:
            if one.broker_name in self.away:
                raise self.away[one.broker_name]
            if one not in self.ranges:
                raise missing(one.topic)
        self.commits.append((group, dict(offsets)))
