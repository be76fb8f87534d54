"""Reads one queue: the messages of a queue in order.

Entries are numbered by their place in the files. In a consume queue the number of an entry is the
queue offset of its message; in a batch queue the entry has the offset of its first message.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator
from functools import cached_property
from itertools import pairwise
from typing import ClassVar, NamedTuple, TypeAlias

from orbitmq.message.buffer import Buffer
from orbitmq.message.record_view import RecordView
from orbitmq.store.damage import Damage, OnDamage, raise_damage
from orbitmq.store.disk.disk import Disk
from orbitmq.store.disk.stream_files import StreamMaps, map_file
from orbitmq.store.layout import BATCH_CONSUME_QUEUE, CONSUME_QUEUE, path_join
from orbitmq.store.log.record_rows import written_end
from orbitmq.store.queues.batch_entry import BATCH_ENTRY_SIZE, BatchEntry
from orbitmq.store.queues.batch_entry import unpack as unpack_batches
from orbitmq.store.queues.entry import ENTRY_SIZE, PREFILL_SIZE, QueueEntry, unpack

__all__ = ["AnyEntry", "BatchQueueReader", "QueueName", "QueueReader", "QueueRecord"]

AnyEntry: TypeAlias = QueueEntry | BatchEntry


class QueueName(NamedTuple):
    """A topic and a queue id."""

    topic: str
    queue_id: int


class QueueRecord(NamedTuple):
    """A message of a queue; in a light queue ``queue_offset`` differs from that of the view."""

    queue_offset: int
    view: RecordView


class QueueReader:
    """A consume queue by its current files; create another reader to see later ones.

    The offsets are determined once, on first use. ``find`` returns the sound record at a log
    offset, None if there is none; ``log_start`` is the first offset of the log.
    """

    part: ClassVar[str] = CONSUME_QUEUE
    entry_size: ClassVar[int] = ENTRY_SIZE
    numbered: ClassVar[str] = "offsets"
    """What the numbers of entries are."""

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
        self.where = f"{self.part}/{name.topic}/{name.queue_id}"
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
        """The number after the last entry that is not zero, whether it has a record or not."""
        size = self.entry_size
        for file in reversed(self._maps.files):
            # Most of a file is a hole, and scanning its zeros would take longer than the rest.
            view = map_file(self._disk, file, with_last_hole=False)
            if view is not None and (written := written_end(view, 0)):
                return (file.base + written + size - 1) // size
        files = self._maps.files
        return files[0].base // size if files else 0

    def entry(self, number: int) -> AnyEntry | None:
        """Return the entry with a number unchecked; None if no file holds it."""
        position, size = number * self.entry_size, self.entry_size
        found = self._maps.at(position)
        if found is None:
            return None
        file, view = found
        at = position - file.base
        return next(self._unpack(view[at : at + size])) if at + size <= len(view) else None

    def offset_of(self, number: int, _entry: AnyEntry | None) -> int:
        """Return the queue offset of the first message of an entry."""
        return number

    def _unpack(self, data: Buffer) -> Iterator[AnyEntry]:
        return unpack(bytes(data))

    @property
    def stored_bytes(self) -> int:
        """The total length of its files."""
        return sum(file.size for file in self._maps.files)

    def written(self) -> Iterator[tuple[int, AnyEntry]]:
        """Yield each entry unchecked with its number, up to ``written_end``."""
        end, size = self.written_end, self.entry_size
        for file in self._maps.files:
            view = map_file(self._disk, file)
            if view is not None:
                first = file.base // size
                whole = min(len(view) // size, max(0, end - first)) * size
                yield from enumerate(self._unpack(view[:whole]), start=first)

    def gaps(self) -> Iterator[Damage]:
        """Yield the gaps between its files."""
        for before, after in pairwise(self._maps.files):
            if before.end < after.base:
                least, most = before.end // self.entry_size, after.base // self.entry_size - 1
                reason = f"no file holds {self.numbered} {least} to {most}"
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
            found = self.entry(queue_offset)
            if found is not None and found.size == PREFILL_SIZE:
                continue
            record = self.record_of(queue_offset, found)
            if isinstance(record, Damage):
                (on_damage or raise_damage)(record)
            else:
                yield QueueRecord(queue_offset, record)

    def record_of(self, number: int, found: AnyEntry | None) -> RecordView | Damage:
        """Return the record of an entry, or why it can't be read."""
        offset = self.offset_of(number, found)
        if found is None:
            reason = f"no file holds the entry of offset {offset}"
        elif found.size <= 0 or found.commit_log_offset < 0:
            reason = f"the entry of offset {offset} is empty"
        else:
            view = self._find(found.commit_log_offset)
            if view is not None and view.size == found.size:
                return view
            reason = (
                f"offset {offset} points to byte {found.commit_log_offset} of the log, "
                f"where no record of {found.size} bytes can be read"
            )
        return Damage(number * self.entry_size, reason, self.entry_size, where=self.where)

    def claims(self, commit_log_offset: int) -> bool:
        """Return whether an entry points to a log offset."""
        found = self.entry(self.first_from(commit_log_offset))
        return (
            found is not None
            and found.commit_log_offset == commit_log_offset
            and 0 < found.size < PREFILL_SIZE
        )

    def first_from(self, commit_log_offset: int) -> int:
        """Return the number of the first entry that points to a log offset or behind it.

        It is the end of ``numbers`` if there is none.
        """

        def not_before(number: int) -> bool:
            found = self.entry(number)
            return found is not None and found.commit_log_offset >= commit_log_offset

        numbers = self.numbers
        return numbers.start + bisect_left(numbers, True, key=not_before)

    @cached_property
    def numbers(self) -> range:
        """The numbers of all entries up to ``written_end``, as they were at the first use."""
        files = self._maps.files
        return range(files[0].base // self.entry_size, self.written_end) if files else range(0)

    def raw(self, first: int, last: int) -> bytes:
        """Return the bytes of the entries from a number on and before another, as far as they are.

        Where a file is missing, its entries are zeros.
        """
        parts: list[Buffer] = []
        at, end = first * self.entry_size, last * self.entry_size
        while at < end:
            found = self._maps.at(at)
            if found is None:
                parts.append(bytes(self.entry_size))
                at += self.entry_size
                continue
            file, view = found
            parts.append(view[at - file.base : end - file.base])
            at = min(end, file.end)
        return b"".join(parts)

    def _found_bounds(self) -> tuple[int, int]:
        if self._bounds is None:
            self._bounds = self._find_bounds()
        return self._bounds

    def _find_bounds(self) -> tuple[int, int]:
        """Return the first offset in the log, and the one after the last."""
        numbers = self._numbers_in_log()
        return numbers.start, numbers.stop

    def _numbers_in_log(self) -> range:
        """Return the numbers of the entries whose records are in the log."""
        files = self._maps.files
        if not files:
            return range(0)
        first, most = files[0].base // self.entry_size, self.written_end
        if most > first and self._is_below_log(most - 1):
            return range(most, most)  # all records were removed with their log files
        while most > first and not self._is_readable(most - 1):
            most -= 1  # stale or ahead of the log: recovery would drop it too
        numbers = range(first, most)
        at = bisect_left(numbers, True, key=lambda number: not self._is_below_log(number))
        return range(first + at, most)

    def _is_below_log(self, number: int) -> bool:
        found = self.entry(number)
        return (
            found is not None
            and found.size > 0
            and (found.size == PREFILL_SIZE or found.commit_log_offset < self._log_start)
        )

    def _is_readable(self, number: int) -> bool:
        found = self.entry(number)
        if found is None:
            return False
        return found.size == PREFILL_SIZE or not isinstance(self.record_of(number, found), Damage)


class BatchQueueReader(QueueReader):
    """A batch queue by its current files: an entry is one record, of one or more messages."""

    part: ClassVar[str] = BATCH_CONSUME_QUEUE
    entry_size: ClassVar[int] = BATCH_ENTRY_SIZE
    numbered: ClassVar[str] = "entries"

    def offset_of(self, number: int, found: AnyEntry | None) -> int:
        """Return the queue offset of the first message of an entry; its number if it is missing."""
        return found.queue_offset if isinstance(found, BatchEntry) else number

    def read(
        self, offset: int, count: int, *, on_damage: OnDamage | None = None
    ) -> Iterator[QueueRecord]:
        """Yield the records with the messages from ``offset`` on, at most ``count`` offsets.

        Each has the offset of its first message; an inner batch is yielded whole.
        """
        for number in self._numbers_in_log():
            found = self.entry(number)
            if not isinstance(found, BatchEntry) or found.size == PREFILL_SIZE:
                continue
            if found.queue_offset >= offset + count:
                return
            if found.end <= offset:
                continue
            record = self.record_of(number, found)
            if isinstance(record, Damage):
                (on_damage or raise_damage)(record)
            else:
                yield QueueRecord(found.queue_offset, record)

    def _unpack(self, data: Buffer) -> Iterator[AnyEntry]:
        return unpack_batches(bytes(data))

    def _find_bounds(self) -> tuple[int, int]:
        numbers = self._numbers_in_log()
        last = self.entry(numbers.stop - 1)
        end = last.end if isinstance(last, BatchEntry) else 0
        first = self.entry(numbers.start) if numbers else None
        return (first.queue_offset if isinstance(first, BatchEntry) else end), end
