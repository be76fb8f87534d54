"""The timer wheel: a ring of slots, one for each step of time, over the units of the timer log.

::

    timerwheel: 1,209,600 slots; the slot of a time is number (time // precision) mod 1,209,600
    +-------------------+------------+-----------+-------+-------+
    | time // precision | first unit | last unit | count | magic |
    | s64               | s64        | s64       | s32   | s32   |
    +-------------------+------------+-----------+-------+-------+

A slot belongs to a time only if it has that time: slots are not cleared after delivery. The units
of a slot form a chain from the last to the first. The wheel is kept in memory, in pages, and
``take_dirty`` returns those that changed, for the file. Neither has pages that were never used.
"""

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from orbitmq.store.disk.disk import DiskFile
from orbitmq.store.timers.timer_log import NONE

__all__ = ["SLOTS", "Page", "Slot", "Wheel"]

SLOTS: Final = 2 * 7 * 86_400
"""Slots of Java's wheel, whatever the precision: with one second, two times seven days."""

_SLOT: Final = struct.Struct(">qqqii")
assert _SLOT.size == 32
_PAGE_BYTES: Final = 4096
_SLOTS_PER_PAGE: Final = _PAGE_BYTES // _SLOT.size
_READ_AT_ONCE: Final = 64 * _PAGE_BYTES
_ZEROS: Final = bytes(_READ_AT_ONCE)


class Slot(NamedTuple):
    """The ends of a slot's chain in the timer log, and how many messages are in it.

    A message that recalls another one counts as -1.
    """

    first: int = NONE
    last: int = NONE
    messages: int = 0


_EMPTY: Final = Slot()


class Page(NamedTuple):
    """Bytes of the file, and where they belong."""

    offset: int
    data: bytes


class Wheel:
    """The slots of a timer wheel, in memory. Times are in milliseconds."""

    def __init__(self, precision_ms: int, slots: int = SLOTS) -> None:
        self.precision_ms = precision_ms
        self.slots = slots
        self._pages: dict[int, bytearray] = {}  # by number; a missing one is all 0
        self._dirty: set[int] = set()

    def __repr__(self) -> str:
        return f"<Wheel {self.slots} slots of {self.precision_ms} ms>"

    @property
    def size(self) -> int:
        """The length of its file."""
        return self.slots * _SLOT.size

    def slot(self, time_ms: int) -> Slot:
        """Return the slot of a time, which is empty if it belongs to another time."""
        time = time_ms // self.precision_ms
        number, at = self._place(time)
        page = self._pages.get(number)
        if page is None:
            return _EMPTY
        found, first, last, messages, _ = _SLOT.unpack_from(page, at)
        return Slot(first, last, messages) if found == time else _EMPTY

    def put(self, time_ms: int, slot: Slot) -> None:
        """Replace the slot of a time, whatever time it belonged to."""
        time = time_ms // self.precision_ms
        number, at = self._place(time)
        page = self._pages.get(number)
        if page is None:
            page = self._pages[number] = bytearray(_PAGE_BYTES)
        _SLOT.pack_into(page, at, time, *slot, 0)
        self._dirty.add(number)

    def add(self, time_ms: int, position: int, weight: int) -> None:
        """Append the unit at ``position`` to the chain of a slot; ``weight`` is 1 or -1.

        One that the slot has is not counted again.
        """
        slot = self.slot(time_ms)
        if slot.last >= position:
            self.put(time_ms, slot)  # written again: see TimerLog.end_at
            return
        first = position if slot.first == NONE else slot.first
        self.put(time_ms, Slot(first, position, slot.messages + weight))

    def since(self, time_ms: int) -> Iterator[tuple[int, Slot]]:
        """Yield the slots of this time and later ones, with their times, in no order."""
        least = time_ms // self.precision_ms
        for _, page in sorted(self._pages.items()):
            for time, first, last, messages, _ in _SLOT.iter_unpack(page):
                if time >= least and last >= first >= 0 and time > 0:
                    yield time * self.precision_ms, Slot(first, last, messages)

    # The file

    def load(self, file: DiskFile) -> None:
        """Read all slots from a file of the wheel's size."""
        for offset in range(0, min(file.data_end, self.size), _READ_AT_ONCE):
            data = file.read(_READ_AT_ONCE, offset)[: self.size - offset]
            if data == _ZEROS[: len(data)]:
                continue
            for at in range(0, len(data), _PAGE_BYTES):
                page = data[at : at + _PAGE_BYTES]
                if page != _ZEROS[: len(page)]:
                    whole = bytearray(page.ljust(_PAGE_BYTES, b"\0"))
                    self._pages[(offset + at) // _PAGE_BYTES] = whole

    def take_dirty(self) -> list[Page]:
        """Return the pages that changed, and forget that they did."""
        taken = [
            Page(offset := number * _PAGE_BYTES, bytes(self._pages[number][: self.size - offset]))
            for number in sorted(self._dirty)
        ]
        self._dirty.clear()
        return taken

    def put_back(self, pages: list[Page]) -> None:
        """Take back pages that could not be written for lack of descriptors."""
        self._dirty.update(page.offset // _PAGE_BYTES for page in pages)

    def _place(self, time: int) -> tuple[int, int]:
        """Return the number of a slot's page, and where in the page the slot is."""
        number, index = divmod(time % self.slots, _SLOTS_PER_PAGE)
        return number, index * _SLOT.size
