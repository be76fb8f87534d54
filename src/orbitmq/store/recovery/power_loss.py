"""Files as a power loss leaves them: shorter than they were made, or missing among others.

A file system may keep the name of a new file and lose its length, or keep one new name and lose
another. None of it held anything that was on the disk for sure; what it was to hold comes again
from recovery, or is behind the end of the log.
"""

import logging

from orbitmq.store.disk.disk import Disk
from orbitmq.store.disk.open_files import Unsynced
from orbitmq.store.disk.stream_files import named_files
from orbitmq.store.layout import path_join
from orbitmq.store.log.segments import Segment

__all__ = ["mend_queues", "mend_stream", "write_again"]

log = logging.getLogger("orbitmq.store")

_WRITTEN_AT_ONCE = 1024 * 1024
# A record begins with its size and magic, and neither is 0; an entry of a queue with where its
# record is, which is 0 in the first file of a queue at most, and that one lies behind no other.
_HEAD_BYTES = 8


def mend_stream(disk: Disk, directory: str, file_bytes: int, *, keep_filled: bool = False) -> None:
    """Give short files of a stream their length again, and remove those behind a missing one.

    With ``keep_filled`` files behind a missing one that hold something are left. No crash makes
    those, since names reach the disk before what is in the files counts: somebody took the missing
    one away, and loading the stream deals with it.

    Raises:
        DiskFailed: a file can't be looked at or changed.

    """
    expected: int | None = None
    for path, base, size in named_files(disk, directory):
        is_behind_gap = expected is not None and base != expected
        if is_behind_gap and not (keep_filled and _is_filled(disk, path)):
            log.warning("%s lies behind a file that a crash has lost: removed", path)
            disk.remove(path)
            continue
        expected = base + file_bytes
        if size < file_bytes:
            log.warning("%s was left with %d of its %d bytes: extended", path, size, file_bytes)
            file = disk.open(path)
            file.extend(file_bytes)
            file.sync()  # nobody may write to it before the next stop, after which none is mended
            file.close()


def _is_filled(disk: Disk, path: str) -> bool:
    file = disk.open(path, writable=False)
    try:
        return any(file.read(_HEAD_BYTES, 0))
    finally:
        file.close()


def mend_queues(disk: Disk, directory: str, file_bytes: int) -> None:
    """Mend the files of every queue of every topic below a directory, and sync them all.

    A killed process may have left entries in memory only. Recovery finds them there and does not
    write them again, and the next checkpoint speaks for them.

    Raises:
        DiskFailed: a file can't be looked at, changed or synced.

    """
    for topic in disk.list(directory):
        below = path_join(directory, topic)
        if not disk.is_directory(below):
            continue
        for queue in disk.list(below):
            path = path_join(below, queue)
            if disk.is_directory(path):
                mend_stream(disk, path, file_bytes, keep_filled=True)
                _sync_stream(disk, path)
        disk.sync_directory(below)
    if disk.exists(directory):
        disk.sync_directory(directory)


def _sync_stream(disk: Disk, directory: str) -> None:
    names = [path_join(directory, name) for name in disk.list(directory)]
    files = tuple(path for path in names if not disk.is_directory(path))
    Unsynced(files, (directory,)).sync(disk)


def write_again(segment: Segment, begin: int, end: int) -> None:
    """Write what a file of the log holds between two offsets over itself.

    After a failed sync the system counts pages as clean that are in memory only: they are read as
    if nothing had happened, and no later sync writes them. Once written again they are dirty again.

    Raises:
        DiskFailed: they can't be written.

    """
    begin, end = max(begin, segment.base), min(end, segment.end)
    for offset in range(begin, end, _WRITTEN_AT_ONCE):
        at = offset - segment.base
        part = segment.view[at : min(at + _WRITTEN_AT_ONCE, end - segment.base)]
        # A copy: a page that is written from a map of itself may have to be read in while it is
        # locked for the write.
        segment.file.write([bytes(part)], at)
