"""A walk over the commit log that reports what it can't read, and goes on behind it.

At a place where no sound record begins, the walk looks for the next one that names its own place;
failing that, for the next segment. What the last written segment shows behind its last record is
judged apart, since a sound store may have stale bytes there: Java's recovery cuts the log by
moving its end, and leaves the bytes.
"""

from collections.abc import Callable, Iterator, Sequence

from orbitmq.message.record import SIZE_AND_MAGIC
from orbitmq.store.damage import Damage, OnDamage
from orbitmq.store.disk.stream_files import StreamFile
from orbitmq.store.log.record_rows import (
    Block,
    Checked,
    fault_at,
    is_blank,
    next_sound,
    sound_row,
    sound_rows,
    view_of,
    written_end_by_maps,
)

__all__ = ["LogWalk"]

_BLOCK_ROWS = 4096
# What was read through a map counts as memory of the process until the map is gone, so a walk
# takes a new one now and then.
_MAP_BYTES = 32 << 20


class LogWalk:
    """One walk; it holds no more than a block of rows and the map of one segment.

    ``open_file`` returns the bytes of a segment, or None for one that was deleted; ``claimed``
    tells whether a consume queue says that a record begins at an offset.
    """

    def __init__(
        self,
        files: Sequence[StreamFile],
        *,
        open_file: Callable[[StreamFile], memoryview | None],
        claimed: Callable[[int], bool],
        on_damage: OnDamage,
        verify: bool = False,
    ) -> None:
        self._files = files
        self._open = open_file
        self._claimed = claimed
        self._on_damage = on_damage
        self._checked = Checked.BODY_AND_SEAL if verify else Checked.NONE
        self._last_stored_ms = 0

    def blocks(self, start: int, end: int) -> Iterator[Block]:
        """Yield the records that begin from ``start`` on and before ``end``, some at a time."""
        expected = max(start, self._files[0].base) if self._files else start
        for number, file in enumerate(self._files):
            if file.base >= end:
                return
            if file.end <= start:
                continue
            if file.base > expected:
                self._report(expected, "no file holds these bytes", file.base - expected)
            expected = file.end
            yield from self._segment(number, max(start, file.base), end)
        self._check_length_of_last(start, end)

    def _segment(self, number: int, start: int, end: int) -> Iterator[Block]:
        file = self._files[number]
        buffer = self._open(file)
        if buffer is None:
            self._report(file.base, "the file was deleted before it was read", file.size, True)
            return
        position, stop = start - file.base, min(end - file.base, len(buffer))
        if position and not sound_row(buffer, file.base, position):
            position = 0  # no record begins there: only a walk from the front finds the next
        mapped_at = position
        while position < stop:
            if position - mapped_at > _MAP_BYTES:
                buffer, mapped_at = self._mapped_again(file, buffer), position
            rows, position = sound_rows(
                buffer, file.base, position, stop, _BLOCK_ROWS, self._checked
            )
            if rows:
                self._last_stored_ms = view_of(buffer, rows[-1]).store_timestamp_ms
                wanted = rows
                if file.base + rows[0][0] < start:
                    wanted = [row for row in rows if file.base + row[0] >= start]
                if wanted:
                    yield Block(buffer, wanted)
            if len(rows) < _BLOCK_ROWS and position < stop:
                if is_blank(buffer, position):
                    return
                behind = self._behind_bad_checksum(buffer, file.base, position, start)
                position = behind or self._behind_fault(number, buffer, position, start)

    def _behind_bad_checksum(
        self, buffer: memoryview, base: int, position: int, start: int
    ) -> int | None:
        """Report a record whose lengths are right and checksums not; return its end, if it is."""
        row = sound_row(buffer, base, position)
        if row is None or sound_row(buffer, base, position, self._checked):
            return None
        if base + position >= start:
            self._report(base + position, fault_at(buffer, position), row[1] - position)
        return row[1]

    def _behind_fault(self, number: int, buffer: memoryview, position: int, start: int) -> int:
        """Report what is wrong at ``position``; return where to go on, the end if nowhere."""
        base, end = self._files[number].base, len(buffer)
        # In this order: a live writer ends this segment before it begins the next.
        last = not self._goes_on_behind(number)
        reason = fault_at(buffer, position)
        written = self._written_end(self._files[number], buffer, position)
        found = next_sound(buffer, base, position + 1, written)
        if sound_row(buffer, base, position) or is_blank(buffer, position):
            return position  # a live writer has just finished it
        if last and written == position:
            return end  # the end of the log
        claimed = last and self._claimed(base + position)
        if last and not claimed and found is not None and self._is_stale(buffer, base, found):
            found = None
        resumed = end if found is None else found
        if base + resumed > start:
            if last and found is None:
                reason += "; nothing readable follows"
                self._report(base + position, reason, written - position, not claimed)
            else:
                self._report(base + position, reason, resumed - position)
        return resumed

    def _written_end(self, file: StreamFile, buffer: memoryview, position: int) -> int:
        """Return where the zeros begin that fill the rest of the segment."""
        return written_end_by_maps(lambda: self._mapped_again(file, buffer), position, _MAP_BYTES)

    def _mapped_again(self, file: StreamFile, buffer: memoryview) -> memoryview:
        """Return a new map of a segment; the old one if the file is gone."""
        mapped = self._open(file)
        return buffer if mapped is None else mapped

    def _is_stale(self, buffer: memoryview, base: int, position: int) -> bool:
        """Return whether a record was stored before the last one read: time runs along the log."""
        row = sound_row(buffer, base, position)
        return row is not None and view_of(buffer, row).store_timestamp_ms < self._last_stored_ms

    def _goes_on_behind(self, number: int) -> bool:
        """Return whether a later segment has anything in it: the last may be made in advance."""
        for file in self._files[number + 1 :]:
            buffer = self._open(file)
            if buffer is not None and any(buffer[: SIZE_AND_MAGIC.size]):
                return True
        return False

    def _check_length_of_last(self, start: int, end: int) -> None:
        """Report a last segment that is shorter than the one before it: it was cut off."""
        if len(self._files) < 2:
            return
        before, last = self._files[-2:]
        if start < last.end < end and last.size < before.size:
            reason = f"the file has {last.size} bytes, and the one before it {before.size}"
            self._report(last.end, reason, before.size - last.size)

    def _report(self, position: int, reason: str, skipped: int, harmless: bool = False) -> None:
        self._on_damage(Damage(position, reason, skipped, harmless=harmless))
