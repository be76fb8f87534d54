"""The one walk over the records of a commit log; a start and a reader both build on it.

::

    file   [ record record ✗✗✗✗✗✗ record … blank ][ record record  zeros ]
             └── block ──┘  ▲      └─ block ─┘      └── block ──┘ ▲
                          resume                                resume

The walk yields blocks of sound records, skips the blank at the end of a file, and reports files
that are missing. Where no sound record begins it calls :meth:`LogWalk.resume`, which decides what
the place means: damage to step over, or the end of the log.
"""

from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Final, Generic, TypeVar

from orbitmq.message.record import Row
from orbitmq.store.damage import Damage, OnDamage
from orbitmq.store.disk.stream_files import StreamFile
from orbitmq.store.log.record_rows import (
    Block,
    Checked,
    fault_at,
    is_blank,
    next_sound,
    sound_rows,
    view_of,
)
from orbitmq.store.log.segments import Segment

__all__ = ["BLOCK_ROWS", "MAP_BYTES", "LogWalk"]

BLOCK_ROWS: Final = 4096
MAP_BYTES: Final = 32 << 20
"""Pages read through a map count as memory of the process until the map is gone, so a walk asks for
a new one after this many bytes."""
_FOREVER: Final = (1 << 63) - 1


File = TypeVar("File", Segment, StreamFile)


class LogWalk(Generic[File]):
    """A walk over some files of the log; it holds one block of rows and the map of one file.

    By itself it reports each place without a sound record as damage and continues at the next sound
    record. A subclass overrides :meth:`resume` to decide otherwise.

    ``open_file`` returns the bytes of a file, None if it was deleted. A sound record must match the
    checksums ``checked``. A block has at most ``block_rows`` records; None for some thousand.

    ``end`` is the offset that the walk has reached: the end of the last block, or of a finished
    file. ``last_store_ms`` is the store time of the last record before ``end``, 0 if there is none,
    and ``before_last_ms`` that of the record before it.
    """

    def __init__(
        self,
        files: Sequence[File],
        *,
        open_file: Callable[[File], memoryview | None],
        on_damage: OnDamage,
        checked: Checked = Checked.NONE,
        block_rows: int | None = None,
    ) -> None:
        self._files: Sequence[File] = files
        self._open: Callable[[File], memoryview | None] = open_file
        self._on_damage = on_damage
        self._checked = checked
        self._block_rows = block_rows or BLOCK_ROWS
        self._stop = _FOREVER
        self.end = files[0].base if files else 0
        self.last_store_ms = 0
        self.before_last_ms = 0

    def blocks(self, start: int = 0, end: int = _FOREVER) -> Iterator[Block]:
        """Yield the records that begin from ``start`` on and before ``end``, a block at a time."""
        self._stop = end
        expected = max(start, self._files[0].base) if self._files else start
        for file in self._files:
            if file.base >= end:
                return
            if file.end <= start:
                continue
            if file.base > expected:
                self._report(expected, "no file holds these bytes", file.base - expected)
            expected = file.end
            is_finished = yield from self._blocks_of(file, max(start - file.base, 0))
            if not is_finished:
                return
            self.leave(file)

    def resume(self, file: File, buffer: memoryview, position: int) -> int | None:
        """Return where in a file the walk goes on; no sound record begins at ``position``.

        The length of the buffer means that it goes on in the next file, None that the walk ends.
        """
        stop = min(self._stop - file.base, len(buffer))
        found = next_sound(buffer, file.base, position + 1, stop)
        resumed = len(buffer) if found is None else found
        self._report(file.base + position, fault_at(buffer, position), resumed - position)
        return resumed

    def leave(self, file: File) -> None:
        """Release a file whose records were all yielded."""

    def _blocks_of(self, file: File, position: int) -> Generator[Block, None, bool]:
        """Yield the records of one file; return whether the walk goes on in the next."""
        buffer = self._open(file)
        if buffer is None:
            reason = "the file was deleted before it was read"
            self._report(file.base, reason, file.size, harmless=True)
            return True
        stop = min(self._stop - file.base, len(buffer))
        mapped_at = position
        while position < stop:
            if position - mapped_at > MAP_BYTES:
                buffer, mapped_at = self._open(file) or buffer, position
            rows, position = sound_rows(
                buffer, file.base, position, stop, self._block_rows, self._checked
            )
            if rows:
                self._reached(file.base + position, buffer, rows)
                yield Block(buffer, rows)
            if len(rows) == self._block_rows or position >= stop:
                continue
            blank = is_blank(buffer, position)
            resumed = len(buffer) if blank else self.resume(file, buffer, position)
            if resumed is None:
                return False
            position = resumed
        if position >= len(buffer):
            self.end = file.end
        return True

    def _reached(self, end: int, buffer: memoryview, rows: list[Row]) -> None:
        self.end = end
        for row in rows[-2:]:
            self.before_last_ms = self.last_store_ms
            self.last_store_ms = view_of(buffer, row).store_timestamp_ms

    def _report(
        self, position: int, reason: str, skipped_bytes: int, *, harmless: bool = False
    ) -> None:
        self._on_damage(Damage(position, reason, skipped_bytes, harmless=harmless))
