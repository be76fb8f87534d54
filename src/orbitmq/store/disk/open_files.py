"""Many files, few descriptors: the files used last stay open, and what was written is remembered.

Consume queues and key indexes are files by the thousand. They are read and written by calls, not
through maps: a map in Python keeps a descriptor of its own for as long as a view of it lives.

A process that may open no more files is no broken disk: what is open and idle is closed, and the
call is made again. Only if that does not help has it failed.
"""

import errno
import logging
from collections import OrderedDict
from collections.abc import Callable
from typing import Final, TypeVar

import msgspec

from orbitmq.errors import DiskFailed, InvalidInput
from orbitmq.message.buffer import Buffer
from orbitmq.store.disk.disk import Disk, DiskFile

__all__ = [
    "MakeRoom",
    "OpenFiles",
    "Unsynced",
    "is_shortage",
    "warn_of_shortage",
    "with_room",
]

log = logging.getLogger("orbitmq.store")

T = TypeVar("T")

MakeRoom = Callable[[], None]
"""Closes files that are open and idle. The owner of the files calls it."""

_MANY: Final = 256
"""Files from which on all of them are written back at once before each is synced: 10,000 new files
take a second then, and eight one by one."""


def is_shortage(error: BaseException) -> bool:
    """Whether a file could not be opened since process or machine have too many open already."""
    return isinstance(error, DiskFailed) and error.errno in (errno.EMFILE, errno.ENFILE)


def warn_of_shortage(times: int) -> None:
    """Say that idle files were closed to open another, the 1st, 2nd, 4th, 8th time and so on."""
    if times & (times - 1) == 0:
        log.warning(
            "too many files are open, and those of queues and index were closed to open another "
            "(%d times so far); raise the limit of open files of the process, see ulimit -n",
            times,
        )


def with_room(call: Callable[[], T], make_room: MakeRoom) -> T:
    """Return what a call gives; if it lacks a descriptor, make room and call once more.

    Raises:
        DiskFailed: the call failed for another reason, or there are no idle files either.

    """
    try:
        return call()
    except DiskFailed as error:
        if not is_shortage(error):
            raise
        make_room()
        return call()


class Unsynced(msgspec.Struct, frozen=True):
    """What has to reach the disk: written files, and directories in which names have changed.

    >>> bool(Unsynced((), ()))
    False
    """

    files: tuple[str, ...]
    directories: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.files or self.directories)

    def sync(self, disk: Disk) -> None:
        """Return when all of it is on the disk. Any thread may call this.

        Each file gets a descriptor of its own for this, so that the owner may close and remove
        files meanwhile. A file or directory that is gone needs no sync.

        Raises:
            DiskFailed: a file or directory could not be synced. What is on the disk is unknown
                then, and trying again may lie: stop writing. If ``is_shortage`` it could not be
                opened, and may be tried again.

        """
        if len(self.files) > _MANY:
            disk.hasten()
        for path in self.files:
            try:
                file = disk.open(path)
            except DiskFailed as error:
                if error.errno == errno.ENOENT:
                    continue
                raise
            try:
                file.sync()
            finally:
                file.close()
        for path in self.directories:
            try:
                disk.sync_directory(path)
            except DiskFailed as error:
                if error.errno != errno.ENOENT:
                    raise


