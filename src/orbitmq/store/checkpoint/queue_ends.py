"""Where each consume queue ended: a list that tells a start which of them lack entries.

A queue can be made again from the log, but nothing else says that one is missing, or its last
files: the others know no less of the log for it. The list is ours; Java passes over the file.

Laws:

- What is listed was synced before: the next start finds at least that many entries, unless somebody
  took them away. Old files may have gone; ends stay.
- What a checkpoint says of the queues is in the list first.
- A queue leaves the list before it is deleted, so that no loss of power brings it back.

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
    """Of the queues, as they are written: a queue would be filled up to an end that is too high."""
    queues: Ends


class QueueEnds:
    """The file ``queue_ends.json`` of a store that is written to. The owner of the store has it.

    It keeps texts rather than tables: there may be light queues by the hundred thousand.
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
        """Return what is listed: nothing if there is no list, or none that can be read."""
        try:
            self._on_disk = read_file(self._disk, self._path) or _NOTHING
            return _decoded(self._on_disk)
        except (DiskFailed, ValueError, RecursionError) as error:
            log.warning(
                "%s can't be read (%s): a queue that is missing, or that lacks its last files, is "
                "not noticed at this start; the file is made anew",
                self._path,
                error,
            )
        self._on_disk = b""
        return {}

    def write(self, ends: Ends) -> None:
        """Have this list, and return when it is on the disk; what is noted is void.

        Raises:
            DiskFailed: the old list is still there.

        """
        with self._lock:
            self._noted = None
            self._replace(_encoded(ends))

    def note(self, ends: Ends) -> None:
        """Keep a list for :meth:`write_noted`, which is called once all that it says is synced."""
        with self._lock:
            self._noted = _encoded(ends)

    def write_noted(self) -> None:
        """Have the list that was noted last, without what was forgotten since. Runs on a worker.

        Raises:
            DiskFailed: the old list is still there.

        """
        with self._lock:
            if self._noted is not None:
                self._replace(self._noted)
                self._noted = None

    def forget(self, queues: Collection[tuple[str, int]]) -> None:
        """Take queues off the list, and return when that is on the disk; call it to delete them.

        If there is no space for another list there is none from then on: what is deleted makes
        space, and must not be kept from it.

        Raises:
            DiskFailed: they may still be listed, and must not be deleted.

        """
        if not queues:
            return
        with self._lock:  # a list that a worker is just writing is on the disk by then
            if self._noted is not None:
                self._noted = _without(queues, self._noted)
            try:
                self._replace(_without(queues, self._on_disk))
            except DiskFailed as error:
                log.warning("%s is removed until it can be written again: %s", self._path, error)
                self._disk.remove(self._path)
                self._disk.sync_directory(parent_of(self._path))
                self._on_disk = _NOTHING

    def _replace(self, text: bytes) -> None:
        if text != self._on_disk:
            replace_file(self._disk, self._path, text)
            self._on_disk = text


def _encoded(ends: Ends) -> bytes:
    # Sorted: the same ends make the same text, and need not be written. A directory may have a name
    # that is no text; no record of the log has such a topic.
    topics = sorted(filter(_is_text, ends))
    queues = {topic: dict(sorted(ends[topic].items())) for topic in topics}
    return msgspec.json.encode(_List(_crc(queues), queues))


def _decoded(text: bytes) -> Ends:
    listed = msgspec.json.decode(text, type=_List)
    if listed.crc != _crc(listed.queues):
        raise ValueError("its checksum is wrong")
    return listed.queues


def _crc(queues: Ends) -> int:
    return crc32(msgspec.json.encode(queues))


def _without(queues: Collection[tuple[str, int]], text: bytes) -> bytes:
    """Return a list without some queues; the very same if it has none of them."""
    ends = _decoded(text) if text else {}
    left = {topic: dict(ids) for topic, ids in ends.items()}
    for topic, queue_id in queues:
        left.get(topic, {}).pop(queue_id, None)
    return text if left == ends else _encoded({topic: ids for topic, ids in left.items() if ids})


def _is_text(topic: str) -> bool:
    return topic.isascii() or topic.encode(errors="replace").decode() == topic


_NOTHING: Final = _encoded({})
"""What an absent file stands for."""
