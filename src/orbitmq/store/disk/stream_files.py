"""Streams of bytes in files that are named by the offset of their first byte.

::

    00000000000000000000   00000000001073741824   00000000002147483648
    +--------------------+ +--------------------+ +--------------------+
    | 1073741824 bytes   | | 1073741824 bytes   | | 1073741824 bytes   |
    +--------------------+ +--------------------+ +--------------------+

The commit log is such a stream, and so is each consume queue. All files of a stream have one size;
a reader, which has no settings, takes their lengths for it.
"""

import errno
import logging
from typing import Final, NamedTuple

from orbitmq.errors import DiskFailed, StoreDamaged
from orbitmq.store.disk.disk import Disk
from orbitmq.store.layout import path_join

__all__ = [
    "StreamFile",
    "StreamMaps",
    "file_name",
    "file_path",
    "load_stream",
    "map_file",
    "named_files",
    "size_unless_gone",
    "stream_files",
]

log = logging.getLogger("orbitmq.store")

_NAME_DIGITS: Final = 20


def file_name(offset: int) -> str:
    """Return the name of the file that begins at an offset of its stream.

    >>> file_name(1073741824)
    '00000000001073741824'
    """
    return f"{offset:0{_NAME_DIGITS}d}"


def file_path(directory: str, offset: int) -> str:
    """Return the path of the file that begins at an offset of the stream in a directory."""
    return path_join(directory, file_name(offset))


class StreamFile(NamedTuple):
    """One file of a stream: its path, the offset of its first byte, and its length."""

    path: str
    base: int
    size: int

    @property
    def end(self) -> int:
        """The offset of the stream after its last byte."""
        return self.base + self.size


def named_files(disk: Disk, directory: str) -> list[StreamFile]:
    """Return all files that are named as files of a stream, in order."""
    return _named_files(disk, directory, disk.list(directory))


def _named_files(disk: Disk, directory: str, names: list[str]) -> list[StreamFile]:
    paths = [(path_join(directory, name), int(name)) for name in names if _is_file_name(name)]
    return [
        StreamFile(path, base, _size(disk, path))
        for path, base in paths
        if not disk.is_directory(path)
    ]


def stream_files(disk: Disk, directory: str) -> list[StreamFile]:
    """Return the files of a stream as a reader finds them, in order; empty ones are left out.

    Of a file that is longer than its distance to the next the rest doesn't count.
    """
    found: list[StreamFile] = []
    for file in named_files(disk, directory):
        if not file.size:
            continue
        if found and found[-1].end > file.base:
            found[-1] = found[-1]._replace(size=file.base - found[-1].base)
        found.append(file)
    return found


def load_stream(disk: Disk, directory: str, file_bytes: int) -> tuple[list[StreamFile], list[str]]:
    """Return the files of a stream that is about to be written, in order, and other files there.

    An empty last file is removed, as in Java: a crash while it was created leaves it. Files may be
    missing between those returned. Raise StoreDamaged if a file has another size than
    ``file_bytes``, or begins at no multiple of it.
    """
    names = disk.list(directory)
    files = _named_files(disk, directory, names)
    if files and files[-1].size == 0:
        log.warning(
            "removed %s: it is empty, as a crash while it was made leaves it", files[-1].path
        )
        disk.remove(files.pop().path)
    for path, base, size in files:
        if size != file_bytes:
            raise StoreDamaged(
                f"{path} has {size} bytes, not {file_bytes}; set the file size that the store was "
                "made with, or move the file away",
                path=path,
                position=base,
            )
        if base % file_bytes:
            raise StoreDamaged(
                f"{path} can't begin at {base}, which is no multiple of {file_bytes}; move it away",
                path=path,
                position=base,
            )
    others = [
        path_join(directory, name) for name in disk.list(directory) if not _is_file_name(name)
    ]
    return files, [path for path in others if not disk.is_directory(path)]


def _is_file_name(name: str) -> bool:
    # isdecimal alone also accepts digits of other scripts.
    return len(name) == _NAME_DIGITS and name.isascii() and name.isdecimal()


def map_file(disk: Disk, file: StreamFile, *, with_last_hole: bool = True) -> memoryview | None:
    """Return the bytes of a file; None if it was deleted before it could be opened.

    A file deleted later stays readable as long as the view lives. With ``with_last_hole`` False the
    view ends before the hole at the end of the file, which was never written.
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

    _MAPS_MAX = 8
    # What was read through a map counts as memory of the process until the map is gone. The system
    # maps up to 64 KiB around each read, so this is 64 MiB.
    _READS_MAX = 1024

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self._directory = directory
        self._files: list[StreamFile] = []
        self._maps: dict[StreamFile, memoryview] = {}
        self._reads = 0

    @property
    def files(self) -> list[StreamFile]:
        """The files that exist now."""
        self._files = stream_files(self._disk, self._directory)
        return self._files

    def at(self, offset: int) -> tuple[StreamFile, memoryview] | None:
        """Return the file that contains ``offset``, and its bytes; None if there is none."""
        file = _holder(self._files, offset) or _holder(self.files, offset)
        if file is None:
            return None
        self._reads += 1
        if self._reads > self._READS_MAX:
            self._maps.clear()
            self._reads = 0
        view = self._maps.pop(file, None)
        if view is None:
            view = map_file(self._disk, file)
            if view is None:
                return None
        self._maps[file] = view  # dicts are ordered: the last one is the most recently used
        if len(self._maps) > self._MAPS_MAX:
            del self._maps[next(iter(self._maps))]
        return file, view


def _holder(files: list[StreamFile], offset: int) -> StreamFile | None:
    # From the end: recent data is read most often.
    return next((file for file in reversed(files) if file.base <= offset < file.end), None)


def size_unless_gone(disk: Disk, path: str) -> int:
    """Return the length of a file; 0 if it is a directory, or was deleted since it was listed."""
    return 0 if disk.is_directory(path) else _size(disk, path)


def _size(disk: Disk, path: str) -> int:
    try:
        return disk.size(path)
    except DiskFailed as error:
        if error.errno == errno.ENOENT:
            return 0
        raise