class OpenFiles:
    """Files by their paths, of which at most ``limit`` are open at a time.

    Every call may raise ``DiskFailed``. A file that a call needs is opened, in place of the one
    that was used longest ago. ``make_room`` closes idle files that others have, if there can be
    no more in the process.

    >>> from orbitmq.store.disk.disk import RealDisk
    >>> OpenFiles(RealDisk(), limit=512)
    <OpenFiles 0 of 512 open>

    """

    def __init__(self, disk: Disk, *, limit: int, make_room: MakeRoom = lambda: None) -> None:
        if limit < 1:
            raise InvalidInput(f"limit is {limit}; at least 1 file must be open", field="limit")
        self.disk = disk
        self._limit = limit
        self._make_room_elsewhere = make_room
        self._open: OrderedDict[str, DiskFile] = OrderedDict()
        self._written: dict[str, int] = {}
        self._changed_names: dict[str, None] = {}

    def __repr__(self) -> str:
        return f"<OpenFiles {len(self._open)} of {self._limit} open>"

    def create(self, directory: str, name: str, size: int) -> None:
        """Make a file of ``size`` zeros that take no space, and the directory if it is absent."""
        if not self.disk.exists(directory):
            self._make_directory(directory)
        path = f"{directory}/{name}"
        self._opened(path, create=True).extend(size)
        self._written.setdefault(path, 0)
        self._changed_names[directory] = None

    def read(self, path: str, size: int, offset: int) -> bytes:
        """Return up to ``size`` bytes from ``offset`` on; fewer at the end of the file."""
        return self._file(path).read(size, offset)

    def write(self, path: str, data: Buffer, offset: int) -> None:
        """Write ``data`` at ``offset``, and remember that the file must be synced."""
        self._file(path).write((data,), offset)
        self._written[path] = self._written.get(path, 0) + len(data)

    def sync(self, path: str) -> None:
        """Return when what was written to a file is on the disk; for what can't wait."""
        self._file(path).sync()

    def remove(self, path: str) -> None:
        """Close and remove a file; it needs no sync any more, but that it is gone does.

        A stop that seemed to be in order would vouch for it if a power loss brought it back.
        """
        self.discard(path)
        self.disk.remove(path)
        self._changed_names[path.rpartition("/")[0]] = None

    def discard(self, path: str) -> None:
        """Close a file that is about to go; it needs no sync any more."""
        file = self._open.pop(path, None)
        if file is not None:
            file.close()
        self._written.pop(path, None)

    def take_unsynced(self, least_bytes: int = 0) -> Unsynced:
        """Return what to sync, and forget it: the caller answers for it from now on.

        A file that has fewer than ``least_bytes`` new bytes waits for a later call.
        """
        due = tuple(path for path, size in self._written.items() if size >= least_bytes)
        for path in due:
            del self._written[path]
        directories = tuple(self._changed_names)
        self._changed_names.clear()
        return Unsynced(due, directories)

    def put_back(self, unsynced: Unsynced) -> None:
        """Take back what could not be synced since there was no descriptor for it."""
        for path in unsynced.files:
            self._written.setdefault(path, 0)
        self._changed_names.update(dict.fromkeys(unsynced.directories))

    def sync_all(self, least_bytes: int = 0) -> None:
        """Return when what was written is on the disk, here and now.

        A file that has fewer than ``least_bytes`` new bytes waits for a later call.
        """
        unsynced = self.take_unsynced(least_bytes)
        with_room(lambda: unsynced.sync(self.disk), self._make_room)

    def close(self) -> None:
        """Close all files. They open again when they are used."""
        while self._open:
            self._open.popitem()[1].close()

    def _file(self, path: str) -> DiskFile:
        file = self._open.get(path)
        if file is None:
            return self._opened(path)
        self._open.move_to_end(path)
        return file

    def _opened(self, path: str, *, create: bool = False) -> DiskFile:
        while len(self._open) >= self._limit:  # before: one more may be one too many
            self._open.popitem(last=False)[1].close()
        file = with_room(lambda: self.disk.open(path, create=create), self._make_room)
        self._open[path] = file
        return file

    def _make_room(self) -> None:
        self.close()
        self._make_room_elsewhere()

    def _make_directory(self, directory: str) -> None:
        """Make a directory and those above it; the names of all of them are to be synced."""
        path = directory
        while not self.disk.exists(path):
            parent, separator, _ = path.rpartition("/")
            if not separator or not parent:
                break
            self._changed_names[parent] = None
            path = parent
        self.disk.make_directory(directory)
