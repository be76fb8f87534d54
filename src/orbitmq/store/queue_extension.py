"""Extensions of consume queues, read-only: tags codes that entries hold the address of.

A Java broker with ``enableConsumeQueueExt`` writes them. The position of a unit is made an address
by adding the least number of 64 bits, so that no hash of 32 bits can be one.
"""

import struct
from typing import Final

from orbitmq.errors import StoreDamaged
from orbitmq.store.disk import Disk
from orbitmq.store.layout import EXT_ADDRESS_LIMIT
from orbitmq.store.open_files import OpenFiles
from orbitmq.store.queue_files import QueueFiles

__all__ = ["QueueExtensions", "is_address"]

UNIT: Final = struct.Struct(
    ">h"  # size of the unit: these fields, and the bitmap
    "q"  # hash of the tags
    "q"  # store timestamp of the record, ms
    "h"  # length of the bitmap, which follows: filters that the record passes
)
assert UNIT.size == 20

_LEAST_ADDRESS: Final = -(1 << 63)
_OPEN_FILES_MAX: Final = 64


def is_address(tags_code: int) -> bool:
    """Return whether the tags code of a queue entry is the address of a unit.

    >>> is_address(2598919), is_address(-(2**63) + 40)
    (False, True)
    """
    return tags_code < EXT_ADDRESS_LIMIT


class QueueExtensions:
    """The extensions of all queues of a store: ``<directory>/<topic>/<queue id>/<20 digits>``.

    Args:
        directory: the ``consumequeue_ext`` of the store.
        file_bytes: as the store was made with; Java's default is 48 MiB.

    """

    def __init__(self, disk: Disk, directory: str, *, file_bytes: int = 48 * 1024 * 1024) -> None:
        self._files = OpenFiles(disk, limit=_OPEN_FILES_MAX)
        self._directory = directory
        self._file_bytes = file_bytes
        self._queues: dict[tuple[str, int], QueueFiles] = {}

    def tags_code_of(self, topic: str, queue_id: int, tags_code: int) -> int:
        """Return the tags code that an address stands for; one that is none comes back as it is.

        Raises:
            StoreDamaged: there is no unit at the address.

        """
        if not is_address(tags_code):
            return tags_code
        files = self._files_of(topic, queue_id)
        position = tags_code - _LEAST_ADDRESS
        if position >= files.end:
            files.load()  # it may have grown since
        data = files.read(position, UNIT.size)
        size, found, _, bitmap_length = UNIT.unpack(data.ljust(UNIT.size, b"\x00"))
        if size != UNIT.size + bitmap_length or bitmap_length < 0:
            raise StoreDamaged(
                f"{files.path_of(position)} has no unit for the tags code {tags_code} of queue "
                f"{queue_id} of {topic}: a size of {size} and a bitmap of {bitmap_length} bytes",
                path=files.path_of(position),
                position=position,
            )
        code: int = found
        return code

    def _files_of(self, topic: str, queue_id: int) -> QueueFiles:
        files = self._queues.get((topic, queue_id))
        if files is None:
            path = f"{self._directory}/{topic}/{queue_id}"
            files = self._queues[topic, queue_id] = QueueFiles(self._files, path, self._file_bytes)
            files.load()
        return files
