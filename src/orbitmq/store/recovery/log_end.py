"""Finding the end of the log after a stop or a crash.

The write position is stored nowhere: the end is where the records end. What a record that can't be
read means depends on whether it is known to have been on the disk::

    log   ──────────────────────────────┬───────────────────┬─────────────
           known to be on the disk      │ written later     │ unwritten
           ✗ is damage: reported,       │ ✗ is the end: all behind it
             stepped over, all behind   │   is zeroed, and never
             it is kept                 │   taken for records again

After an orderly stop all of the log is known to be on the disk, after a crash what the checkpoint
vouches for: all before an offset, if it was one of us who wrote it, else all before a time. Damage
may be as long as it likes: the log goes on where any later record is sound, be it files away; or at
that offset, with what was written there since.

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
from orbitmq.store.log.record_rows import (
    Block,
    Checked,
    fault_at,
    is_blank,
    magics,
    sound_row,
    sound_rows,
    view_of,
)
from orbitmq.store.log.segments import Segment, Segments
from orbitmq.store.progress import Progress

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
        vouched_end: the offset up to which all of the log is, and is ours; 0 if the time alone
            tells.
        checked: which checksums count; the seal only in a store that seals its records itself.
        files: how many segments are read; None for all of them.
        reached: an offset that the log is known to have come to, by the entries of its queues.
        progress: told how far the walk has come, in bytes of all.

    Attributes, right once the walk is over:
        end: where the log ends.
        last_store_ms: when its last record was stored.
        before_last_ms: when the one before it was; 0 without.
        unvouched: where the records begin that may not be on the disk; None if all are.
        damages: the places that were stepped over.

    """

    def __init__(
        self,
        chain: Segments,
        first: int,
        *,
        vouched_ms: int,
        vouched_end: int = 0,
        checked: Checked = Checked.BODY,
        files: int | None = None,
        reached: int = 0,
        progress: Progress = lambda _done, _total: None,
    ) -> None:
        self._chain = chain
        self._segments = chain.files[first:][:files]
        self._vouched_ms = vouched_ms
        self._ours_end = vouched_end
        self._vouched_end = 0 if vouched_ms == ALL_VOUCHED else vouched_end
        self._checked = checked
        self._reached = reached
        self._progress = progress
        self._found_ahead = 0  # the offset of a record that the log goes on to behind damage
        self._begin = chain.files[first].base if chain.files else chain.next_base()
        self._total = chain.next_base() - self._begin
        self.end = self._begin
        self.last_store_ms = 0
        self.before_last_ms = 0
        self.unvouched: int | None = None
        self.damages: list[Damage] = []

    def __iter__(self) -> Iterator[Block]:
        for segment in self._segments:
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
                for row in rows[-2:]:
                    self.before_last_ms = self.last_store_ms
                    self.last_store_ms = view_of(buffer, row).store_timestamp_ms
                if self.unvouched is None and not self._is_vouched(self.end):
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
                return False
            position = resumed
            if position == segment.size:
                self.end = segment.end
                return True

    def _resumed(self, segment: Segment, position: int) -> int | None:
        """Return where a file goes on behind a place that can't be read; None if the log ends.

        That is at a record, at the blank, or at the end of the file if neither is left.
        """
        offset = segment.base + position
        is_vouched = self._is_vouched(offset + 1)
        resumed = self._found(segment, position + 1) if is_vouched else None
        if resumed is None and is_vouched:
            if offset < self._vouched_end < segment.end:
                self.step_over(self._vouched_end)
                return self._tail_of(segment)
            if self._goes_on_behind(segment, position):
                resumed = _blank_behind(segment, position)
        if resumed is not None:
            self._note(offset, segment.base + resumed)
        elif not _is_unwritten(segment, position):
            fault = fault_at(segment.view, position)
            log.warning("no record follows from byte %d of %r on: %s", position, segment, fault)
        return resumed

    def _is_vouched(self, end: int) -> bool:
        """Return whether the log is known to be on the disk up to an offset.

        By the time alone it is if the last sound record before is.
        """
        if self._vouched_end:
            return end <= self._vouched_end
        return self.last_store_ms <= self._vouched_ms

    def _tail_of(self, segment: Segment) -> int | None:
        """Return where the log goes on that is vouched for up to damage; None if it ends there.

        What was written behind it since lies exactly there, and is no older; one time before it
        may be damaged.
        """
        position = self._vouched_end - segment.base
        row = sound_row(segment.view, segment.base, position, self._checked)
        before_ms = min(self.last_store_ms, self.before_last_ms)
        is_stale = row and view_of(segment.view, row).store_timestamp_ms < before_ms
        return None if is_stale else position

    def _found(self, segment: Segment, begin: int) -> int | None:
        """Return where in a file, from a position on, the first record lies that belongs."""
        buffer, base = segment.view, segment.base
        stop = min(segment.size, self._vouched_end - base) if self._vouched_end else segment.size
        for start in magics(buffer, begin, stop):
            if start >= stop:
                break  # it may be of a former life: nothing says that the log came so far
            row = sound_row(buffer, base, start, self._checked)
            if row and self._belongs(base + start, view_of(buffer, row).store_timestamp_ms):
                return start
        return None

    def _goes_on_behind(self, segment: Segment, position: int) -> bool:
        """Return whether a later file has records of the log, behind a place that can't be read.

        A blank alone does not tell: Java leaves one behind the end when it cuts a log.
        """
        if max(self._found_ahead, self._vouched_end) >= segment.end:
            return True  # all files up to there are vouched for, or were looked through already
        later = [other for other in self._chain.files if other.base >= segment.end]
        if self._is_made_ahead(later, segment, position):
            return False
        for other in later:
            found = self._found(other, 0)
            other.drop()  # one map at a time, besides that of the segment itself
            if found is not None:
                self._found_ahead = other.base + found
                return True
        return False

    def _is_made_ahead(self, later: list[Segment], segment: Segment, position: int) -> bool:
        """Return whether a log ends in order after a crash, but for a file that was made ahead.

        It is not looked through: it may have a gigabyte of zeros. An orderly stop leaves none.
        """
        return (
            self._vouched_ms != ALL_VOUCHED
            and len(later) == 1
            and segment.base + position >= self._reached
            and _is_unwritten(segment, position)
            and _is_unwritten(later[0], 0)
        )

    def step_over(self, end: int) -> None:
        """Have the log end at an offset behind the last record; what lies between is damage."""
        self._note(self.end, end)
        self.end = end

    def _belongs(self, offset: int, stored_ms: int) -> bool:
        """Return whether a record behind a fault is part of the log.

        What is ours is. Else the time tells: older ones than before the fault are what Java leaves
        behind the end when it cuts a log.
        """
        if offset < self._ours_end:
            return True
        return self.last_store_ms <= stored_ms <= self._vouched_ms

    def _note(self, begin: int, end: int) -> None:
        segment = self._chain.segment_at(begin)
        assert segment is not None
        reason = fault_at(segment.view, begin - segment.base)
        damage = Damage(begin, reason, end - begin)
        log.error("%s; everything behind it is kept", damage)
        self.damages.append(damage)


def first_store_ms(segment: Segment) -> int | None:
    """Return when the first record of a file was stored; None if it begins with no whole one."""
    row = sound_row(segment.view, segment.base, 0, Checked.BODY)
    return None if row is None else view_of(segment.view, row).store_timestamp_ms


def _is_unwritten(segment: Segment, position: int) -> bool:
    return not any(segment.view[position : position + SIZE_AND_MAGIC.size])


def _blank_behind(segment: Segment, position: int) -> int:
    """Return where the blank of a file begins, behind a position; its end if it has none."""
    buffer, size = segment.view, segment.size
    starts = magics(buffer, position + 1, size)
    return next((start for start in starts if is_blank(buffer, start)), size)


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
