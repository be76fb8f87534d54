"""What an `Admin` finds out, without the names and forms of the wire.

Times are in milliseconds since 1970. Settings of topics and groups are returned as they are on the
wire: ``TopicConfig`` and ``SubscriptionGroupConfig``. So is what is said of groups that elect their
master, and of slaves: ``ReplicasInfo``, ``EpochEntryCache``, ``HARuntimeInfo`` and others.
"""

import re
from collections.abc import Mapping
from typing import Final, Self

import msgspec

from orbitmq.message.model import MessageQueue
from orbitmq.wire.bodies.cluster import BrokerMemberGroup
from orbitmq.wire.bodies.replication import (
    EpochEntryCache,
    HARuntimeInfo,
    ReplicaIdentity,
    ReplicasInfo,
)
from orbitmq.wire.bodies.stats import BrokerStatsData, BrokerStatsItem
from orbitmq.wire.headers.controller import ElectMasterAnswer, GetMetaDataAnswer

__all__ = [
    "Broker",
    "BrokerMemberGroup",
    "BrokerStats",
    "BrokerStatus",
    "Cluster",
    "ElectMasterAnswer",
    "EpochEntryCache",
    "GetMetaDataAnswer",
    "GroupProgress",
    "HARuntimeInfo",
    "QueueProgress",
    "QueueStats",
    "Rate",
    "ReplicaIdentity",
    "ReplicasInfo",
    "TopicStats",
]


class QueueStats(msgspec.Struct, frozen=True):
    """The messages of one queue: from ``min_offset`` to before ``max_offset``."""

    queue: MessageQueue
    min_offset: int
    max_offset: int
    last_stored_ms: int
    """When the last message was stored; 0 if there is none."""

    @property
    def messages(self) -> int:
        """How many messages the queue holds."""
        return self.max_offset - self.min_offset


class TopicStats(msgspec.Struct, frozen=True):
    """The queues of a topic, sorted."""

    topic: str
    queues: tuple[QueueStats, ...]
    put_tps: float
    """Messages stored per second, on all brokers together."""

    @property
    def messages(self) -> int:
        """How many messages the topic holds."""
        return sum(one.messages for one in self.queues)


class QueueProgress(msgspec.Struct, frozen=True):
    """How far a group is in one queue."""

    queue: MessageQueue
    broker_offset: int
    """The offset of the next message that will be stored."""
    consumer_offset: int
    """The offset of the next message to consume: what the group committed."""
    pull_offset: int
    """The offset of the next message to pull; 0 if the broker doesn't report it."""
    last_consumed_ms: int
    """When the last consumed message was stored; 0 if there is none."""

    @property
    def lag(self) -> int:
        """How many messages are stored and not consumed."""
        return self.broker_offset - self.consumer_offset

    @property
    def in_flight(self) -> int:
        """How many messages are pulled and not consumed."""
        return max(0, self.pull_offset - self.consumer_offset)


class GroupProgress(msgspec.Struct, frozen=True):
    """How far a group is in all queues of its topics, sorted.

    >>> queue = MessageQueue("orders", "broker-a", 0)
    >>> GroupProgress("billing", (QueueProgress(queue, 10, 4, 6, 0),), 0.0).lag
    6
    """

    group: str
    queues: tuple[QueueProgress, ...]
    consume_tps: float
    """Messages consumed per second, on all brokers together."""

    @property
    def lag(self) -> int:
        """How many messages are stored and not consumed."""
        return sum(one.lag for one in self.queues)

    @property
    def in_flight(self) -> int:
        """How many messages are pulled and not consumed."""
        return sum(one.in_flight for one in self.queues)


class Broker(msgspec.Struct, frozen=True, order=True):
    """One broker process. Those with the same name have the same messages; number 0 is the master.

    ``address`` is the one that it advertises.
    """

    cluster: str
    name: str
    number: int
    address: str

    @property
    def is_master(self) -> bool:
        """Whether it takes writes."""
        return self.number == 0


class Cluster(msgspec.Struct, frozen=True):
    """A cluster and its brokers, sorted by name and number."""

    name: str
    brokers: tuple[Broker, ...]


