"""Small files that a power loss leaves whole: the old version or the new one, never half of one.

A new name is on the disk only once its directory was synced, and a directory only once the one
above it was. What is written here is there when the call returns.
"""

import posixpath
from typing import Final

from orbitmq.store.disk.disk import Disk

__all__ = ["make_durable_directory", "parent_of", "read_file", "remove_tree", "replace_file"]

_UNFINISHED: Final = ".tmp"


def make_durable_directory(disk: Disk, path: str) -> None:
    """Make a directory and its parents, and return when they are on the disk.

    Raises:
        DiskFailed: one of them can't be made, or a file stands in its place.

    >>> from orbitmq.testing.disks import SimulatedDisk
    >>> disk = SimulatedDisk()
    >>> make_durable_directory(disk, "/data/store")
    >>> disk.crash()
    >>> disk.exists("/data/store")
    True

    """
    missing = []
    level = path
    while not disk.exists(level):
        missing.append(level)
        level = parent_of(level)
    disk.make_directory(path)
    for level in reversed(missing):
        disk.sync_directory(parent_of(level))


def read_file(disk: Disk, path: str) -> bytes | None:
    """Return the bytes of a file, None if there is no such file.

    Raises:
        DiskFailed: it is there and can't be read.

    """
    if not disk.exists(path):
        return None
    file = disk.open(path, writable=False)
    try:
        return file.read(file.size, 0)
    finally:
        file.close()


def replace_file(disk: Disk, path: str, data: bytes, *, backup: str | None = None) -> None:
    """Put ``data`` in the place of a file, and return when it is on the disk.

    With ``backup`` the old version is kept under that path, in the same directory. For a moment it
    is there alone, and a crash may make that moment last: a reader must look there as well.

    Raises:
        DiskFailed: the old version is still there, under its path or as the backup.

    >>> from orbitmq.testing.disks import SimulatedDisk
    >>> disk = SimulatedDisk()
    >>> replace_file(disk, "/abort", b"1234")
    >>> disk.crash()
    >>> read_file(disk, "/abort")
    b'1234'

    """
    unfinished = path + _UNFINISHED
    if disk.exists(unfinished):  # a crash left it; it may be longer than what is written now
        disk.remove(unfinished)
    file = disk.open(unfinished, create=True)
    try:
        file.write([data], 0)
        file.sync()
    finally:
        file.close()
    if backup is not None and disk.exists(path):
        disk.rename(path, backup)
    disk.rename(unfinished, path)
    disk.sync_directory(parent_of(path))


def remove_tree(disk: Disk, path: str) -> None:
    """Remove a directory with all that is in it; one that is absent is fine.

    A power loss may bring back any part of it.

    >>> from orbitmq.testing.disks import SimulatedDisk
    >>> disk = SimulatedDisk()
    >>> disk.make_directory("/store/index")
    >>> disk.open("/store/index/1", create=True).close()
    >>> remove_tree(disk, "/store/index")
    >>> disk.list("/store")
    []
    """
    if not disk.is_directory(path):
        return
    for name in disk.list(path):
        inner = f"{path}/{name}"
        if disk.is_directory(inner):
            remove_tree(disk, inner)
        else:
            disk.remove(inner)
    disk.remove_directory(path)


def parent_of(path: str) -> str:
    """Return the directory that a path lies in.

    >>> parent_of("/data/store/abort"), parent_of("/data/"), parent_of("store")
    ('/data/store', '/', '.')

    """
    return posixpath.dirname(path.rstrip("/") or "/") or "."
