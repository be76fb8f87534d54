"""Files as a power loss leaves them: shorter than they were made, or missing among others.

A file system may keep the name of a new file and lose its length, or keep one new name and lose
another. None of it held anything that was on the disk for sure; what it was to hold comes again
from recovery, or is behind the end of the log.
"""

import logging

from orbitmq.store.disk import Disk
from orbitmq.store.segment_chain import NAME_DIGITS, path_join

__all__ = ["mend_queues", "mend_stream"]

log = logging.getLogger("orbitmq.store")


def mend_stream(disk: Disk, directory: str, file_bytes: int) -> None:
    """Give short files of a stream their length again, and remove those behind a missing one.

    Raises:
        DiskFailed: a file can't be looked at or changed.

    """
    expected: int | None = None
    for name in disk.list(directory):
        if len(name) != NAME_DIGITS or not (name.isascii() and name.isdecimal()):
            continue
        path = path_join(directory, name)
        if expected is not None and int(name) != expected:
            log.warning("%s lies behind a file that a crash has lost: removed", path)
            disk.remove(path)
            continue
        expected = int(name) + file_bytes
        size = disk.size(path)
        if size < file_bytes:
            log.warning("%s was left with %d of its %d bytes: extended", path, size, file_bytes)
            file = disk.open(path)
            file.extend(file_bytes)
            file.close()


def mend_queues(disk: Disk, directory: str, file_bytes: int) -> None:
    """Mend the files of every queue of every topic below a directory.

    Raises:
        DiskFailed: a file can't be looked at or changed.

    """
    for topic in disk.list(directory):
        below = path_join(directory, topic)
        for queue in disk.list(below) if disk.is_directory(below) else ():
            if disk.is_directory(path_join(below, queue)):
                mend_stream(disk, path_join(below, queue), file_bytes)
