"""One file of the key index: a hash table on disk whose entries are chained.

New entries and the numbers of changed slot blocks are kept in memory until ``write``. The slots of
the growing file are also kept in memory, as an array (20 MB with Java's sizes): the slot of a key
can be anywhere in the file, and reading and writing four bytes per key would cost more than
everything else.
"""

import sys
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

from orbitmq.errors import DiskFailed, StoreDamaged
from orbitmq.kernel import compiled
from orbitmq.message.buffer import Buffer
from orbitmq.store.disk.open_files import OpenFiles
from orbitmq.store.layout import INDEX_ENTRY, INDEX_HEADER, INDEX_SLOT

__all__ = ["GrowingIndexFile", "IndexKey", "IndexShape"]

_HEADER_SIZE: Final = INDEX_HEADER.size
_SLOT_SIZE: Final = INDEX_SLOT.size
_ENTRY_SIZE: Final = INDEX_ENTRY.size
_SECONDS_MAX: Final = 0x7FFF_FFFF
_BLOCK_SHIFT: Final = 10  # slots are written in blocks of 1024, that is 4 KiB
_PENDING_BYTES: Final = 4096 * _ENTRY_SIZE  # of entries in memory
_REPLAYED_AT_ONCE: Final = 65_536
_SLOT_CODE: Final = "i"
assert array(_SLOT_CODE).itemsize == _SLOT_SIZE

_pack = INDEX_ENTRY.pack

IndexKey = tuple[int, int, int]
"""A key of a record: the key's hash, the record's commit log offset and store time in ms."""


class IndexShape(msgspec.Struct, frozen=True):
    """The size of index files. Files don't contain it, so a store must never change it.

    >>> IndexShape(slots=5_000_000, entries=20_000_000).file_bytes
    420000040
    """

    slots: int
    entries: int

    @property
    def entries_at(self) -> int:
        """The position of entry 0, which is never used."""
        return _HEADER_SIZE + _SLOT_SIZE * self.slots

    @property
    def file_bytes(self) -> int:
        """The length of a file in bytes."""
        return self.entries_at + _ENTRY_SIZE * self.entries


