"""Removal of expired log files, in steps that don't block the owner of the store.

::

    IDLE ── expired ──▶ SYNCING queues ──▶ REMOVING files ──▶ TRIMMING queues, index ──▶ IDLE
                         a worker           a worker           the owner, some queues per tick

Invariants:

- Queues are synced before log files are removed: otherwise a power loss could take entries whose
  records are gone, and their offsets would be used again.
- Files are removed oldest first, and their names are gone from disk before queues and index are
  trimmed: no queue lacks an entry of a record that a power loss brings back.
- A file is taken out of the log before a worker removes it, and put back if that fails.
"""

import logging
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Final, NamedTuple

from orbitmq.clock import local_stamp
from orbitmq.errors import StoreError
from orbitmq.store.checkpoint.queue_sync import WhenDone
from orbitmq.store.cleaning.retention import AgedFile, Retention
from orbitmq.store.disk.disk import Disk
from orbitmq.store.index.key_index import KeyIndex
from orbitmq.store.log.segments import Segment, Segments
from orbitmq.store.queues.consume_queues import AnyQueue, ConsumeQueues
from orbitmq.store.settings import StoreSettings
from orbitmq.threads import Future, Workers

__all__ = ["LogExpiry", "SyncQueues"]

log = logging.getLogger("orbitmq.store")

SyncQueues = Callable[[Callable[[bool], None]], bool]
"""Begins to sync all queues, and calls back with whether it succeeded; False if it can't begin."""

_HOUR: Final = slice(8, 10)  # in yyyyMMddHHmmssSSS
_QUEUES_PER_STEP: Final = 128

_Removed = tuple[int, StoreError | None]
"""How many files were removed, and the error that ended it."""


class _Removing(NamedTuple):
    taken: list[Segment]
    work: Future[_Removed]


class LogExpiry:
    """Removes expired log files, then trims queues and index. Called by the owner of the store."""

    def __init__(
        self,
        disk: Disk,
        directory: str,
        settings: StoreSettings,
        segments: Segments,
        queues: ConsumeQueues,
        index: KeyIndex,
        workers: Workers,
        when_done: WhenDone,
    ) -> None:
        self._disk = disk
        self._directory = directory
        self._retention = Retention(settings)
        self._segments = segments
        self._queues = queues
        self._index = index
        self._workers = workers
        self._when_done = when_done
        self._count = 0  # files to remove when the queues are synced
        self._removing: _Removing | None = None
        self._trimming: Iterator[AnyQueue] | None = None
        self._is_finished = False
        self.is_asked = False
        """Whether an operator asked for a removal that could not begin yet."""
        self.is_disk_full = False
        """Whether the disk is too full to accept writes."""
        self.sync_queues: SyncQueues = lambda _done: False

    def __repr__(self) -> str:
        return f"<LogExpiry of {self._directory}, {'in flight' if self.is_in_flight else 'idle'}>"

    @property
    def is_in_flight(self) -> bool:
        """Whether a removal has begun and not ended."""
        return bool(self._count) or self._removing is not None or self._trimming is not None

    @property
    def log_start(self) -> int:
        """Where the log begins; older files are gone for good."""
        removing = self._removing
        return removing.taken[0].base if removing else self._segments.first_offset

    @property
    def disk_used_ratio(self) -> float:
        """The used fraction of the disk, from 0 to 1; of the fuller one if the log has its own."""
        directories = (self._directory, self._segments.directory)
        return max(self._disk.usage(directory).ratio for directory in directories)

    def apply(self, settings: StoreSettings) -> None:
        """Use the retention of these settings from now on."""
        self._retention = Retention(settings)

    def begin(
        self, *, flushed: int, now_ms: int, asked: bool = False, most: int | None = None
    ) -> list[int]:
        """Begin to remove expired log files; return their offsets.

        Nothing begins while a removal is in flight, or if the queues can't be synced now. Files
        with bytes after ``flushed`` are kept. With ``asked``, an operator asked for it, whatever
        the hour. ``most`` limits the number of files; None: as many as fit into a round.
        """
        self.is_asked = asked = asked or self.is_asked
        if self.is_in_flight or self._is_finished:
            return []
        used = self.disk_used_ratio
        self._note_use(used)
        files = [
            AgedFile(segment.base, self._disk.modified_ms(segment.path))
            for segment in self._segments.files
            if segment.end <= flushed or segment is self._segments.last
        ]
        hour = local_stamp(now_ms)[_HOUR]
        count = self._retention.expired(files, now_ms=now_ms, hour=hour, used=used, asked=asked)
        count = count if most is None or asked else min(count, most)
        self._count = count
        if count and not self.sync_queues(self._queues_synced):
            self._count = 0
            return []
        self.is_asked = False
        return [file.base for file in files[:count]]

    def step(self) -> None:
        """Trim some more queues, and finally the index."""
        if self._trimming is None:
            return
        start = self._segments.first_offset
        try:
            some = list(islice(self._trimming, _QUEUES_PER_STEP))
            for queue in some:
                if self._queues.queue(queue.topic, queue.queue_id) is queue:
                    queue.clean(start)
            if len(some) < _QUEUES_PER_STEP:
                self._trimming = None
                self._index.clean(start)
        except StoreError as error:
            self._trimming = None
            _log_failure(error)

    def finish(self) -> None:
        """Wait for a worker that is removing files, and begin no more, for a stop."""
        self._is_finished = True
        if self._removing is not None:
            work = self._removing.work
            self._removed(work, work.exception())

    def _queues_synced(self, ok: bool) -> None:
        count, self._count = self._count, 0
        if not ok or self._is_finished:
            return
        taken = [self._segments.take_first() for _ in range(count)]
        paths = [segment.path for segment in taken]
        work = self._workers.submit(_remove, self._disk, self._segments.directory, paths)
        self._removing = _Removing(taken, work)
        self._when_done(work, lambda error: self._removed(work, error))

    def _removed(self, work: Future[_Removed], error: BaseException | None) -> None:
        removing = self._removing
        if removing is None or removing.work is not work:
            return  # ``finish`` has waited for it
        self._removing = None
        if error is not None:
            if not isinstance(error, StoreError):
                raise error
            _log_failure(error)
            return
        count, failure = work.result()
        self._segments.put_back(removing.taken[count:])
        if failure is not None:
            _log_failure(failure)
        if count:
            log.info("%d log files removed, up to byte %d", count, self._segments.first_offset)
            self._trimming = iter(list(self._queues))
            self.step()

    def _note_use(self, used: float) -> None:
        if self._retention.is_full(used) is not self.is_disk_full:
            self.is_disk_full = not self.is_disk_full
            effect = "refused" if self.is_disk_full else "accepted again"
            log.warning("the disk is %.0f %% full: writes are %s", used * 100, effect)


def _remove(disk: Disk, directory: str, paths: list[str]) -> _Removed:
    """Remove log files in order, and return when their names are gone. Runs on a worker."""
    count, failure = 0, None
    try:
        for path in paths:
            disk.remove(path)
            count += 1
    except StoreError as error:
        failure = error
    if count:
        disk.sync_directory(directory)
    return count, failure


def _log_failure(error: StoreError) -> None:
    log.error("expired files could not be removed; retrying: %s", error)
