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

# The fields of CheckpointValues, in order, with their names in Java's StoreCheckpoint. All that is
# not zero lies in one sector of the disk, so a crash leaves old or new.
_LAYOUT: Final = struct.Struct(
    ">q"  # log_ms: physicMsgTimestamp
    "q"  # queues_ms: logicsMsgTimestamp
    "q"  # index_ms: indexMsgTimestamp
    "q"  # primary_flushed_offset: masterFlushedOffset
    "q"  # confirmed_offset: confirmPhyOffset
)
assert _LAYOUT.size == 40

# What only we say, at a place that Java's StoreCheckpoint neither reads nor writes; in the same
# sector. The copies of the times above tell whether Java has written to the file since: if they
# differ, all of this is void.
_OWN_AT: Final = 256
_OWN_MAGIC: Final = b"orbitmq1"
_OWN: Final = struct.Struct(
    ">8s"  # magic
    "3q"  # copies of log_ms, queues_ms and index_ms
    "q"  # queues_ms
    "3q"  # index: name, number, offset
    "q"  # log_end; 0 if one of us wrote it who did not know it yet
)
_SECTOR: Final = 512
assert _OWN_AT + _OWN.size <= _SECTOR

# Store times of neighbouring records come from several flushes; Java's StoreCheckpoint goes back
# this much to be on the safe side.
_MARGIN_MS: Final = 3000


class OwnValues(NamedTuple):
    """What a checkpoint of ours says that Java's does not."""

    queues_ms: int
    """As in ``CheckpointValues``, whose own is held back for Java's sake: it takes part of the
    index for lost after a crash, and finds the keys again only from that time on."""
    index_mark: IndexMark
    log_end: int = 0
    """All of the log before this offset is on the disk; 0 if that is known by times alone."""


class CheckpointValues(NamedTuple):
    """What a checkpoint says; zeros if nothing is known.

    The first three are store timestamps of records: all older ones are on the disk.
    """

    log_ms: int = 0
    queues_ms: int = 0
    index_ms: int = 0
    primary_flushed_offset: int = 0
    confirmed_offset: int = 0
    own: OwnValues | None = None
    """None if the last to write was not one of us."""

    @property
    def is_of_another(self) -> bool:
        """Whether another program wrote it last, Java's broker for one; False if nothing did.

        >>> CheckpointValues().is_of_another, CheckpointValues(log_ms=5000).is_of_another
        (False, True)

        """
        return self.own is None and any(self)

    @property
    def recovery_limit_ms(self) -> int:
        """The store timestamp from which on the log must be read again after a crash.

        >>> CheckpointValues(log_ms=10_000, queues_ms=12_000).recovery_limit_ms
        7000

        """
        return min(self.log_vouched_ms, self.queues_vouched_ms)

    @property
    def log_vouched_ms(self) -> int:
        """The store timestamp up to which all records are on the disk."""
        return max(0, self.log_ms - _MARGIN_MS)

    @property
    def queues_vouched_ms(self) -> int:
        """The store timestamp up to which the queue entries of all records are on the disk."""
        queues_ms = self.queues_ms if self.own is None else self.own.queues_ms
        return max(0, queues_ms - _MARGIN_MS)


def read_checkpoint(disk: Disk, path: str) -> CheckpointValues:
    """Return what a checkpoint file says, without changing it.

    An absent file says zeros, and so does whatever a short one lacks: both only make recovery read
    more.

    Raises:
        DiskFailed: the file is there and can't be read.

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
            self._file.write([_packed(values)], 0)
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
