"""Plans a batch read: queues, offsets and filters become the slices that tasks read."""

import logging
from collections.abc import Iterable, Mapping, Sequence

from orbitmq.message.model import MessageQueue
from orbitmq.spark.cluster.cluster import Cluster
from orbitmq.spark.offsets import (
    Bound,
    Offsets,
    Range,
    Slice,
    bound_offsets,
    data_lost,
    lost,
    slices,
)
from orbitmq.spark.options.options import ReadOptions
from orbitmq.spark.reading.filters import PushedFilters
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
    """Return the offset of a bound in each queue."""
    if bound.kind in ("earliest", "latest"):
        _warn_of_replicas(bound.kind, ranges)
    by_time = bound.kind == "timestamp"
    at_time = _offsets_since(cluster, bound.timestamp_ms, ranges, group) if by_time else None
    return bound_offsets(bound, ranges, at_time, field=field)


def _warn_of_replicas(kind: str, ranges: Mapping[MessageQueue, Range]) -> None:
    broker_names = sorted({queue.broker_name for queue, has in ranges.items() if has.is_replica})
    if broker_names:
        log.warning(
            "%s is taken from replicas, since these primaries can't be reached, which may have "
            "more: %s",
            *(kind, ", ".join(broker_names)),
        )


def _offsets_since(
    cluster: Cluster, timestamp_ms: int, ranges: Mapping[MessageQueue, Range], group: str
) -> Offsets:
    hints = cluster.offsets_at(sorted(ranges), timestamp_ms)
    return offsets_since(cluster, timestamp_ms, ranges, hints, group=group)


def batch_slices(
    cluster: Cluster, options: ReadOptions, filters: PushedFilters | None = None
) -> list[Slice]:
    """Return what the tasks of a batch read.

    Raise InvalidOffsets if the options have offsets of queues that don't exist, and DataLost if
    offsets are gone and data loss is an error.
    """
    ranges = cluster.bounds(cluster.resolve(options.topics))
    group = options.pull_group
    start = positions(cluster, options.start, ranges, field="startingOffsets", group=group)
    end = positions(cluster, options.end, ranges, field="endingOffsets", group=group)
    if options.fail_on_data_loss:
        _check_exists(start, end, ranges)
    wanted = {queue: _existing(start[queue], end[queue], has) for queue, has in ranges.items()}
    if filters is not None:
        wanted = _filtered(cluster, wanted, filters, group)
        if filters.key is not None:
            found = cluster.offsets_of_key(sorted(wanted), filters.key)
            if found is not None:
                return _slices_around(found, wanted)
    return slices(wanted, options.min_partitions, options.max_records_per_partition)


def _existing(start: int, end: int, has: Range) -> Range:
    """Return the part of a queue that exists.

    The primary may have what a replica lacks: the task that reads it waits for the primary.
    """
    if has.is_replica:
        return Range(start, end)
    return Range(max(start, has.min), min(end, has.max))


def _check_exists(start: Offsets, end: Offsets, ranges: Mapping[MessageQueue, Range]) -> None:
    """Raise DataLost if a start or an end is outside of its queue."""
    for wanted in (start, end):
        if gone := lost(wanted, ranges):
            raise data_lost(gone[0])


def _filtered(
    cluster: Cluster,
    wanted: Mapping[MessageQueue, Range],
    filters: PushedFilters,
    group: str,
) -> dict[MessageQueue, Range]:
    """Return the ranges that filters leave; none is empty."""
    kept = {queue: one for queue, one in wanted.items() if filters.keeps(queue)}
    first, last = filters.offsets
    kept = _not_empty({queue: _cut(one, first, last) for queue, one in kept.items()})
    since_ms, until_ms = filters.times_ms
    if since_ms is not None:
        starts = _offsets_since(cluster, since_ms, kept, group)
        kept = _not_empty({queue: _cut(one, starts[queue], None) for queue, one in kept.items()})
    if until_ms is not None:
        ends = _offsets_since(cluster, until_ms, kept, group)
        kept = _not_empty({queue: _cut(one, None, ends[queue]) for queue, one in kept.items()})
    return kept


def _not_empty(ranges: Mapping[MessageQueue, Range]) -> dict[MessageQueue, Range]:
    return {queue: one for queue, one in ranges.items() if one.min < one.max}


def _cut(whole: Range, start: int | None, end: int | None) -> Range:
    return Range(
        whole.min if start is None else max(whole.min, start),
        whole.max if end is None else min(whole.max, end),
    )


def _slices_around(
    found: Mapping[MessageQueue, Sequence[int]], wanted: Mapping[MessageQueue, Range]
) -> list[Slice]:
    """Return a slice for each run of adjacent offsets that an index returned."""
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
