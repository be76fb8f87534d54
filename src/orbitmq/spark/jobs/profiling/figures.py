"""The figures of a profile, and the advice that follows from them; no Spark, no cluster.

Growth is that of the profiled messages alone: other topics on the same disk come on top.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

__all__ = ["Growth", "HotKey", "Profile", "QueueShare", "Slot", "TopicProfile", "advice", "growth"]

DAY_MS: Final = 86_400_000
_DISK_FULL: Final = 0.75
"""Brokers delete files before their time from here on (``diskMaxUsedSpaceRatio``)."""
_SKEWED: Final = 2.0
_HOT: Final = 0.1
_FEW: Final = 1_000
"""Shares of fewer messages than this say nothing."""
_BURST: Final = 5.0
_LARGE: Final = 1024 * 1024
_SMALL: Final = 200


class QueueShare(msgspec.Struct, frozen=True):
    """How much of a topic is in one queue."""

    broker: str
    queue_id: int
    messages: int
    bytes: int


class HotKey(msgspec.Struct, frozen=True):
    """A key and how many messages have it."""

    key: str
    messages: int


class Slot(msgspec.Struct, frozen=True):
    """What was stored in one slot of time."""

    start_ms: int
    messages: int
    bytes: int


class TopicProfile(msgspec.Struct, frozen=True, kw_only=True):
    """One topic."""

    topic: str
    messages: int
    bytes: int
    """Of bodies, as they were sent: decompressed."""
    size_p50: int
    size_p99: int
    size_max: int
    keyed: int
    """Messages with keys."""
    keys: int
    """Different keys, within some percent."""
    hot_keys: tuple[HotKey, ...]
    tags: tuple[HotKey, ...]
    queues: tuple[QueueShare, ...]

    @property
    def skew(self) -> float:
        """The fullest queue, as a multiple of the mean."""
        counts = [queue.messages for queue in self.queues]
        return max(counts) * len(counts) / sum(counts) if self.messages else 1.0


class Growth(msgspec.Struct, frozen=True, kw_only=True):
    """How long the disk of a broker lasts."""

    broker: str
    bytes_per_day: float
    disk_total: int
    disk_used: int
    retention_ms: int
    days_until_full: float | None
    """Until brokers delete files before their time; None if retention keeps it below that."""

    @property
    def retained_bytes(self) -> float:
        """What the messages of a whole retention take."""
        return self.bytes_per_day * self.retention_ms / DAY_MS


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of some topics over some time."""

    messages: int
    bytes: int
    first_ms: int | None
    last_ms: int | None
    slot_ms: int
    slots: tuple[Slot, ...]
    topics: tuple[TopicProfile, ...]
    growth: tuple[Growth, ...] = ()
    advice: tuple[str, ...] = ()

    @property
    def seconds(self) -> float:
        """The time between the first and the last message; at least one second."""
        if self.first_ms is None or self.last_ms is None:
            return 1.0
        return max(1.0, (self.last_ms - self.first_ms) / 1000)


def growth(
    broker: str,
    bytes_per_day: float,
    *,
    disk: tuple[int, int],
    stored: int,
    retention_ms: int,
) -> Growth:
    """Return how long a disk of a total and used size lasts; ``stored`` of it is the broker's log.

    >>> growth("broker-a", 20.0, disk=(100, 60), stored=0, retention_ms=DAY_MS).days_until_full
    0.75
    """
    total, used = disk
    limit = total * _DISK_FULL
    retained = bytes_per_day * retention_ms / DAY_MS
    fits = used - stored + retained <= limit
    days = None if fits or not bytes_per_day else max(0.0, limit - used) / bytes_per_day
    return Growth(
        broker=broker,
        bytes_per_day=bytes_per_day,
        disk_total=total,
        disk_used=used,
        retention_ms=retention_ms,
        days_until_full=days,
    )


def advice(profile: Profile) -> Iterator[str]:
    """Yield what somebody should look at, in words; nothing if all is well."""
    for one in profile.growth:
        yield from _about_growth(one)
    yield from _about_bursts(profile.slots)
    for topic in profile.topics:
        if topic.messages:
            yield from _about_topic(topic)


def _about_growth(one: Growth) -> Iterator[str]:
    if one.days_until_full is None:
        return
    hours = one.retention_ms / 3_600_000
    yield (
        f"The disk of {one.broker} reaches {_DISK_FULL:.0%} in {one.days_until_full:.1f} days, "
        f"before the retention of {hours:.0f} hours: its broker will delete messages early. "
        "Give it a larger disk, or set fileReservedTime lower."
    )


def _about_bursts(slots: Sequence[Slot]) -> Iterator[str]:
    counts = [slot.messages for slot in slots]
    if len(counts) > 2 and sum(counts) >= _FEW:
        mean = sum(counts) / len(counts)
        if max(counts) > _BURST * mean:
            yield (
                f"Traffic comes in bursts: the busiest slot has {max(counts) / mean:.1f} times the "
                "mean. Size consumers for the peak, or let the lag absorb it."
            )


def _about_topic(topic: TopicProfile) -> Iterator[str]:
    name = topic.topic
    if topic.messages >= _FEW and len(topic.queues) > 1 and topic.skew > _SKEWED:
        fullest = max(topic.queues, key=lambda queue: queue.messages)
        yield (
            f"Queue {fullest.broker}:{fullest.queue_id} of {name} has {topic.skew:.1f} times the "
            "mean: its consumer is the slowest of the group. Spread sharding keys, or choose "
            "queues by turns."
        )
    if topic.keyed >= _FEW and topic.hot_keys:
        hottest = topic.hot_keys[0]
        share = hottest.messages / topic.messages
        if share > _HOT:
            yield (
                f"Key {hottest.key[:40]!r} is in {share:.0%} of the messages of {name}: in an "
                "ordered topic one queue gets them all."
            )
    if topic.size_max > _LARGE:
        yield (
            f"{name} has messages of up to {topic.size_max / _LARGE:.1f} MiB: pulls carry few of "
            "them. Put large bodies elsewhere, and send their address."
        )
    if topic.messages >= _FEW and topic.size_p50 < _SMALL:
        yield (
            f"Half of the messages of {name} are below {_SMALL} bytes: batches "
            "(send_many, or batching by the producer) cost a fraction of single sends."
        )
    if topic.messages >= _FEW and not topic.keyed:
        yield f"No message of {name} has a key, so none can be found by one."
