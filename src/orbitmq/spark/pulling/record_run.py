"""The records of an answer that follow each other in their queue without a gap.

A broker passes over entries whose log file is gone, and answers with what lies behind them: the
offsets of the records alone tell of it. Of an inner batch the record has the first offset, and a
property has the number of its messages, by which the broker counts on.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from orbitmq.message import flags, properties
from orbitmq.message.buffer import Buffer
from orbitmq.message.record import LEAST_SIZE, MAGICS, reader
from orbitmq.message.record_view import RecordView
from orbitmq.spark.pulling.opened_records import NOT_PLAIN

__all__ = ["Records", "Run", "records_before", "run_from"]

_inner_count = properties.finder(properties.INNER_COUNT.encode())
_FIELDS: Final = reader("size", "magic", "queue_offset", "sys_flag")
_PLAIN_FIELDS: Final = reader("size", "queue_offset", "sys_flag")


class Records(NamedTuple):
    """Records behind each other, and nothing else unless an answer is faulty.

    Attributes:
        data: their bytes.
        starts: where each begins, if all are plain; None if that is to be found out.
    """

    data: Buffer
    starts: Sequence[int] | None = None


class Run(NamedTuple):
    """Records without a gap between them.

    Attributes:
        first: the offset of the first record of the answer, None if it has none.
        reached: the offset behind the last one of the run.
        size: the bytes that the run takes of the answer.
        starts: where each begins, if all are plain; None if that is to be found out.
    """

    first: int | None
    reached: int
    size: int
    starts: Sequence[int] | None = None


def run_from(body: Buffer, start: int, end: int) -> Run:
    """Return the run of records that begins at an offset, or before it, and stays before another.

    What is no record is left to the reader of the answer, who finds it: it goes with the run.

    Args:
        body: the answer's.
        start: the offset that was asked for.
        end: from here on records are not wanted.
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
    """Return the run that goes on at a place of the answer."""
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
            messages = _messages_in(RecordView(view, position, size))
        reached = max(reached, offset + messages)
        position += size
    return Run(first, reached, len(view))


def records_before(body: Buffer, end: int) -> Buffer:
    """Return the records of an answer that lie before an offset, whatever is between them."""
    view, position = memoryview(body), 0
    while position + LEAST_SIZE <= len(view):
        size, _magic, offset, _sys_flag = _FIELDS.unpack_from(view, position)
        if offset >= end:
            return view[:position]
        position += max(size, LEAST_SIZE)
    return view


def _messages_in(batch: RecordView) -> int:
    """Return by how many offsets a broker counts on behind an inner batch: by one without a word.

    (Java's ``CommitLog.getMessageNum`` goes by the property alone.)
    """
    count = _inner_count(batch.properties)
    return int(count) if count and count.isdigit() else 1
