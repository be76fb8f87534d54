"""The files ``checkpoint``, ``abort`` and ``lock`` of a store.

The checkpoint limits what must be read again after a crash. The abort marker exists while a broker
runs; one found at a start means that the last broker crashed. The lock keeps a second process out.

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
from dataclasses import dataclass
from typing import Final, NamedTuple

from orbitmq.store.disk.disk import Disk
from orbitmq.store.disk.durable import make_durable_directory, parent_of, read_file, replace_file
from orbitmq.store.index.key_index import IndexMark

__all__ = [
    "AbortMarker",
    "Checkpoint",
    "CheckpointValues",
    "OwnValues",
    "StoreLock",
    "read_checkpoint",
]

CHECKPOINT_BYTES: Final = 4096

# The fields of CheckpointValues, in order, with their names in Java's StoreCheckpoint. All of them
# are in one sector, so that a crash leaves either the old or the new values.
_LAYOUT: Final = struct.Struct(
    ">q"  # log_ms: physicMsgTimestamp
    "q"  # queues_ms: logicsMsgTimestamp
    "q"  # index_ms: indexMsgTimestamp
    "q"  # primary_flushed_offset: masterFlushedOffset
    "q"  # confirmed_offset: confirmPhyOffset
)
assert _LAYOUT.size == 40

# Our own values, in the same sector, where Java's StoreCheckpoint neither reads nor writes. They
# include copies of the times above: if these differ, Java has written the file since, and our
# values are void.
_OWN_AT: Final = 256
_OWN_MAGIC: Final = b"orbitmq1"
_OWN: Final = struct.Struct(
    ">8s"  # magic
    "3q"  # copies of log_ms, queues_ms and index_ms
    "q"  # queues_ms
    "3q"  # index: name, number, offset
    "q"  # log_end; 0 in checkpoints of our first versions
)
_SECTOR: Final = 512
assert _OWN_AT + _OWN.size <= _SECTOR

# Java's StoreCheckpoint subtracts this from the times, as a safety margin.
_MARGIN_MS: Final = 3000


class OwnValues(NamedTuple):
    """Values that only our checkpoints have."""

    queues_ms: int
    """The real value of ``CheckpointValues.queues_ms``. That one is kept lower for Java, which
    drops the last index file after a crash and restores its keys only from that time on."""
    index_mark: IndexMark
    log_end: int = 0
    """All of the log before this offset is on disk; 0 if unknown."""


class CheckpointValues(NamedTuple):
    """The values of a checkpoint; zeros if nothing is known.

    The first three are store timestamps: log, queues and index are on disk up to these.
    """

    log_ms: int = 0
    queues_ms: int = 0
    index_ms: int = 0
    primary_flushed_offset: int = 0
    confirmed_offset: int = 0
    own: OwnValues | None = None
    """None if another program wrote the checkpoint last."""

    @property
    def is_of_another(self) -> bool:
        """Whether another program, such as Java's broker, wrote it last.

        >>> CheckpointValues().is_of_another, CheckpointValues(log_ms=5000).is_of_another
        (False, True)
        """
        return self.own is None and any(self)

    @property
    def recovery_limit_ms(self) -> int:
        """The store timestamp from which the log must be read again after a crash.

        >>> CheckpointValues(log_ms=10_000, queues_ms=12_000).recovery_limit_ms
        7000
        """
        return min(self.log_vouched_ms, self.queues_vouched_ms)

    @property
    def log_vouched_ms(self) -> int:
        """The store timestamp up to which all records are on disk."""
        return max(0, self.log_ms - _MARGIN_MS)

    @property
    def queues_vouched_ms(self) -> int:
        """The store timestamp up to which the queue entries of all records are on disk."""
        queues_ms = self.queues_ms if self.own is None else self.own.queues_ms
        return max(0, queues_ms - _MARGIN_MS)


def read_checkpoint(disk: Disk, path: str) -> CheckpointValues:
    """Return the values of a checkpoint file, without changing it.

    A missing file, and the missing part of a short one, count as zeros: recovery just reads more.
    """
    found = (read_file(disk, path) or b"").ljust(CHECKPOINT_BYTES, b"\0")
    values = CheckpointValues(*_LAYOUT.unpack_from(found))
    magic, *copies, queues_ms, name, number, offset, log_end = _OWN.unpack_from(found, _OWN_AT)
    if magic != _OWN_MAGIC or tuple(copies) != values[:3]:
        return values
    own = OwnValues(queues_ms, IndexMark(name, number, offset), log_end)
    return values._replace(own=own)


def _packed(values: CheckpointValues) -> bytes:
    *shared, own = values
    own_bytes = b"" if own is None else _OWN.pack(
        _OWN_MAGIC, *values[:3], own.queues_ms, *own.index_mark, own.log_end
    )  # fmt: skip
    return (_LAYOUT.pack(*shared).ljust(_OWN_AT, b"\0") + own_bytes).ljust(_SECTOR, b"\0")


class Checkpoint:
    """The checkpoint file of a store in use. Its directory must exist.

    ``values`` are those on disk.
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
        """Write values that are true already, and return when they are on disk.

        If the disk fails, ``values`` is unchanged, and a later write may succeed.
        """
        if values != self.values:
            self._file.write([_packed(values)], 0)
            self._file.sync()
            self.values = values

    def close(self) -> None:
        """Close the file."""
        self._file.close()


@dataclass(slots=True, repr=False)
class AbortMarker:
    """A file that exists while the store is in use, and stays if the process dies.

    >>> from orbitmq.testing.disks import SimulatedDisk
    >>> disk = SimulatedDisk()
    >>> marker = AbortMarker(disk, "/abort")
    >>> marker.create("1234")
    >>> disk.crash()
    >>> marker.is_present
    True
    """

    _disk: Disk
    path: str

    def __repr__(self) -> str:
        return f"<AbortMarker {self.path}>"

    @property
    def is_present(self) -> bool:
        """Whether the store is in use, or was not closed."""
        return self._disk.exists(self.path)

    def create(self, text: str) -> None:
        """Create the file, and return when it is on disk; call it before the first write.

        The text is for people, usually the process id.
        """
        replace_file(self._disk, self.path, text.encode())

    def remove(self) -> None:
        """Remove the file; call it after everything is synced and dispatched."""
        self._disk.remove(self.path)
        self._disk.sync_directory(parent_of(self.path))


class StoreLock:
    """The lock on a store directory; take it before anything is read, and release it last.

    The directory is created if it is missing. Raise StoreLocked if another store object or process
    has the lock. Java's DefaultMessageStore locks the same byte, though only after its recovery.
    """

    __slots__ = ("_lock", "path")

    def __init__(self, disk: Disk, directory: str) -> None:
        make_durable_directory(disk, directory)
        self.path = f"{directory}/lock"
        self._lock = disk.lock(self.path, "lock")

    def __repr__(self) -> str:
        return f"<StoreLock {self.path}>"

    def release(self) -> None:
        """Release it; repeated calls do nothing."""
        self._lock.release()

    def __enter__(self) -> "StoreLock":
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.release()