class Rate(msgspec.Struct, frozen=True):
    """What was counted in a period: the sum, per second, and on average per count."""

    sum: int
    tps: float
    average: float

    @classmethod
    def of(cls, item: BrokerStatsItem | None) -> Self:
        """Return the rate in an answer; zeros if there is none."""
        found = item or BrokerStatsItem()
        return cls(found.sum, found.tps, found.avgpt)


class BrokerStats(msgspec.Struct, frozen=True):
    """One counter of a broker over the last minute, hour and day."""

    minute: Rate
    hour: Rate
    day: Rate

    @classmethod
    def of(cls, data: BrokerStatsData) -> Self:
        """Return the counter in an answer."""
        return cls(Rate.of(data.stats_minute), Rate.of(data.stats_hour), Rate.of(data.stats_day))


class BrokerStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a running broker; ``figures`` has all that it reports, under Java's names."""

    version: str
    """Such as ``V5_4_0``."""
    started_ms: int
    now_ms: int | None
    """What its clock said when it answered, without the milliseconds; None if it does not tell."""
    put_tps: float
    """Messages stored per second, in the last ten seconds."""
    get_tps: float
    """Messages delivered per second, in the last ten seconds."""
    put_today: int
    """Messages stored since midnight."""
    got_today: int
    """Messages delivered since midnight."""
    put_latency: Mapping[str, int]
    """How many puts of the last whole minute took how long, by span, such as ``0~10ms``."""
    put_latency_p99_ms: float
    put_latency_p999_ms: float
    send_queue: int
    """Sends that wait to be processed."""
    send_queue_wait_ms: int
    """How long the first of them has waited."""
    dispatch_behind_bytes: int
    """What is stored, and not in queues and index yet."""
    disk_used: float
    """How much of the disk of the commit log is in use: from 0 to 1."""
    figures: Mapping[str, str]

    @classmethod
    def of(cls, figures: Mapping[str, str]) -> Self:
        """Return the status in an answer; what a broker leaves out is 0."""

        def number(key: str) -> float:
            try:
                return float(figures.get(key, "").split(" ")[0])
            except ValueError:
                return 0

        def today(kind: str) -> int:
            now, morning = f"msg{kind}TotalTodayNow", f"msg{kind}TotalTodayMorning"
            return int(number(now) - number(morning))

        return cls(
            version=figures.get("brokerVersionDesc", ""),
            started_ms=int(number("bootTimestamp")),
            now_ms=_now_ms(figures),
            put_tps=number("putTps"),
            get_tps=number("getTransferredTps"),
            put_today=today("Put"),
            got_today=today("Get"),
            put_latency=_spans(figures.get("putMessageDistributeTime", "")),
            put_latency_p99_ms=number("putLatency99"),
            put_latency_p999_ms=number("putLatency999"),
            send_queue=int(number("sendThreadPoolQueueSize")),
            send_queue_wait_ms=int(number("sendThreadPoolQueueHeadWaitTimeMills")),
            dispatch_behind_bytes=int(number("dispatchBehindBytes")),
            disk_used=number("commitLogDiskRatio"),
            figures=figures,
        )


_RAN: Final = re.compile(r"\[ (-?\d\S*) days, (-?\d+) hours, (-?\d+) minutes, (-?\d+) seconds \]")


def _now_ms(figures: Mapping[str, str]) -> int | None:
    """Return the time of the answer: that of the start, and how long the broker runs.

    That is negative if its clock was set back to before the start.

    >>> _now_ms({"bootTimestamp": "5000", "runtime": "[ 0 days, 0 hours, 1 minutes, 2 seconds ]"})
    67000
    """
    started = figures.get("bootTimestamp", "")
    ran = _RAN.fullmatch(figures.get("runtime", ""))
    if ran is None or not started.isdecimal():
        return None
    days = re.sub(r"(?!^-)\D", "", ran[1])  # Java groups the digits of a long time
    hours, minutes, seconds = map(int, ran.groups()[1:])
    return int(started) + 1_000 * (((int(days) * 24 + hours) * 60 + minutes) * 60 + seconds)


def _spans(text: str) -> dict[str, int]:
    """Return the counts of a text such as ``[<=0ms]:3 [0~10ms]:1``."""
    parts = (part.rpartition(":") for part in text.split())
    return {span.strip("[]"): int(count) for span, _, count in parts if count.isdigit()}
