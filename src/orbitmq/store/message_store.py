"""A store directory in use: everything below it, wired together.

::

    append ──▶ commit log ──▶ (flushed, in SYNC_FLUSH) ──▶ consume queues, key index ──▶ listeners
                   │
                   └──▶ flusher ──▶ whoever waits for the disk

One thread owns a store. It appends a turn's messages at once, asks to be told of their durability,
and lets the clock in by ``tick``. Workers only sync; they reach the owner through ``post``.
"""

import logging
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import ExitStack

from orbitmq.clock import Clock, SystemClock, local_stamp
from orbitmq.errors import StoreDamaged, StoreError
from orbitmq.message.names import is_lmq
from orbitmq.message.record_view import RecordView
from orbitmq.store.checkpoint import AbortMarker, Checkpoint, CheckpointValues, StoreLock
from orbitmq.store.commit_log import Appended, CommitLog
from orbitmq.store.consume_queue import Boundary
from orbitmq.store.consume_queues import ConsumeQueues
from orbitmq.store.damage import Damage
from orbitmq.store.disk import Disk, RealDisk
from orbitmq.store.dispatch import Dispatched, Dispatcher
from orbitmq.store.flush import Flusher, Post
from orbitmq.store.key_index import KeyIndex
from orbitmq.store.mending import mend_queues, mend_stream
from orbitmq.store.open_files import Unsynced
from orbitmq.store.put import Incoming, PutResult, PutStatus
from orbitmq.store.queue_entry import ENTRY_SIZE
from orbitmq.store.restart import Restart
from orbitmq.store.retention import AgedFile, Retention
from orbitmq.store.segment_chain import SegmentChain, path_join
from orbitmq.store.settings import FlushMode, StoreSettings, delay_levels
from orbitmq.threads import Future, ThreadWorkers, Workers

__all__ = ["MessageStore"]

log = logging.getLogger("orbitmq.store")

_CHECKPOINT_MS = 1_000
_CLEAN_MS = 10_000
_HOUR = slice(8, 10)  # in yyyyMMddHHmmssSSS


