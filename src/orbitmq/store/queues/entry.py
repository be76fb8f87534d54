"""The layout of consume queue entries."""

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

__all__ = ["ENTRY", "ENTRY_SIZE", "PREFILL", "PREFILL_SIZE", "QueueEntry", "good_entries", "unpack"]

ENTRY: Final = struct.Struct(
    ">q"  # commit log offset of the record
    "i"  # size of the record in bytes
    "q"  # hash of its tags, the delivery time of a delayed record, or an address in an extension
)
ENTRY_SIZE: Final = 20
assert ENTRY.size == ENTRY_SIZE

# A queue whose first record has an offset above 0 is filled with these from the beginning of the
# file up to that record, as in Java's ConsumeQueue.fillPreBlank. No record has that size.
PREFILL_SIZE: Final = 0x7FFF_FFFF
PREFILL: Final = ENTRY.pack(0, PREFILL_SIZE, 0)


class QueueEntry(NamedTuple):
    """The place of a message in the commit log, and the hash of its tags."""

    commit_log_offset: int
    size: int
    tags_code: int


def unpack(data: bytes) -> Iterator[QueueEntry]:
    """Yield the entries in ``data``.

    >>> list(unpack(bytes(20)))
    [QueueEntry(commit_log_offset=0, size=0, tags_code=0)]
    """
    return map(QueueEntry._make, ENTRY.iter_unpack(data))


def good_entries(data: bytes) -> int:
    """Return how many entries come before the first invalid one: unwritten or negative.

    >>> good_entries(ENTRY.pack(640, 100, 0) + bytes(20))
    1
    """
    # A start checks all entries of three files per queue, so many are checked at once: sign bits by
    # isascii on every twentieth byte, sizes of 0 by or-ing their four bytes.
    if data[0::ENTRY_SIZE].isascii() and data[8::ENTRY_SIZE].isascii():
        count = len(data) // ENTRY_SIZE
        sizes = 0
        for at in range(8, 12):
            sizes |= int.from_bytes(data[at::ENTRY_SIZE])
        zero_size = sizes.to_bytes(count).find(0)
        return count if zero_size < 0 else zero_size
    for number, (commit_log_offset, size, _) in enumerate(ENTRY.iter_unpack(data)):
        if commit_log_offset < 0 or size <= 0:
            return number
    return len(data) // ENTRY_SIZE
