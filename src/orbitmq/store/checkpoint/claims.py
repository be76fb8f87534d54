"""What a checkpoint may claim to be on disk.

Invariants:

- Only what was synced before is claimed.
- The index is claimed only as far as the log is flushed: index entries of records that the log may
  lose would never be corrected. Offsets decide, since many records may have the same timestamp.
- What a start does not find of the index is not claimed until it is rebuilt: after a power loss
  meanwhile the claim would cover incomplete files.
- After a crash Java removes the index files that are newer than the index time, and reads the log
  again from the other two times on. So these are kept as low as the index time, or Java would lose
  the keys in between. The real value for the queues is in our own part of the checkpoint.
"""

from typing import NamedTuple

from orbitmq.store.checkpoint.checkpoint import CheckpointValues, OwnValues
from orbitmq.store.index.key_index import IndexMark

__all__ = ["Claims", "Synced", "without_lost_index"]


class Synced(NamedTuple):
    """What a sync of queues and index covers, noted before it begins."""

    queues_ms: int
    """The store timestamp of the last dispatched record."""
    filled_ms: int = 0
    """The store timestamp of the last record in a full index file."""
    filled_end: int = -1
    """The log offset of that record."""
    index_mark: IndexMark | None = None


class Claims:
    """Collects what was synced, and turns it into checkpoint values.

    ``known`` is the checkpoint at the start, ``last_store_ms`` the timestamp of the last record
    (log and queues are on disk up to it), and ``mark`` how much of the growing index file is on
    disk.

    >>> claims = Claims(CheckpointValues(), last_store_ms=0, mark=IndexMark())
    >>> claims.log_ms = 5000
    >>> claims.add(Synced(queues_ms=4000))
    >>> claims.values(CheckpointValues(), flushed=640, with_index=False)[:3]
    (5000, 4000, 0)
    """

    def __init__(self, known: CheckpointValues, last_store_ms: int, mark: IndexMark) -> None:
        self.log_ms = last_store_ms
        """The store timestamp of the last record that is on disk."""
        self._queues_ms = last_store_ms
        self._filled = (known.index_ms, -1)
        self._mark = mark

    def add(self, synced: Synced) -> None:
        """Add what a successful sync of queues and index covers."""
        self._queues_ms = max(self._queues_ms, synced.queues_ms)
        if synced.filled_end > self._filled[1]:
            self._filled = synced.filled_ms, synced.filled_end
        if synced.index_mark is not None:
            self._mark = synced.index_mark

    def drop_index(self) -> None:
        """Claim nothing of the index any more: its files were removed."""
        self._filled = (0, -1)
        self._mark = IndexMark()

    def values(
        self, before: CheckpointValues, *, flushed: int, with_index: bool
    ) -> CheckpointValues:
        """Return the next checkpoint, given the last one and how much of the log is flushed."""
        index_ms, filled_end = self._filled
        if filled_end >= flushed:
            index_ms = before.index_ms
        mark = self._mark if with_index else IndexMark()
        if mark.offset > flushed:
            mark = IndexMark() if before.own is None else before.own.index_mark
        return before._replace(
            log_ms=self.log_ms,
            queues_ms=min(self._queues_ms, index_ms) if with_index else self._queues_ms,
            index_ms=index_ms,
            own=OwnValues(self._queues_ms, mark, flushed),
        )


def without_lost_index(
    values: CheckpointValues, *, filled_ms: int, last_name: int
) -> CheckpointValues:
    """Return what a checkpoint may still claim, given the index files found at a start.

    ``filled_ms`` is the store timestamp of the last record in a full file, ``last_name`` the name
    of the last file.

    >>> without_lost_index(CheckpointValues(9000, 8000, 7000), filled_ms=0, last_name=0)[:3]
    (9000, 0, 0)
    """
    own = values.own
    if own is not None and own.index_mark.name != last_name:
        values = values._replace(own=own._replace(index_mark=IndexMark()))
    if filled_ms < values.index_ms:  # Java must read the log from there on to restore the keys
        queues_ms = min(values.queues_ms, filled_ms)
        values = values._replace(queues_ms=queues_ms, index_ms=filled_ms)
    return values
