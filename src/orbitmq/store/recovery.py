"""Finding the end of the log after a stop or a crash.

The write position is stored nowhere: the end is where the records end. What a record that can't be
read means depends on whether it is known to have been on the disk::

    log   ──────────────────────────────┬───────────────────┬─────────────
           known to be on the disk      │ written later     │ unwritten
           ✗ is damage: reported,       │ ✗ is the end: all behind it
             stepped over, all behind   │   is zeroed, and never
             it is kept                 │   taken for records again

After an orderly stop all of the log is known to be on the disk, after a crash what the checkpoint
vouches for.

Java's rules (``CommitLog.recoverNormally`` and ``recoverAbnormally``), without five of their holes:
the record that begins exactly at the last dispatched end is dispatched too; the look-back is not
limited to ten files; missing index files are rebuilt even if the queues are whole; a damaged record
behind an orderly stop cuts nothing off; nor does one behind a crash that was on the disk before.
"""

import logging
from collections.abc import Generator, Iterator
from typing import Final

from orbitmq.message.record import SIZE_AND_MAGIC
from orbitmq.store.damage import Damage
from orbitmq.store.log_rows import (
    Block,
    Checked,
    fault_at,
    is_blank,
    magics,
    sound_row,
    sound_rows,
    view_of,
)
from orbitmq.store.progress import Progress
from orbitmq.store.segment_chain import Segment, SegmentChain

__all__ = ["ALL_VOUCHED", "RecoveryWalk", "first_store_ms", "zero_behind"]

log = logging.getLogger("orbitmq.store")

ALL_VOUCHED: Final = (1 << 63) - 1
"""The time of a checkpoint that vouches for everything: the store was stopped in order."""

_BLOCK_ROWS: Final = 4096
_ZEROS: Final = bytes(1024 * 1024)


class RecoveryWalk:
    """The records of a chain of segments from one of them on, block by block, checksums compared.

    Args:
        chain: the files.
        first: the index of the segment to begin with.
        vouched_ms: the store time up to which all records are known to be on the disk.
        checked: which checksums count; the seal only in a store that seals its records itself.
        progress: told how far the walk has come, in bytes of all.

    Attributes, right once the walk is over:
        end: where the log ends.
        last_store_ms: when its last record was stored.
        unvouched: where the records begin that may not be on the disk; None if all are.
        damages: the places that were stepped over.

    """

    def __init__(
        self,
        chain: SegmentChain,
        first: int,
        *,
        vouched_ms: int,
        checked: Checked = Checked.BODY,
        progress: Progress = lambda _done, _total: None,
    ) -> None:
        self._chain = chain
        self._first = first
        self._vouched_ms = vouched_ms
        self._checked = checked
        self._progress = progress
        self._begin = chain.segments[first].base if chain.segments else chain.next_base()
        self._total = chain.next_base() - self._begin
        self.end = self._begin
        self.last_store_ms = 0
        self.unvouched: int | None = None
        self.damages: list[Damage] = []

    def __iter__(self) -> Iterator[Block]:
        for segment in self._chain.segments[self._first :]:
            goes_on = yield from self._blocks(segment)
            if not goes_on:
                break
            segment.drop()  # a log may have more files than a process may have maps open
        self._progress(self._total, self._total)

    def _blocks(self, segment: Segment) -> Generator[Block, None, bool]:
        """Yield the records of one segment; return whether the log goes on in the next one."""
        buffer, position = segment.view, 0
        while True:
            rows, position = sound_rows(
                buffer, segment.base, position, segment.size, _BLOCK_ROWS, self._checked
            )
            if rows:
                self.end = segment.base + position
                self.last_store_ms = view_of(buffer, rows[-1]).store_timestamp_ms
                if self.unvouched is None and self.last_store_ms > self._vouched_ms:
                    self.unvouched = segment.base + rows[0][0]
                yield Block(buffer, rows)
                self._progress(self.end - self._begin, self._total)
            if len(rows) == _BLOCK_ROWS:
                continue
            if is_blank(buffer, position):
                self.end = segment.end
                return True
            resumed = self._resumed(segment, position)
            if resumed is None:
                return self._goes_on_behind(segment, position)
            position = resumed

    def _resumed(self, segment: Segment, position: int) -> int | None:
        """Return where the records go on behind a place that can't be read; None if nowhere."""
        if self.last_store_ms > self._vouched_ms:
            if not _is_unwritten(segment, position):
                fault = fault_at(segment.view, position)
                log.warning("the log ends at byte %d of %r: %s", position, segment, fault)
            return None
        buffer, base = segment.view, segment.base
        for start in magics(buffer, position + 1, segment.size):
            row = sound_row(buffer, base, start, self._checked)
            if row and self._belongs(view_of(buffer, row).store_timestamp_ms):
                self._note(segment, position, start)
                return start
        return None

    def _goes_on_behind(self, segment: Segment, position: int) -> bool:
        """Return whether the next file goes on with records, although this one has no blank."""
        following = self._chain.segment_at(segment.end)
        stored_ms = None if following is None else first_store_ms(following)
        if stored_ms is None or not self._belongs(stored_ms):
            return False
        self._note(segment, position, segment.size)
        self.end = segment.end
        return True

    def _belongs(self, stored_ms: int) -> bool:
        """Return whether a record behind a fault is part of the log, by when it was stored.

        Older ones than before the fault are what Java leaves behind the end when it cuts a log.
        """
        return self.last_store_ms <= stored_ms <= self._vouched_ms

    def _note(self, segment: Segment, position: int, end: int) -> None:
        reason = fault_at(segment.view, position)
        damage = Damage(segment.base + position, reason, end - position)
        log.error("%s; everything behind it is kept", damage)
        self.damages.append(damage)


def first_store_ms(segment: Segment) -> int | None:
    """Return when the first record of a file was stored; None if it begins with no whole one."""
    row = sound_row(segment.view, segment.base, 0, Checked.BODY)
    return None if row is None else view_of(segment.view, row).store_timestamp_ms


def _is_unwritten(segment: Segment, position: int) -> bool:
    return not any(segment.view[position : position + SIZE_AND_MAGIC.size])


def zero_behind(segment: Segment, offset: int) -> int:
    """Write zeros over whatever lies behind an offset of the log in its file; return how much.

    Bytes behind the end are legal, but a record among them could come to lie exactly where a
    later, shorter log ends, and be taken for its next record.
    """
    view = segment.view
    zeroed = 0
    for begin in range(offset - segment.base, segment.size, len(_ZEROS)):
        end = min(begin + len(_ZEROS), segment.size)
        # A copy: comparing a view takes it byte by byte, and a gigabyte may have to be looked at.
        if bytes(view[begin:end]) != _ZEROS[: end - begin]:
            segment.file.write([_ZEROS[: end - begin]], begin)
            zeroed += end - begin
    return zeroed
