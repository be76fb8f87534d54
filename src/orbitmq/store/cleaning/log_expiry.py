"""Removal of expired log files, in steps that don't hold up the owner of the store.

::

    IDLE ── files may go ──▶ SYNCING queues ──▶ REMOVING files ──▶ FOLLOWING ──▶ IDLE
                              a worker           a worker           queues and index; the owner,
                                                                    some queues in a tick

Laws:

- Queues are on the disk before files of the log go: a power loss would take entries whose records
  are gone, and offsets would be used again.
- Files go from the oldest on, and their names are gone from the disk before queues and index
  follow: no queue lacks an entry of a record that a power loss brings back.
- A file leaves the log before a worker removes it, and comes back if it can't be removed.
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
from orbitmq.store.log.segments import Segment, SegmentChain
from orbitmq.store.queues.consume_queue import ConsumeQueue
from orbitmq.store.queues.consume_queues import ConsumeQueues
from orbitmq.store.settings import StoreSettings
from orbitmq.threads import Future, Workers

__all__ = ["LogExpiry", "SyncQueues"]

log = logging.getLogger("orbitmq.store")

SyncQueues = Callable[[Callable[[bool], None]], bool]
"""Begins to sync all queues, and calls back whether it succeeded; False if it can't begin now."""

_HOUR: Final = slice(8, 10)  # in yyyyMMddHHmmssSSS
_QUEUES_PER_STEP: Final = 128

_Removed = tuple[int, StoreError | None]
"""How many files were removed, and why no more."""


class _Removing(NamedTuple):
    segments: list[Segment]
    work: Future[_Removed]


class LogExpiry:
    """Removes log files that have expired; queues and index follow. The owner calls it."""

    def __init__(
        self,
        disk: Disk,
        directory: str,
        settings: StoreSettings,
        chain: SegmentChain,
        queues: ConsumeQueues,
        index: KeyIndex,
        workers: Workers,
        when_done: WhenDone,
    ) -> None:
        self._disk = disk
        self._directory = directory
        self._retention = Retention(settings)
        self._chain = chain
        self._queues = queues
        self._index = index
        self._workers = workers
        self._when_done = when_done
        self._count = 0  # files that go once the queues are synced
        self._removing: _Removing | None = None
        self._following: Iterator[ConsumeQueue] | None = None
        self._is_finished = False
        self.is_asked = False
        """Whether an operator wants files removed, and the removal could not begin yet."""
        self.is_disk_full = False
        """Whether so much of the disk is used that nothing may be written."""
        self.sync_queues: SyncQueues = lambda _done: False

    def __repr__(self) -> str:
        return f"<LogExpiry of {self._directory}{', under way' if self.is_under_way else ''}>"

    @property
    def is_under_way(self) -> bool:
        """Whether a removal has begun and not ended."""
        return bool(self._count) or self._removing is not None or self._following is not None

    @property
    def log_start(self) -> int:
        """Where the log begins; files before it are gone from the disk for good."""
        removing = self._removing
        return removing.segments[0].base if removing else self._chain.first_offset

    @property
    def disk_used_ratio(self) -> float:
        """How much of the disk is used, from 0 to 1; of the fuller one, if the log has its own."""
        directories = (self._directory, self._chain.directory)
        return max(self._disk.usage(directory).ratio for directory in directories)

    def apply(self, settings: StoreSettings) -> None:
        """Keep files for as long as these settings say."""
        self._retention = Retention(settings)

    def begin(
        self, *, flushed: int, now_ms: int, asked: bool = False, most: int | None = None
    ) -> list[int]:
        """Begin to remove the oldest log files that may go; return where these begin.

        While a removal is under way, or queues can't be synced, nothing begins.

        Args:
            flushed: how much of the log is on the disk; files with more than that stay.
            now_ms: the time of day.
            asked: whether an operator wants it done now, whatever the hour.
            most: how many files may go; None: as many as may go in a round.

        Raises:
            StoreError: the disk failed.

        """
        self.is_asked = asked = asked or self.is_asked
        if self.is_under_way or self._is_finished:
            return []
        used = self.disk_used_ratio
        self._note_use(used)
        files = [
            AgedFile(segment.base, self._disk.modified_ms(segment.path))
            for segment in self._chain.segments
            if segment.end <= flushed or segment is self._chain.last
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
        """Let some more queues follow the log, and the index in the end."""
        if self._following is None:
            return
        start = self._chain.first_offset
        try:
            some = list(islice(self._following, _QUEUES_PER_STEP))
            for queue in some:
                if self._queues.queue(queue.topic, queue.queue_id) is queue:
                    queue.clean(start)
            if len(some) < _QUEUES_PER_STEP:
                self._following = None
                self._index.clean(start)
        except StoreError as error:
            self._following = None
            _log_failure(error)

    def finish(self) -> None:
        """Wait for files that are being removed, and begin no more, for a stop."""
        self._is_finished = True
        if self._removing is not None:
            work = self._removing.work
            self._removed(work, work.exception())

    def _queues_synced(self, ok: bool) -> None:
        count, self._count = self._count, 0
        if not ok or self._is_finished:
            return
        segments = [self._chain.take_first() for _ in range(count)]
        paths = [segment.path for segment in segments]
        work = self._workers.submit(_remove, self._disk, self._chain.directory, paths)
        self._removing = _Removing(segments, work)
        self._when_done(work, lambda error: self._removed(work, error))

    def _removed(self, work: Future[_Removed], error: BaseException | None) -> None:
        removing = self._removing
        if removing is None or removing.work is not work:
            return  # a stop has waited for it
        self._removing = None
        if error is not None:
            if not isinstance(error, StoreError):
                raise error
            _log_failure(error)
            return
        count, failure = work.result()
        self._chain.put_back(removing.segments[count:])
        if failure is not None:
            _log_failure(failure)
        if count:
            log.info("%d log files removed, up to byte %d", count, self._chain.first_offset)
            self._following = iter(list(self._queues))
            self.step()

    def _note_use(self, used: float) -> None:
        if self._retention.is_full(used) is not self.is_disk_full:
            self.is_disk_full = not self.is_disk_full
            goes = "stops" if self.is_disk_full else "goes on"
            log.warning("the disk is %.0f %% full: writing %s", used * 100, goes)


def _remove(disk: Disk, directory: str, paths: list[str]) -> _Removed:
    """Remove log files, in order; return when their names are gone. Runs on a worker."""
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
    log.error("old files could not be removed; this is tried again: %s", error)
