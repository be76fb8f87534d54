"""Reads the key index: log offsets of records that may have a key.

A file does not contain its number of slots, and a reader has no settings. But the last bytes
written are those of the last entry, and room for whole entries follows up to the end of the file:
this leaves one possible start of the entries, which the slot of the last entry confirms. Our broker
writes the slots of the growing file when it stops: until then the first entry confirms it.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Final, NamedTuple

from orbitmq.store.damage import Damage
from orbitmq.store.disk.disk import Disk
from orbitmq.store.disk.stream_files import StreamFile, map_file
from orbitmq.store.layout import INDEX, INDEX_ENTRY, INDEX_HEADER, INDEX_SLOT, key_hash, path_join
from orbitmq.store.log.record_rows import written_end_by_maps

__all__ = ["IndexFile", "IndexHeader", "index_files", "index_names"]

# Java's defaults, tried first: 5 million slots, 20 million entries.
_DEFAULT_SLOTS: Final = 5_000_000
_DEFAULT_SIZE: Final = 420_000_040

# Pages read through a map count as memory of the process until the map is gone, and a full file has
# 400 MB of entries.
_MAP_BYTES: Final = 32 << 20


class IndexHeader(NamedTuple):
    """The first 40 bytes of an index file."""

    begin_timestamp_ms: int
    end_timestamp_ms: int
    begin_offset: int
    end_offset: int
    used_slots: int
    next_number: int


class IndexFile:
    """One file of the key index; ``fault`` is set if it is damaged as a whole.

    ``is_growing``: its slots are older than its entries, which is sound in the newest file of a
    store that is in use or crashed. ``map_again`` returns its bytes through a new map; None if the
    file is gone.
    """

    def __init__(
        self,
        name: str,
        view: memoryview,
        map_again: Callable[[], memoryview | None] = lambda: None,
    ) -> None:
        self.where = f"{INDEX}/{name}"
        self._view = view
        self._map_again = map_again
        self.header = IndexHeader(*INDEX_HEADER.unpack_from(bytes(view[:40]).ljust(40, b"\0")))
        self.is_growing = False
        self.slots = self._find_slots()

    def __repr__(self) -> str:
        return f"<IndexFile {self.where} of {self.count} entries>"

    @property
    def count(self) -> int:
        """The number of entries."""
        return max(0, self.header.next_number - 1)

    @property
    def fault(self) -> Damage | None:
        """Damage of the file as a whole; None if it is sound."""
        header = self.header
        if len(self._view) < INDEX_HEADER.size:
            reason = f"the file has only {len(self._view)} bytes, less than a header"
        elif not self.count:
            return None
        elif self.slots is None or self.is_growing:
            reason = f"its header counts {self.count} entries, but the file does not match that"
        elif header.begin_offset > header.end_offset or header.begin_offset < 0:
            reason = (
                f"its header says that it covers bytes {header.begin_offset} to "
                f"{header.end_offset} of the log"
            )
        elif not 0 <= header.used_slots <= min(self.slots, self.count):
            reason = f"its header says that {header.used_slots} of {self.slots} slots are in use"
        else:
            return None
        return Damage(0, reason, len(self._view), where=self.where)

    def covers(self, begin_ms: int, end_ms: int) -> bool:
        """Return whether it may have records stored from ``begin_ms`` on and before ``end_ms``."""
        return self.header.begin_timestamp_ms < end_ms and begin_ms <= self.header.end_timestamp_ms

    def find(self, key: str) -> Iterator[int]:
        """Yield the log offsets of records that may have the key, the newest first.

        ``key`` is the indexed text, topic included: :func:`layout.index_key`. Other keys may have
        the same hash, so the caller must check the records, and their times too: an entry has whole
        seconds only, and the first entry after a full file is too late (Java's IndexFile counts it
        from the end of that file).
        """
        if self.slots is None:
            return
        wanted = key_hash(key)
        if self.is_growing:
            yield from reversed([at for _, hash_, at in self.entries() if hash_ == wanted])
            return
        (number,) = INDEX_SLOT.unpack_from(self._view, self._slot_at(wanted % self.slots))
        left = self.count  # a damaged chain may be a circle; no chain has more entries
        while 0 < number <= self.count and left:
            hash_, offset, _, previous = self._entry(number)
            if hash_ == wanted:
                yield offset
            number, left = previous, left - 1

    def entries(self) -> Iterator[tuple[int, int, int]]:
        """Yield number, hash and log offset of each entry that the header counts."""
        if self.slots is None:
            return
        at_once = max(1, _MAP_BYTES // INDEX_ENTRY.size)
        # _find_slots has checked that the last one ends inside the file.
        for first in range(1, self.count + 1, at_once):
            end = min(first + at_once, self.count + 1)
            part = self._mapped_again()[self.position_of(first) : self.position_of(end)]
            for number, entry in enumerate(INDEX_ENTRY.iter_unpack(part), start=first):
                hash_, offset, _, _ = entry
                yield number, hash_, offset

    def position_of(self, number: int) -> int:
        """Return the position of an entry in the file."""
        assert self.slots is not None
        return self._slot_at(self.slots) + number * INDEX_ENTRY.size

    def _find_slots(self) -> int | None:
        if not self.count:
            return None
        size = len(self._view)
        if size == _DEFAULT_SIZE and self._fits(_DEFAULT_SLOTS, self.count):
            return _DEFAULT_SLOTS
        possible = [_DEFAULT_SLOTS] if size == _DEFAULT_SIZE else []
        written = written_end_by_maps(self._mapped_again, INDEX_HEADER.size, _MAP_BYTES)
        # A crash may leave one entry more than the header counts.
        for number in (self.count, self.count + 1):
            # The last written byte is in that entry, and whole entries follow up to the end.
            latest = written - 1 - number * INDEX_ENTRY.size
            entries_at = latest - (latest - size) % INDEX_ENTRY.size
            slots, odd = divmod(entries_at - INDEX_HEADER.size, INDEX_SLOT.size)
            if not odd and self._fits(slots, number):
                return slots
            possible += [] if odd else [slots]
        growing = next((slots for slots in possible if self._begins(slots)), None)
        self.is_growing = growing is not None
        return growing

    def _fits(self, slots: int, number: int) -> bool:
        """Return whether the last entry is the newest of its slot, given a number of slots."""
        if not self._has_room(slots, number):
            return False
        hash_ = self._entry_of(slots, number)[0]
        newest = INDEX_SLOT.unpack_from(self._view, self._slot_at(hash_ % slots))[0]
        return bool(newest == number)

    def _begins(self, slots: int) -> bool:
        """Return whether the entries begin and end where the header says, given a number of slots.

        Their slots are not written yet, or are those of fewer entries.
        """
        if not self._has_room(slots, self.count):
            return False
        first, last = self._entry_of(slots, 1), self._entry_of(slots, self.count)
        begin, end = self.header.begin_offset, self.header.end_offset
        return any(last) and first[1] == begin <= last[1] <= end

    def _has_room(self, slots: int, number: int) -> bool:
        return slots > 0 and self._slot_at(slots) + (number + 1) * INDEX_ENTRY.size <= len(
            self._view
        )

    def _mapped_again(self) -> memoryview:
        """Return a new map of the file; the old map if the file is gone."""
        view = self._map_again()
        return self._view if view is None else view

    def _entry(self, number: int) -> tuple[int, int, int, int]:
        assert self.slots is not None
        return self._entry_of(self.slots, number)

    def _entry_of(self, slots: int, number: int) -> tuple[int, int, int, int]:
        at = self._slot_at(slots) + number * INDEX_ENTRY.size
        hash_, offset, seconds, previous = INDEX_ENTRY.unpack_from(self._view, at)
        return hash_, offset, seconds, previous

    @staticmethod
    def _slot_at(slot: int) -> int:
        return INDEX_HEADER.size + slot * INDEX_SLOT.size


def index_names(disk: Disk, directory: str) -> list[str]:
    """Return the names of the index files of a store, which are times; the oldest first."""
    folder = path_join(directory, INDEX)
    return [
        name
        for name in disk.list(folder)
        if name.isascii() and name.isdecimal() and not disk.is_directory(path_join(folder, name))
    ]


def index_files(disk: Disk, directory: str) -> Iterator[IndexFile]:
    """Yield the index files of a store, the newest first."""
    for name in reversed(index_names(disk, directory)):
        path = path_join(directory, INDEX, name)
        map_again = partial(map_file, disk, StreamFile(path, 0, disk.size(path)))
        view = map_again()
        if view is not None:
            yield IndexFile(name, view, map_again)
