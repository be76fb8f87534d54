"""A disk in memory that loses what was not synced, fails on demand, and logs every call.

:mod:`orbitmq.testing.power_loss` decides what survives a crash. One thread may write while another
syncs; everything else belongs to one thread.

>>> disk = SimulatedDisk()
>>> disk.make_directory("/store")
>>> disk.sync_directory("/")
>>> file = disk.open("/store/topics.json", create=True)
>>> file.write([b"{}"], 0)
>>> file.sync()
>>> disk.crash()
>>> disk.list("/store")  # the content was synced, the name wasn't
[]

"""

import errno as errnos
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, TypeAlias

from orbitmq.clock import Clock
from orbitmq.errors import DiskFailed, StoreError, StoreLocked
from orbitmq.message.buffer import Buffer
from orbitmq.randomness import Randomness
from orbitmq.store.disk.disk import Usage
from orbitmq.testing.clocks import EPOCH_MS
from orbitmq.testing.power_loss import PAGE, Contents, Folder, Node

__all__ = ["Call", "Operation", "PowerLost", "SimulatedDisk", "SimulatedFile", "SimulatedLock"]

Operation: TypeAlias = Literal[
    "open",
    "read",
    "write",
    "map",
    "allocate",
    "extend",
    "sync",
    "list",
    "make_directory",
    "remove",
    "remove_directory",
    "rename",
    "sync_directory",
    "lock",
    "mark",
]

_UNBOUNDED: Final = 1 << 60  # the capacity of a disk that is never full
_OWN_PID: Final = 1  # a simulated machine runs one process
_FILES_AT_ONCE: Final = 512


class PowerLost(BaseException):
    """The power failed. Not an ``Exception``: a process without power runs no handlers."""


class Call(NamedTuple):
    """One call of the disk; ``errno`` is 0 if it succeeded."""

    operation: Operation
    path: str
    offset: int = 0
    size: int = 0
    errno: int = 0


@dataclass(slots=True)
class _Fault:
    operation: Operation
    path_part: str
    errno: int
    after: int
    times: int | None

    def strikes(self, call: Call) -> bool:
        if call.operation != self.operation or self.path_part not in call.path:
            return False
        if self.after:
            self.after -= 1
            return False
        if self.times is not None:
            self.times -= 1
            return self.times >= 0
        return True


