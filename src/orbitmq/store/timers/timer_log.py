"""The timer log: one unit for each message that waits for its time, in the order they came.

::

    timerlog/00000000000000000000
    +------+----------+-------+---------+-------+--------+-------------+------------+----------+
    | 52   | previous | magic | written | delay | record | record size | topic hash | reserved |
    | s32  | s64      | s32   | s64 ms  | s32   | s64    | s32         | s32        | s64      |
    +------+----------+-------+---------+-------+--------+-------------+------------+----------+

``written + delay`` is the time of the unit's slot; ``previous`` is the position of the unit before
it in the slot, -1 for none; ``record`` is the offset of the message in the commit log. A file ends
with a blank unit if another one and a blank would not fit. Units are in the order of their records.
"""

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from orbitmq.store.disk.disk import Disk
from orbitmq.store.disk.open_files import MakeRoom, OpenFiles, Unsynced
from orbitmq.store.queues.files import QueueFiles
from orbitmq.store.recovery.power_loss import mend_stream

__all__ = ["DELETE", "NONE", "NORMAL", "ROLL", "UNIT_SIZE", "TimerLog", "Unit"]

NORMAL: Final = 1
ROLL: Final = 2
"""The message is put back into the timer topic when the slot is due: its own time is later."""
DELETE: Final = 4
"""The message recalls another one of the slot."""
NONE: Final = -1
"""The position of a unit that does not exist."""

_UNIT: Final = struct.Struct(
    ">i"  # size of the unit
    "q"  # position of the previous unit in the slot
    "i"  # magic
    "q"  # time of writing, ms
    "i"  # slot's time - time of writing, ms
    "q"  # commit log offset of the record
    "i"  # size of the record
    "i"  # Java's hash of the real topic
    "q"  # reserved, 0
)
UNIT_SIZE: Final = _UNIT.size
assert UNIT_SIZE == 52

_BLANK: Final = struct.Struct(">iqi")  # bytes to the end of the file, 0, magic
_BLANK_MAGIC: Final = -875286124  # 0xCBD43194, in Java 0xBBCCDDEE ^ (1880681586 + 8)
_MAGIC_MAX: Final = 15
_READ_AT_ONCE: Final = UNIT_SIZE * 1024
_OPEN_FILES: Final = 4


class Unit(NamedTuple):
    """One unit of the timer log."""

    previous: int
    magic: int
    written_ms: int
    delay_ms: int
    commit_log_offset: int
    size: int
    topic_hash: int

    @property
    def slot_ms(self) -> int:
        """The time of its slot."""
        return self.written_ms + self.delay_ms

    @property
    def weight(self) -> int:
        """What it adds to the number of waiting messages: 1, or -1 if it recalls one."""
        return -1 if self.magic & DELETE else 1

    @property
    def is_delete(self) -> bool:
        """Whether it recalls another message of its slot, now."""
        return self.magic & (DELETE | ROLL) == DELETE


