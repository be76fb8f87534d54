"""Reads one consume queue: the messages of a queue in order."""

from bisect import bisect_left
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import NamedTuple

from orbitmq.message.record_view import RecordView
from orbitmq.store.damage import Damage, OnDamage, raise_damage
from orbitmq.store.disk.disk import Disk
from orbitmq.store.disk.stream_files import StreamMaps, map_file
from orbitmq.store.layout import CONSUME_QUEUE, path_join
from orbitmq.store.log.record_rows import written_end
from orbitmq.store.queues.entry import ENTRY, ENTRY_SIZE, PREFILL_SIZE, QueueEntry, unpack

__all__ = ["QueueName", "QueueReader", "QueueRecord"]


class QueueName(NamedTuple):
    """A topic and a queue id."""

    topic: str
    queue_id: int


class QueueRecord(NamedTuple):
    """A message of a queue; in a light queue ``queue_offset`` differs from that of the view."""

    queue_offset: int
    view: RecordView


class QueueReader:
    """A queue by its current files; create another reader to see later ones.

    The offsets are determined once, on first use. ``find`` returns the sound record at a log
    offset, None if there is none; ``log_start`` is the first offset of the log.
    """

    def __init__(
        self,
        directory: str,
        name: QueueName,
        *,
        disk: Disk,
        find: Callable[[int], RecordView | None],
        log_start: int,
    ) -> None:
        self.name = name
        self.where = f"{CONSUME_QUEUE}/{name.topic}/{name.queue_id}"
        self._disk = disk
        self._maps = StreamMaps(disk, path_join(directory, self.where))
        self._find = find
        self._log_start = log_start
        self._bounds: tuple[int, int] | None = None

    def __repr__(self) -> str:
        return f"<QueueReader {self.name.topic}/{self.name.queue_id}>"

    @property
    def min_offset(self) -> int:
        """The first offset whose record is in the log; ``max_offset`` if there is none."""
        return self._found_bounds()[0]

    @property
    def max_offset(self) -> int:
        """The offset of the next message: one after the last one whose record is in the log."""
        return self._found_bounds()[1]

    @property
    def written_end(self) -> int:
        """The offset after the last entry that is not zero, whether it has a record or not."""
        for file in reversed(self._maps.files):
            # Most of a file is a hole, and scanning its zeros would take longer than the rest.
            view = map_file(self._disk, file, with_last_hole=False)
            if view is not None and (written := written_end(view, 0)):
                return (file.base + written + ENTRY_SIZE - 1) // ENTRY_SIZE
        files = self._maps.files
        return files[0].base // ENTRY_SIZE if files else 0

    def entry(self, queue_offset: int) -> QueueEntry | None:
        """Return the entry at an offset unchecked; None if no file holds it."""
        found = self._maps.at(queue_offset * ENTRY_SIZE)
        if found is None:
            return None
        file, view = found
        at = queue_offset * ENTRY_SIZE - file.base
        if at + ENTRY_SIZE > len(view):
            return None
        return QueueEntry(*ENTRY.unpack_from(view, at))

    @property
    def stored_bytes(self) -> int:
        """The total length of its files."""
        return sum(file.size for file in self._maps.files)

    def written(self) -> Iterator[tuple[int, QueueEntry]]:
        """Yield each entry unchecked with its offset, up to ``written_end``."""
        end = self.written_end
        for file in self._maps.files:
            view = map_file(self._disk, file)
            if view is not None:
                first = file.base // ENTRY_SIZE
                whole = min(len(view) // ENTRY_SIZE, max(0, end - first)) * ENTRY_SIZE
                yield from enumerate(unpack(bytes(view[:whole])), start=first)

    def gaps(self) -> Iterator[Damage]:
        """Yield the gaps between its files."""
        for before, after in pairwise(self._maps.files):
            if before.end < after.base:
                least, most = before.end // ENTRY_SIZE, after.base // ENTRY_SIZE - 1
                reason = f"no file holds offsets {least} to {most}"
                yield Damage(before.end, reason, after.base - before.end, where=self.where)

    def read(
        self, offset: int, count: int, *, on_damage: OnDamage | None = None
    ) -> Iterator[QueueRecord]:
        """Yield the messages from ``offset`` on, at most ``count`` offsets.

        There are none outside ``min_offset`` and ``max_offset``. Damage within goes to
        ``on_damage``; without it the first damage raises StoreDamaged.
        """
        least, most = self._found_bounds()
        for queue_offset in range(max(offset, least), min(offset + count, most)):
            entry = self.entry(queue_offset)
            if entry is not None and entry.size == PREFILL_SIZE:
                continue
            found = self.record_of(queue_offset, entry)
            if isinstance(found, Damage):
                (on_damage or raise_damage)(found)
            else:
                yield QueueRecord(queue_offset, found)

    def record_of(self, queue_offset: int, entry: QueueEntry | None) -> RecordView | Damage:
        """Return the record of an entry, or why it can't be read."""
        if entry is None:
            reason = f"no file holds the entry of offset {queue_offset}"
        elif entry.size <= 0 or entry.commit_log_offset < 0:
            reason = f"the entry of offset {queue_offset} is empty"
        else:
            view = self._find(entry.commit_log_offset)
            if view is not None and view.size == entry.size:
                return view
            reason = (
                f"offset {queue_offset} points to byte {entry.commit_log_offset} of the log, "
                f"where no record of {entry.size} bytes can be read"
            )
        return Damage(queue_offset * ENTRY_SIZE, reason, ENTRY_SIZE, where=self.where)

    def claims(self, commit_log_offset: int) -> bool:
        """Return whether an entry points to a log offset."""
        files = self._maps.files
        if not files:
            return False
        offsets = range(files[0].base // ENTRY_SIZE, self.written_end)

        def not_before(queue_offset: int) -> bool:
            entry = self.entry(queue_offset)
            return entry is not None and entry.commit_log_offset >= commit_log_offset

        at = bisect_left(offsets, True, key=not_before)
        entry = self.entry(offsets[at]) if at < len(offsets) else None
        return (
            entry is not None
            and entry.commit_log_offset == commit_log_offset
            and 0 < entry.size < PREFILL_SIZE
        )

    def _found_bounds(self) -> tuple[int, int]:
        if self._bounds is None:
            self._bounds = self._find_bounds()
        return self._bounds

    def _find_bounds(self) -> tuple[int, int]:
        files = self._maps.files
        if not files:
            return 0, 0
        first, most = files[0].base // ENTRY_SIZE, self.written_end
        if most > first and self._is_below_log(most - 1):
            return most, most  # all records were removed with their log files; offsets go on
        while most > first and not self._is_readable(most - 1):
            most -= 1  # stale or ahead of the log: recovery would drop it too
        offsets = range(first, most)
        at = bisect_left(offsets, True, key=lambda offset: not self._is_below_log(offset))
        return first + at, most

    def _is_below_log(self, queue_offset: int) -> bool:
        entry = self.entry(queue_offset)
        return (
            entry is not None
            and entry.size > 0
            and (entry.size == PREFILL_SIZE or entry.commit_log_offset < self._log_start)
        )

    def _is_readable(self, queue_offset: int) -> bool:
        entry = self.entry(queue_offset)
        if entry is None:
            return False
        return entry.size == PREFILL_SIZE or not isinstance(
            self.record_of(queue_offset, entry), Damage
        )
