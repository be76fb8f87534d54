"""The entries of one queue by number: some in files, the newest still in memory.

::

    number    0 … first_number            _written          _end
              removed   │ files ··········│ _pending ·······│

Entry ``n`` is at byte ``entry_size·n`` of the queue's stream. Entries of every kind begin with the
commit log offset and the size of a record. Commit log offsets never decrease along a queue.
"""

import struct
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections import deque
from typing import ClassVar, Final

from orbitmq.store.queues.entry import PREFILL_SIZE
from orbitmq.store.queues.files import QueueFiles

__all__ = ["NumberedEntries"]

_SCANNED_AT_ONCE: Final = 4096
_FILES_SCANNED: Final = 3
_PLACE: Final = struct.Struct(">qi")  # commit log offset and size: what all entries begin with


class NumberedEntries(ABC):
    """What all kinds of queues have in common; see :class:`ConsumeQueue`, :class:`BatchQueue`.

    ``min_offset`` is the first message whose record is in the commit log, ``max_offset`` if there
    is none; ``record_end`` is where the record of the last entry ends in the commit log, -1 without
    entries. ``append`` of a subclass buffers entries, ``write`` writes them to the files. Readers
    in this process see both; other processes see the files.
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

    entry_size: ClassVar[int]

    def __init__(
        self,
        topic: str,
        queue_id: int,
        files: QueueFiles,
        *,
        entries_per_file: int,
        backlog: "deque[NumberedEntries]",
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
        name = f"{type(self).__name__} {self.topic}/{self.queue_id}"
        return f"<{name} {self.min_offset}..{self.max_offset}>"

    @property
    def is_empty(self) -> bool:
        """Whether it has no entry of a message; its offsets may still not begin at 0."""
        return self.record_end < 0 and not self._pending

    @property
    def first_number(self) -> int:
        """The first entry in a file or the buffer, even if its record is gone."""
        files = self._files
        return files.start // self.entry_size if files.start < files.end else self._written

    @property
    def end_number(self) -> int:
        """The number of the next entry."""
        return self._written + len(self._pending) // self.entry_size

    def write(self) -> int:
        """Write the buffered entries; return how many there were.

        After DiskFailed call again: they are still buffered.
        """
        count = len(self._pending) // self.entry_size
        if count:
            # A copy: a bytearray can't grow while a view of it exists.
            self._files.write(self._written * self.entry_size, bytes(self._pending))
            self._written += count
            self._pending.clear()
        return count

    # Start, and removal of old files.

    def load(self) -> None:
        """Find the files; ``recover`` then finds where their entries end.

        Raise StoreDamaged if a file has another length or name.
        """
        self._files.load()
        self._end_at(self._files.end // self.entry_size)

    def recover(self) -> None:
        """Find the last entry, from the third last file on, and clear everything after it.

        After a crash there may be entries after a gap, whose pages happened to reach the disk. Java
        leaves them. Once the queue has grown up to them, the next start would read them as entries;
        so they are zeroed, and the files after them removed.
        """
        last_files = self._files.end // self.entry_size - _FILES_SCANNED * self._per_file
        self._end_at(self._good_from(max(last_files, self.first_number)))
        self._clear_behind(self._written)
        self.correct_min_offset(0)

    def cut(self, number: int) -> None:
        """Drop the entries from a number to the end.

        Java moves its position and leaves the bytes. Here they are zeroed, so that no later scan of
        the file reads them as entries.
        """
        self.write()
        old_end = self._written
        self._end_at(number)
        self._clear_behind(old_end)
        self.min_offset = min(self.min_offset, self.max_offset)

    def drop_last(self) -> None:
        """Drop the last entry."""
        self.cut(self.end_number - 1)

    def truncate(self, commit_log_end: int) -> None:
        """Drop the entries whose records begin at or after ``commit_log_end``."""
        first, end = self.first_number, self.end_number
        if first < end and self._place_at(end - 1)[0] >= commit_log_end:
            self.cut(self._first_from(commit_log_end))

    def place_before(self, commit_log_end: int) -> int:
        """Return where the last record before an offset of the log begins; -1 if none is known."""
        number = self._first_from(commit_log_end) - 1
        if number < self.first_number:
            return -1
        commit_log_offset, size = self._place_at(number)
        return -1 if size == PREFILL_SIZE else commit_log_offset

    @abstractmethod
    def correct_min_offset(self, commit_log_start: int) -> None:
        """Set ``min_offset`` to the first message whose record is in the log.

        If none is, it becomes ``max_offset``: the queue is empty, and its offsets go on.
        """

    def clean(self, commit_log_start: int) -> list[str]:
        """Remove files whose records are all before an offset, never the last; return the paths."""
        removed = []
        while self._files.start + self._per_file * self.entry_size < self._files.end:
            last_in_file = self._files.start // self.entry_size + self._per_file - 1
            if self._place_at(last_in_file)[0] >= commit_log_start:
                break
            removed.append(self._files.remove_first())
        self.correct_min_offset(commit_log_start)
        return removed

    def discard(self) -> None:
        """Drop the buffered entries and close the files; the queue must not be used afterwards."""
        self._pending.clear()
        self._files.discard()

    # Positions.

    def _place_at(self, number: int) -> tuple[int, int]:
        """Return commit log offset and size of an entry in a file or the buffer."""
        commit_log_offset, size = _PLACE.unpack_from(self._bytes(number, number + 1))
        return commit_log_offset, size

    def _bytes(self, number: int, end: int) -> bytes:
        """Return entries within one file, buffered ones included."""
        written, entry_size = self._written, self.entry_size
        if number >= written:
            begin, end = (number - written) * entry_size, (end - written) * entry_size
            return bytes(self._pending[begin:end])
        data = self._files.read(number * entry_size, (min(end, written) - number) * entry_size)
        if end > written:
            data += self._pending[: (end - written) * entry_size]
        return data

    def _within_file(self, number: int, count: int) -> bytes:
        """Return up to ``count`` entries; they never cross the end of a file."""
        file_end = number - number % self._per_file + self._per_file
        return self._bytes(number, min(number + count, self.end_number, file_end))

    def _first_from(self, commit_log_offset: int) -> int:
        """Return the first entry whose record is not before an offset; prefill is before all."""

        def place(number: int) -> int:
            found, size = self._place_at(number)
            return -1 if size == PREFILL_SIZE else found

        first = self.first_number
        return first + bisect_left(range(first, self.end_number), commit_log_offset, key=place)

    def _rewrite(self, number: int, entries: bytes) -> None:
        """Write entries from a number on; from the first different one on, cut the queue first.

        Entries that the queue has already are written again, since a failed sync may have left them
        in memory only.
        """
        count = len(entries) // self.entry_size
        agreeing = self._agreeing(number, entries)
        if agreeing < min(count, self.end_number - number):
            self.cut(number + agreeing)
        if entries:
            self._files.write(number * self.entry_size, entries)
            self._end_at(max(self.end_number, number + count))

    def _agreeing(self, number: int, entries: bytes) -> int:
        """Return how many of the entries the queue has, from a number on."""
        size = self.entry_size
        agreeing, count = 0, len(entries) // size
        while number + agreeing < self.end_number and agreeing < count:
            known = self._within_file(number + agreeing, count - agreeing)
            wanted = entries[agreeing * size :][: len(known)]
            if known != wanted:
                starts = range(0, len(known), size)
                same = [known[at : at + size] == wanted[at : at + size] for at in starts]
                return agreeing + same.index(False)
            agreeing += len(known) // size
        return agreeing

    @abstractmethod
    def _good_from(self, number: int) -> int:
        """Return the number after the last of the good entries that begin at ``number``."""

    def _scanned(self, number: int) -> bytes:
        return self._files.read(number * self.entry_size, _SCANNED_AT_ONCE * self.entry_size)

    def _end_at(self, number: int) -> None:
        """Let the queue end before a number; nothing is buffered."""
        self._written = number
        self.record_end = -1
        if number * self.entry_size > self._files.start:
            commit_log_offset, size = self._place_at(number - 1)
            if size != PREFILL_SIZE:
                self.record_end = commit_log_offset + size

    def _clear_behind(self, stale_end: int) -> None:
        end = self._written * self.entry_size
        # The file that holds the end stays even if it is empty: its name keeps the offset.
        self._files.remove_behind(end + 1)
        self._files.clear(end, stale_end * self.entry_size)
