"""Small files that survive a power loss as a whole: the old version or the new one.

A new name is on disk only after a sync of its directory, and a directory only after a sync of its
parent. What is written here is on disk when the call returns.
"""

import posixpath
from typing import Final

from orbitmq.store.disk.disk import Disk

__all__ = ["make_durable_directory", "parent_of", "read_file", "remove_tree", "replace_file"]

_UNFINISHED: Final = ".tmp"


def make_durable_directory(disk: Disk, path: str) -> None:
    """Create a directory and its parents, and return when they are on disk.

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
    """Return the bytes of a file; None if it is missing."""
    if not disk.exists(path):
        return None
    file = disk.open(path, writable=False)
    try:
        return file.read(file.size, 0)
    finally:
        file.close()


def replace_file(disk: Disk, path: str, data: bytes, *, backup: str | None = None) -> None:
    """Replace a file by one that holds ``data``, and return when it is on disk.

    With ``backup`` the old version is kept at that path, in the same directory. For a moment only
    the backup exists, and a crash or a disk failure may leave it so: a reader must look there as
    well.

    >>> from orbitmq.testing.disks import SimulatedDisk
    >>> disk = SimulatedDisk()
    >>> replace_file(disk, "/abort", b"1234")
    >>> disk.crash()
    >>> read_file(disk, "/abort")
    b'1234'
    """
    unfinished = path + _UNFINISHED
    if disk.exists(unfinished):  # left by a crash, and maybe longer than ``data``
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
    """Remove a directory with everything in it; a missing one is fine.

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
    """Return the directory that contains a path.

    >>> parent_of("/data/store/abort"), parent_of("/data/"), parent_of("store")
    ('/data/store', '/', '.')
    """
    return posixpath.dirname(path.rstrip("/") or "/") or "."
