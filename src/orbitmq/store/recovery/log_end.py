"""Finds the end of the log after a stop or a crash.

The write position is not stored anywhere: the log ends where its records end. An unreadable record
means different things, depending on whether it is known to have been on disk::

    log   ──────────────────────────────┬───────────────────┬─────────────
           known to be on disk          │ written later     │ unwritten
           ✗ is damage: reported and    │ ✗ is the end: everything after
             skipped; everything after  │   it is zeroed, so that it is
             it is kept                 │   never read as records again

After an orderly stop the whole log is known to be on disk. After a crash the checkpoint vouches for
a part: everything before an offset if orbitmq wrote the checkpoint, else everything before a time.
Damage may have any length: the log goes on at the next sound record, even if that is files away, or
at the vouched offset with the records written there since.

The rules are Java's (``CommitLog.recoverNormally`` and ``recoverAbnormally``) without five of their
gaps: the record that begins exactly at the last dispatched end is dispatched too; the look-back is
not limited to ten files; missing index files are rebuilt even if the queues are complete; a damaged
record after an orderly stop cuts nothing off; nor does one that was on disk before a crash.
"""

import logging
from collections.abc import Iterator
from typing import Final

from orbitmq.message.record import SIZE_AND_MAGIC
from orbitmq.store.damage import Damage
from orbitmq.store.log.log_walk import LogWalk
from orbitmq.store.log.record_rows import (
    Block,
    Checked,
    fault_at,
    is_blank,
    magics,
    sound_row,
    view_of,
)
from orbitmq.store.log.segments import Segment, Segments
from orbitmq.store.progress import Progress

__all__ = ["ALL_VOUCHED", "RecoveryWalk", "cut_files", "first_store_ms", "zero_behind"]

log = logging.getLogger("orbitmq.store")

ALL_VOUCHED: Final = (1 << 63) - 1
"""The time of a checkpoint that vouches for everything, after an orderly stop."""

_ZEROS: Final = bytes(1024 * 1024)