class GrowingIndexFile:
    """An index file that takes keys until it is full; it can be searched at any time.

    Timestamps and offsets are those of its first and last record, 0 while it is empty. The first
    entry has number 1.
    """

    def __init__(self, files: OpenFiles, path: str, shape: IndexShape) -> None:
        self.path = path
        self.begin_timestamp_ms = 0
        self.end_timestamp_ms = 0
        self.begin_offset = 0
        self.end_offset = 0
        self.used_slots = 0
        self.next_number = 1
        self._files = files
        self._shape = shape
        self._slots: array[int] | None = None
        self._changed_blocks: set[int] = set()
        self._pending = bytearray()
        self._header_changed = False
        self._header_on_disk = bytes(_HEADER_SIZE)

    def __repr__(self) -> str:
        return f"<GrowingIndexFile {self.path} {self.next_number - 1} entries>"

    @classmethod
    def load(cls, files: OpenFiles, path: str, shape: IndexShape) -> "GrowingIndexFile":
        """Return the file at ``path`` as its header describes it.

        Raise StoreDamaged if the length does not fit the shape, or the header's count is
        impossible.
        """
        length = files.disk.size(path)
        if length != shape.file_bytes:
            raise StoreDamaged(
                f"{path} has {length} bytes, but an index file of {shape.slots} slots and "
                f"{shape.entries} entries has {shape.file_bytes}; set the sizes that the store "
                "was created with, or remove the file and lose its keys",
                path=path,
                position=length,
            )
        file = cls(files, path, shape)
        file._header_on_disk = files.read(path, _HEADER_SIZE, 0)
        (
            file.begin_timestamp_ms,
            file.end_timestamp_ms,
            file.begin_offset,
            file.end_offset,
            file.used_slots,
            count,
        ) = INDEX_HEADER.unpack(file._header_on_disk)
        if count > shape.entries:
            raise StoreDamaged(
                f"the header of {path} counts {count} entries, but a file has {shape.entries} at "
                "most; remove the file",
                path=path,
            )
        file.next_number = max(count, 1)  # an empty file may have 0, as Java's IndexHeader knows
        return file

    @classmethod
    def replay(
        cls, files: OpenFiles, path: str, shape: IndexShape, next_number: int
    ) -> "GrowingIndexFile | None":
        """Return the file as it was before entry ``next_number``; None if it can't be trusted.

        Those entries and the header must have been synced. The slots are rebuilt from the entries,
        and the link of every entry to the one before it is compared with them. Raise StoreDamaged
        if the length does not fit the shape.
        """
        file = cls.load(files, path, shape)
        if not 1 <= next_number <= file.next_number:
            return None
        slots = array(_SLOT_CODE, bytes(_SLOT_SIZE * shape.slots))
        number, offset = 1, 0
        while number < next_number:
            count = min(next_number - number, _REPLAYED_AT_ONCE)
            data = files.read(path, count * _ENTRY_SIZE, shape.entries_at + number * _ENTRY_SIZE)
            for key_hash, entry_offset, _, previous in INDEX_ENTRY.iter_unpack(data):
                slot = key_hash % shape.slots
                if slots[slot] != previous or entry_offset < offset:
                    return None
                slots[slot] = number
                offset = entry_offset
                number += 1
        _clear_behind(files, path, shape, next_number)
        file.end_offset = offset
        file.next_number = next_number
        file.used_slots = shape.slots - slots.count(0)
        file._slots = slots
        file._changed_blocks.update(range((shape.slots >> _BLOCK_SHIFT) + 1))
        file._header_changed = True
        return file

    @classmethod
    def create(
        cls, files: OpenFiles, path: str, shape: IndexShape, *, previous: "GrowingIndexFile | None"
    ) -> "GrowingIndexFile":
        """Create a file whose range begins and ends at the end of the file before it.

        Java's IndexFile begins the same way: the time of the first entry counts from the end of the
        file before, then the first entry overwrites the beginning.
        """
        directory, _, name = path.rpartition("/")
        try:
            files.create(directory, name, shape.file_bytes)
        except DiskFailed:
            if files.disk.exists(path):
                files.remove(path)  # the next try has another name
            raise
        file = cls(files, path, shape)
        file._slots = array(_SLOT_CODE, bytes(_SLOT_SIZE * shape.slots))
        file._header_changed = True
        if previous is not None:
            file.begin_timestamp_ms = file.end_timestamp_ms = previous.end_timestamp_ms
            file.begin_offset = file.end_offset = previous.end_offset
        return file

    @property
    def is_full(self) -> bool:
        """Whether it has no room for another entry."""
        return self.next_number >= self._shape.entries

    def add(self, keys: Sequence[IndexKey]) -> int:
        """Add keys in the order of the log; return how many were added before it became full.

        They are in memory; call ``write_many`` afterwards.
        """
        if self.next_number == 1 and len(keys) > 1:
            # The times of the others count from the time of the first.
            return self.add(keys[:1]) + self.add(keys[1:])
        keys = keys[: self._shape.entries - self.next_number]
        if not keys:
            return 0
        slots = self._loaded_slots() if self._slots is None else self._slots
        first = self.next_number
        entries, new_chains = chain_entries(keys, slots, first, self.begin_timestamp_ms)
        self._pending += entries
        self.next_number += len(keys)
        self.used_slots += new_chains
        if first == 1:
            _, self.begin_offset, self.begin_timestamp_ms = keys[0]
        _, self.end_offset, self.end_timestamp_ms = keys[-1]
        self._header_changed = True
        return len(keys)

    def count_before(self, offset: int) -> int:
        """Return how many entries belong to records before a log offset."""
        numbers = range(1, self.next_number)
        return bisect_left(numbers, offset, key=lambda number: self._entry(number)[1])

    def last_offset(self, count: int) -> int:
        """Return the log offset of the last of the first ``count`` entries."""
        return self._entry(count)[1]

    def truncate(self, count: int, end_offset: int, end_timestamp_ms: int) -> None:
        """Keep the first ``count`` entries, at least one; the last record gets these values.

        The link of each dropped entry says what its slot was before. All is written at once.
        """
        self._write_entries()
        slots = self._loaded_slots() if self._slots is None else self._slots
        number = self.next_number
        while number > count + 1:
            end, number = number, max(count + 1, number - _REPLAYED_AT_ONCE)
            size = (end - number) * _ENTRY_SIZE
            data = self._files.read(self.path, size, self._entry_at(number))
            for key_hash, _, _, previous in reversed(list(INDEX_ENTRY.iter_unpack(data))):
                slot = key_hash % self._shape.slots
                slots[slot] = previous
                self.used_slots -= previous == 0
                self._changed_blocks.add(slot >> _BLOCK_SHIFT)
        _clear_behind(self._files, self.path, self._shape, count + 1)
        self.next_number = count + 1
        self.end_offset, self.end_timestamp_ms = end_offset, end_timestamp_ms
        self._header_changed = True
        self.write()

    def write_many(self) -> None:
        """Write pending entries if they are many. After DiskFailed call again."""
        if len(self._pending) > _PENDING_BYTES:
            self._write_entries()

    def reach(self, offset: int) -> None:
        """Note that all records up to a log offset are indexed, including those without keys."""
        if offset > self.end_offset:
            self.end_offset = offset
            self._header_changed = True

    def select(self, key_hash: int, max_count: int, begin_ms: int, end_ms: int) -> list[int]:
        """Return log offsets of keys with a hash, stored within a time range, newest first.

        Entries have their time in whole seconds since the first entry, so one stored in the same
        second as ``begin_ms`` may be missed, as in Java.
        """
        found: list[int] = []
        for entry_hash, offset, seconds in self._chain(key_hash % self._shape.slots):
            time_ms = self.begin_timestamp_ms + seconds * 1000
            if len(found) >= max_count or time_ms < begin_ms:
                break
            if entry_hash == key_hash and time_ms <= end_ms:
                found.append(offset)
        return found

    def is_untouched(self) -> bool:
        """Return whether the header on disk is the one that this process wrote."""
        return self._files.read(self.path, _HEADER_SIZE, 0) == self._header_on_disk

    def write(self) -> None:
        """Write pending entries, then the changed slots, then the header.

        After DiskFailed call again: unwritten data is kept.
        """
        self._write_entries()
        if self._slots is not None:
            for first, end in _runs(sorted(self._changed_blocks)):
                self._write_slots(self._slots[first << _BLOCK_SHIFT : end << _BLOCK_SHIFT], first)
            self._changed_blocks.clear()
        self._write_header()

    def write_entries(self) -> None:
        """Write what :meth:`replay` needs: pending entries and the header, not the slots.

        After DiskFailed call again: unwritten data is kept.
        """
        self._write_entries()
        self._write_header()

    def finish(self) -> None:
        """Write everything and free the array of slots: the file is full."""
        self.write()
        self._slots = None

    def _write_entries(self) -> None:
        if self._pending:
            self._note_changed_blocks()
            # A copy: a bytearray can't grow while a view of it exists.
            self._files.write(self.path, bytes(self._pending), self._entry_at(self._written_number))
            self._pending.clear()

    def _write_header(self) -> None:
        if self._header_changed:
            header = INDEX_HEADER.pack(
                self.begin_timestamp_ms,
                self.end_timestamp_ms,
                self.begin_offset,
                self.end_offset,
                self.used_slots,
                self.next_number,
            )
            self._files.write(self.path, header, 0)
            self._header_on_disk = header
            self._header_changed = False

    def _note_changed_blocks(self) -> None:
        """Note which blocks of slots the pending entries changed, unless all are changed already.

        This is done for many entries at once; hashes soon have changed every block.
        """
        changed, slot_count = self._changed_blocks, self._shape.slots
        if len(changed) << _BLOCK_SHIFT < slot_count:
            for key_hash, _, _, _ in INDEX_ENTRY.iter_unpack(self._pending):
                changed.add(key_hash % slot_count >> _BLOCK_SHIFT)

    def _write_slots(self, slots: "array[int]", first_block: int) -> None:
        position = _HEADER_SIZE + (first_block << _BLOCK_SHIFT) * _SLOT_SIZE
        self._files.write(self.path, _swapped(slots).tobytes(), position)

    def _loaded_slots(self) -> "array[int]":
        data = self._files.read(self.path, _SLOT_SIZE * self._shape.slots, _HEADER_SIZE)
        self._slots = _swapped(array(_SLOT_CODE, data))
        return self._slots

    def _chain(self, slot: int) -> Iterator[tuple[int, int, int]]:
        """Yield hash, log offset and seconds of a slot's entries, the newest first."""
        number = self._newest_in(slot)
        # Links lead to ever smaller numbers; a link that does not is damaged.
        following = self.next_number
        while 0 < number < following:
            key_hash, offset, seconds, previous = self._entry(number)
            if seconds < 0:
                return
            yield key_hash, offset, seconds
            number, following = previous, number

    def _newest_in(self, slot: int) -> int:
        if self._slots is not None:
            return self._slots[slot]
        data = self._files.read(self.path, _SLOT_SIZE, _HEADER_SIZE + slot * _SLOT_SIZE)
        newest: int = INDEX_SLOT.unpack(data)[0]
        return newest

    def _entry(self, number: int) -> tuple[int, int, int, int]:
        waiting = number - self._written_number
        if waiting >= 0:
            return INDEX_ENTRY.unpack_from(self._pending, waiting * _ENTRY_SIZE)
        return INDEX_ENTRY.unpack(self._files.read(self.path, _ENTRY_SIZE, self._entry_at(number)))

    def _entry_at(self, number: int) -> int:
        return self._shape.entries_at + number * _ENTRY_SIZE

    @property
    def _written_number(self) -> int:
        """The number of the first entry that is not written."""
        return self.next_number - len(self._pending) // _ENTRY_SIZE


