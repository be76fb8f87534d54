"""Repairs files after a power loss: too short ones, and ones after a missing file.

A file system may keep the name of a new file and lose its length, or keep one new name and lose
another. Such files held nothing that was known to be on disk; recovery restores their content, or
it was after the end of the log.
"""

import logging

from orbitmq.store.disk.disk import Disk
from orbitmq.store.disk.open_files import Unsynced
from orbitmq.store.disk.stream_files import named_files
from orbitmq.store.layout import BATCH_CONSUME_QUEUE, CONSUME_QUEUE, path_join
from orbitmq.store.log.segments import Segment
from orbitmq.store.queues.batch_entry import BATCH_ENTRY_SIZE
from orbitmq.store.queues.entry import ENTRY_SIZE
from orbitmq.store.settings import StoreSettings

__all__ = ["mend_queues", "mend_store", "mend_stream", "write_again"]

log = logging.getLogger("orbitmq.store")

_WRITTEN_AT_ONCE = 1024 * 1024
# A record begins with size and magic, neither of them 0. A queue entry begins with the offset of
# its record, which is 0 at most in the first file of a queue, and no file is missing before that.
_HEAD_BYTES = 8


def mend_store(disk: Disk, directory: str, settings: StoreSettings) -> None:
    """Repair the files of log and queues, after a crash, before they are loaded."""
    log_directory = settings.log_directory(directory)
    mend_stream(disk, log_directory, settings.segment_bytes, keep_filled=True)
    queue_bytes = settings.queue_file_entries * ENTRY_SIZE
    mend_queues(disk, path_join(directory, CONSUME_QUEUE), queue_bytes)
    batch_bytes = settings.batch_queue_file_entries * BATCH_ENTRY_SIZE
    mend_queues(disk, path_join(directory, BATCH_CONSUME_QUEUE), batch_bytes)


def mend_stream(disk: Disk, directory: str, file_bytes: int, *, keep_filled: bool = False) -> None:
    """Extend short files of a stream to their length, and remove files after a missing one.

    With ``keep_filled`` files after a missing one are kept if they hold data. A crash leaves no
    such files, since a file's name is on disk before its content counts: the missing file was
    removed by hand, and loading the stream handles that.
    """
    expected: int | None = None
    for path, base, size in named_files(disk, directory):
        is_behind_gap = expected is not None and base != expected
        if is_behind_gap and not (keep_filled and _is_filled(disk, path)):
            log.warning("removed %s: a crash lost the file before it", path)
            disk.remove(path)
            continue
        expected = base + file_bytes
        if size < file_bytes:
            log.warning("extended %s: it had %d of its %d bytes", path, size, file_bytes)
            file = disk.open(path)
            file.extend(file_bytes)
            file.sync()  # it may not be written again before the next stop
            file.close()


def _is_filled(disk: Disk, path: str) -> bool:
    file = disk.open(path, writable=False)
    try:
        return any(file.read(_HEAD_BYTES, 0))
    finally:
        file.close()


def mend_queues(disk: Disk, directory: str, file_bytes: int) -> None:
    """Repair and sync the files of every queue of every topic below a directory.

    Entries of a killed process may be in the page cache only. Recovery reads them there and does
    not write them again, although the next checkpoint claims them.
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
    """Write the bytes of a log file between two offsets again.

    After a failed sync the system counts pages as clean that are in memory only: they can be read,
    but no later sync writes them. Writing makes them dirty again.
    """
    begin, end = max(begin, segment.base), min(end, segment.end)
    for offset in range(begin, end, _WRITTEN_AT_ONCE):
        at = offset - segment.base
        part = segment.view[at : min(at + _WRITTEN_AT_ONCE, end - segment.base)]
        # A copy: writing a page from its own map may have to read it while it is locked.
        segment.file.write([bytes(part)], at)
