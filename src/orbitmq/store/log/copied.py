"""A log that is a copy of another one: its bytes arrive in order, cut anywhere.

::

    bytes that arrived   … record record rec│ord record … blank│record …
                           └─ appended ──┘ └ kept ┘

Only whole records, and whole blanks, are appended, so that the log of a replica has the same
invariants as any other, and ends where a record of the primary ends. The beginning of a record is
kept in memory until its rest comes. A record is appended only where it says that it lies.
"""

from collections.abc import Callable
from typing import Final

from orbitmq.errors import StoreDamaged
from orbitmq.message.buffer import Buffer
from orbitmq.message.record import BLANK_SIZE, LEAST_SIZE, MAGIC_BLANK, SIZE_AND_MAGIC, Version
from orbitmq.message.record_view import filed_of
from orbitmq.store.dispatch import Dispatched, Dispatcher
from orbitmq.store.log.commit_log import CommitLog
from orbitmq.store.log.record_rows import fault_at, sound_rows

__all__ = ["LogCopy"]

_MAGICS: Final = frozenset(version.value for version in Version)
_ROWS_MAX: Final = 1 << 62


class LogCopy:
    """Appends what arrives to a log; nothing else may append to it meanwhile.

    ``on_appended`` is called with the entries of records that are in the log.
    """

    def __init__(
        self,
        log: CommitLog,
        dispatcher: Dispatcher,
        on_appended: Callable[[list[Dispatched]], None],
    ) -> None:
        self._log = log
        self._dispatcher = dispatcher
        self._on_appended = on_appended
        self._kept = bytearray()
        self._wanted = 0  # the size of the record, or blank, whose beginning is kept

    def __repr__(self) -> str:
        return f"<LogCopy {self._log.end}, {len(self._kept)} bytes kept>"

    @property
    def next_offset(self) -> int:
        """The offset of the bytes that are to come next."""
        return self._log.end + len(self._kept)

    def forget(self) -> None:
        """Forget the beginning of a record: the next bytes are those at the end of the log."""
        self._kept.clear()

    def append(self, data: Buffer) -> None:
        """Append bytes that begin at ``next_offset``.

        Raise StoreDamaged if they are no records of this place; what came before the fault is in
        the log. Raise StoreError if the disk is full or fails: the bytes are then to come again.
        """
        if self._kept:
            self._kept += data
            if len(self._kept) < self._wanted:
                return
            data, self._kept = self._kept, bytearray()
        self._wanted = 0
        view = memoryview(data)
        position = 0
        while size := self._append_some(view[position:]):
            position += size
        self._kept = bytearray(view[position:])

    def _append_some(self, view: memoryview) -> int:
        """Append the whole records, or the blank, that the view begins with; return their size."""
        log = self._log
        offset = log.end
        left = log.next_segment_offset(offset) - offset
        in_file = view[:left]
        rows, size = sound_rows(in_file, offset, 0, left, _ROWS_MAX)
        if rows:
            if left - size < BLANK_SIZE:
                raise self._fault(offset, "a record leaves no space for the blank of its file")
            entries = self._dispatcher.entries_of([filed_of(in_file, row) for row in rows])
            log.append_copy(in_file[:size], entries)
            self._on_appended(entries)
            return size
        if len(view) < SIZE_AND_MAGIC.size:
            return 0
        whole, magic = SIZE_AND_MAGIC.unpack_from(view)
        if magic == MAGIC_BLANK and whole == left:
            if len(in_file) == left:
                log.append_copy(in_file, [])
                return left
        elif magic == MAGIC_BLANK:
            raise self._fault(
                offset,
                f"a blank of {whole} bytes where the file has {left} left: the primary has files "
                "of another size, set mappedFileSizeCommitLog as there",
            )
        elif (
            magic not in _MAGICS
            or not LEAST_SIZE <= whole <= left - BLANK_SIZE
            or whole <= len(view)
        ):
            raise self._fault(offset, fault_at(in_file, 0))
        self._wanted = whole
        return 0

    def _fault(self, offset: int, what: str) -> StoreDamaged:
        self.forget()
        return StoreDamaged(
            f"the bytes for offset {offset} of the log are no record of it: {what}",
            path=self._log.directory,
            position=offset,
        )