@compiled
def chain_entries(
    keys: Sequence[IndexKey], slots: "array[int]", number: int, begin_ms: int
) -> tuple[Buffer, int]:
    """Return the entries of keys, and how many slots had none; each slot gets its newest.

    The first entry has that number, and times are counted from ``begin_ms`` on.
    """
    slot_count, packed, new_chains = len(slots), bytearray(), 0
    seconds, seconds_of = 0, -1
    for key_hash, commit_log_offset, store_timestamp_ms in keys:
        if store_timestamp_ms != seconds_of:
            seconds, seconds_of = _seconds(begin_ms, store_timestamp_ms), store_timestamp_ms
        slot = key_hash % slot_count
        previous = slots[slot]
        # A slot may point past the last entry: a crash prevented the write of the entries.
        if not 0 < previous <= number:
            previous = 0
            new_chains += 1
        packed += _pack(key_hash, commit_log_offset, seconds, previous)
        slots[slot] = number
        number += 1
    return packed, new_chains


def _seconds(begin_ms: int, store_timestamp_ms: int) -> int:
    if begin_ms <= 0:
        return 0
    return min(max(store_timestamp_ms - begin_ms, 0) // 1000, _SECONDS_MAX)


def _swapped(slots: "array[int]") -> "array[int]":
    """Convert slots between the file's and the machine's byte order, in place."""
    if sys.byteorder == "little":
        slots.byteswap()
    return slots


def _runs(numbers: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Yield the begin and end of each range of consecutive numbers.

    >>> list(_runs([1, 2, 3, 7]))
    [(1, 4), (7, 8)]
    """
    begin = end = -1
    for number in numbers:
        if number != end:
            if begin >= 0:
                yield begin, end
            begin = number
        end = number + 1
    if begin >= 0:
        yield begin, end


def _clear_behind(files: OpenFiles, path: str, shape: IndexShape, number: int) -> None:
    """Zero the entries from ``number`` on, so that no reader finds them.

    Entries are written in order, so this stops at the first part that is all zeros.
    """
    while number < shape.entries:
        count = min(shape.entries - number, _REPLAYED_AT_ONCE)
        position = shape.entries_at + number * _ENTRY_SIZE
        if not any(files.read(path, count * _ENTRY_SIZE, position)):
            return
        files.write(path, bytes(count * _ENTRY_SIZE), position)
        number += count
