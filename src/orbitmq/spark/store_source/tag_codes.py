"""The tags codes that consume queues have for records: a hash of tags, or a delivery time."""

from collections.abc import Sequence
from functools import cache
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from orbitmq.spark.store_source.heads import Bools, Places
from orbitmq.store.reader.reader import StoreReader

__all__ = ["TagCodes", "Topics", "queues_of"]

_PREFILL_SIZE: Final = 0x7FFF_FFFF  # of an entry before the first one of a queue


class Topics(NamedTuple):
    """The topic of each of some records, as an index of names."""

    codes: Places
    names: Sequence[str]


def queues_of(topics: Topics, queue_ids: Places) -> tuple[list[tuple[str, int]], Places]:
    """Return the queues of some records, and for each record which one it is in."""
    found, of_row = np.unique(topics.codes << 32 | queue_ids, return_inverse=True)
    keys = [(topics.names[queue >> 32], queue & 0xFFFF_FFFF) for queue in found.tolist()]
    return keys, of_row


class _Entries(NamedTuple):
    """Entries of one queue: the log offsets of records, which ascend, and their codes."""

    places: Places
    codes: Places


class TagCodes:
    """Looks codes up in the queues of a store, for records in a range of the log."""

    def __init__(self, reader: StoreReader, start: int, end: int) -> None:
        self._reader = reader
        self._start = start
        self._end = end
        self._entries = cache(self._load)

    def of(self, places: Places, topics: Topics, queue_ids: Places) -> pa.Array:
        """Return the code of each record, null where no queue has an entry for it: ``int64``."""
        codes = np.zeros(len(places), np.int64)
        missing: Bools = np.ones(len(places), bool)
        queues, of_row = queues_of(topics, queue_ids)
        for number, queue in enumerate(queues):
            entries = self._entries(*queue)
            if not len(entries.places):
                continue
            rows = np.flatnonzero(of_row == number)
            at = np.searchsorted(entries.places, places[rows])
            at = np.minimum(at, len(entries.places) - 1)
            found = entries.places[at] == places[rows]
            codes[rows[found]] = entries.codes[at[found]]
            missing[rows[found]] = False
        return pa.array(codes, mask=missing)

    def _load(self, topic: str, queue_id: int) -> _Entries:
        queue = self._reader.queue(topic, queue_id)
        raw = queue.raw(queue.first_from(self._start), queue.first_from(self._end))
        entries: NDArray[np.void] = np.frombuffer(
            raw,
            np.dtype(
                {
                    "names": ["place", "size", "code"],
                    "formats": [">i8", ">i4", ">i8"],
                    "offsets": [0, 8, 12],  # as in batch queues, whose entries are longer
                    "itemsize": queue.entry_size,
                }
            ),
        )
        entries = entries[(entries["size"] > 0) & (entries["size"] < _PREFILL_SIZE)]
        return _Entries(entries["place"].astype(np.int64), entries["code"].astype(np.int64))
