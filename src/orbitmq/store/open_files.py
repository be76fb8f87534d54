"""Many files, few descriptors: the files used last stay open, and what was written is remembered.

Consume queues and key indexes are files by the thousand. They are read and written by calls, not
through maps: a map in Python keeps a descriptor of its own for as long as a view of it lives.
"""

import errno
from collections import OrderedDict
from typing import Final

import msgspec

from orbitmq.errors import DiskFailed, InvalidInput
from orbitmq.message.buffer import Buffer
from orbitmq.store.disk import Disk, DiskFile

__all__ = ["OpenFiles", "Unsynced"]

_MANY: Final = 256
"""Files from which on all of them are written back at once before each is synced: 10,000 new files
take a second then, and eight one by one."""


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
                then, and trying again may lie: stop writing.

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
    that was used longest ago.

    >>> from orbitmq.store.disk import RealDisk
    >>> OpenFiles(RealDisk(), limit=512)
    <OpenFiles 0 of 512 open>

    """

    def __init__(self, disk: Disk, *, limit: int) -> None:
        if limit < 1:
            raise InvalidInput(f"limit is {limit}; at least 1 file must be open", field="limit")
        self.disk = disk
        self._limit = limit
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
        file = self._keep(path, self.disk.open(path, create=True))
        file.extend(size)
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

    def close(self) -> None:
        """Close all files. They open again when they are used."""
        while self._open:
            self._open.popitem()[1].close()

    def _file(self, path: str) -> DiskFile:
        file = self._open.get(path)
        if file is None:
            return self._keep(path, self.disk.open(path))
        self._open.move_to_end(path)
        return file

    def _keep(self, path: str, file: DiskFile) -> DiskFile:
        self._open[path] = file
        if len(self._open) > self._limit:
            self._open.popitem(last=False)[1].close()
        return file

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
