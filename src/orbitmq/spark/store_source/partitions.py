"""Divides the log of a store into the ranges that tasks read; this happens once, on the driver.

::

    files   │record record … record│record … record blank││record record … │ zeros
    parts   [────── 128 MiB ───────)[───────── 128 MiB ───)[─── the rest ──)
                                    ▲                                      ▲
              a record begins here: a queue says so             the last sound record ends here

A plan is fixed: tasks that run again, and a broker that writes on, don't change what is read.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from itertools import pairwise
from typing import Final, NamedTuple

import msgspec

from orbitmq.errors import InvalidOffsets, InvalidOption, StoreError
from orbitmq.message.names import is_lmq
from orbitmq.spark.offsets import EARLIEST, LATEST, Bound
from orbitmq.spark.store_source.options import (
    ALL_TIME_MS,
    QueueKey,
    StoreOptions,
    limit_of,
    offsets_by_queue,
)
from orbitmq.spark.store_source.topics import rule_of
from orbitmq.store.reader.borders import LogEnd, borders, largest_queues, log_end
from orbitmq.store.reader.queue_reader import BatchQueueReader
from orbitmq.store.reader.reader import Damage, QueueName, QueueReader, StoreReader

__all__ = ["PART_BYTES", "StorePartition", "open_store", "plan"]

PART_BYTES: Final = 128 << 20
"""One segment of a gigabyte is read by eight tasks; less would cost more to start than to read."""

_SEARCHES_MAX: Final = 200_000
"""Searches in queues for parts without a wanted message: some ten seconds. With more, such parts
are read, and their rows left out."""


class StorePartition(msgspec.Struct, frozen=True):
    """What one task reads: the records from one log offset on and before another.

    ``queues`` name most of its records, so that they needn't be searched for. ``damages`` are
    places behind its end that were found when the read was planned.
    """

    start: int
    end: int
    queues: tuple[QueueName, ...] = ()
    damages: tuple[Damage, ...] = ()


class _Entries(NamedTuple):
    """The entries of a queue, by number, whose messages are to be read."""

    queue: QueueReader
    first: int
    end: int


def open_store(options: StoreOptions) -> StoreReader:
    """Return a reader of the store; raise StoreError if there is none."""
    return StoreReader(options.directory, commit_log=options.commit_log)


def plan(options: StoreOptions) -> list[StorePartition]:
    """Return what the tasks of a read read, in the order of the log.

    Raise StoreError if there is no store, or its log is missing, InvalidOption if it lacks a topic,
    and InvalidOffsets if it lacks a queue or an offset.
    """
    reader = open_store(options)
    _check_log(reader, options)
    names = _wanted_queues(reader, options)
    queues = largest_queues(reader)
    parts = list(_parts(reader, options, queues))
    begin_ms, end_ms = options.times_ms
    if begin_ms > 0 or end_ms < ALL_TIME_MS:
        parts = list(_within_times(reader, parts, begin_ms, end_ms))
    if rule_of(options).is_narrow or "offsets" in (options.start.kind, options.end.kind):
        parts = _with_entries(parts, _wanted_entries(reader, options, names), queues)
    return parts


def _check_log(reader: StoreReader, options: StoreOptions) -> None:
    """Raise StoreError if the log is missing in a store that is not empty; it may be elsewhere."""
    where = reader.log_directory
    if reader.disk.exists(where):
        return
    if options.commit_log is not None:
        raise StoreError(
            f"commitLog: there is no directory {where}; give that of the log, which "
            "storePathCommitLog names",
            path=where,
        )
    if reader.queues():
        raise StoreError(
            f"{reader.directory} has queues, but its log is not in {reader.log_directory}; set "
            "the option commitLog to where the log is, which storePathCommitLog names",
            path=where,
        )


def _parts(
    reader: StoreReader, options: StoreOptions, queues: Sequence[QueueReader]
) -> Iterator[StorePartition]:
    low, high = reader.range_of(*options.times_ms)
    written = reader.written_end
    if low >= written:
        return
    stop = min(high, written)
    step = PART_BYTES
    if options.min_partitions is not None:
        step = max(1, min(step, (stop - low) // options.min_partitions))
    names = tuple(queue.name for queue in queues)
    starts = list(borders(reader, low, stop, step, queues))
    end = LogEnd(high) if high < written else log_end(reader, starts[-1], queues)
    for start, next_start in pairwise(starts):
        yield StorePartition(start, next_start, names)
    if starts[-1] < end.position or end.behind:
        yield StorePartition(starts[-1], end.position, names, end.behind)


# Queues and offsets


def _wanted_queues(reader: StoreReader, options: StoreOptions) -> list[QueueName]:
    """Return the queues of the topics to read; raise InvalidOption if a topic has none."""
    queues = [name for name in reader.queues() if not is_lmq(name.topic)]
    known = sorted({name.topic for name in queues})
    for topic in options.topics:
        if known and topic not in known:
            near = get_close_matches(topic, known, n=1)
            hint = f"did you mean {near[0]}?" if near else "it has the topics "
            listed = "" if near else ", ".join(known)[:200]
            raise InvalidOption(
                f"the store {options.directory} has no messages of topic {topic}; {hint}{listed}",
                field="subscribe",
            )
    rule = rule_of(options)
    return [name for name in queues if rule.wants(name.topic)]


def _wanted_entries(
    reader: StoreReader, options: StoreOptions, names: Sequence[QueueName]
) -> list[_Entries]:
    starts = _offsets(options.start, names, "startingOffsets")
    ends = _offsets(options.end, names, "endingOffsets")
    found = []
    for name in names:
        queue = reader.queue(*name)
        first, end = queue.numbers.start, queue.numbers.stop
        start_offset, end_offset = starts.get(name, EARLIEST), ends.get(name, LATEST)
        _check_exists(queue, start_offset, "startingOffsets")
        _check_exists(queue, end_offset, "endingOffsets")
        if not isinstance(queue, BatchQueueReader):  # there, numbers are not offsets
            first, end = max(first, limit_of(start_offset)), min(end, limit_of(end_offset))
        found.append(_Entries(queue, first, end))
    return found


def _offsets(bound: Bound, names: Sequence[QueueName], field: str) -> Mapping[QueueKey, int]:
    if bound.kind != "offsets":
        return {}
    given = offsets_by_queue(bound, field)
    if not names:
        return given  # without queues, they restrict rows alone
    for word, queues in (
        ("has offsets of queues that are not read", given.keys() - set(names)),
        ("lacks offsets of queues that are read", set(names) - given.keys()),
    ):
        if queues:
            listed = ", ".join(f"{topic}/{number}" for topic, number in sorted(queues)[:5])
            raise InvalidOffsets(f"{field} {word}: {listed}", field=field)
    return given


def _check_exists(queue: QueueReader, offset: int, field: str) -> None:
    if offset >= 0 and not queue.min_offset <= offset <= queue.max_offset:
        raise InvalidOffsets(
            f"{field}: queue {queue.name.queue_id} of {queue.name.topic} has offsets from "
            f"{queue.min_offset} to before {queue.max_offset}, and {offset} is none of them; "
            f"{EARLIEST} means its beginning, {LATEST} its end",
            field=field,
        )


# What need not be read


def _within_times(
    reader: StoreReader, parts: Sequence[StorePartition], begin_ms: int, end_ms: int
) -> Iterator[StorePartition]:
    """Yield the parts that may have messages of some time: store times never decrease."""
    times = [*(_stored_ms(reader, part) for part in parts), None]
    for part, (first_ms, next_ms) in zip(parts, pairwise(times), strict=True):
        too_late = first_ms is not None and first_ms >= end_ms
        too_early = next_ms is not None and next_ms < begin_ms
        if not (too_late or too_early) or part.damages:
            yield part


def _stored_ms(reader: StoreReader, part: StorePartition) -> int | None:
    view = reader.message(part.start)
    return None if view is None else view.store_timestamp_ms


def _with_entries(
    parts: list[StorePartition], wanted: Sequence[_Entries], others: Sequence[QueueReader]
) -> list[StorePartition]:
    """Return the parts that wanted messages may lie in, by their queues.

    Queues are written in the order of the log, and lag behind it. So no part stays out that is
    behind what any of them has.
    """
    if not wanted or len(parts) * len(wanted) > _SEARCHES_MAX:
        return parts
    queued = _queued_end([*others, *(one.queue for one in wanted)])
    return [
        part
        for part in parts
        if part.end > queued or part.damages or any(_has_entry(one, part) for one in wanted)
    ]


def _queued_end(queues: Iterable[QueueReader]) -> int:
    """Return the greatest log offset that an entry points to."""
    lasts = (queue.entry(queue.numbers.stop - 1) for queue in queues if queue.numbers)
    return max((last.commit_log_offset for last in lasts if last is not None), default=0)


def _has_entry(wanted: _Entries, part: StorePartition) -> bool:
    number = max(wanted.first, wanted.queue.first_from(part.start))
    if number >= wanted.end:
        return False
    entry = wanted.queue.entry(number)
    return entry is None or entry.commit_log_offset < part.end
