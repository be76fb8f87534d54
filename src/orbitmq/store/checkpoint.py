"""How far the store got, how it stopped, and who has it: ``checkpoint``, ``abort`` and ``lock``.

The checkpoint bounds what must be read again after a crash. The abort marker is there while a
broker runs; found at start, it says that the last one did not stop in order. The lock keeps a
second process out.

>>> from orbitmq.testing.disks import SimulatedDisk
>>> disk = SimulatedDisk()
>>> with StoreLock(disk, "/store"):
...     checkpoint = Checkpoint(disk, "/store/checkpoint")
...     checkpoint.write(checkpoint.values._replace(log_ms=5000, queues_ms=4000))
>>> disk.crash()
>>> read_checkpoint(disk, "/store/checkpoint").recovery_limit_ms
1000

"""

import struct
from typing import Final, NamedTuple

from orbitmq.store.disk import Disk
from orbitmq.store.durable import make_durable_directory, parent_of, read_file, replace_file

__all__ = ["AbortMarker", "Checkpoint", "CheckpointValues", "StoreLock", "read_checkpoint"]

CHECKPOINT_BYTES: Final = 4096

# The fields of CheckpointValues, in order, with their names in Java's StoreCheckpoint. The rest of
# the file is zero. All of it lies in one sector of the disk, so a crash leaves old or new.
_LAYOUT: Final = struct.Struct(
    ">q"  # log_ms: physicMsgTimestamp
    "q"  # queues_ms: logicsMsgTimestamp
    "q"  # index_ms: indexMsgTimestamp
    "q"  # primary_flushed_offset: masterFlushedOffset
    "q"  # confirmed_offset: confirmPhyOffset
)
assert _LAYOUT.size == 40

# Store times of neighbouring records come from several flushes; Java's StoreCheckpoint goes back
# this much to be on the safe side.
_MARGIN_MS: Final = 3000


class CheckpointValues(NamedTuple):
    """What a checkpoint says; zeros if nothing is known.

    The first three are store timestamps of records: all older ones are on the disk.
    """

    log_ms: int = 0
    queues_ms: int = 0
    index_ms: int = 0
    primary_flushed_offset: int = 0
    confirmed_offset: int = 0

    @property
    def recovery_limit_ms(self) -> int:
        """The store timestamp from which on the log must be read again after a crash.

        >>> CheckpointValues(log_ms=10_000, queues_ms=12_000).recovery_limit_ms
        7000

        """
        return max(0, min(self.log_ms, self.queues_ms) - _MARGIN_MS)


def read_checkpoint(disk: Disk, path: str) -> CheckpointValues:
    """Return what a checkpoint file says, without changing it.

    An absent file says zeros, and so does whatever a short one lacks: both only make recovery read
    more.

    Raises:
        DiskFailed: the file is there and can't be read.

    """
    found = read_file(disk, path) or b""
    return CheckpointValues(*_LAYOUT.unpack(found[: _LAYOUT.size].ljust(_LAYOUT.size, b"\0")))


class Checkpoint:
    """The checkpoint file of a store that is written to. Its directory must exist.

    Attributes:
        values: what is on the disk.

    Raises:
        DiskFailed: from the constructor, if the file can't be read or made.

    """

    def __init__(self, disk: Disk, path: str) -> None:
        self.path = path
        self.values = read_checkpoint(disk, path)
        is_new = not disk.exists(path)
        self._file = disk.open(path, create=True)
        if self._file.size < CHECKPOINT_BYTES:
            self._file.allocate(CHECKPOINT_BYTES)
            self._file.sync()
        if is_new:
            disk.sync_directory(parent_of(path))

    def __repr__(self) -> str:
        return f"<Checkpoint {self.path} {self.values}>"

    def write(self, values: CheckpointValues) -> None:
        """Write the values and return when they are on the disk; at once if they are there already.

        What the values promise must be on the disk before.

        Raises:
            DiskFailed: ``values`` keeps what was known to be there; a later write may succeed.

        """
        if values != self.values:
            self._file.write([_LAYOUT.pack(*values)], 0)
            self._file.sync()
            self.values = values

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()


class AbortMarker:
    """A file that is there while the store is in use, and stays if the process dies.

    >>> from orbitmq.testing.disks import SimulatedDisk
    >>> disk = SimulatedDisk()
    >>> marker = AbortMarker(disk, "/abort")
    >>> marker.create("1234")
    >>> disk.crash()
    >>> marker.is_present
    True

    """

    __slots__ = ("_disk", "path")

    def __init__(self, disk: Disk, path: str) -> None:
        self._disk = disk
        self.path = path

    def __repr__(self) -> str:
        return f"<AbortMarker {self.path}>"

    @property
    def is_present(self) -> bool:
        """Whether the store was not closed in order, or is in use."""
        return self._disk.exists(self.path)

    def create(self, text: str) -> None:
        """Set the mark, and return when it is on the disk; call it before the first write.

        The text is for people, by custom the process id; nobody reads it back.
        """
        replace_file(self._disk, self.path, text.encode())

    def remove(self) -> None:
        """Take the mark away; call it when everything is synced and dispatched, not before."""
        self._disk.remove(self.path)
        self._disk.sync_directory(parent_of(self.path))


class StoreLock:
    """The lock on a store directory: take it before anything is read, give it back last.

    The directory is made if it is absent. Java's DefaultMessageStore locks the same byte, though
    only after recovery; a broker of either kind keeps the other out.

    Raises:
        StoreLocked: from the constructor, if another store object or process has it.
        DiskFailed: from the constructor, if the directory or the file can't be made.

    """

    __slots__ = ("_lock", "path")

    def __init__(self, disk: Disk, directory: str) -> None:
        make_durable_directory(disk, directory)
        self.path = f"{directory}/lock"
        self._lock = disk.lock(self.path, "lock")

    def __repr__(self) -> str:
        return f"<StoreLock {self.path}>"

    def release(self) -> None:
        """Give it back; more than once is fine."""
        self._lock.release()

    def __enter__(self) -> "StoreLock":
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.release()
