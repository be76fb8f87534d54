"""What of a store is on the disk, and what its checkpoint may therefore claim.

Laws:

- A claim is made only of what was synced before it is made.
- The index is claimed only as far as the log is flushed: one that knows records which the log may
  lose would keep their places for ever. That is asked by offset, since many records have the same
  time while the clock stands still.
- What a start does not find of the index is claimed no more before a file of it is made again: a
  loss of power meanwhile would leave parts of files, and the claim would speak for them.
- After a crash Java removes the index files that are younger than the time of the index, and reads
  the log again only from the other two times on: a later one would cost it the keys in between.
  What is true of the queues goes beside it, for ourselves.
"""

from typing import NamedTuple

from orbitmq.store.checkpoint.checkpoint import CheckpointValues, OwnValues
from orbitmq.store.index.key_index import IndexMark

__all__ = ["Claims", "Synced", "without_lost_index"]


class Synced(NamedTuple):
    """What a sync of queues and index makes true, noted before it begins."""

    queues_ms: int
    """The store time of the last record dispatched."""
    filled_ms: int = 0
    """The store time of the last record in a full index file, and"""
    filled_end: int = -1
    """its offset in the log."""
    index_mark: IndexMark | None = None


class Claims:
    """Keeps what was synced; the owner of the store tells.

    Args:
        known: what the checkpoint says at the start.
        last_store_ms: the store time of the last record; log and queues are on the disk up to it.
        mark: what is on the disk of the index file that grows.

    >>> claims = Claims(CheckpointValues(), last_store_ms=0, mark=IndexMark())
    >>> claims.log_ms = 5000
    >>> claims.add(Synced(queues_ms=4000))
    >>> claims.values(CheckpointValues(), flushed=640, with_index=False)[:3]
    (5000, 4000, 0)

    """

    def __init__(self, known: CheckpointValues, last_store_ms: int, mark: IndexMark) -> None:
        self.log_ms = last_store_ms
        """The store time of the last record of the log that is on the disk."""
        self._queues_ms = last_store_ms
        self._filled = (known.index_ms, -1)
        self._mark = mark

    def add(self, synced: Synced) -> None:
        """Note that a sync of queues and index has succeeded."""
        self._queues_ms = max(self._queues_ms, synced.queues_ms)
        if synced.filled_end > self._filled[1]:
            self._filled = synced.filled_ms, synced.filled_end
        if synced.index_mark is not None:
            self._mark = synced.index_mark

    def drop_index(self) -> None:
        """Claim nothing of the index any more: its files are gone."""
        self._filled = (0, -1)
        self._mark = IndexMark()

    def values(
        self, before: CheckpointValues, *, flushed: int, with_index: bool
    ) -> CheckpointValues:
        """Return what the next checkpoint says.

        Args:
            before: what the last one says.
            flushed: how much of the log is on the disk.
            with_index: whether the store has an index.

        """
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
    """Return what a checkpoint may still say, given the index files that a start has found.

    Args:
        values: what it says.
        filled_ms: the store time of the last record in a full file that is there.
        last_name: the name of the last file that is there.

    >>> without_lost_index(CheckpointValues(9000, 8000, 7000), filled_ms=0, last_name=0)[:3]
    (9000, 0, 0)

    """
    own = values.own
    if own is not None and own.index_mark.name != last_name:
        values = values._replace(own=own._replace(index_mark=IndexMark()))
    if filled_ms < values.index_ms:  # and Java must read the log from there on, to find the keys
        queues_ms = min(values.queues_ms, filled_ms)
        values = values._replace(queues_ms=queues_ms, index_ms=filled_ms)
    return values
