"""The tags codes that consume queues have for records: a hash of tags, or a delivery time."""

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from orbitmq.spark.store_source.heads import Bools, Places
from orbitmq.spark.store_source.record_starts import entries_between
from orbitmq.store.reader.reader import QueueName, StoreReader

__all__ = ["TagCodes", "Topics", "queues_of"]


class Topics(NamedTuple):
    """The topic of each of some records, as an index of names."""

    codes: Places
    names: Sequence[str]


def queues_of(topics: Topics, queue_ids: Places) -> tuple[list[tuple[str, int]], Places]:
    """Return the queues of some records, and for each record which one it is in."""
    found, of_row = np.unique(topics.codes << 32 | queue_ids, return_inverse=True)
    keys = [(topics.names[queue >> 32], queue & 0xFFFF_FFFF) for queue in found.tolist()]
    return keys, of_row


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
            named, found_codes = self._entries(*queue)
            if not len(named):
                continue
            rows = np.flatnonzero(of_row == number)
            at = np.minimum(np.searchsorted(named, places[rows]), len(named) - 1)
            found = named[at] == places[rows]
            codes[rows[found]] = found_codes[at[found]]
            missing[rows[found]] = False
        return pa.array(codes, mask=missing)

    def _load(self, topic: str, queue_id: int) -> tuple[Places, Places]:
        name = QueueName(topic, queue_id)
        return entries_between(self._reader, name, self._start, self._end)
