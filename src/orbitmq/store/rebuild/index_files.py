"""Index files made from keys of the log, each by itself.

The index is one chain of keys through the log, cut into files of ``entries - 1`` keys. So once the
keys of the log files are counted, it is known which keys an index file has::

    keys of log files   [ 0 … 399 ][ 400 … 520 ][ 521 … 899 ]
    index files         [ 0 … 298 ][ 299 … 597 ][ 598 … 896 ][ 897 … 899     ]

All that a file takes from the one before it is the time and offset of the last key there.
"""

from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Final

import msgspec

from orbitmq.store.disk.disk import Disk
from orbitmq.store.disk.open_files import OpenFiles
from orbitmq.store.index.index_file import GrowingIndexFile, IndexKey, IndexShape
from orbitmq.store.rebuild.log_parts import LogFile
from orbitmq.store.settings import StoreSettings

__all__ = ["IndexPlan", "MadeIndexFile", "index_plan", "make_index_file"]

_OPEN: Final = 2


class IndexPlan(msgspec.Struct, frozen=True):
    """Which keys are in which index file."""

    shape: IndexShape
    files: int
    before: dict[int, int]
    """How many keys come before those of each log file, by its base."""
    keys: int

    @property
    def per_file(self) -> int:
        """Keys in a full file."""
        return self.shape.entries - 1

    def numbers(self, log_file: int, first: int, count: int) -> range:
        """Return the index files that need some keys of a log file.

        They are those that have one of them, and the one that follows the last of them.
        """
        begin = self.before[log_file] + first
        last = (begin + count) // self.per_file
        return range(begin // self.per_file, min(last, self.files - 1) + 1)


class MadeIndexFile(msgspec.Struct, frozen=True):
    """An index file that is on disk."""

    number: int
    path: str
    begin_ms: int
    """The store time of its first key, or of the last one before it; 0 without any."""
    end_ms: int
    end_offset: int
    next_number: int
    is_full: bool


def index_plan(log: Sequence[LogFile], settings: StoreSettings) -> IndexPlan:
    """Return the plan for log files in order.

    As in Java's ``IndexService``, a file begins with the first record after the last one was full,
    even if that record has no keys: so there is one file at least.
    """
    counts = [file.keys for file in log]
    before = dict(zip((file.base for file in log), accumulate(counts, initial=0), strict=False))
    shape = IndexShape(settings.index_slots, settings.index_entries)
    keys, per_file = sum(counts), shape.entries - 1
    last_keyed = max((file.last_keyed for file in log), default=-1)
    last_record = max((file.last_offset for file in log if file.records), default=-1)
    begun = keys % per_file > 0 or last_record > last_keyed
    return IndexPlan(shape, keys // per_file + begun, before, keys)


def make_index_file(
    disk: Disk,
    directory: str,
    plan: IndexPlan,
    number: int,
    ordered: Iterable[tuple[int, list[IndexKey]]],
    *,
    reach: int | None = None,
) -> MadeIndexFile:
    """Write the index file of a number, and return it when it is on disk.

    ``ordered`` has keys with the number of their first, in order: those of this file, and the one
    before them. ``reach`` is the log offset up to which all records are known to be indexed; None
    if the header has that of the last key, as Java's.
    """
    begin, end = number * plan.per_file, (number + 1) * plan.per_file
    files = OpenFiles(disk, limit=_OPEN)
    path = f"{directory}/{number:017d}"
    previous: GrowingIndexFile | None = None
    made: GrowingIndexFile | None = None
    try:
        for first, keys in ordered:
            own = keys[max(begin - first, 0) : end - first]
            if made is None:
                if 0 < begin - first <= len(keys):
                    previous = GrowingIndexFile(files, path, plan.shape)
                    _, previous.end_offset, previous.end_timestamp_ms = keys[begin - first - 1]
                made = GrowingIndexFile.create(files, path, plan.shape, previous=previous)
            made.add(own)
            made.write_many()
        if made is None:
            made = GrowingIndexFile.create(files, path, plan.shape, previous=None)
        if reach is not None:
            made.reach(reach)
        made.write()
        files.sync_all()
    finally:
        files.close()
    return MadeIndexFile(
        *(number, path, made.begin_timestamp_ms, made.end_timestamp_ms, made.end_offset),
        *(made.next_number, made.is_full),
    )