class SimulatedDisk:
    """A :class:`orbitmq.store.disk.disk.Disk` in memory.

    ``chance`` decides what survives a crash beyond what was synced, and which pages are written
    back early; without it, exactly what was synced survives. ``capacity`` limits the bytes of all
    files, in pages of 4096. Without a ``clock``, every file was modified at ``EPOCH_MS``. ``log``
    has every call that could fail, in the order in which they ended. ``when_out`` is called when a
    call finds no power.
    """

    def __init__(
        self,
        chance: Randomness | None = None,
        *,
        clock: Clock | None = None,
        capacity: int = _UNBOUNDED,
    ) -> None:
        self.log: list[Call] = []
        self.when_out: Callable[[], None] = lambda: None
        self._chance = chance
        self._clock = clock
        self._capacity = capacity
        self._root = Folder()
        self._faults: list[_Fault] = []
        self._locks: set[Node] = set()
        self._calls_left: int | None = None  # until the power fails
        self._crashes = 0

    def __repr__(self) -> str:
        return f"<SimulatedDisk {self._used()} bytes, {len(self.log)} calls>"

    # For tests

    def crash(self) -> None:
        """Keep only what survives a power loss, and turn the power on again.

        Files and locks from before are dead: their calls raise ``DiskFailed``. Maps stay as memory.
        """
        # All objects are new, so locks on the old ones have no effect.
        self._root = self._root.surviving(self._chance, {})
        self._calls_left = None
        self._crashes += 1

    def kill(self) -> None:
        """End the process, not the machine: files and locks are dead, all that was written stays.

        After ``cut_power`` it simulates a process that was killed between two calls.

        >>> disk = SimulatedDisk()
        >>> lock = disk.lock("/lock", "lock")
        >>> disk.kill()
        >>> disk.list("/")
        ['lock']
        >>> disk.lock("/lock", "lock").release()
        """
        self._locks.clear()
        self._calls_left = None
        self._crashes += 1

    def cut_power(self, *, after: int) -> None:
        """Let ``after`` more calls pass; each later one raises ``PowerLost`` until ``crash``.

        >>> disk = SimulatedDisk()
        >>> disk.cut_power(after=1)
        >>> disk.make_directory("/store")
        >>> disk.open("/store/abort", create=True)
        Traceback (most recent call last):
        orbitmq.testing.disks.PowerLost: before open of /store/abort
        """
        self._calls_left = after

    def fail(
        self,
        operation: Operation,
        path_part: str,
        errno: int,
        *,
        after: int = 0,
        times: int | None = 1,
    ) -> None:
        """Let an operation fail on paths that contain ``path_part``.

        ``after`` calls pass and the next ``times`` fail; with None all of them do. A failed write
        may write a part of its bytes. A failed sync is reported once: its pages count as clean from
        then on, and are lost in a crash unless they are written again.

        >>> disk = SimulatedDisk()
        >>> disk.fail("make_directory", "store", errnos.EROFS)
        >>> disk.make_directory("/store")
        Traceback (most recent call last):
        orbitmq.errors.DiskFailed: can't create /store: Read-only file system
        """
        self._faults.append(_Fault(operation, path_part, errno, after, times))

    def heal(self) -> None:
        """Cancel all failures ordered by ``fail``.

        >>> disk = SimulatedDisk()
        >>> disk.fail("make_directory", "store", errnos.EROFS, times=None)
        >>> disk.heal()
        >>> disk.make_directory("/store")
        """
        self._faults.clear()

    def resize(self, capacity: int) -> None:
        """Give the disk more or less room, in bytes; what is stored stays.

        >>> disk = SimulatedDisk(capacity=4096)
        >>> disk.resize(1 << 20)
        >>> disk.make_directory("/store")
        >>> disk.usage("/store").total
        1048576
        """
        self._capacity = capacity

    def mark(self, text: str) -> None:
        """Add an event to the log, such as an acknowledgement."""
        self.log.append(Call("mark", text))

    @property
    def syncs(self) -> int:
        """How many syncs of files the log has."""
        return len(self._done("sync"))

    @property
    def writes(self) -> int:
        """How many writes the log has."""
        return len(self._done("write"))

    @property
    def bytes_written(self) -> int:
        """How many bytes the writes of the log have written."""
        return sum(call.size for call in self._done("write"))

    # The disk

    def open(self, path: str, *, create: bool = False, writable: bool = True) -> "SimulatedFile":
        """Open a file; with ``create`` a missing one is created, empty."""
        with self._calling(Call("open", path), "open"):
            contents = self._made(path) if create else self._contents(path, "open")
            return SimulatedFile(self, path, contents, writable=writable)

    def exists(self, path: str) -> bool:
        """Whether there is such a file or directory."""
        return self._find(path) is not None

    def list(self, path: str) -> list[str]:
        """Return the names in a directory, sorted; none if it is missing."""
        with self._calling(Call("list", path), "list"):
            return sorted(self._folder(path, "list").names) if self.exists(path) else []

    def is_directory(self, path: str) -> bool:
        """Whether ``path`` is a directory."""
        return isinstance(self._find(path), Folder)

    def size(self, path: str) -> int:
        """Return the length of a file."""
        return len(self._contents(path, "look at").data)

    def modified_ms(self, path: str) -> int:
        """Return when a file was last written, in milliseconds since 1970."""
        return self._contents(path, "look at").modified_ms

    def make_directory(self, path: str) -> None:
        """Create a directory and its parents; one that exists is fine."""
        with self._calling(Call("make_directory", path), "create"):
            folder = self._root
            for name in _names(path):
                node = folder.names.get(name)
                if node is None:
                    node = Folder()
                    folder.change({name: node})
                if not isinstance(node, Folder):
                    raise _failed("create", path, errnos.EEXIST)
                folder = node

    def remove(self, path: str) -> None:
        """Remove a file; maps of it stay."""
        with self._calling(Call("remove", path), "remove"):
            self._contents(path, "remove")
            folder, name = self._place(path, "remove")
            folder.change({name: None})

    def remove_directory(self, path: str) -> None:
        """Remove an empty directory."""
        with self._calling(Call("remove_directory", path), "remove"):
            if self._folder(path, "remove").names:
                raise _failed("remove", path, errnos.ENOTEMPTY)
            folder, name = self._place(path, "remove")
            folder.change({name: None})

    def rename(self, path: str, new_path: str) -> None:
        """Rename a file or directory atomically; a file of the new name is replaced.

        Between two directories it is not atomic: a power loss may leave both names, or none.
        """
        doing = f"rename to {new_path}"
        with self._calling(Call("rename", path), doing):
            node = self._find(path)
            if node is None:
                raise _failed(doing, path, errnos.ENOENT)
            taken = self._find(new_path)
            if taken is not None and (isinstance(taken, Folder) or isinstance(node, Folder)):
                raise _failed(doing, path, errnos.EISDIR)
            (old, name), (new, new_name) = self._place(path, doing), self._place(new_path, doing)
            if old is new:
                old.change({name: None, new_name: node})
            else:
                new.change({new_name: node})
                old.change({name: None})

    def sync_directory(self, path: str) -> None:
        """Return when the names in a directory are on disk."""
        with self._calling(Call("sync_directory", path), "sync"):
            self._folder(path, "sync").sync()

    def hasten(self) -> None:
        """Do nothing, which is allowed: it is only a hint."""

    def files_at_once(self) -> int:
        """Return the same on every machine, so that a seed gives the same run."""
        return _FILES_AT_ONCE

    def usage(self, path: str) -> Usage:
        """Return how full the disk is."""
        if not self.exists(path):
            raise _failed("look at the file system of", path, errnos.ENOENT)
        return Usage(self._capacity, self._used())

    def lock(self, path: str, text: str) -> "SimulatedLock":
        """Lock a file, then write ``text`` into it; raise StoreLocked if it is already locked."""
        with self._calling(Call("lock", path), "lock"):
            contents = self._made(path)
            if contents in self._locks:
                raise StoreLocked(path, _OWN_PID)
            contents.write(text.encode(), 0, chance=self._chance)
            self._locks.add(contents)
            return SimulatedLock(self._locks, contents)

    # Calls: the power, the faults and the log

    @contextmanager
    def _calling(self, call: Call, doing: str) -> Iterator[None]:
        """Log a call with its outcome; raise the error that was ordered for it."""
        with self._noting(call) as errno:
            if errno:
                raise _failed(doing, call.path, errno)
            yield

    @contextmanager
    def _noting(self, call: Call) -> Iterator[int]:
        """Log a call with its outcome; yield the errno that was ordered for it, 0 for none."""
        if self._calls_left is not None:
            if not self._calls_left:
                self.when_out()
                raise PowerLost(f"before {call.operation} of {call.path}")
            self._calls_left -= 1
        try:
            yield next((fault.errno for fault in self._faults if fault.strikes(call)), 0)
        except StoreError as error:
            errno = error.errno if isinstance(error, DiskFailed) else errnos.EAGAIN
            self.log.append(call._replace(errno=errno))
            raise
        self.log.append(call)

    def _done(self, operation: Operation) -> Sequence[Call]:
        return [call for call in self.log if call.operation == operation and not call.errno]

    # Names

    def _find(self, path: str) -> Node | None:
        node: Node | None = self._root
        for name in _names(path):
            node = node.names.get(name) if isinstance(node, Folder) else None
        return node

    def _contents(self, path: str, doing: str) -> Contents:
        node = self._find(path)
        if isinstance(node, Contents):
            return node
        raise _failed(doing, path, errnos.ENOENT if node is None else errnos.EISDIR)

    def _folder(self, path: str, doing: str) -> Folder:
        node = self._find(path)
        if isinstance(node, Folder):
            return node
        raise _failed(doing, path, errnos.ENOENT if node is None else errnos.ENOTDIR)

    def _place(self, path: str, doing: str) -> tuple[Folder, str]:
        """Return the directory of a path, and its last name."""
        *parents, name = _names(path)
        return self._folder("/".join(parents), doing), name

    def _made(self, path: str) -> Contents:
        if self._find(path) is None:
            folder, name = self._place(path, "open")
            folder.change({name: Contents(self._now_ms())})
        return self._contents(path, "open")

    # Space and time

    def _used(self) -> int:
        return _total_space(self._root)

    def _fitting(self, contents: Contents, offset: int, size: int) -> int:
        """Return how many bytes of a write fit on the disk."""
        if self._capacity == _UNBOUNDED:
            return size
        lacking = contents.without_space(offset, size)
        free_pages = max(0, self._capacity - self._used()) // PAGE
        return size if len(lacking) <= free_pages else max(0, lacking[free_pages] - offset)

    def _now_ms(self) -> int:
        return EPOCH_MS if self._clock is None else self._clock.now_ms()


