"""A consume queue: where in the commit log the messages of one queue of a topic are.

Laws:

- Entry ``n`` stands at byte ``20·n`` of the queue's stream, and is that of the record whose queue
  offset is ``n``. Commit log offsets grow along a queue.
- Entries are buffered by ``append`` and reach the files by ``write``. Readers here see both; other
  processes see the files.
- All of it can be made again from the commit log, as far back as that goes.
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
"""The store time in ms of the record at an offset of the log, of that size; None if it is gone."""


class Boundary(enum.Enum):
    """Which message a moment stands for, if none or many were stored at it."""

    LOWER = "lower"
    """The first one stored at it or later."""
    UPPER = "upper"
    """The last one stored at it or earlier."""


class ConsumeQueue:
    """One queue of one topic; :class:`~orbitmq.store.queues.consume_queues.ConsumeQueues` makes it.

    Attributes:
        topic: its topic.
        queue_id: its number in the topic.
        min_offset: the first entry whose record is in the commit log; ``max_offset`` if none is.
        max_offset: the offset that the next entry will have.
        record_end: where in the commit log the record of the last entry ends; -1 without.

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
        """Whether it holds no entry of a message; its offsets may go on from an earlier one."""
        return self.record_end < 0 and not self._pending

    # Writing.

    def append(self, entry: Dispatched) -> bool:
        """Buffer an entry; return False if the queue has it already.

        An entry is known by the end of its record, or by its queue offset. Unlike Java's
        ConsumeQueue, which appends a record of queue offset 0 wherever the queue ends, this holds
        for every offset.

        Raises:
            StoreDamaged: entries are missing before this one; nothing was changed. Java appends
                it all the same, and from then on every message has a wrong offset.

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
        """Write what is buffered; return how many entries that was.

        Raises:
            DiskFailed: they are still buffered, and this may be called again.

        """
        count = len(self._pending) // ENTRY_SIZE
        if count:
            # A copy: as long as somebody holds a view of it, a bytearray can't grow.
            self._files.write(self._written * ENTRY_SIZE, bytes(self._pending))
            self._written = self.max_offset
            self._pending.clear()
        return count

    # Reading.

    def entries(self, offset: int, count: int) -> bytes:
        """Return up to ``count`` entries from ``offset`` on, 20 bytes each.

        They end at the end of a file, as RocketMQ's pulls do. There are none below ``min_offset``
        and none from ``max_offset`` on.
        """
        if not self.min_offset <= offset < self.max_offset:
            return b""
        end = min(offset + count, self.max_offset, self.next_file_offset(offset))
        return self._bytes(offset, end)

    def next_file_offset(self, offset: int) -> int:
        """Return the first offset of the file behind the one that holds, or held, ``offset``."""
        return offset - offset % self._per_file + self._per_file

    def entry(self, offset: int) -> QueueEntry | None:
        """Return the entry at ``offset``; None below ``min_offset`` and from ``max_offset`` on."""
        data = self.entries(offset, 1)
        return QueueEntry._make(ENTRY.unpack(data)) if data else None

    def iterate(self, offset: int) -> Iterator[tuple[int, QueueEntry]]:
        """Yield offsets and entries from ``offset`` on, or from the first there is, to the end."""
        offset = max(offset, self.min_offset)
        while data := self.entries(offset, _SCANNED_AT_ONCE):
            for entry in unpack(data):
                yield offset, entry
                offset += 1

    def offset_by_time(
        self, timestamp_ms: int, boundary: Boundary, store_time_of: StoreTimeOf
    ) -> int:
        """Return the offset of the message that a moment stands for.

        If all messages are older, LOWER gives ``max_offset``; if all are younger, UPPER gives
        ``min_offset``. A record that is gone counts as older than any moment.
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

    # Start, and the end of old files.

    def load(self) -> None:
        """Find the files; ``recover`` then finds where in them the entries end.

        Raises:
            StoreDamaged: a file has another length or name.

        """
        self._files.load()
        self.min_offset = self._files.start // ENTRY_SIZE
        self._end_at(self._files.end // ENTRY_SIZE)

    def recover(self) -> None:
        """Find the last entry, from the third last file on, and clear what stands behind it.

        After a crash there may be entries behind a gap, whose pages happened to reach the disk.
        Java leaves them where they are. When the queue has grown up to them, the next start would
        take them for real; hence they are made 0, and the files behind removed.
        """
        last_files = self._files.end // ENTRY_SIZE - _FILES_SCANNED * self._per_file
        self._end_at(self._good_from(max(last_files, self.first_offset)))
        self._clear_behind(self.max_offset)
        self.correct_min_offset(0)

    def cut(self, offset: int) -> None:
        """Drop the entries from ``offset``, which the queue has, to the end.

        Unlike Java, which moves its position and leaves the bytes, this makes them 0: nobody who
        scans the file later is to take them for real.
        """
        self.write()
        old_end = self.max_offset
        self._end_at(offset)
        self._clear_behind(old_end)
        self.min_offset = min(self.min_offset, self.max_offset)

    def restore(self, offset: int, entries: bytes) -> None:
        """Have these entries from ``offset`` on, which is not behind the end; for recovery.

        Entries that the queue has are written again, since a failed sync may have left them in
        memory only. Where it has another one, that and all behind it are dropped first. An empty
        queue begins at ``offset``.
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
        """Drop the entries whose records begin at ``commit_log_end`` or behind it."""
        first = self.first_offset
        if first < self.max_offset and self._entry_at(self.max_offset - 1)[0] >= commit_log_end:
            self.cut(first + self._count_below(commit_log_end, first))

    def correct_min_offset(self, commit_log_start: int) -> None:
        """Set ``min_offset`` to the first entry of a record that is not before an offset.

        If all records are, it is ``max_offset``: the queue is empty, and its offsets go on.
        """
        first = self.first_offset
        self.min_offset = first + self._count_below(commit_log_start, first)

    def may_lack_head(self, commit_log_start: int) -> bool:
        """Return whether files may be missing before its first one.

        A file goes when its last record has. The log then begins behind that record, and hardly
        ever just before the first one of the next file. If all entries of the files that are left
        had to go with the end of the log, nothing tells.
        """
        first = self.first_offset
        if first == 0 or first == self.max_offset:
            return first > 0
        commit_log_offset, size, _ = self._entry_at(first)
        return size != PREFILL_SIZE and commit_log_offset > commit_log_start

    def take_head(self, head: "ConsumeQueue") -> None:
        """Have the files of a queue that ends where the first file of this one begins.

        If this one is empty it ends where that one does. The files are on the disk, and closed;
        that queue must not be used any more.
        """
        was_empty = self.is_empty
        if was_empty:
            self._files.remove_behind(0)
        self._files.take_before(head._files)
        if was_empty:
            self._end_at(head.max_offset)
        self.min_offset = head.min_offset

    def clean(self, commit_log_start: int) -> list[str]:
        """Remove the files, never the last, whose records are all older; return their paths."""
        removed = []
        while self._files.start + self._per_file * ENTRY_SIZE < self._files.end:
            last_in_file = self._files.start // ENTRY_SIZE + self._per_file - 1
            if self._entry_at(last_in_file)[0] >= commit_log_start:
                break
            removed.append(self._files.remove_first())
        self.correct_min_offset(commit_log_start)
        return removed

    def discard(self) -> None:
        """Forget what is not written, and close the files; it must not be used any more."""
        self._pending.clear()
        self._files.discard()

    # Positions.

    @property
    def first_offset(self) -> int:
        """The first entry that a file or the buffer holds, be it of a record that is gone."""
        files = self._files
        return files.start // ENTRY_SIZE if files.start < files.end else self._written

    def _entry_at(self, offset: int) -> tuple[int, int, int]:
        """Return an entry of a file or of the buffer, whether below ``min_offset`` or not."""
        commit_log_offset, size, tags_code = ENTRY.unpack(self._bytes(offset, offset + 1))
        return commit_log_offset, size, tags_code

    def _bytes(self, offset: int, end: int) -> bytes:
        """Return entries of one file, the buffered ones included."""
        written = self._written
        if offset >= written:
            begin, end = (offset - written) * ENTRY_SIZE, (end - written) * ENTRY_SIZE
            return bytes(self._pending[begin:end])
        data = self._files.read(offset * ENTRY_SIZE, (min(end, written) - offset) * ENTRY_SIZE)
        if end > written:
            data += self._pending[: (end - written) * ENTRY_SIZE]
        return data

    def _count_below(self, commit_log_offset: int, first: int) -> int:
        """Return how many entries from ``first`` on are of records before an offset, or prefill."""

        def place(offset: int) -> int:
            found, size, _ = self._entry_at(offset)
            return -1 if size == PREFILL_SIZE else found

        return bisect_left(range(first, self.max_offset), commit_log_offset, key=place)

    def _good_from(self, offset: int) -> int:
        """Return the offset behind the last of the good entries that begin at ``offset``."""
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
        # The file that holds the end stays, even if it is empty: it keeps the offset.
        self._files.remove_behind(end + 1)
        self._files.clear(end, stale_end * ENTRY_SIZE)
