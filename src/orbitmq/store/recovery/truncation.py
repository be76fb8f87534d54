"""Cuts the end of the log off while the store is in use, and what queues and index have of it.

Each step is on disk before the next::

    save       the bytes that are going to be cut, in files of their own
    unclaim    checkpoint and list of queue ends speak of what stays
    cut        files after the new end are removed, the last one first; the rest is zeroed;
               queues and index follow

A crash leaves a log that ends anywhere between the new end and the old one, at a record. The next
start brings queues and index into agreement with it, as after every crash.
"""

import logging
from collections.abc import Generator, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from orbitmq.errors import StoreDamaged, StoreError
from orbitmq.store.checkpoint.checkpoint import CheckpointValues
from orbitmq.store.checkpoint.checkpoint_writer import CheckpointWriter
from orbitmq.store.checkpoint.claims import Claims, Synced
from orbitmq.store.checkpoint.queue_ends import QueueEnds
from orbitmq.store.disk.disk import Disk, DiskFile
from orbitmq.store.disk.durable import make_durable_directory
from orbitmq.store.index.key_index import IndexMark, KeyIndex
from orbitmq.store.layout import CUT_LOG, path_join
from orbitmq.store.log.commit_log import CommitLog
from orbitmq.store.log.log_walk import LogWalk
from orbitmq.store.log.segments import Segment, Segments
from orbitmq.store.queues.consume_queues import ConsumeQueues
from orbitmq.store.recovery.log_end import cut_files

__all__ = ["LogPiece", "Truncation"]

log = logging.getLogger("orbitmq.store")

_COPIED_AT_ONCE = 1 << 20
_SYNCED_AT_ONCE = 8 << 20


class LogPiece(NamedTuple):
    """Bytes of the log that are saved before they are cut, in a file of this name."""

    name: str
    begin: int
    end: int


@dataclass(eq=False)
class Truncation:
    """Truncates one store; the owner waits for workers before, and begins anew afterwards."""

    disk: Disk
    directory: str
    segments: Segments
    log: CommitLog
    queues: ConsumeQueues
    index: KeyIndex
    ends: QueueEnds
    checkpoint: CheckpointWriter

    def last_store_ms(self, end: int) -> int:
        """Return when the last record before an offset was stored; 0 if there is none.

        Raise StoreDamaged unless a record, a blank or the log itself ends there.
        """
        first = self.segments.first_offset
        if not first <= end <= self.log.end:
            raise self._no_end(end, f"the log goes from {first} to {self.log.end}")
        bases = [one.base for one in reversed(self.segments.files) if one.base < end]
        for begin in (self.queues.place_before(end), *bases):  # the queues save a long walk
            if begin < first:
                continue
            files = [one for one in self.segments.files if one.base < end and begin < one.end]
            walk = LogWalk[Segment](
                files, open_file=lambda one: one.view, on_damage=lambda _damage: None
            )
            for _ in walk.blocks(begin, end):
                pass
            if walk.end == end and walk.last_store_ms:
                return walk.last_store_ms
            if walk.end != end and begin in bases:
                raise self._no_end(end, f"a record ends at {walk.end}")
        return 0

    def _no_end(self, end: int, what: str) -> StoreDamaged:
        return StoreDamaged(
            f"the log can't be cut at {end}: no record ends there; {what}",
            path=self.segments.directory,
            position=end,
        )

    def save(self, pieces: Iterable[LogPiece]) -> None:
        """Save pieces of the log, each in a file of its own, and return when they are on disk."""
        for _ in self.saving(pieces):
            pass

    def saving(self, pieces: Iterable[LogPiece]) -> Generator[None, None, None]:
        """Do as ``save``, in steps that take little time each; close it if it is not exhausted.

        A piece that is not saved as a whole is removed.
        """
        directory = path_join(self.directory, CUT_LOG)
        for piece in pieces:
            make_durable_directory(self.disk, directory)
            path = path_join(directory, piece.name)
            file = self.disk.open(path, create=True)
            try:
                yield from self._copy(piece, file)
            except (StoreError, GeneratorExit):
                self.disk.remove(path)  # the disk may be full
                raise
            finally:
                file.close()
            self.disk.sync_directory(directory)
            log.warning("saved bytes %d to %d of the log in %s", piece.begin, piece.end, path)

    def _copy(self, piece: LogPiece, file: DiskFile) -> Generator[None, None, None]:
        position = synced = piece.begin
        while position < piece.end:
            file_end = self.log.next_segment_offset(position)
            size = min(_COPIED_AT_ONCE, piece.end - position, file_end - position)
            view = self.log.view(position, size)
            if view is None:
                raise self._no_end(piece.end, f"{piece.name} would need bytes from {position} on")
            file.write([view], position - piece.begin)
            position += size
            if position - synced >= _SYNCED_AT_ONCE:
                file.sync()
                synced = position
                yield
        file.sync()

    def unclaim(self, end: int, last_store_ms: int, confirmed: int, *, with_index: bool) -> None:
        """Let checkpoint and list claim no more than the log up to ``end``; all of it is synced."""
        filled = self.index.filled_before(end)
        claims = Claims(CheckpointValues(), last_store_ms, IndexMark())
        claims.add(Synced(last_store_ms, *filled))
        lowered = self.checkpoint.values._replace(confirmed_offset=confirmed)
        self.ends.write({})  # a start would fill queues up to their listed ends
        self.checkpoint.write(claims.values(lowered, flushed=end, with_index=with_index))

    def cut(self, end: int, last_store_ms: int) -> IndexMark | None:
        """Cut files, queues and index; return how much of the index is on disk.

        After an error the store must not be written to: the next start completes the cut, or finds
        a part of what was to go.
        """
        chain = self.segments
        chain.remove_unused(chain.next_base())  # what was made in advance
        cut_files(chain, end)
        if (last := chain.segment_at(end)) is not None:
            last.file.sync()
        chain.sync_names()
        self.log.truncated(end, last_store_ms)
        self.queues.truncate(end)
        self.queues.delete_unbegun()
        self.queues.sync()
        self.index.truncate(end, self._store_ms_of)
        return self.index.sync_mark(end)

    def _store_ms_of(self, offset: int) -> int:
        record = self.log.record(offset)
        return self.log.last_store_ms if record is None else record.store_timestamp_ms
