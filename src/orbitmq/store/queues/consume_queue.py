"""A consume queue: where in the commit log the messages of one queue of a topic are.

Laws:

- Entry ``n`` is at byte ``20·n`` of the queue's stream and belongs to the record with queue offset
  ``n``. Commit log offsets never decrease along a queue.
- ``append`` buffers entries, ``write`` writes them to the files. Readers in this process see both;
  other processes see the files.
- A queue can be rebuilt from the commit log, as far back as the log goes.
"""

import enum
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Iterator
from typing import Final

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
from orbitmq.store.queues.files import QueueFiles

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
_FILES_SCANNED: Final = 3

StoreTimeOf = Callable[[int, int], int | None]
"""Returns the store time in ms of the record with an offset and a size; None if it is gone."""


class Boundary(enum.Enum):
    """Which message belongs to a time at which none or many were stored."""

    LOWER = "lower"
    """The first one stored at the time or later."""
    UPPER = "upper"
    """The last one stored at the time or earlier."""


class ConsumeQueue:
    """One queue of one topic, made by :class:`~orbitmq.store.queues.consume_queues.ConsumeQueues`.

    ``min_offset`` is the first entry whose record is in the commit log, ``max_offset`` if there is
    none; ``record_end`` is where the record of the last entry ends in the commit log, -1 without
    entries.
    """

    __slots__ = (
        "_backlog",
        "_files",
        "_pending",
        "_per_file",
        "_written",
        "max_offset",
        "min_offset",
        "queue_id",
        "record_end",
        "topic",
    )

    def __init__(
        self,
        topic: str,
        queue_id: int,
        files: QueueFiles,
        *,
        entries_per_file: int,
        backlog: "deque[ConsumeQueue]",
    ) -> None:
        self.topic = topic
        self.queue_id = queue_id
        self.min_offset = 0
        self.max_offset = 0
        self.record_end = -1
        self._files = files
        self._per_file = entries_per_file
        self._backlog = backlog
        self._written = 0
        self._pending = bytearray()

    def __repr__(self) -> str:
        return f"<ConsumeQueue {self.topic}/{self.queue_id} {self.min_offset}..{self.max_offset}>"

    @property
    def is_empty(self) -> bool:
        """Whether it has no entry of a message; its offsets may still not begin at 0."""
        return self.record_end < 0 and not self._pending

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

    def write(self) -> int:
        """Write the buffered entries; return how many there were.

        After DiskFailed call again: they are still buffered.
        """
        count = len(self._pending) // ENTRY_SIZE
        if count:
            # A copy: a bytearray can't grow while a view of it exists.
            self._files.write(self._written * ENTRY_SIZE, bytes(self._pending))
            self._written = self.max_offset
            self._pending.clear()
        return count

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
            commit_log_offset, size, _ = self._entry_at(offset)
            found = store_time_of(commit_log_offset, size)
            return -1 if found is None else found

        if boundary is Boundary.LOWER:
            return self.min_offset + bisect_left(offsets, timestamp_ms, key=time_at)
        at_or_before = bisect_right(offsets, timestamp_ms, key=time_at)
        return self.min_offset + max(at_or_before - 1, 0)

    # Start, and removal of old files.

    def load(self) -> None:
        """Find the files; ``recover`` then finds where their entries end.

        Raise StoreDamaged if a file has another length or name.
        """
        self._files.load()
        self.min_offset = self._files.start // ENTRY_SIZE
        self._end_at(self._files.end // ENTRY_SIZE)

    def recover(self) -> None:
        """Find the last entry, from the third last file on, and clear everything after it.

        After a crash there may be entries after a gap, whose pages happened to reach the disk. Java
        leaves them. Once the queue has grown up to them, the next start would read them as entries;
        so they are zeroed, and the files after them removed.
        """
        last_files = self._files.end // ENTRY_SIZE - _FILES_SCANNED * self._per_file
        self._end_at(self._good_from(max(last_files, self.first_offset)))
        self._clear_behind(self.max_offset)
        self.correct_min_offset(0)

    def cut(self, offset: int) -> None:
        """Drop the entries from ``offset`` to the end.

        Java moves its position and leaves the bytes. Here they are zeroed, so that no later scan of
        the file reads them as entries.
        """
        self.write()
        old_end = self.max_offset
        self._end_at(offset)
        self._clear_behind(old_end)
        self.min_offset = min(self.min_offset, self.max_offset)

    def restore(self, offset: int, entries: bytes) -> None:
        """Write entries from ``offset`` on, which is at most ``max_offset``; for recovery.

        Entries that the queue has already are written again, since a failed sync may have left them
        in memory only. From the first different entry on, the queue is cut first. An empty queue
        begins at ``offset``.
        """
        if self.is_empty and offset != self.max_offset:
            self._begins_at(offset)
        self.write()
        below = max(self.min_offset - offset, 0)  # in no file, or before the first message
        offset, entries = offset + below, entries[below * ENTRY_SIZE :]
        count = len(entries) // ENTRY_SIZE
        agreeing = self._agreeing(offset, entries)
        if agreeing < min(count, self.max_offset - offset):
            self.cut(offset + agreeing)
        if entries:
            self._files.write(offset * ENTRY_SIZE, entries)
            self._end_at(max(self.max_offset, offset + count))

    def _agreeing(self, offset: int, entries: bytes) -> int:
        """Return how many of the entries the queue has, from ``offset`` on."""
        agreeing, count = 0, len(entries) // ENTRY_SIZE
        while known := self.entries(offset + agreeing, count - agreeing):
            wanted = entries[agreeing * ENTRY_SIZE :][: len(known)]
            if known != wanted:
                pairs = zip(unpack(known), unpack(wanted), strict=True)
                return agreeing + [one == other for one, other in pairs].index(False)
            agreeing += len(known) // ENTRY_SIZE
        return agreeing

    def truncate(self, commit_log_end: int) -> None:
        """Drop the entries whose records begin at or after ``commit_log_end``."""
        first = self.first_offset
        if first < self.max_offset and self._entry_at(self.max_offset - 1)[0] >= commit_log_end:
            self.cut(first + self._count_below(commit_log_end, first))

    def correct_min_offset(self, commit_log_start: int) -> None:
        """Set ``min_offset`` to the first entry whose record is in the log.

        If none is, it becomes ``max_offset``: the queue is empty, and its offsets go on.
        """
        first = self.first_offset
        self.min_offset = first + self._count_below(commit_log_start, first)

    def may_lack_head(self, commit_log_start: int) -> bool:
        """Return whether files may be missing before the first one.

        A file is removed after its last record. The log then begins after that record, and hardly
        ever exactly at the first record of the next file. If the remaining files have no entries
        left, files may be missing.
        """
        first = self.first_offset
        if first == 0 or first == self.max_offset:
            return first > 0
        commit_log_offset, size, _ = self._entry_at(first)
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

    def clean(self, commit_log_start: int) -> list[str]:
        """Remove files whose records are all before an offset, never the last; return the paths."""
        removed = []
        while self._files.start + self._per_file * ENTRY_SIZE < self._files.end:
            last_in_file = self._files.start // ENTRY_SIZE + self._per_file - 1
            if self._entry_at(last_in_file)[0] >= commit_log_start:
                break
            removed.append(self._files.remove_first())
        self.correct_min_offset(commit_log_start)
        return removed

    def discard(self) -> None:
        """Drop the buffered entries and close the files; the queue must not be used afterwards."""
        self._pending.clear()
        self._files.discard()

    # Positions.

    @property
    def first_offset(self) -> int:
        """The first entry in a file or the buffer, even if its record is gone."""
        files = self._files
        return files.start // ENTRY_SIZE if files.start < files.end else self._written

    def _entry_at(self, offset: int) -> tuple[int, int, int]:
        """Return an entry from a file or the buffer, even below ``min_offset``."""
        commit_log_offset, size, tags_code = ENTRY.unpack(self._bytes(offset, offset + 1))
        return commit_log_offset, size, tags_code

    def _bytes(self, offset: int, end: int) -> bytes:
        """Return entries within one file, buffered ones included."""
        written = self._written
        if offset >= written:
            begin, end = (offset - written) * ENTRY_SIZE, (end - written) * ENTRY_SIZE
            return bytes(self._pending[begin:end])
        data = self._files.read(offset * ENTRY_SIZE, (min(end, written) - offset) * ENTRY_SIZE)
        if end > written:
            data += self._pending[: (end - written) * ENTRY_SIZE]
        return data

    def _count_below(self, commit_log_offset: int, first: int) -> int:
        """Return how many entries from ``first`` on are prefill or of records before an offset."""

        def place(offset: int) -> int:
            found, size, _ = self._entry_at(offset)
            return -1 if size == PREFILL_SIZE else found

        return bisect_left(range(first, self.max_offset), commit_log_offset, key=place)

    def _good_from(self, offset: int) -> int:
        """Return the offset after the last of the good entries that begin at ``offset``."""
        while data := self._scanned(offset):
            count = good_entries(data)
            offset += count
            if count * ENTRY_SIZE < len(data):
                break
        return offset

    def _scanned(self, offset: int) -> bytes:
        return self._files.read(offset * ENTRY_SIZE, _SCANNED_AT_ONCE * ENTRY_SIZE)

    def _end_at(self, offset: int) -> None:
        self.max_offset = self._written = offset
        self.record_end = -1
        if offset * ENTRY_SIZE > self._files.start:
            commit_log_offset, size, _ = self._entry_at(offset - 1)
            if size != PREFILL_SIZE:
                self.record_end = commit_log_offset + size

    def _clear_behind(self, stale_end: int) -> None:
        end = self.max_offset * ENTRY_SIZE
        # The file that holds the end stays even if it is empty: its name keeps the offset.
        self._files.remove_behind(end + 1)
        self._files.clear(end, stale_end * ENTRY_SIZE)
