"""A batch queue: the queue of a topic whose batches are stored as one record each (BatchCQ).

A batch that is one record is an inner batch; each of its messages has a queue offset::

    offset    0  1  2  3  4 │ 5 │ 6  7  8      of messages
    entry     0             │ 1 │ 2            numbers, which say where in a file it is

Laws:

- An entry has the queue offset of its first message and the number of its messages. Unlike a
  consume queue, its place in the file tells nothing about offsets, so they are searched for.
- A message sent alone has an entry like a batch of one, as in Java.
- Offsets grow along a queue. Lost records leave gaps between entries, and an offset inside a gap
  leads to the entry after it. Java's search returns the entry before it, and a consumer can receive
  that one again and again.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import ClassVar, Final

from orbitmq.store.dispatch import Dispatched
from orbitmq.store.queues.batch_entry import BATCH_ENTRY_SIZE, BatchEntry, is_good, unpack
from orbitmq.store.queues.consume_queue import Boundary, StoreTimeOf
from orbitmq.store.queues.entry import PREFILL_SIZE
from orbitmq.store.queues.numbered_entries import NumberedEntries

__all__ = ["BatchQueue", "batch_entry_of"]

_READ_AT_ONCE: Final = 1024
_NOTHING: Final = BatchEntry(0, PREFILL_SIZE, 0, 0, 0, 1)


def batch_entry_of(record: Dispatched) -> BatchEntry:
    """Return the entry of a record."""
    return BatchEntry(
        record.commit_log_offset,
        record.size,
        record.tags_code,
        record.store_timestamp_ms,
        record.queue_offset,
        record.messages,
    )


class BatchQueue(NumberedEntries):
    """One queue of a topic with ``queue.type=BatchCQ``, made by ``ConsumeQueues``."""

    __slots__ = ()

    entry_size: ClassVar[int] = BATCH_ENTRY_SIZE

    def append(self, record: Dispatched) -> bool:
        """Buffer the entry of a record; return False if the queue has it, or its offsets."""
        record_end = record.commit_log_offset + record.size
        if record_end <= self.record_end or record.queue_offset < self.max_offset:
            return False
        if self.is_empty:
            self.min_offset = record.queue_offset
        if not self._pending:
            self._backlog.append(self)
        self._pending += batch_entry_of(record).pack()
        self.record_end = record_end
        self.max_offset = record.queue_offset + record.messages
        return True

    # Reading.

    def entries(self, offset: int, count: int) -> list[BatchEntry]:
        """Return up to ``count`` entries, from the one with the message at ``offset`` on.

        They never cross the end of a file. There are none below ``min_offset`` and none from
        ``max_offset`` on.
        """
        if not self.min_offset <= offset < self.max_offset:
            return []
        return list(unpack(self._within_file(self._number_of(offset), count)))

    def entry(self, offset: int) -> BatchEntry | None:
        """Return the entry with the message at an offset, or the one after a gap.

        None below ``min_offset`` and from ``max_offset`` on.
        """
        found = self.entries(offset, 1)
        return found[0] if found else None

    def iterate(self, offset: int) -> Iterator[tuple[int, BatchEntry]]:
        """Yield first offsets and entries, from the message at ``offset`` to the end."""
        offset = max(offset, self.min_offset)
        while found := self.entries(offset, _READ_AT_ONCE):
            for entry in found:
                yield entry.queue_offset, entry
            offset = found[-1].end

    def offset_by_time(
        self, timestamp_ms: int, boundary: Boundary, _store_time_of: StoreTimeOf
    ) -> int:
        """Return the offset of the message that belongs to a store time, as a consume queue does.

        All messages of a batch have its time: LOWER returns the first, UPPER the last of them. Java
        returns the first in both cases, and that of the last batch if all are older.
        """
        if self.min_offset == self.max_offset:
            return self.max_offset
        numbers = range(self._number_of(self.min_offset), self.end_number)

        def time_of(number: int) -> int:
            return self._entry_at(number).store_timestamp_ms

        if boundary is Boundary.LOWER:
            at = bisect_left(numbers, timestamp_ms, key=time_of)
            found = self._entry_at(numbers[at]) if at < len(numbers) else None
            return self.max_offset if found is None else max(found.queue_offset, self.min_offset)
        at = bisect_right(numbers, timestamp_ms, key=time_of)
        return self._entry_at(numbers[at - 1]).end - 1 if at else self.min_offset

    @property
    def last_offset(self) -> int:
        """The offset of the first message of the last entry."""
        return self._entry_at(self.end_number - 1).queue_offset

    # Start.

    def number_from(self, commit_log_offset: int) -> int:
        """Return the number of the first entry whose record is not before an offset of the log."""
        return self._first_from(commit_log_offset)

    def end_before(self, number: int) -> int:
        """Return the queue offset after the messages of all entries before a number."""
        return self._entry_at(number - 1).end if number > self.first_number else 0

    def restore(self, number: int, entries: bytes) -> None:
        """Write entries from a number on, at most ``end_number``; for recovery.

        From the first different entry on, the queue is cut first.
        """
        self.write()
        self._rewrite(number, entries)
        self.correct_min_offset(0)

    def keep_end(self, offset: int) -> None:
        """Let the queue end at an offset: the last messages are lost, their offsets were given out.

        The last of these offsets leads to the last record that is left, or to none.
        """
        last = _NOTHING if self.is_empty else self._entry_at(self.end_number - 1)
        entry = last._replace(queue_offset=offset - 1, messages=1)
        self.restore(self.end_number, entry.pack())

    def may_lack_head(self, commit_log_start: int) -> bool:
        """Return whether files may be missing before the first one; see ``ConsumeQueue``."""
        return self.first_number > 0 and self.first_record(commit_log_start + 1) > commit_log_start

    def first_record(self, otherwise: int) -> int:
        """Return the commit log offset of the first entry's record, if it has entries."""
        first = self.first_number
        return self._place_at(first)[0] if first < self.end_number else otherwise

    def put_before(self, number: int, entries: Sequence[BatchEntry]) -> bool:
        """Write the entries before ``number``, where another queue begins; the queue is empty.

        The first file begins with entries that lead nowhere. Return False if the entries don't fit:
        then the number of one of them is damaged.
        """
        begin = number - len(entries)
        missing, offset = begin % self._per_file, entries[0].queue_offset
        if begin < 0 or offset < missing:
            return False
        nowhere = [_NOTHING._replace(queue_offset=offset - n) for n in range(missing, 0, -1)]
        self._written = begin - missing
        self.restore(self._written, b"".join(entry.pack() for entry in (*nowhere, *entries)))
        return True

    def take_head(self, head: "BatchQueue") -> None:
        """Take over the files of a queue that ends where the first file of this one begins.

        The files must be on disk and closed, and ``head`` must not be used afterwards.
        """
        was_empty = self.is_empty
        self._files.take_before(head._files)
        if was_empty:
            self._end_at(head.end_number)

    def correct_min_offset(self, commit_log_start: int) -> None:
        """Set ``min_offset`` to the first message whose record is in the log."""
        number = self._first_from(commit_log_start)
        is_left = number < self.end_number
        self.min_offset = self._entry_at(number).queue_offset if is_left else self.max_offset

    def _good_from(self, number: int) -> int:
        before = None
        while data := self._scanned(number):
            for entry in unpack(data):
                # Java leaves old entries after the end of a queue that it has cut.
                if not is_good(entry) or (before is not None and not _follows(entry, before)):
                    return number
                before = entry
                number += 1
        return number

    def _end_at(self, number: int) -> None:
        super()._end_at(number)
        last = self._entry_at(number - 1) if number > self.first_number else None
        self.max_offset = last.end if last is not None and is_good(last) else 0

    def _entry_at(self, number: int) -> BatchEntry:
        return next(unpack(self._bytes(number, number + 1)))

    def _number_of(self, offset: int) -> int:
        """Return the number of the entry with the message at an offset, or after a gap."""
        first = self.first_number
        numbers = range(first, self.end_number)
        return first + bisect_right(numbers, offset, key=lambda at: self._entry_at(at).end)


def _follows(entry: BatchEntry, before: BatchEntry) -> bool:
    return entry.commit_log_offset >= before.commit_log_offset and entry.queue_offset >= before.end