class SimulatedFile:
    """An open file of a simulated disk."""

    __slots__ = ("_contents", "_crashes", "_disk", "_open", "_writable", "path")

    def __init__(
        self, disk: SimulatedDisk, path: str, contents: Contents, *, writable: bool
    ) -> None:
        self.path = path
        self._disk = disk
        self._contents = contents
        self._writable = writable
        self._open = True
        self._crashes = disk._crashes

    def __repr__(self) -> str:
        return f"<SimulatedFile {self.path}>"

    @property
    def size(self) -> int:
        """Its length in bytes."""
        self._check("look at")
        return len(self._contents.data)

    @property
    def data_end(self) -> int:
        """Its length: this disk has no holes."""
        return self.size

    def write(self, buffers: Sequence[Buffer], offset: int) -> None:
        """Write all buffers, one after the other, from ``offset`` on."""
        data = b"".join(buffers)
        doing = f"write {len(data)} bytes at {offset} to"
        disk, contents = self._disk, self._contents
        with disk._noting(Call("write", self.path, offset, len(data))) as errno:
            self._check(doing, writing=True, offset=offset)
            fitting = len(data)
            if errno:
                fitting = disk._chance.below(fitting + 1) if disk._chance else 0
            else:
                fitting = disk._fitting(contents, offset, fitting)
                errno = errnos.ENOSPC if fitting < len(data) else 0
            contents.write(data[:fitting], offset, chance=disk._chance)
            contents.modified_ms = disk._now_ms()
            if errno:
                raise _failed(doing, self.path, errno)

    def read(self, size: int, offset: int) -> bytes:
        """Return up to ``size`` bytes from ``offset`` on; fewer at the end of the file."""
        doing = f"read {size} bytes at {offset} of"
        with self._disk._calling(Call("read", self.path, offset, size), doing):
            self._check(doing, offset=offset)
            return bytes(self._contents.data[offset : offset + size])

    def map(self) -> memoryview:
        """Return a read-only view of the whole file, which shows later writes too."""
        with self._disk._calling(Call("map", self.path), "map"):
            self._check("map")
            return self._contents.map()

    def allocate(self, size: int, offset: int = 0) -> None:
        """Reserve space for ``size`` bytes from ``offset`` on; a shorter file is extended."""
        doing = f"allocate {size} bytes for"
        with self._disk._calling(Call("allocate", self.path, offset, size), doing):
            self._check(doing, writing=True, offset=offset)
            if size <= 0:
                raise _failed(doing, self.path, errnos.EINVAL)
            if self._disk._fitting(self._contents, offset, size) < size:
                raise _failed(doing, self.path, errnos.ENOSPC)
            if offset + size > len(self._contents.data):
                self._contents.modified_ms = self._disk._now_ms()
            self._contents.reserve(size, offset)

    def extend(self, size: int) -> None:
        """Make the file at least ``size`` bytes long, with a hole at its end."""
        doing = f"extend to {size} bytes"
        with self._disk._calling(Call("extend", self.path, 0, size), doing):
            self._check(doing, writing=True)
            if size > len(self._contents.data):
                self._contents.grow(size)
                self._contents.modified_ms = self._disk._now_ms()

    def sync(self) -> None:
        """Return when what was written is on the disk."""
        with self._disk._noting(Call("sync", self.path)) as errno:
            self._check("sync")
            if errno:
                self._contents.fail_sync()
                raise _failed("sync", self.path, errno)
            self._contents.sync()

    def close(self) -> None:
        """Let go of the file; maps of it stay."""
        self._open = False

    def _check(self, doing: str, *, writing: bool = False, offset: int = 0) -> None:
        if not self._open or (writing and not self._writable):
            raise _failed(doing, self.path, errnos.EBADF)
        if self._crashes != self._disk._crashes:
            raise _failed(doing, self.path, errnos.EIO)
        if offset < 0:
            raise _failed(doing, self.path, errnos.EINVAL)


@dataclass(slots=True)
class SimulatedLock:
    """A lock that lasts until it is released or the disk crashes."""

    _locks: set[Node]
    _contents: Contents

    def release(self) -> None:
        """Release it."""
        self._locks.discard(self._contents)


def _names(path: str) -> list[str]:
    return [name for name in path.split("/") if name not in ("", ".")]


def _total_space(folder: Folder) -> int:
    return sum(
        _total_space(node) if isinstance(node, Folder) else node.space
        for node in folder.names.values()
    )


def _failed(doing: str, path: str, errno: int) -> DiskFailed:
    return DiskFailed(
        f"can't {doing} {path}: {os.strerror(errno)}",
        path=path,
        errno=errno,
        of_sync=doing == "sync",
    )
