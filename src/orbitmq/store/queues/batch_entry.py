"""The layout of batch queue entries: one entry per record, which may hold many messages."""

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

__all__ = [
    "BATCH_ENTRY",
    "BATCH_ENTRY_SIZE",
    "BatchEntry",
    "is_good",
    "unpack",
]

BATCH_ENTRY: Final = struct.Struct(
    ">q"  # commit log offset of the record
    "i"  # size of the record in bytes
    "q"  # hash of the record's tags; those of the messages in an inner batch are in its body
    "q"  # store timestamp of the record, ms
    "q"  # queue offset of the first message
    "h"  # number of messages
    "i"  # position in a compacted file: -1, for none
    "i"  # reserved: 0
)
BATCH_ENTRY_SIZE: Final = 46
assert BATCH_ENTRY.size == BATCH_ENTRY_SIZE

_FIELDS: Final = struct.Struct(">qiqqqh8x")
assert _FIELDS.size == BATCH_ENTRY_SIZE
_NOT_COMPACTED: Final = -1


class BatchEntry(NamedTuple):
    """The place of a record in the commit log, and the messages it holds."""

    commit_log_offset: int
    size: int
    tags_code: int
    store_timestamp_ms: int
    queue_offset: int
    messages: int

    @property
    def end(self) -> int:
        """The queue offset after its last message."""
        return self.queue_offset + self.messages

    def pack(self) -> bytes:
        """Return the bytes of the entry."""
        return BATCH_ENTRY.pack(*self, _NOT_COMPACTED, 0)


def unpack(data: bytes) -> Iterator[BatchEntry]:
    """Yield the entries in ``data``.

    >>> [entry.end for entry in unpack(BatchEntry(640, 100, 0, 0, 7, 3).pack())]
    [10]
    """
    return map(BatchEntry._make, _FIELDS.iter_unpack(data))


def is_good(entry: BatchEntry) -> bool:
    """Return whether an entry was written, as Java's ``BatchConsumeQueue.recover`` checks it.

    >>> is_good(next(unpack(bytes(46))))
    False
    """
    return (
        entry.commit_log_offset >= 0
        and entry.size > 0
        and entry.queue_offset >= 0
        and entry.messages > 0
    )
