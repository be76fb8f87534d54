"""A consume queue: where in the commit log the messages of one queue of a topic are.

Laws:

- Entry ``n`` is at byte ``20·n`` of the queue's stream and belongs to the record with queue offset
  ``n``. Commit log offsets never decrease along a queue.
- A queue can be rebuilt from the commit log, as far back as the log goes.
"""

import enum
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from typing import ClassVar, Final

from orbitmq.errors import StoreDamaged
from orbitmq.store.dispatch import Dispatched
from orbitmq.store.queues.entry import (
    ENTRY,
    ENTRY_SIZE,
    PREFILL,
    PREFILL_SIZE,
    QueueEntry,
    good_entries,
    unpack,
)
from orbitmq.store.queues.numbered_entries import NumberedEntries

__all__ = [
    "ENTRY",
    "ENTRY_SIZE",
    "PREFILL_SIZE",
    "Boundary",
    "ConsumeQueue",
    "QueueEntry",
    "StoreTimeOf",
]

_pack = ENTRY.pack
_SCANNED_AT_ONCE: Final = 4096

StoreTimeOf = Callable[[int, int], int | None]
"""Returns the store time in ms of the record with an offset and a size; None if it is gone."""


class Boundary(enum.Enum):
    """Which message belongs to a time at which none or many were stored."""

    LOWER = "lower"
    """The first one stored at the time or later."""
    UPPER = "upper"
    """The last one stored at the time or earlier."""


class ConsumeQueue(NumberedEntries):
    """One queue of one topic, made by :class:`~orbitmq.store.queues.consume_queues.ConsumeQueues`.

    The number of an entry is the queue offset of its message.
    """

    __slots__ = ()

    entry_size: ClassVar[int] = ENTRY_SIZE

    # Writing.

    def append(self, entry: Dispatched) -> bool:
        """Buffer an entry; return False if the queue has it already.

        An entry is recognised by the end of its record, or by its queue offset. Java's ConsumeQueue
        makes an exception for queue offset 0, which it appends wherever the queue ends. Raise
        StoreDamaged, and change nothing, if entries are missing before this one. Java appends the
        entry, and every later message has a wrong offset.
        """
        record_end = entry.commit_log_offset + entry.size
        if record_end <= self.record_end:
            return False
        offset = entry.queue_offset
        if offset != self.max_offset and not self._begins_at(offset):
            return False
        pending = self._pending
        if not pending:
            self._backlog.append(self)
        pending += _pack(entry.commit_log_offset, entry.size, entry.tags_code)
        self.record_end = record_end
        self.max_offset = offset + 1
        return True

    def _begins_at(self, offset: int) -> bool:
        """Make an empty queue begin at ``offset``; return False if the offset is taken."""
        if offset < self.max_offset:
            return False
        if not self.is_empty:
            raise StoreDamaged(
                f"queue {self.queue_id} of topic {self.topic} ends at offset {self.max_offset}, "
                f"and the next record has offset {offset}: the entries between are missing",
                path=self._files.path_of(self.max_offset * ENTRY_SIZE),
                position=self.max_offset * ENTRY_SIZE,
            )
        self._files.remove_behind(0)
        before = offset % self._per_file
        self._written = offset - before
        self._pending += PREFILL * before
        if before:
            self._backlog.append(self)
        self.min_offset = self.max_offset = offset
        return True

    # Reading.

    def entries(self, offset: int, count: int) -> bytes:
        """Return up to ``count`` entries from ``offset`` on, 20 bytes each.

        They never cross the end of a file, like RocketMQ's pulls. There are none below
        ``min_offset`` and none from ``max_offset`` on.
        """
        if not self.min_offset <= offset < self.max_offset:
            return b""
        end = min(offset + count, self.max_offset, self.next_file_offset(offset))
        return self._bytes(offset, end)

    def next_file_offset(self, offset: int) -> int:
        """Return the first offset of the file after the one that holds, or held, ``offset``."""
        return offset - offset % self._per_file + self._per_file

    def entry(self, offset: int) -> QueueEntry | None:
        """Return the entry at ``offset``; None below ``min_offset`` and from ``max_offset`` on."""
        data = self.entries(offset, 1)
        return QueueEntry._make(ENTRY.unpack(data)) if data else None

    def iterate(self, offset: int) -> Iterator[tuple[int, QueueEntry]]:
        """Yield offsets and entries from ``offset`` (at least ``min_offset``) to the end."""
        offset = max(offset, self.min_offset)
        while data := self.entries(offset, _SCANNED_AT_ONCE):
            for entry in unpack(data):
                yield offset, entry
                offset += 1

    def offset_by_time(
        self, timestamp_ms: int, boundary: Boundary, store_time_of: StoreTimeOf
    ) -> int:
        """Return the offset of the message that belongs to a store time.

        If all messages are older, LOWER returns ``max_offset``; if all are newer, UPPER returns
        ``min_offset``. A record that is gone counts as older than any time.
        """
        offsets = range(self.min_offset, self.max_offset)

        def time_at(offset: int) -> int:
            found = store_time_of(*self._place_at(offset))
            return -1 if found is None else found

        if boundary is Boundary.LOWER:
            return self.min_offset + bisect_left(offsets, timestamp_ms, key=time_at)
        at_or_before = bisect_right(offsets, timestamp_ms, key=time_at)
        return self.min_offset + max(at_or_before - 1, 0)

    # Start, and removal of old files.

    @property
    def first_offset(self) -> int:
        """The first entry in a file or the buffer, even if its record is gone."""
        return self.first_number

    @property
    def last_offset(self) -> int:
        """The offset of the last entry."""
        return self.max_offset - 1

    def load(self) -> None:
        """Find the files, as in every kind of queue."""
        super().load()
        self.min_offset = self.first_number

    def restore(self, offset: int, entries: bytes) -> None:
        """Write entries from ``offset`` on, which is at most ``max_offset``; for recovery.

        From the first different entry on, the queue is cut first. An empty queue begins at
        ``offset``.
        """
        if self.is_empty and offset != self.max_offset:
            self._begins_at(offset)
        self.write()
        below = max(self.min_offset - offset, 0)  # in no file, or before the first message
        self._rewrite(offset + below, entries[below * ENTRY_SIZE :])

    def correct_min_offset(self, commit_log_start: int) -> None:
        """Set ``min_offset`` to the first message whose record is in the log."""
        self.min_offset = self._first_from(commit_log_start)

    def may_lack_head(self, commit_log_start: int) -> bool:
        """Return whether files may be missing before the first one.

        A file is removed after its last record. The log then begins after that record, and hardly
        ever exactly at the first record of the next file. If the remaining files have no entries
        left, files may be missing.
        """
        first = self.first_offset
        if first == 0 or first == self.max_offset:
            return first > 0
        commit_log_offset, size = self._place_at(first)
        return size != PREFILL_SIZE and commit_log_offset > commit_log_start

    def take_head(self, head: "ConsumeQueue") -> None:
        """Take over the files of a queue that ends where the first file of this one begins.

        An empty queue then ends where ``head`` does. The files must be on disk and closed, and
        ``head`` must not be used afterwards.
        """
        was_empty = self.is_empty
        if was_empty:
            self._files.remove_behind(0)
        self._files.take_before(head._files)
        if was_empty:
            self._end_at(head.max_offset)
        self.min_offset = head.min_offset

    def _good_from(self, number: int) -> int:
        while data := self._scanned(number):
            count = good_entries(data)
            number += count
            if count * ENTRY_SIZE < len(data):
                break
        return number

    def _end_at(self, number: int) -> None:
        super()._end_at(number)
        self.max_offset = number
