"""The directory that rebuilt queues and index go to: locked, and changed at the very end only.

::

    .rebuild/<run>/…                 what tasks write; nobody else looks there
    .rebuild/made/consumequeue/…     all of it, complete and on disk
    .rebuild/old/…                   what the store had before
                     │
                     ▼  abort is written, directories change places by renames
    consumequeue/ batchconsumequeue/ index/     then queue_ends.json and checkpoint, then abort

Laws:

- The store is locked from the first look at it until the end, as by a broker.
- A killed run leaves the old parts, or none: then ``abort`` is there, and a broker that starts
  rebuilds them itself. In both cases the job can be run again.
- The checkpoint claims what is on disk by then: the whole log and all that was made of it.
- ``abort`` stays if it was there, and comes if bytes follow the end of the log: the next start then
  cuts the log at its end, and checks the queues as after any crash.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from orbitmq.clock import local_stamp
from orbitmq.errors import StoreError
from orbitmq.store.checkpoint.checkpoint import (
    AbortMarker,
    Checkpoint,
    StoreLock,
    read_checkpoint,
)
from orbitmq.store.checkpoint.claims import Claims, Synced
from orbitmq.store.checkpoint.queue_ends import QueueEnds
from orbitmq.store.disk.disk import Disk
from orbitmq.store.disk.durable import make_durable_directory, parent_of, remove_tree
from orbitmq.store.index.key_index import IndexMark
from orbitmq.store.layout import (
    ABORT,
    BATCH_CONSUME_QUEUE,
    CHECKPOINT,
    CONSUME_QUEUE,
    CONSUME_QUEUE_EXT,
    INDEX,
    QUEUE_ENDS,
    path_join,
)
from orbitmq.store.queues.consume_queues import Ends
from orbitmq.store.reader.reader import StoreReader
from orbitmq.store.rebuild.index_files import MadeIndexFile
from orbitmq.store.rebuild.queue_files import MadeQueue

__all__ = ["Target", "sync_log", "was_java_s"]

_WORK: Final = ".rebuild"
_QUEUES: Final = (CONSUME_QUEUE, BATCH_CONSUME_QUEUE, CONSUME_QUEUE_EXT)
_NAME_DIGITS: Final = 17


class Target:
    """A directory to rebuild in; ``close`` it.

    With ``replace`` queues and index that it has are replaced. ``with_index`` is whether an index
    is made; if not, one that is there stays.

    Raises:
        StoreLocked: a broker has the store open.
        StoreError: it has queues or an index, without ``replace``.
    """

    def __init__(
        self, disk: Disk, directory: str, run: str, *, replace: bool, with_index: bool = True
    ) -> None:
        self.directory = directory.rstrip("/") or "/"
        self._disk = disk
        self._parts = (*_QUEUES, INDEX) if with_index else _QUEUES
        self._is_between = False
        self._lock = StoreLock(disk, self.directory)
        try:
            was_publishing = disk.exists(self._path(_WORK, "old"))
            if not replace and not was_publishing:
                self._refuse_existing()
            remove_tree(disk, self._path(_WORK))
            self.work = self._path(_WORK, run)
            make_durable_directory(disk, self.work)
        except BaseException:
            self._lock.release()
            raise

    def __repr__(self) -> str:
        return f"<Target {self.directory}>"

    def publish(self, queues: Sequence[MadeQueue], index: Sequence[MadeIndexFile]) -> None:
        """Put what was made in place of what is there; ``finish`` then makes it a whole store."""
        made = self._path(_WORK, "made")
        for queue in queues:
            kind = BATCH_CONSUME_QUEUE if queue.is_batch else CONSUME_QUEUE
            self._move(queue.path, path_join(made, kind, queue.topic, str(queue.queue_id)))
        for file, name in zip(index, _names(index), strict=True):
            self._move(file.path, path_join(made, INDEX, name))
        self._is_between = True
        self._abort.create("rebuild")
        make_durable_directory(self._disk, self._path(_WORK, "old"))
        for part in self._parts:
            if self._disk.exists(self._path(part)):
                self._disk.rename(self._path(part), self._path(_WORK, "old", part))
            if self._disk.exists(path_join(made, part)):
                self._disk.rename(path_join(made, part), self._path(part))
        self._disk.sync_directory(self.directory)

    def finish(
        self,
        queues: Iterable[MadeQueue],
        index: Sequence[MadeIndexFile],
        *,
        log_end: int,
        last_ms: int,
        keep_abort: bool,
    ) -> None:
        """Write the list of queue ends and the checkpoint, and remove ``abort`` if it may go.

        All of the log before ``log_end`` is on disk; its last record was stored at ``last_ms``.
        """
        ends: Ends = {}
        for queue in queues:
            ends.setdefault(queue.topic, {})[queue.queue_id] = queue.max_offset
        QueueEnds(self._disk, self._path(QUEUE_ENDS)).write(ends)
        checkpoint = Checkpoint(self._disk, self._path(CHECKPOINT))
        try:
            claims = Claims(checkpoint.values._replace(index_ms=0), last_ms, IndexMark())
            full = [file for file in index if file.is_full]
            filled = (full[-1].end_ms, full[-1].end_offset) if full else (0, -1)
            mark = None
            if index and not index[-1].is_full:
                name = int(_names(index)[-1])
                mark = IndexMark(name, index[-1].next_number, log_end)
            claims.add(Synced(last_ms, *filled, mark))
            checkpoint.write(
                claims.values(checkpoint.values, flushed=log_end, with_index=INDEX in self._parts)
            )
        finally:
            checkpoint.close()
        if not keep_abort:
            self._abort.remove()
        self._is_between = False

    @property
    def has_abort_file(self) -> bool:
        """Whether a broker that used the store was not stopped properly."""
        return self._abort.is_present

    def close(self) -> None:
        """Remove what is not needed any more, and release the store."""
        try:
            if not self._is_between:  # the next run knows by it that it may replace all
                remove_tree(self._disk, self._path(_WORK))
        finally:
            self._lock.release()

    @property
    def _abort(self) -> AbortMarker:
        return AbortMarker(self._disk, self._path(ABORT))

    def _refuse_existing(self) -> None:
        for part in self._parts:
            path = self._path(part)
            if self._disk.list(path):
                raise StoreError(
                    f"{path} is not empty; to replace the queues and the index of a store, say so "
                    "by --in-place, or give another directory by --to",
                    path=path,
                )

    def _move(self, path: str, new_path: str) -> None:
        make_durable_directory(self._disk, parent_of(new_path))
        self._disk.rename(path, new_path)
        self._disk.sync_directory(parent_of(new_path))

    def _path(self, *parts: str) -> str:
        return path_join(self.directory, *parts)


def was_java_s(reader: StoreReader) -> bool:
    """Return whether a Java broker was the last one to use a store."""
    return read_checkpoint(reader.disk, path_join(reader.directory, CHECKPOINT)).is_of_another


def sync_log(reader: StoreReader) -> None:
    """Return when the log is on disk: the checkpoint of ``finish`` says that it is."""
    for segment in reader.segments:
        file = reader.disk.open(segment.path, writable=False)
        try:
            file.sync()
        finally:
            file.close()


def _names(index: Iterable[MadeIndexFile]) -> list[str]:
    """Return the names of index files: the local time of the first record of each.

    A broker names a file when it makes it, which is a moment later. Names sort the files, so each
    is greater than the one before it.
    """
    names: list[str] = []
    for file in index:
        name = int(local_stamp(file.begin_ms))
        name = max(name, int(names[-1]) + 1) if names else name
        names.append(f"{name:0{_NAME_DIGITS}d}")
    return names