class TimerLog:
    """The timer log of a store; ``load`` it before use.

    Appended units wait in memory for ``write``; ``unit`` reads both. ``end`` is the position of the
    next unit.
    """

    def __init__(
        self, disk: Disk, directory: str, file_bytes: int, make_room: MakeRoom = lambda: None
    ) -> None:
        self._disk = disk
        self._directory = directory
        self._file_bytes = file_bytes
        self._open = OpenFiles(disk, limit=_OPEN_FILES, make_room=make_room)
        self._files = QueueFiles(self._open, directory, file_bytes)
        self._pending = bytearray()
        self._written = 0
        # The bytes that were read last; once written, units don't change.
        self._block, self._block_at = b"", 0
        self._last_in_file = (file_bytes - _BLANK.size) // UNIT_SIZE * UNIT_SIZE - UNIT_SIZE

    def __repr__(self) -> str:
        return f"<TimerLog {self._directory} {self.start}..{self.end}>"

    @property
    def start(self) -> int:
        """The position of the first unit."""
        return self._files.start

    @property
    def end(self) -> int:
        """The position after the last unit."""
        return self._written + len(self._pending)

    # Start

    def load(self) -> None:
        """Find the files; ``end_at`` then says where the units end.

        Raise StoreDamaged if a file has another length than the settings say.
        """
        mend_stream(self._disk, self._directory, self._file_bytes)
        self._files.load()
        self._block = b""
        self._written = self._files.end

    def units_from(self, position: int) -> Iterator[tuple[int, Unit]]:
        """Yield the units on disk from ``position`` on, up to the first that is none."""
        position = max(position, self._files.start)
        while position < self._files.end:
            at = position % self._file_bytes
            room = self._last_in_file + UNIT_SIZE - at
            data = self._files.read(position, min(room, _READ_AT_ONCE)) if room > 0 else b""
            for start in range(0, len(data) - UNIT_SIZE + 1, UNIT_SIZE):
                unit = _unpacked(data, start)
                if unit is None:
                    return
                yield position, unit
                position += UNIT_SIZE
            if position % self._file_bytes > self._last_in_file:
                position += self._file_bytes - position % self._file_bytes

    def end_before(self, position: int) -> int:
        """Return where the units end without the one at ``position`` and those behind it."""
        if position % self._file_bytes or position == self.start:
            return position
        return position - self._file_bytes + self._last_in_file + UNIT_SIZE

    def end_at(self, position: int, rewrite_from: int) -> None:
        """Make the units end at ``position``; what is behind it is cleared.

        Bytes from ``rewrite_from`` on are written again: after a failed sync they may be in memory
        only, and no later sync would write them.
        """
        self._block = b""
        self._files.remove_behind(position + 1)
        self._files.clear(position, position)
        at = max(rewrite_from, self._files.start)
        while at < position:
            data = self._files.read(at, min(_READ_AT_ONCE, position - at))
            self._files.write(at, data)
            at += len(data)
        self._written = position

    # Units

    def unit(self, position: int) -> Unit | None:
        """Return the unit at a position; None if there is none."""
        if position >= self._written:
            at = position - self._written
            return _unpacked(self._pending, at) if at < len(self._pending) else None
        at = position - self._block_at
        if not 0 <= at <= len(self._block) - UNIT_SIZE:
            self._read_block(position)
            at = position - self._block_at
        return _unpacked(self._block, at) if at <= len(self._block) - UNIT_SIZE else None

    def _read_block(self, position: int) -> None:
        """Read the units around one: those of a slot are close together, and read backwards."""
        self._block_at = position - position % self._file_bytes % _READ_AT_ONCE
        size = min(_READ_AT_ONCE, self._written - self._block_at)
        self._block = self._files.read(self._block_at, size)

    def append(self, unit: Unit) -> int:
        """Add a unit; return its position."""
        at = self.end % self._file_bytes
        if at > self._last_in_file:
            left = self._file_bytes - at
            self._pending += _BLANK.pack(left, 0, _BLANK_MAGIC).ljust(left, b"\0")
        position = self.end
        self._pending += _UNIT.pack(UNIT_SIZE, *unit, 0)
        return position

    def write(self) -> None:
        """Write the appended units to the files; after DiskFailed call it again."""
        if self._pending:
            self._files.write(self._written, bytes(self._pending))
            self._written += len(self._pending)
            self._pending.clear()

    def take_unsynced(self) -> Unsynced:
        """Return the files to sync; from now on the caller is responsible for them."""
        return self._open.take_unsynced()

    def put_back(self, unsynced: Unsynced) -> None:
        """Take back what could not be synced for lack of descriptors."""
        self._open.put_back(unsynced)

    def clean(self, log_start: int) -> int:
        """Remove the first files whose records are gone from the commit log; return how many."""
        count = 0
        while self._files.end - self._files.start > self._file_bytes:
            last = self.unit(self._files.start + self._last_in_file)
            if last is None or last.commit_log_offset >= log_start:
                break
            self._files.remove_first()
            self._block = b""
            count += 1
        return count

    def close(self) -> None:
        """Close the files; they are opened again when they are used."""
        self._open.close()


def _unpacked(data: bytes | bytearray, at: int) -> Unit | None:
    size, previous, magic, *rest, _ = _UNIT.unpack_from(data, at)
    if size != UNIT_SIZE or not 0 < magic <= _MAGIC_MAX:
        return None
    return Unit(previous, magic, *rest)
