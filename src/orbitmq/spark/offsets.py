"""Offsets of many queues: what to read of each, in which pieces, and what of it is gone. Pure.

A range goes from its start up to, and without, its end. Spark keeps offsets as JSON and compares
them as text, so that they are always written in one order: topic, broker, queue id.

>>> orders = MessageQueue("orders", "broker-a", 0)
>>> to_spark({orders: 12})
{'orders': {'broker-a:0': 12}}
>>> slices({orders: Range(0, 10)}, max_records=6)
[Slice(queue=MessageQueue(topic='orders', broker_name='broker-a', queue_id=0), start=0, end=5), \
Slice(queue=MessageQueue(topic='orders', broker_name='broker-a', queue_id=0), start=5, end=10)]
"""

from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Final, Literal, NamedTuple, TypeAlias

import msgspec

from orbitmq.errors import DataLost, InvalidOffsets
from orbitmq.message.model import MessageQueue
from orbitmq.spark.offset_json import queue_name

__all__ = [
    "EARLIEST",
    "LATEST",
    "Bound",
    "Lost",
    "Offsets",
    "Range",
    "Slice",
    "clamped",
    "data_lost",
    "from_spark",
    "lost",
    "placed",
    "shared_out",
    "slices",
    "to_spark",
]

Offsets: TypeAlias = dict[MessageQueue, int]
SparkOffsets: TypeAlias = dict[str, dict[str, int]]

LATEST: Final = -1
EARLIEST: Final = -2
"""In the place of an offset, as in Spark's Kafka source: the end of the queue, its beginning."""

_SHOWN_MAX: Final = 5


class Range(NamedTuple):
    """Where a queue begins, and the offset that its next message gets."""

    min: int
    max: int
    is_replica: bool = False
    """Whether a replica says so, which may lag behind its primary or keep less: there may be more,
    on either side."""


class Slice(msgspec.Struct, frozen=True):
    """What one task reads: offsets of one queue from ``start`` up to, and without, ``end``."""

    queue: MessageQueue
    start: int
    end: int


class Bound(msgspec.Struct, frozen=True):
    """Where a read begins or ends.

    Attributes:
        kind: how it is said; the other two attributes count for one kind each.
        offsets: for ``offsets``: the offset of each queue; `LATEST` and `EARLIEST` may stand there.
        timestamp_ms: for ``timestamp``: the first message stored then or later.

    """

    kind: Literal["earliest", "latest", "offsets", "timestamp"]
    offsets: Offsets = {}
    timestamp_ms: int = 0


class Lost(NamedTuple):
    """Offsets that were to be read, and that a queue doesn't have."""

    queue: MessageQueue
    wanted: int
    available: Range


def to_spark(offsets: Mapping[MessageQueue, int]) -> SparkOffsets:
    """Return offsets as Spark keeps them: the same text for the same offsets, always."""
    found: SparkOffsets = {}
    for queue in sorted(offsets):
        found.setdefault(queue.topic, {})[queue_name(queue)] = offsets[queue]
    return found


def from_spark(kept: object) -> Offsets:
    """Return the offsets that `to_spark` wrote.

    Raises:
        InvalidOffsets: they are not of that form, as in the checkpoint of another source.

    >>> from_spark({"orders": {"broker-a:0": 12}})
    {MessageQueue(topic='orders', broker_name='broker-a', queue_id=0): 12}

    """
    found: Offsets = {}
    for topic, queues in _pairs(kept):
        for name, offset in _pairs(queues):
            broker, _, number = name.rpartition(":")
            is_queue = broker and number.isascii() and number.isdecimal()
            if not is_queue or not isinstance(offset, int):
                raise _of_another_source(f"{name[:60]!r}: {offset!r:.60} in topic {topic[:60]}")
            found[MessageQueue(topic, broker, int(number))] = offset
    return found


def _pairs(kept: object) -> Iterable[tuple[str, object]]:
    if not isinstance(kept, Mapping):
        raise _of_another_source(f"{kept!r:.60}")
    return kept.items()


def _of_another_source(what: str) -> InvalidOffsets:
    return InvalidOffsets(
        f"the checkpoint has {what}, and not the offset of a queue such as 'broker-a:0'; is it the "
        "checkpoint of another source? Name another checkpointLocation",
        field="checkpointLocation",
    )


def placed(
    bound: Bound,
    ranges: Mapping[MessageQueue, Range],
    at_time: Mapping[MessageQueue, int] | None = None,
    *,
    field: str,
) -> Offsets:
    """Return the offset at which a bound lies in each queue.

    Args:
        bound: where to begin or end.
        ranges: where each queue of the read begins and ends.
        at_time: for a bound by time: what ``Cluster.offsets_at`` says of the queues.
        field: the option that the bound was said with, for the error.

    Raises:
        InvalidOffsets: it names queues that there are not, or leaves some out.

    """
    if bound.kind == "timestamp":
        assert at_time is not None  # the caller's duty
        return {queue: at_time[queue] for queue in ranges}
    if bound.kind == "offsets":
        _check_queues(bound.offsets, ranges, field)
        said = bound.offsets
    else:
        said = dict.fromkeys(ranges, EARLIEST if bound.kind == "earliest" else LATEST)
    return {queue: _point(said[queue], one) for queue, one in ranges.items()}


def _point(offset: int, within: Range) -> int:
    if offset == EARLIEST:
        return within.min
    return within.max if offset == LATEST else offset


