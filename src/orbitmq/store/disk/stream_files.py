"""The files of one stream, commit log or consume queue, as a reader finds them.

A reader is told no settings: where a file begins is its name, how long it is its length. Whatever
else lies in the directory is none of its business.
"""

import errno
from typing import NamedTuple

from orbitmq.errors import DiskFailed
from orbitmq.store.disk.disk import Disk
from orbitmq.store.layout import NAME_DIGITS, path_join

__all__ = ["StreamFile", "StreamMaps", "map_file", "size_unless_gone", "stream_files"]


class StreamFile(NamedTuple):
    """One file of a stream: its path, the offset of its first byte, and its length."""

    path: str
    base: int
    size: int

    @property
    def end(self) -> int:
        """The offset behind its last byte."""
        return self.base + self.size


def stream_files(disk: Disk, directory: str) -> list[StreamFile]:
    """Return the files of a stream in order; the empty ones, and those just deleted, left out.

    Where a file is longer than its distance to the next, the rest of it isn't counted.

    Raises:
        DiskFailed: the directory or a file can't be looked at.

    """
    found: list[StreamFile] = []
    for name in disk.list(directory):
        path = path_join(directory, name)
        # isdecimal alone also takes digits of other scripts
        if len(name) != NAME_DIGITS or not (name.isascii() and name.isdecimal()):
            continue
        if not (size := size_unless_gone(disk, path)):
            continue
        base = int(name)
        if found and found[-1].end > base:
            found[-1] = found[-1]._replace(size=base - found[-1].base)
        found.append(StreamFile(path, base, size))
    return found


def map_file(disk: Disk, file: StreamFile, *, with_last_hole: bool = True) -> memoryview | None:
    """Return the bytes of a file, None if it was deleted before it could be opened.

    A file deleted later stays readable for as long as the view lives.

    Args:
        disk: where it is.
        file: the file.
        with_last_hole: False: without the zeros at its end that nobody has ever written.

    Raises:
        DiskFailed: it can't be opened or mapped.

    """
    try:
        opened = disk.open(file.path, writable=False)
    except DiskFailed as error:
        if error.errno == errno.ENOENT:
            return None
        raise
    try:
        size = file.size if with_last_hole else min(file.size, opened.data_end)
        return opened.map()[:size]
    finally:
        opened.close()


class StreamMaps:
    """Bytes of a stream at any offset, through maps of the files used last."""

    _MOST_MAPS = 8
    # What was read through a map counts as memory of the process until the map is gone. The system
    # maps up to 64 KiB around a place that is read, so this is 64 MiB.
    _MOST_READS = 1024

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self._directory = directory
        self._files: list[StreamFile] = []
        self._maps: dict[StreamFile, memoryview] = {}
        self._reads = 0

    @property
    def files(self) -> list[StreamFile]:
        """The files there are now."""
        self._files = stream_files(self._disk, self._directory)
        return self._files

    def at(self, offset: int) -> tuple[StreamFile, memoryview] | None:
        """Return the file that holds ``offset``, and its bytes; None if there is none (any more).

        Raises:
            DiskFailed: the file can't be opened or mapped.

        """
        file = _holder(self._files, offset) or _holder(self.files, offset)
        if file is None:
            return None
        self._reads += 1
        if self._reads > self._MOST_READS:
            self._maps.clear()
            self._reads = 0
        view = self._maps.pop(file, None)
        if view is None:
            view = map_file(self._disk, file)
            if view is None:
                return None
        self._maps[file] = view  # the last in the dict is the one used last
        if len(self._maps) > self._MOST_MAPS:
            del self._maps[next(iter(self._maps))]
        return file, view


def _holder(files: list[StreamFile], offset: int) -> StreamFile | None:
    # From the end: what is asked for most is what was written last.
    return next((file for file in reversed(files) if file.base <= offset < file.end), None)


def size_unless_gone(disk: Disk, path: str) -> int:
    """Return the length of a file; 0 if it is a directory, or was deleted since it was listed.

    Raises:
        DiskFailed: it can't be looked at.

    """
    if disk.is_directory(path):
        return 0
    try:
        return disk.size(path)
    except DiskFailed as error:
        if error.errno == errno.ENOENT:
            return 0
        raise
