"""The records of an answer that follow each other in their queue without a gap.

A broker skips entries whose log file is gone, and answers with the records after them: only the
offsets of the records show the gap. The record of an inner batch has its first offset, and a
property has the number of its messages, by which the broker advances the offset.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from orbitmq.message import batch, flags
from orbitmq.message.buffer import Buffer
from orbitmq.message.record import LEAST_SIZE, MAGICS, reader
from orbitmq.message.record_view import RecordView
from orbitmq.spark.pulling.opened_records import NOT_PLAIN

if TYPE_CHECKING:  # processes that plan a read do without it
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Records", "Run", "records_before", "run_from"]

_FIELDS: Final = reader("size", "magic", "queue_offset", "sys_flag")
_PLAIN_FIELDS: Final = reader("size", "queue_offset", "sys_flag")


class Records(NamedTuple):
    """Consecutive records, and nothing else unless an answer is faulty.

    ``starts`` is where each begins, if all are plain; None if that is not known yet. With
    ``is_batch`` it is an array, the records are as many as a batch should have, other bytes may lie
    between them and behind them, and ``data`` is valid and free to be changed until the next
    records are asked for.
    """

    data: Buffer
    starts: "Sequence[int] | NDArray[np.int64] | None" = None
    is_batch: bool = False


class Run(NamedTuple):
    """Records without a gap between them, which take ``size`` bytes of an answer.

    ``first`` is the offset of the first record of the answer, None if it has none; ``reached`` the
    offset after the last one of the run. ``starts`` is where each begins, if all are plain; None if
    that is not known yet.
    """

    first: int | None
    reached: int
    size: int
    starts: Sequence[int] | None = None


def run_from(body: Buffer, start: int, end: int) -> Run:
    """Return the run of records from offset ``start``, or before it, up to ``end``, exclusive.

    ``start`` is the requested offset. Bytes that are no record stay in the run: the code that reads
    the answer reports them.
    """
    view, position, reached = memoryview(body), 0, start
    starts: list[int] = []
    unpack, last = _PLAIN_FIELDS.unpack_from, len(view) - LEAST_SIZE
    # Nearly all records are plain, and the next one; each costs as little as can be.
    while position <= last and reached < end:
        size, offset, sys_flag = unpack(view, position)
        if offset != reached or sys_flag & NOT_PLAIN or size < LEAST_SIZE:
            break
        starts.append(position)
        position += size
        reached += 1
    run = _run_on(view, position, reached, start if position else None, end)
    return run._replace(starts=starts) if run.size == position else run


def _run_on(view: memoryview, position: int, reached: int, first: int | None, end: int) -> Run:
    """Return the run that continues at a position of the answer."""
    while position + LEAST_SIZE <= len(view):
        size, magic, offset, sys_flag = _FIELDS.unpack_from(view, position)
        if not LEAST_SIZE <= size <= len(view) - position or magic not in MAGICS:
            return Run(first, end, len(view))
        if first is None:
            first = offset
        if offset > reached or offset >= end:
            return Run(first, reached, position)
        messages = 1
        if sys_flag & flags.INNER_BATCH:
            messages = batch.inner_count(RecordView(view, position, size).properties)
        reached = max(reached, offset + messages)
        position += size
    return Run(first, reached, len(view))


def records_before(body: Buffer, end: int) -> Buffer:
    """Return the records of an answer before an offset, with or without gaps between them."""
    view, position = memoryview(body), 0
    while position + LEAST_SIZE <= len(view):
        size, _magic, offset, _sys_flag = _FIELDS.unpack_from(view, position)
        if offset >= end:
            return view[:position]
        position += max(size, LEAST_SIZE)
    return view
