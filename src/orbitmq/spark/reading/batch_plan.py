"""What a batch read reads: queues, offsets and filters become the slices that tasks get."""

import logging
from collections.abc import Iterable, Mapping, Sequence

from orbitmq.message.model import MessageQueue
from orbitmq.spark.cluster.cluster import Cluster
from orbitmq.spark.offsets import (
    Bound,
    Offsets,
    Range,
    Slice,
    data_lost,
    lost,
    placed,
    slices,
)
from orbitmq.spark.options.options import ReadOptions
from orbitmq.spark.reading.filters import Narrowing
from orbitmq.spark.reading.offsets_by_time import offsets_since

__all__ = ["batch_slices", "positions"]

log = logging.getLogger("orbitmq.spark")


def positions(
    cluster: Cluster,
    bound: Bound,
    ranges: Mapping[MessageQueue, Range],
    *,
    field: str,
    group: str,
) -> Offsets:
    """Return the offset at which a bound lies in each queue.

    Args:
        cluster: whom to ask where a moment lies.
        bound: where to begin or end.
        ranges: where each queue of the read begins and ends.
        field: the option that the bound was said with, for the error.
        group: in whose name messages are looked at, to make sure of a moment.

    Raises:
        InvalidOffsets: it names queues that there are not, or leaves some out.
        OrbitError: brokers can't be asked.

    """
    if bound.kind in ("earliest", "latest"):
        _tell_of_replicas(bound.kind, ranges)
    by_time = bound.kind == "timestamp"
    at_time = _offsets_since(cluster, bound.timestamp_ms, ranges, group) if by_time else None
    return placed(bound, ranges, at_time, field=field)


def _tell_of_replicas(kind: str, ranges: Mapping[MessageQueue, Range]) -> None:
    away = sorted({queue.broker_name for queue, has in ranges.items() if has.is_replica})
    if away:
        log.warning(
            "%s is where replicas have it, since these primaries can't be reached, and may have "
            "more: %s",
            *(kind, ", ".join(away)),
        )


def _offsets_since(
    cluster: Cluster, moment_ms: int, ranges: Mapping[MessageQueue, Range], group: str
) -> Offsets:
    hints = cluster.offsets_at(sorted(ranges), moment_ms)
    return offsets_since(cluster, moment_ms, ranges, hints, group=group)


def batch_slices(
    cluster: Cluster, options: ReadOptions, narrowing: Narrowing | None = None
) -> list[Slice]:
    """Return what the tasks of a batch read have to read.

    Raises:
        InvalidOffsets: the options have offsets of queues that there are not.
        DataLost: they ask for what the queues don't have, and that is to fail the read.
        OrbitError: the topic, or a server, can't be found.

    """
    ranges = cluster.bounds(cluster.resolve(options.topics))
    group = options.pull_group
    start = positions(cluster, options.start, ranges, field="startingOffsets", group=group)
    end = positions(cluster, options.end, ranges, field="endingOffsets", group=group)
    if options.fail_on_data_loss:
        _check_there(start, end, ranges)
    wanted = {queue: _there(start[queue], end[queue], has) for queue, has in ranges.items()}
    if narrowing is not None:
        wanted = _narrowed(cluster, wanted, narrowing, group)
        if narrowing.key is not None:
            found = cluster.offsets_of_key(sorted(wanted), narrowing.key)
            if found is not None:
                return _slices_around(found, wanted)
    return slices(wanted, options.min_partitions, options.max_records_per_partition)


def _there(start: int, end: int, has: Range) -> Range:
    """Return what there is to read of a queue.

    What a replica lacks its primary may have: whoever reads it asks for it, and waits for the
    primary.
    """
    if has.is_replica:
        return Range(start, end)
    return Range(max(start, has.min), min(end, has.max))


def _check_there(start: Offsets, end: Offsets, ranges: Mapping[MessageQueue, Range]) -> None:
    """Raise DataLost if a queue doesn't have what is to be read of it."""
    for wanted in (start, end):
        if gone := lost(wanted, ranges):
            raise data_lost(gone[0])


def _narrowed(
    cluster: Cluster,
    wanted: Mapping[MessageQueue, Range],
    narrowing: Narrowing,
    group: str,
) -> dict[MessageQueue, Range]:
    """Return what filters leave to read; there are messages in each of the ranges."""
    kept = {queue: one for queue, one in wanted.items() if narrowing.keeps(queue)}
    first, last = narrowing.offsets
    kept = _filled({queue: _cut(one, first, last) for queue, one in kept.items()})
    since_ms, until_ms = narrowing.times_ms
    if since_ms is not None:
        starts = _offsets_since(cluster, since_ms, kept, group)
        kept = _filled({queue: _cut(one, starts[queue], None) for queue, one in kept.items()})
    if until_ms is not None:
        ends = _offsets_since(cluster, until_ms, kept, group)
        kept = _filled({queue: _cut(one, None, ends[queue]) for queue, one in kept.items()})
    return kept


def _filled(ranges: Mapping[MessageQueue, Range]) -> dict[MessageQueue, Range]:
    return {queue: one for queue, one in ranges.items() if one.min < one.max}


def _cut(whole: Range, start: int | None, end: int | None) -> Range:
    return Range(
        whole.min if start is None else max(whole.min, start),
        whole.max if end is None else min(whole.max, end),
    )


def _slices_around(
    found: Mapping[MessageQueue, Sequence[int]], wanted: Mapping[MessageQueue, Range]
) -> list[Slice]:
    """Return a slice for each run of neighbours among the offsets that an index named."""
    return [
        Slice(queue, first, last + 1)
        for queue, offsets in sorted(found.items())
        for first, last in _runs(
            offset for offset in offsets if wanted[queue].min <= offset < wanted[queue].max
        )
    ]


def _runs(offsets: Iterable[int]) -> list[tuple[int, int]]:
    runs: list[tuple[int, int]] = []
    for offset in sorted(set(offsets)):
        if runs and offset == runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], offset)
        else:
            runs.append((offset, offset))
    return runs