class MessageStore:
    """Keeps messages in a directory that is RocketMQ's.

    Args:
        directory: the root of the store; made if it is absent.
        settings: how it keeps, flushes and reads.
        post: has a function called by the owner's thread, soon. Without it flushes are told of
            inside the worker's thread, which only a test that has no threads can use.
        pid: written into the abort file, for people.
        disk, clock, workers: what it stands on.

    ``open`` it before use, ``close`` it in the end.

    """

    def __init__(
        self,
        directory: str,
        settings: StoreSettings | None = None,
        *,
        post: Post = lambda call: call(),
        pid: int = 0,
        disk: Disk | None = None,
        clock: Clock | None = None,
        workers: Workers | None = None,
    ) -> None:
        self.directory = directory
        self.settings = settings or StoreSettings()
        self._pid = pid
        self._disk = disk or RealDisk()
        self._clock = clock or SystemClock()
        # Two: the queues' files may be many, and the log's must not wait for them.
        self._workers = workers or ThreadWorkers(2, name="store flush")
        self._post = post
        self._chain = SegmentChain(self._disk, self._path("commitlog"), self.settings.segment_bytes)
        self.queues = ConsumeQueues(
            self._disk,
            self._path("consumequeue"),
            entries_per_file=self.settings.queue_file_entries,
        )
        self.index = KeyIndex(
            self._disk,
            self._path("index"),
            slots=self.settings.index_slots,
            entries=self.settings.index_entries,
            file_name=lambda: local_stamp(self._clock.now_ms()),
        )
        self.log = CommitLog(self._chain, self.settings, self._next_queue_offset)
        self._flusher = Flusher(self._chain, self.settings, self._workers, post)
        self._flusher.on_flushed = self._dispatch_flushed
        self._dispatcher = Dispatcher(delay_levels(self.settings.message_delay_level))
        self._undispatched: deque[Appended] = deque()
        self._lock: StoreLock | None = None
        self._is_open = False
        self._abort = AbortMarker(self._disk, self._path("abort"))
        self._checkpoint: Checkpoint | None = None
        self._checkpoint_at_ms = 0
        self._queues_synced_at_ms = 0
        self._syncing_queues = False
        self._writing_checkpoint = False
        self._cleaned_at_ms = 0
        self._disk_full = False
        self._dispatch_failure: StoreError | None = None
        self._retention = Retention(self.settings)
        # Up to where the log had grown when the last record of a turn was stored, oldest first.
        self._store_times: deque[tuple[int, int]] = deque()
        self._flushed_store_ms = 0
        self._dispatched_store_ms = 0
        self._queues_store_ms = 0
        self._index_store_ms = 0
        self.damages: list[Damage] = []
        """Places that the last recovery could not read."""
        self.on_arrival: Callable[[Dispatched], None] = lambda _entry: None
        """Called by the owner for each message that consumers can see from now on."""

    def __repr__(self) -> str:
        return f"<MessageStore {self.directory} {self.log.first_offset}..{self.log.end}>"

    # Life

    def open(self, progress: Callable[[int, int], None] = lambda _done, _total: None) -> None:
        """Take the directory over: lock it, recover it, and begin to write.

        Raises:
            StoreLocked: another process uses it.
            StoreDamaged: its files contradict each other; the message says what to do.
            DiskFailed: a file can't be read or made.

        """
        self._lock = StoreLock(self._disk, self.directory)
        try:
            crashed = self._abort.is_present
            self._checkpoint = Checkpoint(self._disk, self._path("checkpoint"))
            if crashed:
                self._mend()
            self._chain.load()
            self.queues.load()
            if self.settings.index_enabled:
                checkpoint_ms = self._checkpoint.values.index_ms
                self.index.load(clean_stop=not crashed, checkpoint_ms=checkpoint_ms)
            self._abort.create(str(self._pid))
            self._recover(crashed, progress)
        except BaseException:
            self._release()
            raise
        self._is_open = True

    def close(self) -> None:
        """Flush and dispatch everything, and give the directory back.

        After a failure of the disk the abort marker stays, so that the next start looks closely.
        A store that could not be opened, or is closed, has nothing to flush.

        Raises:
            StoreError: the disk failed; the directory is given back all the same.

        """
        try:
            if self._is_open:
                self._is_open = False
                self._stop()
        finally:
            self._release()

    def _stop(self) -> None:
        self._flusher.flush_all(self.log.end)
        self.queues.write()
        self.queues.sync()
        self.index.sync()
        if self._undispatched or self.failure is not None:
            return
        self._queues_store_ms = self._dispatched_store_ms
        if self._checkpoint is not None:
            self._checkpoint.write(self._checkpoint_values())
        self._remove_unused_segments()
        self._abort.remove()

    def _release(self) -> None:
        with ExitStack() as held:  # the lock goes last, and even if a file can't be closed
            if self._lock is not None:
                held.callback(self._lock.release)
            if self._checkpoint is not None:
                held.callback(self._checkpoint.close)
            held.callback(self._chain.close)
            held.callback(self.index.close)
            held.callback(self.queues.close)
            held.callback(self._workers.close)

    # Writing

    def append(self, messages: Sequence[Incoming]) -> list[PutResult]:
        """Store the messages of one turn; return what became of each, in order.

        They are in the log when this returns; ``when_durable`` tells when they are on the disk.
        """
        if reason := self._why_not_writable():
            refusal = PutResult(status=PutStatus.SERVICE_NOT_AVAILABLE, remark=reason)
            return [refusal for _ in messages]
        results, appended = self.log.append(messages, self._clock.now_ms())
        if appended:
            self._undispatched.extend(appended)
            self._store_times.append((self.log.end, self.log.last_store_ms))
        if self.settings.flush_mode is FlushMode.ASYNC:
            self._dispatch(self.log.end)
        return results

    def when_durable(self, end: int, told: Callable[[bool], None]) -> None:
        """Have ``told`` called with True once all of the log before ``end`` is on the disk.

        It is called with False if that fails or takes too long. Call ``flush_soon`` after the
        last one of a turn.
        """
        self._flusher.wait_for(end, self._clock.monotonic_ms(), told)

    def flush_soon(self) -> None:
        """Begin to flush for those who wait, unless a flush is under way."""
        self._flusher.appended(self.log.end)

    def tick(self) -> None:
        """Do what is due by the clock; call it every hundred milliseconds or so."""
        now_ms = self._clock.monotonic_ms()  # the time of day may go back, and nothing be flushed
        self._flusher.tick(self.log.end, now_ms)
        if now_ms - self._queues_synced_at_ms >= self.settings.queue_flush_thorough_interval_ms:
            self._queues_synced_at_ms = now_ms
            self._sync_queues()
        if now_ms - self._cleaned_at_ms >= _CLEAN_MS:
            self._cleaned_at_ms = now_ms
            self._clean_by_the_clock()
        if now_ms - self._checkpoint_at_ms >= _CHECKPOINT_MS:
            self._checkpoint_at_ms = now_ms
            self._checkpoint_soon()

    def clean(self, *, asked: bool = False) -> list[int]:
        """Remove the oldest files of the log that may go; return where they began.

        Queues and index follow. Views that somebody still holds stay readable.

        Args:
            asked: whether an operator wants it done now, whatever the hour.

        """
        used = self._disk.usage(self.directory).ratio
        if self._retention.is_full(used) is not self._disk_full:
            self._disk_full = not self._disk_full
            goes = "stops" if self._disk_full else "goes on"
            log.warning("the disk is %.0f %% full: writing %s", used * 100, goes)
        now_ms = self._clock.now_ms()
        files = [
            AgedFile(segment.base, self._disk.modified_ms(segment.file.path))
            for segment in self._chain.segments
            if segment.end <= self._flusher.flushed or segment is self._chain.last
        ]
        hour = local_stamp(now_ms)[_HOUR]
        count = self._retention.expired(files, now_ms=now_ms, hour=hour, used=used, asked=asked)
        removed = [self._chain.remove_first().base for _ in range(count)]
        if removed:
            log.info("%d files of the log were removed, up to %d", count, self.log.first_offset)
            self.queues.clean(self.log.first_offset)
            self.index.clean(self.log.first_offset)
        return removed

    @property
    def flushed(self) -> int:
        """Everything before this offset of the log is on the disk."""
        return self._flusher.flushed

    @property
    def failure(self) -> StoreError | None:
        """Why nothing is written any more; None while all is well."""
        return self._flusher.failure or self.log.failure or self._dispatch_failure

    # Reading

    def record(self, commit_log_offset: int) -> RecordView | None:
        """Return the record at an offset of the log; None if none begins there."""
        return self.log.record(commit_log_offset)

    def offset_by_time(
        self, topic: str, queue_id: int, timestamp_ms: int, boundary: Boundary = Boundary.LOWER
    ) -> int:
        """Return the queue offset that a moment stands for; 0 for a queue that is not there."""
        queue = self.queues.queue(topic, queue_id)
        if queue is None:
            return 0
        return queue.offset_by_time(timestamp_ms, boundary, self._store_time_of)

    # Inside

    def _why_not_writable(self) -> str:
        """Return why nothing can be stored now; empty if it can."""
        if not self._is_open:
            return "the store is not open"
        if failure := self._flusher.failure or self.log.failure:
            return f"the disk failed: {failure}"
        if self._dispatch_failure is not None:
            return f"queues or index can't be written: {self._dispatch_failure}"
        return "the disk is full" if self._disk_full else ""

    def _path(self, name: str) -> str:
        return path_join(self.directory, name)

    def _next_queue_offset(self, topic: str, queue_id: int) -> int:
        queue = self.queues.queue(topic, queue_id)
        return 0 if queue is None else queue.max_offset

    def _store_time_of(self, commit_log_offset: int, _size: int) -> int | None:
        found = self.record(commit_log_offset)
        return None if found is None else found.store_timestamp_ms

    def _dispatch_flushed(self, end: int) -> None:
        while self._store_times and self._store_times[0][0] <= end:
            self._flushed_store_ms = self._store_times.popleft()[1]
        if self.settings.flush_mode is FlushMode.SYNC:
            self._dispatch(end)

    def _dispatch(self, end: int) -> None:
        """Bring queues and index up to an offset of the log, and tell who listens."""
        arrived: list[Dispatched] = []
        waiting, entries_of = self._undispatched, self._dispatcher.entries_of
        index_put = self.index.put if self.settings.index_enabled else None
        try:
            while waiting and waiting[0].filed.commit_log_offset < end:
                for entry in entries_of(waiting[0].filed, waiting[0].size):
                    if index_put is not None:
                        index_put(entry)
                    if entry.in_queue and self._enqueue(entry):
                        arrived.append(entry)
                waiting.popleft()
            self.queues.write()
        except StoreError as error:
            # The log has the records; the next start brings queues and index up to it.
            log.critical("dispatch failed, and the store takes no more writes: %s", error)
            self._dispatch_failure = error
        if arrived:
            self._dispatched_store_ms = arrived[-1].store_timestamp_ms
        for entry in arrived:
            self.on_arrival(entry)

    def _enqueue(self, entry: Dispatched) -> bool:
        try:
            return self.queues.append(entry)
        except StoreDamaged as error:
            if not is_lmq(entry.topic):
                raise
            # Its offset stands in a property of the message: no reason to stop for everybody.
            log.error("an entry of a light queue is left out: %s", error)
            return False

    def _mend(self) -> None:
        settings = self.settings
        log_bytes = settings.segment_bytes
        mend_stream(self._disk, self._path("commitlog"), log_bytes, keep_filled=True)
        queue_bytes = settings.queue_file_entries * ENTRY_SIZE
        mend_queues(self._disk, self._path("consumequeue"), queue_bytes)

    def _recover(self, crashed: bool, progress: Callable[[int, int], None]) -> None:
        assert self._checkpoint is not None
        known = self._checkpoint.values
        restart = Restart(
            self._chain, self.log, self.queues, self.index, self._dispatcher, self.settings
        )
        restart.run(crashed=crashed, limit_ms=known.recovery_limit_ms, progress=progress)
        self.damages = restart.damages
        now_ms = self._clock.monotonic_ms()
        self._flusher.start_at(self.log.end, now_ms)
        self._flushed_store_ms = self._dispatched_store_ms = self.log.last_store_ms
        self._queues_store_ms = self.log.last_store_ms
        self._index_store_ms = known.index_ms
        self._queues_synced_at_ms = now_ms

    def _sync_queues(self) -> None:
        """Have a worker sync the queues; only then does the checkpoint speak for them."""
        if self._syncing_queues or self.failure is not None:
            return
        self._syncing_queues = True
        covered_ms = self._dispatched_store_ms
        unsynced = (self.queues.take_unsynced(), self.index.take_unsynced())
        filled_ms = self.index.filled_timestamp_ms
        work = self._workers.submit(_sync_all, unsynced, self._disk)
        self._when_done(work, lambda error: self._queues_synced(covered_ms, filled_ms, error))

    def _queues_synced(self, covered_ms: int, filled_ms: int, error: BaseException | None) -> None:
        self._syncing_queues = False
        if error is None:
            self._queues_store_ms = max(self._queues_store_ms, covered_ms)
            self._index_store_ms = max(self._index_store_ms, filled_ms)
        elif isinstance(error, StoreError):
            # A second sync would succeed without the pages that were lost, and the checkpoint lie.
            log.critical("queues can't be synced, and the store takes no more writes: %s", error)
            self._dispatch_failure = error
        else:
            raise error

    def _when_done(self, work: Future[None], told: Callable[[BaseException | None], None]) -> None:
        """Have the owner told how a worker fared, unless a stop came before the work began."""
        work.add_done_callback(
            lambda done: self._post(lambda: None if done.cancelled() else told(done.exception()))
        )

    def _clean_by_the_clock(self) -> None:
        try:
            self.clean()
        except StoreError as error:
            log.error("old files could not be removed, and are tried again: %s", error)

    def _checkpoint_soon(self) -> None:
        """Have a worker write the checkpoint; what it says is true already."""
        if self._checkpoint is None or self._writing_checkpoint or self.failure is not None:
            return
        self._writing_checkpoint = True
        work = self._workers.submit(self._checkpoint.write, self._checkpoint_values())
        self._when_done(work, self._checkpoint_written)

    def _checkpoint_written(self, error: BaseException | None) -> None:
        self._writing_checkpoint = False
        if isinstance(error, StoreError):
            # An older checkpoint makes a recovery read more, and loses nothing.
            log.error("the checkpoint could not be written, and is tried again: %s", error)
        elif error is not None:
            raise error

    def _checkpoint_values(self) -> CheckpointValues:
        """Return what is known to be on the disk."""
        assert self._checkpoint is not None
        values = self._checkpoint.values
        # An index that knows records which the log may lose would keep their places for ever.
        index_ms = self._index_store_ms
        if index_ms > self._flushed_store_ms:
            index_ms = values.index_ms
        # Java removes the younger index files after a crash, and reads the log again only from the
        # other two times on: a later one would cost it the keys in between.
        queues_ms = self._queues_store_ms
        if self.settings.index_enabled:
            queues_ms = min(queues_ms, index_ms)
        return values._replace(
            log_ms=self._flushed_store_ms, queues_ms=queues_ms, index_ms=index_ms
        )

    def _remove_unused_segments(self) -> None:
        while (last := self._chain.last) and last.base >= self.log.end:
            if len(self._chain.segments) == 1:
                break  # it keeps the place of the log
            self._chain.remove_last()


def _sync_all(unsynced: Sequence[Unsynced], disk: Disk) -> None:
    """Sync what was written. Runs on a worker."""
    for one in unsynced:
        one.sync(disk)
