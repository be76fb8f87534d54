"""What a batch read reads: queues, offsets and filters become the slices that tasks get."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from orbitmq.message.model import MessageQueue
from orbitmq.spark.filters import Narrowing
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
from orbitmq.spark.options import ReadOptions
from orbitmq.spark.queue_watch import Queues

__all__ = ["SearchableQueues", "batch_slices", "positions"]


class SearchableQueues(Queues, Protocol):
    """What planning asks of a cluster; see ``Cluster``."""

    def offsets_at(
        self, queues: Iterable[MessageQueue], timestamp_ms: int
    ) -> Mapping[MessageQueue, int]:
        """Return the first offsets stored then or later."""
        ...

    def offsets_of_key(
        self, queues: Iterable[MessageQueue], key: str
    ) -> Mapping[MessageQueue, Sequence[int]] | None:
        """Return where messages with a key are; None if no index can tell for sure."""
        ...


def positions(
    cluster: SearchableQueues, bound: Bound, ranges: Mapping[MessageQueue, Range], *, field: str
) -> Offsets:
    """Return the offset at which a bound lies in each queue.

    Args:
        cluster: whom to ask where a moment lies.
        bound: where to begin or end.
        ranges: where each queue of the read begins and ends.
        field: the option that the bound was said with, for the error.

    Raises:
        InvalidOffsets: it names queues that there are not, or leaves some out.
        OrbitError: brokers can't be asked.

    """
    by_time = bound.kind == "timestamp"
    at_time = cluster.offsets_at(sorted(ranges), bound.timestamp_ms) if by_time else None
    return placed(bound, ranges, at_time, field=field)


def batch_slices(
    cluster: SearchableQueues, options: ReadOptions, narrowing: Narrowing | None = None
) -> list[Slice]:
    """Return what the tasks of a batch read have to read.

    Raises:
        InvalidOffsets: the options have offsets of queues that there are not.
        DataLost: they ask for what the queues don't have, and that is to fail the read.
        OrbitError: the topic, or a server, can't be found.

    """
    ranges = cluster.bounds(cluster.resolve(options.topics))
    start = positions(cluster, options.start, ranges, field="startingOffsets")
    end = positions(cluster, options.end, ranges, field="endingOffsets")
    if options.fail_on_data_loss:
        _check_there(start, end, ranges)
    wanted = {
        queue: Range(max(start[queue], has.min), min(end[queue], has.max))
        for queue, has in ranges.items()
    }
    if narrowing is not None:
        wanted = _narrowed(cluster, wanted, narrowing)
        if narrowing.key is not None:
            found = cluster.offsets_of_key(sorted(wanted), narrowing.key)
            if found is not None:
                return _slices_around(found, wanted)
    return slices(wanted, options.min_partitions, options.max_records_per_partition)


def _check_there(start: Offsets, end: Offsets, ranges: Mapping[MessageQueue, Range]) -> None:
    """Raise DataLost if a queue doesn't have what is to be read of it."""
    for wanted in (start, end):
        if gone := lost(wanted, ranges):
            raise data_lost(gone[0])


def _narrowed(
    cluster: SearchableQueues, wanted: Mapping[MessageQueue, Range], narrowing: Narrowing
) -> dict[MessageQueue, Range]:
    """Return what filters leave to read. Who asks for a time gets the offset that brokers find."""
    kept = {queue: one for queue, one in wanted.items() if narrowing.keeps(queue)}
    first, last = narrowing.offsets
    kept = {queue: _cut(one, first, last) for queue, one in kept.items()}
    since_ms, until_ms = narrowing.times_ms
    if since_ms is not None:
        starts = cluster.offsets_at(sorted(kept), since_ms)
        kept = {queue: _cut(one, starts[queue], None) for queue, one in kept.items()}
    if until_ms is not None:
        ends = cluster.offsets_at(sorted(kept), until_ms)
        kept = {queue: _cut(one, None, ends[queue]) for queue, one in kept.items()}
    return kept


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