def _check_queues(
    offsets: Mapping[MessageQueue, int], ranges: Mapping[MessageQueue, Range], field: str
) -> None:
    if unknown := offsets.keys() - ranges.keys():
        raise InvalidOffsets(
            f"{field} has offsets for queues that there are not: {_listed(unknown)}; "
            f"there are {_listed(ranges)}",
            field=field,
        )
    if missing := ranges.keys() - offsets.keys():
        raise InvalidOffsets(
            f"{field} has no offset for {_listed(missing)}; give one for each queue, "
            f"{EARLIEST} for its beginning or {LATEST} for its end",
            field=field,
        )


def _listed(queues: Iterable[MessageQueue]) -> str:
    found = [f"{queue.topic} {queue_name(queue)}" for queue in sorted(queues)]
    more = f" and {len(found) - _SHOWN_MAX} more" if len(found) > _SHOWN_MAX else ""
    return ", ".join(found[:_SHOWN_MAX]) + more if found else "none"


# Pieces


def slices(
    ranges: Mapping[MessageQueue, Range],
    min_partitions: int | None = None,
    max_records: int | None = None,
) -> list[Slice]:
    """Return what tasks read, in the order of queues; empty ranges give nothing.

    Args:
        ranges: what to read of each queue.
        min_partitions: at least so many slices, if there are so many offsets.
        max_records: at most so many offsets in one slice.

    """
    sizes = {queue: ranges[queue].max - ranges[queue].min for queue in sorted(ranges)}
    sizes = {queue: size for queue, size in sizes.items() if size > 0}
    counts = {queue: -(-size // max_records) if max_records else 1 for queue, size in sizes.items()}
    if min_partitions is not None and min_partitions > sum(counts.values()):
        shares = _in_proportion(sizes, min_partitions)
        counts = {queue: max(count, shares[queue]) for queue, count in counts.items()}
    return [
        Slice(queue, start, end)
        for queue, count in counts.items()
        for start, end in _cut(ranges[queue], count)
    ]


def _cut(whole: Range, count: int) -> list[tuple[int, int]]:
    size = whole.max - whole.min
    points = [whole.min + size * number // count for number in range(count + 1)]
    return list(pairwise(points))


def shared_out(
    start: Mapping[MessageQueue, int], latest: Mapping[MessageQueue, int], limit: int
) -> Offsets:
    """Return where a batch of at most ``limit`` offsets ends: queues get theirs by their lag.

    Each queue with a lag gets one at least, so that none waits for ever behind a larger one. If
    the limit doesn't even allow that, they take turns: which are first depends on how far all have
    come.

    Args:
        start: where the batch begins; every queue of ``latest`` is in it.
        latest: where the queues end.
        limit: from 1 on.

    """
    lags = {queue: latest[queue] - start[queue] for queue in sorted(latest)}
    lags = {queue: lag for queue, lag in lags.items() if lag > 0}
    if limit >= len(lags):
        shares = _in_proportion(lags, limit)
    else:
        lagging = list(lags)
        first = sum(start.values()) % len(lagging)
        shares = dict.fromkeys((lagging[first:] + lagging[:first])[:limit], 1)
    return {**start, **{queue: start[queue] + share for queue, share in shares.items()}}


def _in_proportion(weights: Mapping[MessageQueue, int], amount: int) -> dict[MessageQueue, int]:
    """Divide an amount by weights: each gets one at least, and none more than its weight.

    Args:
        weights: from 1 on.
        amount: at least the number of weights.

    """
    total = sum(weights.values())
    if amount >= total:
        return dict(weights)
    shares = {queue: max(amount * weight // total, 1) for queue, weight in weights.items()}
    left = amount - sum(shares.values())
    # What rounding left over goes to those that lost most by it; the smallest gained.
    losers = [queue for queue in weights if amount * weights[queue] > total]
    by_loss = sorted(losers, key=lambda queue: -(amount * weights[queue] % total))
    for queue in by_loss[: max(left, 0)]:
        shares[queue] += 1
    # What the smallest got for nothing is taken from the largest.
    for _ in range(-left):
        shares[max(shares, key=shares.__getitem__)] -= 1
    return shares


# What is gone


def lost(start: Mapping[MessageQueue, int], ranges: Mapping[MessageQueue, Range]) -> list[Lost]:
    """Return the queues whose messages from ``start`` on are gone, in order.

    Either a queue begins later by now, since retention took its oldest messages; or it ends
    earlier, since its topic was deleted and made anew.
    Nothing is said of a queue that has no entry: its broker may be down. Nor of one of which a
    replica tells: the primary may have more, and whoever reads asks it.
    """
    return [
        Lost(queue, start[queue], has)
        for queue, has in sorted(ranges.items())
        if queue in start and not _has_from(has, start[queue])
    ]


def _has_from(has: Range, wanted: int) -> bool:
    return has.is_replica or has.min <= wanted <= has.max


def clamped(start: Mapping[MessageQueue, int], gone: Iterable[Lost]) -> Offsets:
    """Return where to go on although data is lost: at the nearest offset that is there.

    One that ends before the wanted offset goes on at its end: it was made anew, or a replica that
    lagged behind became the primary, and then all before that has been read.
    """
    found = dict(start)
    for one in gone:
        found[one.queue] = min(max(one.wanted, one.available.min), one.available.max)
    return found


def data_lost(one: Lost) -> DataLost:
    """Return the error that says what is gone, and what to do."""
    has = one.available
    return DataLost(
        f"topic {one.queue.topic}, queue {queue_name(one.queue)}: offset {one.wanted} was to be "
        f"read, and the queue has {has.min} up to {has.max}. Set failOnDataLoss to false to go on "
        "from the nearest offset that is there",
        queue=one.queue,
        wanted=one.wanted,
        available=(has.min, has.max),
    )
