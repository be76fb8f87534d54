"""How a reader of the commit log treats places that it can't read.

Where no sound record begins, the walk goes on at the next one that names its own place, or in the
next file. Bytes after the last record of the last written file are a special case: a sound store
may have stale ones there, since Java's recovery cuts the log by moving its end.
"""

from collections.abc import Callable, Iterator, Sequence

from orbitmq.message.record import SIZE_AND_MAGIC
from orbitmq.store.damage import OnDamage
from orbitmq.store.disk.stream_files import StreamFile
from orbitmq.store.log.log_walk import MAP_BYTES, LogWalk
from orbitmq.store.log.record_rows import (
    Block,
    Checked,
    fault_at,
    is_blank,
    next_sound,
    sound_row,
    view_of,
    written_end_by_maps,
)

__all__ = ["ReaderWalk"]


class ReaderWalk(LogWalk[StreamFile]):
    """A walk over the log of a store that a broker may be writing to.

    ``open_file`` returns the bytes of a file, None if it was deleted; ``claimed`` returns whether a
    consume queue has an entry for a record at an offset.
    """

    def __init__(
        self,
        files: Sequence[StreamFile],
        *,
        open_file: Callable[[StreamFile], memoryview | None],
        claimed: Callable[[int], bool],
        on_damage: OnDamage,
        checked: Checked = Checked.NONE,
    ) -> None:
        super().__init__(files, open_file=open_file, on_damage=on_damage, checked=checked)
        self._claimed = claimed
        self._start = 0

    def records(self, start: int, end: int) -> Iterator[Block]:
        """Yield the records that begin from ``start`` on and before ``end``, a block at a time."""
        self._start = start
        for block in self.blocks(self._walk_start(start), end):
            base = self.end - block.rows[-1][1]
            if base + block.rows[0][0] >= start:
                yield block
            elif rows := [row for row in block.rows if base + row[0] >= start]:
                yield Block(block.buffer, rows)
        self._check_length_of_last(start, end)

    def resume(self, file: StreamFile, buffer: memoryview, position: int) -> int:
        """Report what is wrong at ``position``; return where the walk goes on.

        A record whose lengths are right and whose checksums are not is skipped alone.
        """
        row = sound_row(buffer, file.base, position)
        if row is None or sound_row(buffer, file.base, position, self._checked):
            return self._behind_fault(file, buffer, position)
        if file.base + position >= self._start:
            self._report(file.base + position, fault_at(buffer, position), row[1] - position)
        return row[1]

    def _walk_start(self, start: int) -> int:
        """Return ``start`` if a record begins there, else the beginning of its file."""
        for file in self._files:
            if file.base < start < file.end:
                buffer = self._open(file)
                if buffer is not None and not sound_row(buffer, file.base, start - file.base):
                    return file.base
        return start

    def _behind_fault(self, file: StreamFile, buffer: memoryview, position: int) -> int:
        base, end = file.base, len(buffer)
        # In this order: a live writer ends this file before it begins the next.
        last = not self._goes_on_behind(file)
        reason = fault_at(buffer, position)
        written = written_end_by_maps(lambda: self._open(file) or buffer, position, MAP_BYTES)
        found = next_sound(buffer, base, position + 1, written)
        if sound_row(buffer, base, position) or is_blank(buffer, position):
            return position  # a live writer has just finished it
        if last and written == position:
            return end  # the end of the log
        claimed = last and self._claimed(base + position)
        if last and not claimed and found is not None and self._is_stale(buffer, base, found):
            found = None
        resumed = end if found is None else found
        if base + resumed > self._start:
            if last and found is None:
                reason += "; nothing readable follows"
                skipped = written - position
                self._report(base + position, reason, skipped, harmless=not claimed)
            else:
                self._report(base + position, reason, resumed - position)
        return resumed

    def _is_stale(self, buffer: memoryview, base: int, position: int) -> bool:
        """Return whether a record is older than the last one read: store times never decrease."""
        row = sound_row(buffer, base, position)
        return row is not None and view_of(buffer, row).store_timestamp_ms < self.last_store_ms

    def _goes_on_behind(self, file: StreamFile) -> bool:
        """Return whether a later file has data: the last may have been made in advance."""
        for later in self._files[self._files.index(file) + 1 :]:
            buffer = self._open(later)
            if buffer is not None and any(buffer[: SIZE_AND_MAGIC.size]):
                return True
        return False

    def _check_length_of_last(self, start: int, end: int) -> None:
        """Report a last file that is shorter than the one before it: it was cut off."""
        if len(self._files) < 2:
            return
        before, last = self._files[-2:]
        if start < last.end < end and last.size < before.size:
            reason = f"the file has {last.size} bytes, and the one before it {before.size}"
            self._report(last.end, reason, before.size - last.size)
