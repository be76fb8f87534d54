"""Reads consume queue extensions: tags codes kept outside the queue, by address.

A Java broker with ``enableConsumeQueueExt`` writes them. The address of a unit is its position plus
the smallest 64-bit number, so no 32-bit hash can be an address. The size of a file is its length on
disk, so no setting of the store is needed.
"""

import logging
import struct
from typing import Final

from orbitmq.errors import StoreDamaged, StoreError
from orbitmq.store.disk.disk import Disk
from orbitmq.store.disk.open_files import OpenFiles
from orbitmq.store.disk.stream_files import StreamFile, stream_files
from orbitmq.store.layout import EXT_ADDRESS_LIMIT, path_join

__all__ = ["QueueExtensions", "is_address"]

log = logging.getLogger("orbitmq.store")

UNIT: Final = struct.Struct(
    ">h"  # size of the unit: these fields, and the bitmap
    "q"  # hash of the tags
    "q"  # store timestamp of the record, ms
    "h"  # length of the bitmap, which follows: filters that the record passes
)
assert UNIT.size == 20

_LEAST_ADDRESS: Final = -(1 << 63)
_OPEN_FILES_MAX: Final = 64
_BLOCK_BYTES: Final = 16 * 1024
"""The bytes read at once: a pull asks for hundreds of consecutive units."""


def is_address(tags_code: int) -> bool:
    """Return whether the tags code of a queue entry is the address of a unit.

    >>> is_address(2598919), is_address(-(2**63) + 40)
    (False, True)
    """
    return tags_code < EXT_ADDRESS_LIMIT


class QueueExtensions:
    """The extensions of all queues of a store: ``<directory>/<topic>/<queue id>/<20 digits>``.

    The files of a queue are listed at its first address, and again for an address outside all
    files, until the first failure: only Java writes them.
    """

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self._open = OpenFiles(disk, limit=_OPEN_FILES_MAX)
        self._directory = directory
        self._queues: dict[tuple[str, int], list[StreamFile]] = {}
        self._damaged: set[tuple[str, int]] = set()
        # The bytes read last: path, position, data.
        self._block: tuple[str, int, bytes] = ("", 0, b"")

    def __repr__(self) -> str:
        return f"<QueueExtensions {self._directory}, {len(self._queues)} queues in use>"

    def find(self, topic: str, queue_id: int, address: int) -> int | None:
        """Return the tags code at an address; None if there is none.

        The caller then lets the message pass, like Java's broker: clients filter by the tag itself.
        The first failure per queue is logged.
        """
        try:
            return self.tags_code_of(topic, queue_id, address)
        except StoreError as error:
            if (topic, queue_id) not in self._damaged:
                self._damaged.add((topic, queue_id))
                log.error(
                    "pulls from queue %d of %s can't be filtered by tag, so clients have to: %s",
                    queue_id,
                    topic,
                    error,
                )
            return None

    def tags_code_of(self, topic: str, queue_id: int, tags_code: int) -> int:
        """Return the tags code at an address; a code that is no address is returned as it is.

        Raise StoreDamaged if there is no unit at the address.
        """
        if not is_address(tags_code):
            return tags_code
        position = tags_code - _LEAST_ADDRESS
        file = self._file_of(topic, queue_id, position)
        data = b"" if file is None else self._read(file, position - file.base)
        size, found, _, bitmap_length = UNIT.unpack(data.ljust(UNIT.size, b"\x00"))
        if size != UNIT.size + bitmap_length or bitmap_length < 0:
            path = self._directory_of(topic, queue_id) if file is None else file.path
            raise StoreDamaged(
                f"{path} has no unit at {position} for tags code {tags_code} of queue {queue_id} "
                f"of {topic}: found size {size} and a bitmap of {bitmap_length} bytes",
                path=path,
                position=position,
            )
        code: int = found
        return code

    def forget(self, topic: str) -> None:
        """Close the files of a deleted topic."""
        for key in [key for key in self._queues if key[0] == topic]:
            for file in self._queues.pop(key):
                self._open.discard(file.path)
        self._damaged = {key for key in self._damaged if key[0] != topic}
        self._block = ("", 0, b"")

    def close(self) -> None:
        """Close all files; they are reopened on use."""
        self._open.close()

    def _file_of(self, topic: str, queue_id: int, position: int) -> StreamFile | None:
        key = (topic, queue_id)
        file = _holder(self._queues.get(key, ()), position)
        if file is None and key not in self._damaged:
            found = stream_files(self._disk, self._directory_of(topic, queue_id))
            self._queues[key] = found
            file = _holder(found, position)
        return file

    def _read(self, file: StreamFile, at: int) -> bytes:
        """Return the bytes of a unit; fewer at the end of the file."""
        path, start, data = self._block
        if path != file.path or not start <= at <= start + len(data) - UNIT.size:
            start = at
            data = self._open.read(file.path, min(_BLOCK_BYTES, file.size - at), at)
            self._block = (file.path, start, data)
        return data[at - start : at - start + UNIT.size]

    def _directory_of(self, topic: str, queue_id: int) -> str:
        return path_join(self._directory, topic, str(queue_id))


def _holder(files: "list[StreamFile] | tuple[()]", position: int) -> StreamFile | None:
    return next((file for file in reversed(files) if file.base <= position < file.end), None)
