"""Compares the checksums of thousands of records, as ``store.log.record_rows`` does for one."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from orbitmq.checksum import crc32
from orbitmq.message import properties
from orbitmq.message.record import CRC_PROPERTY_SIZE, SIGN_CLEARED, seal_agrees
from orbitmq.spark.store_source.heads import Bools, Bytes, Heads, Places

__all__ = ["are_whole"]

_SECTOR: Final = 512  # the least that a disk writes at once
_SEAL_NAME: Final = f"{properties.CRC32}{properties.NAME_END}".encode()
_LONG: Final = 8


def are_whole(data: Bytes, heads: Heads, place: int = 0) -> bool:
    """Return whether all records were written to their ends, as far as checksums tell.

    The lengths in the records must add up. ``place`` is where the data begin in their file.
    """
    view = data.data
    return (
        _bodies_agree(view, heads)
        and not _torn(data, heads.topic_starts, heads.topic_ends, place)
        and not _torn(data, heads.text_starts, heads.ends, place)
        and all(
            seal_agrees(view, int(heads.starts[row]), int(heads.text_starts[row]), end)
            for row, end in _sealed(data, heads)
        )
    )


def _bodies_agree(view: memoryview, heads: Heads) -> bool:
    """Compare the CRC of each body; an empty one is whole whatever it says, as in Java."""
    bodies = map(slice, heads.body_starts.tolist(), heads.body_ends.tolist())
    found = np.fromiter(map(crc32, map(view.__getitem__, bodies)), np.int64, len(heads))
    agree = (found & SIGN_CLEARED) == heads.number("body_crc")
    return bool((agree | (heads.body_starts == heads.body_ends)).all())


def _torn(data: Bytes, starts: Places, ends: Places, place: int) -> bool:
    """Return whether a power loss has left zeros in a text: at its end, or at that of a sector."""
    filled = starts < ends
    if not data[ends[filled] - 1].all():
        return True
    sectors = (starts + place | (_SECTOR - 1)) + 1 - place
    while (inside := sectors < ends).any():
        if not data[sectors[inside] - 1].all():
            return True
        sectors, ends = sectors[inside] + _SECTOR, ends[inside]
    return False


def _sealed(data: Bytes, heads: Heads) -> list[tuple[int, int]]:
    """Return the number and the end of each record that may end in a seal."""
    at = heads.ends - CRC_PROPERTY_SIZE
    every: NDArray[np.int64] = np.ndarray(
        (len(data) - _LONG + 1,), np.int64, data.data, strides=(1,)
    )
    name = np.frombuffer(_SEAL_NAME[:_LONG], np.int64)[0]
    has: Bools = (at >= heads.text_starts) & (every[np.maximum(at, 0)] == name)
    rows = np.flatnonzero(has)
    return list(zip(rows.tolist(), heads.ends[rows].tolist(), strict=True))
