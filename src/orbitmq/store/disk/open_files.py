"""Many files with few descriptors: the files used last stay open.

Consume queues and key indexes are thousands of files. They are read and written by calls, not
through maps: in Python a map keeps a descriptor open as long as a view of it lives.

Running out of descriptors is not a disk failure: idle files are closed and the call is repeated. It
fails only if that does not help.
"""

import errno
import logging
from collections import OrderedDict
from collections.abc import Callable
from typing import Final, TypeVar

import msgspec

from orbitmq.errors import DiskFailed, InvalidInput, StoreError
from orbitmq.message.buffer import Buffer
from orbitmq.store.disk.disk import Disk, DiskFile

__all__ = [
    "MakeRoom",
    "OpenFiles",
    "Unsynced",
    "is_full",
    "is_obstacle",
    "is_shortage",
    "obstacle_text",
    "warn_of_shortage",
    "with_room",
]

log = logging.getLogger("orbitmq.store")

T = TypeVar("T")

MakeRoom = Callable[[], None]
"""Closes files that are open and idle. Called by the owner of the files."""

_MANY: Final = 256
"""From this many files on, the system writes all of them back before each is synced: for 10,000 new
files that takes one second instead of eight."""


def is_shortage(error: BaseException) -> bool:
    """Whether a file could not be opened because process or machine have too many open files."""
    return isinstance(error, DiskFailed) and error.errno in (errno.EMFILE, errno.ENFILE)


def is_full(error: BaseException) -> bool:
    """Whether a write failed because the disk is full, or a quota is used up.

    It may be repeated when there is space again. A sync may not: what it should have written may be
    lost.

    >>> is_full(DiskFailed("can't write", path="/store/abort", errno=errno.ENOSPC))
    True
    >>> is_full(DiskFailed("can't sync", path="/store/abort", errno=errno.ENOSPC, of_sync=True))
    False
    """
    if not isinstance(error, DiskFailed) or error.of_sync:
        return False
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


def is_obstacle(error: BaseException) -> bool:
    """Whether the call may succeed later, by itself: a full disk, or too many open files."""
    return is_full(error) or is_shortage(error)


def obstacle_text(error: StoreError) -> str:
    """Return why messages are refused because of an obstacle."""
    why = "too many files are open" if is_shortage(error) else "the disk is full"
    return f"{why}: {error}"


def warn_of_shortage(times: int) -> None:
    """Log that idle files were closed to open another, the 1st, 2nd, 4th, 8th time and so on."""
    if times & (times - 1) == 0:
        log.warning(
            "too many open files: those of queues and index were closed to open another (%d times "
            "so far); raise the limit of open files of the process, see ulimit -n",
            times,
        )


def with_room(call: Callable[[], T], make_room: MakeRoom) -> T:
    """Return the result of a call; if it runs out of descriptors, make room and repeat it."""
    try:
        return call()
    except DiskFailed as error:
        if not is_shortage(error):
            raise
        make_room()
        return call()


class Unsynced(msgspec.Struct, frozen=True):
    """What must be synced: written files, and directories whose names have changed.

    >>> bool(Unsynced((), ()))
    False
    """

    files: tuple[str, ...]
    directories: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.files or self.directories)

    def sync(self, disk: Disk) -> None:
        """Return when all of it is on disk. Any thread may call this.

        Each file is opened again, so that the owner may close and remove files meanwhile. A file or
        directory that is gone is skipped.

        After DiskFailed it is unknown what is on disk, and another sync may succeed without writing
        it: stop writing. If its ``is_shortage`` is set, a file could not be opened, and the sync
        may be repeated.
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
    """Files by path, of which at most ``limit`` are open at a time.

    Every call may raise ``DiskFailed``. A file is opened when it is needed, and the least recently
    used one is closed. ``make_room`` closes idle files of others if the process runs out of
    descriptors.

    >>> from orbitmq.store.disk.disk import RealDisk
    >>> OpenFiles(RealDisk(), limit=512)
    <OpenFiles 0 of 512 open>
    """

    def __init__(self, disk: Disk, *, limit: int, make_room: MakeRoom = lambda: None) -> None:
        if limit < 1:
            raise InvalidInput(f"limit is {limit}; it must be at least 1", field="limit")
        self.disk = disk
        self._limit = limit
        self._make_room_elsewhere = make_room
        self._open: OrderedDict[str, DiskFile] = OrderedDict()
        self._written: dict[str, int] = {}
        self._changed_names: dict[str, None] = {}

    def __repr__(self) -> str:
        return f"<OpenFiles {len(self._open)} of {self._limit} open>"

    def create(self, directory: str, name: str, size: int) -> None:
        """Create a sparse file of ``size`` zeros, and its directory if that is missing."""
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
        """Write ``data`` at ``offset``; the file counts as unsynced."""
        self._file(path).write((data,), offset)
        self._written[path] = self._written.get(path, 0) + len(data)

    def sync(self, path: str) -> None:
        """Sync a file now."""
        self._file(path).sync()

    def remove(self, path: str) -> None:
        """Close and remove a file; its directory counts as unsynced.

        If a power loss after a clean stop brought it back, the next start would trust it.
        """
        self.discard(path)
        self.disk.remove(path)
        self._changed_names[path.rpartition("/")[0]] = None

    def discard(self, path: str) -> None:
        """Close a file that is about to be removed; it needs no sync any more."""
        file = self._open.pop(path, None)
        if file is not None:
            file.close()
        self._written.pop(path, None)

    def take_unsynced(self, least_bytes: int = 0) -> Unsynced:
        """Return what to sync, and forget it: from now on the caller is responsible for it.

        A file with fewer than ``least_bytes`` new bytes waits for a later call.
        """
        due = tuple(path for path, size in self._written.items() if size >= least_bytes)
        for path in due:
            del self._written[path]
        directories = tuple(self._changed_names)
        self._changed_names.clear()
        return Unsynced(due, directories)

    def put_back(self, unsynced: Unsynced) -> None:
        """Take back what could not be synced for lack of descriptors."""
        for path in unsynced.files:
            self._written.setdefault(path, 0)
        self._changed_names.update(dict.fromkeys(unsynced.directories))

    def sync_all(self, least_bytes: int = 0) -> None:
        """Sync what was written; files with fewer than ``least_bytes`` new bytes wait."""
        unsynced = self.take_unsynced(least_bytes)
        with_room(lambda: unsynced.sync(self.disk), self._make_room)

    def close(self) -> None:
        """Close all files; they are opened again when they are used."""
        while self._open:
            self._open.popitem()[1].close()

    def _file(self, path: str) -> DiskFile:
        file = self._open.get(path)
        if file is None:
            return self._opened(path)
        self._open.move_to_end(path)
        return file

    def _opened(self, path: str, *, create: bool = False) -> DiskFile:
        while len(self._open) >= self._limit:
            self._open.popitem(last=False)[1].close()
        file = with_room(lambda: self.disk.open(path, create=create), self._make_room)
        self._open[path] = file
        return file

    def _make_room(self) -> None:
        self.close()
        self._make_room_elsewhere()

    def _make_directory(self, directory: str) -> None:
        """Create a directory and its parents; the names of all of them count as unsynced."""
        path = directory
        while not self.disk.exists(path):
            parent, separator, _ = path.rpartition("/")
            if not separator or not parent:
                break
            self._changed_names[parent] = None
            path = parent
        self.disk.make_directory(directory)
