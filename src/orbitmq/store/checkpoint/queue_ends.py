"""The end of each consume queue: by this list a start finds queues that lack entries.

A queue can be rebuilt from the log, but without the list a start would not notice that a queue, or
its last files, are missing. Java ignores the file.

Invariants:

- What is listed was synced before: the next start finds at least these entries, unless they were
  removed by hand. Old files may have been removed; ends stay.
- The list is written before the checkpoint claims its queues.
- A queue leaves the list before it is deleted, so that no power loss brings it back.

>>> from orbitmq.testing.disks import SimulatedDisk
>>> disk = SimulatedDisk()
>>> QueueEnds(disk, "/queue_ends.json").write({"orders": {0: 12, 1: 11}})
>>> QueueEnds(disk, "/queue_ends.json").load()
{'orders': {0: 12, 1: 11}}

"""

import logging
from collections.abc import Collection
from typing import Final
from zlib import crc32

import msgspec

from orbitmq.errors import DiskFailed
from orbitmq.store.disk.disk import Disk
from orbitmq.store.disk.durable import parent_of, read_file, replace_file
from orbitmq.store.queues.consume_queues import Ends
from orbitmq.threads import Lock

__all__ = ["QueueEnds"]

log = logging.getLogger("orbitmq.store")


class _List(msgspec.Struct):
    """The file, as JSON."""

    crc: int
    """Checksum of the queues: with a wrong end, a queue would be filled up to it."""
    queues: Ends


class QueueEnds:
    """The file ``queue_ends.json`` of a store in use.

    It keeps encoded lists in memory, not dicts: there may be hundreds of thousands of light queues.
    """

    def __init__(self, disk: Disk, path: str) -> None:
        self._disk = disk
        self._path = path
        self._on_disk = _NOTHING
        self._noted: bytes | None = None
        self._lock = Lock()

    def __repr__(self) -> str:
        return f"<QueueEnds {self._path}, {len(self._on_disk)} bytes>"

    def load(self) -> Ends:
        """Return the listed ends; none if the file is missing or can't be read."""
        try:
            self._on_disk = read_file(self._disk, self._path) or _NOTHING
            return _decoded(self._on_disk)
        except (DiskFailed, ValueError, RecursionError) as error:
            log.warning(
                "%s can't be read (%s): this start does not notice missing queues or queue files; "
                "the list is written again",
                self._path,
                error,
            )
        self._on_disk = b""
        return {}

    def write(self, ends: Ends) -> None:
        """Replace the list, and return when it is on disk; a noted list is dropped.

        If the disk fails, the old list is still there.
        """
        with self._lock:
            self._noted = None
            self._replace(_encoded(ends))

    def note(self, ends: Ends) -> None:
        """Keep a list for :meth:`write_noted`, which is called when its queues are synced."""
        with self._lock:
            self._noted = _encoded(ends)

    def write_noted(self) -> None:
        """Write the list that was noted last, without queues forgotten since. Runs on a worker.

        If the disk fails, the old list is still there.
        """
        with self._lock:
            if self._noted is not None:
                self._replace(self._noted)
                self._noted = None

    def forget(self, queues: Collection[tuple[str, int]]) -> None:
        """Remove queues from the list on disk, before they are deleted.

        If the disk is too full for a new list, the list is removed: deleting must be possible then.
        If this raises DiskFailed, the queues may still be listed and must not be deleted.
        """
        if not queues:
            return
        with self._lock:  # waits for a worker that is writing a list
            if self._noted is not None:
                self._noted = _without(queues, self._noted)
            try:
                self._replace(_without(queues, self._on_disk))
            except DiskFailed as error:
                log.warning("removing %s, since it can't be written now: %s", self._path, error)
                self._disk.remove(self._path)
                self._disk.sync_directory(parent_of(self._path))
                self._on_disk = _NOTHING

    def _replace(self, text: bytes) -> None:
        if text != self._on_disk:
            replace_file(self._disk, self._path, text)
            self._on_disk = text


def _encoded(ends: Ends) -> bytes:
    # Sorted, so that equal ends have equal bytes and are not written again. A directory may have a
    # name that is not UTF-8; no record has such a topic.
    topics = sorted(filter(_is_text, ends))
    queues = {topic: dict(sorted(ends[topic].items())) for topic in topics}
    return msgspec.json.encode(_List(_crc(queues), queues))


def _decoded(text: bytes) -> Ends:
    listed = msgspec.json.decode(text, type=_List)
    if listed.crc != _crc(listed.queues):
        raise ValueError("wrong checksum")
    return listed.queues


def _crc(queues: Ends) -> int:
    return crc32(msgspec.json.encode(queues))


def _without(queues: Collection[tuple[str, int]], text: bytes) -> bytes:
    """Return an encoded list without some queues; unchanged if it has none of them."""
    ends = _decoded(text) if text else {}
    left = {topic: dict(ids) for topic, ids in ends.items()}
    for topic, queue_id in queues:
        left.get(topic, {}).pop(queue_id, None)
    return text if left == ends else _encoded({topic: ids for topic, ids in left.items() if ids})


def _is_text(topic: str) -> bool:
    return topic.isascii() or topic.encode(errors="replace").decode() == topic


_NOTHING: Final = _encoded({})
"""Stands for a missing file."""
