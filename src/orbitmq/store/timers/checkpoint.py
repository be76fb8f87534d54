"""The timer checkpoint: how far messages with a delivery time are taken in and delivered.

::

    config/timercheck, 4096 bytes                            bytes 256…: ours, unknown to Java
    +---------+---------+--------------+---------------+     +-------+--------+-----------+
    | read ms | log end | queue offset | data version… |     | magic | copies | precision |
    +---------+---------+--------------+---------------+     +-------+--------+-----------+

>>> from orbitmq.testing.disks import SimulatedDisk
>>> disk = SimulatedDisk()
>>> write_checkpoint(disk, "/timercheck", TimerCheckpoint(read_ms=5000, precision_ms=1000))
>>> disk.crash()
>>> read_checkpoint(disk, "/timercheck").read_ms
5000
"""

import struct
from typing import Final, NamedTuple

from orbitmq.store.disk.disk import Disk
from orbitmq.store.disk.durable import make_durable_directory, parent_of, read_file

__all__ = ["TimerCheckpoint", "read_checkpoint", "write_checkpoint"]

_BYTES: Final = 4096
# Java's TimerCheckpoint; GET_TIMER_CHECK_POINT returns these bytes.
_LAYOUT: Final = struct.Struct(
    ">q"  # read_ms: lastReadTimeMs
    "q"  # log_end: lastTimerLogFlushPos
    "q"  # queue_offset: lastTimerQueueOffset
    "q"  # the same: masterTimerQueueOffset
    "q"  # state version: 0
    "q"  # changed_ms: timestamp of the data version
    "q"  # changes: counter of the data version
)
assert _LAYOUT.size == 56
_OWN_AT: Final = 256
_OWN_MAGIC: Final = b"orbitmq1"
_OWN: Final = struct.Struct(">8s3qq")  # magic, copies of the first three fields, precision
_SECTOR: Final = 512
assert _OWN_AT + _OWN.size <= _SECTOR  # a crash leaves the old values or the new ones


class TimerCheckpoint(NamedTuple):
    """The values of a timer checkpoint; zeros if nothing is known."""

    read_ms: int = 0
    """Every slot before this time is delivered, and the copies are on disk."""
    log_end: int = 0
    """The timer log before this position is on disk, and so are its slots in the wheel."""
    queue_offset: int = 0
    """Every message of the timer topic before this one has a unit before ``log_end``."""
    changed_ms: int = 0
    changes: int = 0
    precision_ms: int = 0
    """The precision of the wheel; 0 if Java wrote the checkpoint last."""

    def to_bytes(self) -> bytes:
        """Return the fields that Java knows, as GET_TIMER_CHECK_POINT returns them."""
        return _LAYOUT.pack(*self[:3], self.queue_offset, 0, self.changed_ms, self.changes)


def read_checkpoint(disk: Disk, path: str) -> TimerCheckpoint:
    """Return the values of a file; a missing file, or a missing part of it, counts as zeros."""
    found = (read_file(disk, path) or b"").ljust(_BYTES, b"\0")
    read_ms, log_end, queue_offset, _, _, changed_ms, changes = _LAYOUT.unpack_from(found)
    magic, *copies, precision_ms = _OWN.unpack_from(found, _OWN_AT)
    if magic != _OWN_MAGIC or copies != [read_ms, log_end, queue_offset]:
        precision_ms = 0
    return TimerCheckpoint(read_ms, log_end, queue_offset, changed_ms, changes, precision_ms)


def write_checkpoint(disk: Disk, path: str, values: TimerCheckpoint) -> None:
    """Write values that are true already, and return when they are on disk."""
    is_new = not disk.exists(path)
    if is_new:
        make_durable_directory(disk, parent_of(path))
    file = disk.open(path, create=True)
    try:
        file.extend(_BYTES)
        own = _OWN.pack(_OWN_MAGIC, *values[:3], values.precision_ms)
        sector = values.to_bytes().ljust(_OWN_AT, b"\0") + own
        file.write([sector.ljust(_SECTOR, b"\0")], 0)
        file.sync()
    finally:
        file.close()
    if is_new:
        disk.sync_directory(parent_of(path))
