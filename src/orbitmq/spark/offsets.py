"""Offsets of many queues: what to read, divided into slices, and what is lost.

The end of a range is not part of it. Spark stores offsets as JSON and compares them as text, so
they are always in the same order: topic, broker, queue id.

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
    "bound_offsets",
    "clamped",
    "data_lost",
    "from_spark",
    "lost",
    "shared_out",
    "slices",
    "to_spark",
]

Offsets: TypeAlias = dict[MessageQueue, int]
SparkOffsets: TypeAlias = dict[str, dict[str, int]]

LATEST: Final = -1
EARLIEST: Final = -2
"""Special offsets, as in Spark's Kafka source: the end and the beginning of a queue."""

_SHOWN_MAX: Final = 5


class Range(NamedTuple):
    """The first offset of a queue, and the offset of its next message."""

    min: int
    max: int
    is_replica: bool = False
    """Whether a replica answered, which may lag behind its primary or keep less: the queue may be
    longer on both sides."""


class Slice(msgspec.Struct, frozen=True):
    """What one task reads: offsets of one queue from ``start`` to before ``end``."""

    queue: MessageQueue
    start: int
    end: int


class Bound(msgspec.Struct, frozen=True):
    """Where a read begins or ends.

    ``offsets`` has the offset of each queue, or `LATEST` or `EARLIEST`. A bound by ``timestamp_ms``
    is the first message stored at or after it.
    """

    kind: Literal["earliest", "latest", "offsets", "timestamp"]
    offsets: Offsets = {}
    timestamp_ms: int = 0


class Lost(NamedTuple):
    """An offset to read that a queue doesn't have."""

    queue: MessageQueue
    wanted: int
    available: Range


def to_spark(offsets: Mapping[MessageQueue, int]) -> SparkOffsets:
    """Return offsets in Spark's form; equal offsets give equal text."""
    found: SparkOffsets = {}
    for queue in sorted(offsets):
        found.setdefault(queue.topic, {})[queue_name(queue)] = offsets[queue]
    return found


def from_spark(kept: object) -> Offsets:
    """Return offsets from Spark's form.

    Raise InvalidOffsets if they have another form, as in the checkpoint of another source.

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
        f"the checkpoint has {what}, not the offset of a queue such as 'broker-a:0'; it may be the "
        "checkpoint of another source. Set another checkpointLocation",
        field="checkpointLocation",
    )


def bound_offsets(
    bound: Bound,
    ranges: Mapping[MessageQueue, Range],
    at_time: Mapping[MessageQueue, int] | None = None,
    *,
    field: str,
) -> Offsets:
    """Return the offset of a bound in each queue.

    ``at_time`` has the offsets for a bound by time. If the bound names queues that don't exist, or
    leaves some out, raise InvalidOffsets with ``field``, the option that sets the bound.
    """
    if bound.kind == "timestamp":
        assert at_time is not None  # the caller looks it up
        return {queue: at_time[queue] for queue in ranges}
    if bound.kind == "offsets":
        _check_queues(bound.offsets, ranges, field)
        given = bound.offsets
    else:
        given = dict.fromkeys(ranges, EARLIEST if bound.kind == "earliest" else LATEST)
    return {queue: _point(given[queue], one) for queue, one in ranges.items()}


def _point(offset: int, within: Range) -> int:
    if offset == EARLIEST:
        return within.min
    return within.max if offset == LATEST else offset


def _check_queues(
    offsets: Mapping[MessageQueue, int], ranges: Mapping[MessageQueue, Range], field: str
) -> None:
    if unknown := offsets.keys() - ranges.keys():
        raise InvalidOffsets(
            f"{field} has offsets of queues that don't exist: {_list(unknown)}; "
            f"there are {_list(ranges)}",
            field=field,
        )
    if missing := ranges.keys() - offsets.keys():
        raise InvalidOffsets(
            f"{field} has no offset for {_list(missing)}; give one for each queue, "
            f"{EARLIEST} for its beginning or {LATEST} for its end",
            field=field,
        )


def _list(queues: Iterable[MessageQueue]) -> str:
    found = [f"{queue.topic} {queue_name(queue)}" for queue in sorted(queues)]
    more = f" and {len(found) - _SHOWN_MAX} more" if len(found) > _SHOWN_MAX else ""
    return ", ".join(found[:_SHOWN_MAX]) + more if found else "none"


# Pieces


def slices(
    ranges: Mapping[MessageQueue, Range],
    min_partitions: int | None = None,
    max_records: int | None = None,
) -> list[Slice]:
    """Return the slices that tasks read, in the order of queues; empty ranges have none.

    A slice has at most ``max_records`` offsets; there are at least ``min_partitions`` slices, if
    there are enough offsets.
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
    """Return where a batch of at most ``limit`` offsets ends, divided in proportion to lag.

    Each queue with a lag gets at least one offset, so that none waits forever behind a larger one.
    If the limit is too small for that, queues are served round-robin. ``start`` must have every
    queue of ``latest``; ``limit`` is at least 1.
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
    """Divide an amount by weights: each gets at least one, and at most its weight.

    Each weight is at least 1, and the amount at least the number of weights.
    """
    total = sum(weights.values())
    if amount >= total:
        return dict(weights)
    shares = {queue: max(amount * weight // total, 1) for queue, weight in weights.items()}
    left = amount - sum(shares.values())
    # The rest after rounding goes to those that lost most by it.
    losers = [queue for queue in weights if amount * weights[queue] > total]
    by_loss = sorted(losers, key=lambda queue: -(amount * weights[queue] % total))
    for queue in by_loss[: max(left, 0)]:
        shares[queue] += 1
    # What the smallest got beyond their share is taken from the largest.
    for _ in range(-left):
        shares[max(shares, key=shares.__getitem__)] -= 1
    return shares


# Losses


def lost(start: Mapping[MessageQueue, int], ranges: Mapping[MessageQueue, Range]) -> list[Lost]:
    """Return the queues that don't have the messages from ``start`` on, in order.

    Either a queue begins later now, because retention removed its oldest messages; or it ends
    earlier, because its topic was deleted and created again. Queues without a range are skipped:
    their broker may be down. So are those that a replica answered for: the primary may have more,
    and the read asks it.
    """
    return [
        Lost(queue, start[queue], has)
        for queue, has in sorted(ranges.items())
        if queue in start and not _has_from(has, start[queue])
    ]


def _has_from(has: Range, wanted: int) -> bool:
    return has.is_replica or has.min <= wanted <= has.max


def clamped(start: Mapping[MessageQueue, int], gone: Iterable[Lost]) -> Offsets:
    """Return where to continue after a loss: at the nearest offset that exists.

    A queue that ends before the wanted offset continues at its end: it was created again, or a
    lagging replica became the primary, and then all before that has been read.
    """
    found = dict(start)
    for one in gone:
        found[one.queue] = min(max(one.wanted, one.available.min), one.available.max)
    return found


def data_lost(one: Lost) -> DataLost:
    """Return the error for a loss."""
    has = one.available
    return DataLost(
        f"topic {one.queue.topic}, queue {queue_name(one.queue)}: offset {one.wanted} is lost: "
        f"the queue has {has.min} up to {has.max}. Set failOnDataLoss to false to continue at the "
        "nearest offset that exists",
        queue=one.queue,
        wanted=one.wanted,
        available=(has.min, has.max),
    )
