"""Where records begin: what queues name, at once, and what lies between by following sizes.

::

    log      │record│record│record│record│record│record│
    named     ▲      ▲             ▲             ▲          by entries of the largest queues
    followed                ▲             ▲                  a record's end is where the next begins

Nothing here is trusted: what is found is checked with the rest of each record.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from orbitmq.message.record import LEAST_SIZE, MAGIC_BLANK, SIZE_AND_MAGIC, dtype
from orbitmq.spark.store_source.heads import Bytes, Places
from orbitmq.store.reader.reader import QueueName, StoreReader

__all__ = ["Starts", "entries_between", "find_starts", "named_places"]

_PREFILL_SIZE: Final = 0x7FFF_FFFF  # of an entry before the first one of a queue
_NONE: Final = np.zeros(0, np.int64)


class Starts(NamedTuple):
    """Where records begin, and where the next one would."""

    places: Places
    after: int


def entries_between(
    reader: StoreReader, name: QueueName, start: int, end: int
) -> tuple[Places, Places]:
    """Return what a queue has about a range of the log: places, which ascend, and tags codes."""
    queue = reader.queue(*name)
    layout = np.dtype(
        {
            "names": ["place", "size", "code"],
            "formats": [">i8", ">i4", ">i8"],
            "offsets": [0, 8, 12],  # as in batch queues, whose entries are longer
            "itemsize": queue.entry_size,
        }
    )
    raw = queue.raw(queue.first_from(start), queue.first_from(end))
    entries: NDArray[np.void] = np.frombuffer(raw, layout)
    entries = entries[(entries["size"] > 0) & (entries["size"] < _PREFILL_SIZE)]
    return entries["place"].astype(np.int64), entries["code"].astype(np.int64)


def named_places(reader: StoreReader, queues: Sequence[QueueName], start: int, end: int) -> Places:
    """Return the places in a range of the log that some queues name, ascending, none twice."""
    found = [entries_between(reader, name, start, end)[0] for name in queues]
    places = np.sort(np.concatenate([_NONE, *found]), kind="stable")
    places = places[(places >= start) & (places < end)]
    fresh = np.ones(len(places), bool)
    fresh[1:] = places[1:] != places[:-1]
    return places[fresh]


def find_starts(data: Bytes, named: Places, end: int, most: int) -> Starts | None:
    """Return where records begin before ``end``, from the first byte on; ``most`` at most.

    ``named`` are some of the places before ``end``. If a blank fills the rest of the data, the next
    record begins behind it. None if the sizes lead elsewhere than to the places named.
    """
    known = named[:most]
    if not len(known):
        return follow(data, 0, end, most)
    if int(known[-1]) + LEAST_SIZE > len(data):
        return None
    sizes = sizes_at(data, known)
    ends = known + sizes
    after = int(ends[-1])
    if after > len(data) or (sizes < LEAST_SIZE).any():
        return None
    expected = np.concatenate([[0], ends[:-1]])
    more: list[Places] = []
    for row in np.flatnonzero(expected != known).tolist():
        between = follow(data, int(expected[row]), int(known[row]), most)
        if between is None or (between.after != known[row] and len(between.places) < most):
            return None
        more.append(between.places)
        if row + sum(map(len, more)) >= most:
            known, after = known[:row], between.after
            break
    if not more:
        return Starts(known, after)
    places = np.sort(np.concatenate([known, *more]))
    return Starts(places[:most], int(places[most]) if len(places) > most else after)


def sizes_at(data: Bytes, places: Places) -> Places:
    """Return the sizes that records state."""
    kind = np.dtype(dtype("size"))
    every: NDArray[np.int64] = np.ndarray(
        (len(data) - kind.itemsize + 1,), kind, data.data, strides=(1,)
    )
    return every[places].astype(np.int64)


def follow(data: Bytes, start: int, end: int, most: int) -> Starts | None:
    """Follow sizes from one record to the next; None if one is odd."""
    starts: list[int] = []
    append, unpack = starts.append, SIZE_AND_MAGIC.unpack_from
    view, at, length = data.data, start, len(data)
    while at < end and len(starts) < most:
        if not 0 <= at <= length - SIZE_AND_MAGIC.size:
            return None
        size, magic = unpack(view, at)
        if magic == MAGIC_BLANK and at + size == length:
            at = length
            break
        if size < LEAST_SIZE or at + size > length:
            return None
        append(at)
        at += size
    return Starts(np.array(starts, np.int64), at)