class RecoveryWalk(LogWalk[Segment]):
    """A walk over the log from one of its files to its end, with checksums compared.

    It reads ``files`` files, None for all, from the one with the index ``first`` on. All records up
    to the store time ``vouched_ms`` are known to be on disk. Up to the offset ``vouched_end`` the
    log is on disk and was written by orbitmq; 0 if only the time is known. ``checked`` includes the
    seal only in a store that seals its records itself. The entries of queues show that the log has
    reached the offset ``reached``.

    After the walk, ``end`` is where the log ends, ``unvouched`` where the records begin that may
    not be on disk (None if all are), and ``damages`` has the places that were skipped.
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
        super().__init__(
            chain.files[first:][:files],
            open_file=lambda segment: segment.view,
            on_damage=self._keep,
            checked=checked,
        )
        self._chain = chain
        self._vouched_ms = vouched_ms
        self._ours_end = vouched_end
        self._vouched_end = 0 if vouched_ms == ALL_VOUCHED else vouched_end
        self._reached_by_queues = reached
        self._progress = progress
        self._found_ahead = 0  # the offset of a sound record found after damage
        self._begin = self.end
        self._total = chain.next_base() - self._begin
        self.unvouched: int | None = None
        self.damages: list[Damage] = []

    def __iter__(self) -> Iterator[Block]:
        for block in self.blocks():
            if self.unvouched is None and not self._is_vouched(self.end):
                self.unvouched = self.end - block.rows[-1][1] + block.rows[0][0]
            yield block
            self._progress(self.end - self._begin, self._total)
        self._progress(self._total, self._total)

    def leave(self, file: Segment) -> None:
        """Close a file and its map: a log may have more files than a process may map."""
        file.drop()

    def resume(self, file: Segment, buffer: memoryview, position: int) -> int | None:
        """Return where a file goes on after an unreadable place; None if the log ends.

        That is at a record, at the blank, or at the end of the file if it has neither.
        """
        offset = file.base + position
        is_vouched = self._is_vouched(offset + 1)
        resumed = self._found(file, position + 1) if is_vouched else None
        if resumed is None and is_vouched:
            if offset < self._vouched_end < file.end:
                self.step_over(self._vouched_end)
                return self._tail_of(file)
            if self._goes_on_behind(file, position):
                resumed = _blank_behind(file, position)
        if resumed is not None:
            self._note(offset, file.base + resumed)
        elif not _is_unwritten(file, position):
            fault = fault_at(buffer, position)
            log.warning("the log ends at byte %d of %r: %s", position, file, fault)
        return resumed

    def _is_vouched(self, end: int) -> bool:
        """Return whether the log is known to be on disk up to an offset.

        If only a time is known, the last sound record before the offset decides.
        """
        if self._vouched_end:
            return end <= self._vouched_end
        return self.last_store_ms <= self._vouched_ms

    def _tail_of(self, segment: Segment) -> int | None:
        """Return where a log goes on whose vouched part ends in damage; None if it ends there.

        Records written since begin exactly at the vouched end and are not older than those before;
        one of the two times before may be damaged.
        """
        position = self._vouched_end - segment.base
        row = sound_row(segment.view, segment.base, position, self._checked)
        before_ms = min(self.last_store_ms, self.before_last_ms)
        is_stale = row and view_of(segment.view, row).store_timestamp_ms < before_ms
        return None if is_stale else position

    def _found(self, segment: Segment, begin: int) -> int | None:
        """Return the position of the first record from ``begin`` on that belongs to the log."""
        buffer, base = segment.view, segment.base
        stop = min(segment.size, self._vouched_end - base) if self._vouched_end else segment.size
        for start in magics(buffer, begin, stop):
            if start >= stop:
                break  # it may be stale: nothing shows that the log reached this far
            row = sound_row(buffer, base, start, self._checked)
            if row and self._belongs(base + start, view_of(buffer, row).store_timestamp_ms):
                return start
        return None

    def _goes_on_behind(self, segment: Segment, position: int) -> bool:
        """Return whether a later file has records of the log, after an unreadable place.

        A blank proves nothing: Java leaves one after the end when it cuts a log.
        """
        if max(self._found_ahead, self._vouched_end) >= segment.end:
            return True  # the files up to there are vouched for or were searched already
        later = [other for other in self._chain.files if other.base >= segment.end]
        if self._is_made_ahead(later, segment, position):
            return False
        for other in later:
            found = self._found(other, 0)
            other.drop()  # one map at a time, besides that of the damaged file
            if found is not None:
                self._found_ahead = other.base + found
                return True
        return False

    def _is_made_ahead(self, later: list[Segment], segment: Segment, position: int) -> bool:
        """Return whether a crashed log ends properly, followed by one file made in advance.

        That file is not searched: it may have a gigabyte of zeros. An orderly stop leaves none.
        """
        return (
            self._vouched_ms != ALL_VOUCHED
            and len(later) == 1
            and segment.base + position >= self._reached_by_queues
            and _is_unwritten(segment, position)
            and _is_unwritten(later[0], 0)
        )

    def step_over(self, end: int) -> None:
        """Move the end of the log to an offset, and report the bytes before it as damage."""
        self._note(self.end, end)
        self.end = end

    def _belongs(self, offset: int, stored_ms: int) -> bool:
        """Return whether a record after an unreadable place is part of the log.

        It is if orbitmq wrote the log up to there. Else the time decides: records older than those
        before the place are what Java leaves after the end when it cuts a log.
        """
        if offset < self._ours_end:
            return True
        return self.last_store_ms <= stored_ms <= self._vouched_ms

    def _note(self, begin: int, end: int) -> None:
        segment = self._chain.segment_at(begin)
        assert segment is not None
        self._report(begin, fault_at(segment.view, begin - segment.base), end - begin)

    def _keep(self, damage: Damage) -> None:
        log.error("%s; everything after it is kept", damage)
        self.damages.append(damage)


def first_store_ms(segment: Segment) -> int | None:
    """Return when the first record of a file was stored; None if it has no sound first record."""
    row = sound_row(segment.view, segment.base, 0, Checked.BODY)
    return None if row is None else view_of(segment.view, row).store_timestamp_ms


def _is_unwritten(segment: Segment, position: int) -> bool:
    return not any(segment.view[position : position + SIZE_AND_MAGIC.size])


def _blank_behind(segment: Segment, position: int) -> int:
    """Return the position of a file's blank after a position; the end of the file if none."""
    buffer, size = segment.view, segment.size
    starts = magics(buffer, position + 1, size)
    return next((start for start in starts if is_blank(buffer, start)), size)


def zero_behind(segment: Segment, offset: int) -> int:
    """Zero everything after an offset of the log in its file; return how many bytes that were.

    Stale bytes after the end are legal, but a later, shorter log might end exactly at a stale
    record, which would then be read as its next record.
    """
    view = segment.view
    zeroed = 0
    data_end = min(segment.size, segment.file.data_end)  # the rest was never written
    for begin in range(offset - segment.base, data_end, len(_ZEROS)):
        end = min(begin + len(_ZEROS), data_end)
        # A copy: a view is compared byte by byte, and this may be a gigabyte.
        if bytes(view[begin:end]) != _ZEROS[: end - begin]:
            segment.file.write([_ZEROS[: end - begin]], begin)
            zeroed += end - begin
    return zeroed


def cut_files(chain: Segments, end: int) -> None:
    """Remove the files after the end of the log, and zero the rest of the last one.

    Each name is gone from disk before the next: a crash leaves no gap.
    """
    while (last := chain.last) is not None and last.base > end:
        log.info("removed %r: it begins after the end of the log", last)
        chain.remove_last()
        chain.sync_names()
    last = chain.segment_at(end)
    if last is not None and (zeroed := zero_behind(last, end)):
        log.warning("zeroed %d bytes after the end of the log at %d", zeroed, end)
