"""A store directory in use: all of its parts, wired together.

::

    append ──▶ commit log ──▶ (flushed, in SYNC_FLUSH; confirmed, in a group with elections)
                   │                ──▶ consume queues, key index ──▶ listeners
                   │
                   └──▶ flusher ──▶ waiters

One thread owns a store. It appends the messages of a turn at once, learns by ``when_durable`` that
they are on disk, and calls ``tick`` periodically. Workers do what blocks, and call back through
``post``.
"""

import logging
from collections import deque
from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any, Final, overload

import msgspec

from orbitmq.clock import Clock, SystemClock
from orbitmq.errors import StoreError
from orbitmq.message.buffer import Buffer
from orbitmq.message.record_view import RecordView
from orbitmq.store.checkpoint.checkpoint import AbortMarker, CheckpointValues, StoreLock
from orbitmq.store.checkpoint.checkpoint_writer import CheckpointWriter
from orbitmq.store.checkpoint.claims import Claims, Synced, without_lost_index
from orbitmq.store.checkpoint.queue_ends import QueueEnds
from orbitmq.store.checkpoint.queue_sync import QueueSync
from orbitmq.store.cleaning.log_expiry import LogExpiry
from orbitmq.store.cleaning.removal import Removal
from orbitmq.store.damage import Damage
from orbitmq.store.disk.disk import Disk, RealDisk
from orbitmq.store.disk.memory import memory_bytes
from orbitmq.store.disk.open_files import is_obstacle, obstacle_text, warn_of_shortage
from orbitmq.store.dispatch import Dispatched, Dispatcher
from orbitmq.store.index.key_index import IndexMark
from orbitmq.store.layout import (
    CHECKPOINT,
    CONSUME_QUEUE_EXT,
    QUEUE_ENDS,
    path_join,
)
from orbitmq.store.log.append import Incoming, Part, PutRecords, PutResult, PutStatus, result_of
from orbitmq.store.log.commit_log import CommitLog
from orbitmq.store.log.copied import LogCopy
from orbitmq.store.log.flush import Flusher, Post
from orbitmq.store.log.segments import Segments
from orbitmq.store.log.tail import LogTail
from orbitmq.store.parts import new_index, new_queues
from orbitmq.store.progress import LoggedProgress, Progress
from orbitmq.store.queues.consume_queues import Ends
from orbitmq.store.queues.extension import QueueExtensions
from orbitmq.store.recovery.index_gaps import first_keyed
from orbitmq.store.recovery.missing_log import accepted_loss
from orbitmq.store.recovery.power_loss import mend_store
from orbitmq.store.recovery.start import StoreRecovery
from orbitmq.store.recovery.truncation import LogPiece, Truncation
from orbitmq.store.serving.lookup import MessageLookup
from orbitmq.store.serving.pull_reader import PullReader
from orbitmq.store.settings import CHANGEABLE, FlushMode, StoreSettings, delay_levels
from orbitmq.store.store_time import StoreTime
from orbitmq.threads import Future, ThreadWorkers, Workers

__all__ = ["STORE_WORKERS", "MessageStore"]

log = logging.getLogger("orbitmq.store")

STORE_WORKERS: Final = 5
"""Threads of a store: one per kind of work, of which one job at a time is in flight. A sync of the
log must not wait for one of the queues, which may have many files, for the checkpoint, for space,
or for the removal of files."""
_CHECKPOINT_MS = 1_000
_CLEAN_MS = 10_000
_BUFFERED_ENTRIES = 65_536
"""Queue entries that may wait in memory for a tick: 1.3 MB."""
_QUEUES_PER_TICK = 1024
"""Queues written per tick, so that thousands of them don't delay messages."""


class MessageStore:
    """A message store in RocketMQ's file format; ``open`` it before use, and ``close`` it.

    ``post`` schedules a call on the owner's thread. The default calls at once, on the worker's
    thread: for tests without threads. ``pid`` is written into the abort file, for people.
    ``memory_limit`` is the memory that the process may use, in bytes; None: what the system has.
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
        memory_limit: int | None = None,
    ) -> None:
        self.directory = directory
        self.settings = settings or StoreSettings()
        self._pid = pid
        self._disk = disk or RealDisk()
        self._clock = clock or SystemClock()
        self._time = StoreTime(self._clock)
        self._workers = workers or ThreadWorkers(STORE_WORKERS, name="store")
        self._post = post
        self._segments = self._new_segments()
        self.queues = new_queues(self._disk, directory, self.settings, self._make_room)
        self.index = new_index(self._disk, directory, self.settings, self._clock, self._make_room)
        self._dispatcher = Dispatcher(delay_levels(self.settings.message_delay_level))
        self.log = self._new_log()
        self.tail = LogTail(self.log)
        """The log as replicas get it."""
        self.copy = LogCopy(self.log, self._dispatcher, self._appended)
        """What this store has of a primary's log; use ``append_copy`` to add to it."""
        self.is_replica = False
        """Whether the log is a copy of a primary's; messages are refused then."""
        self._flusher = Flusher(self._segments, self.settings, self._workers, post)
        self._flusher.on_flushed = self._dispatch_flushed
        self._flusher.make_room = self._make_room
        self._undispatched: deque[Dispatched] = deque()
        self._lock: StoreLock | None = None
        self._is_open = False
        self._abort = AbortMarker(self._disk, self._path("abort"))
        self._checkpoint_at_ms = 0
        self._queues_synced_at_ms = 0
        self._cleaned_at_ms = 0
        self._dispatch_failure: StoreError | None = None
        self._obstacle: StoreError | None = None  # queues and index keep in memory what they have
        self._shortages = 0
        memory = memory_bytes(self._disk) if memory_limit is None else memory_limit
        self._pulls = PullReader(self.log, self.settings, memory)
        self._extensions = QueueExtensions(self._disk, self._path(CONSUME_QUEUE_EXT))
        self.queues.on_topic_deleted = self._extensions.forget
        self.lookup = MessageLookup(
            self.log, self.queues, self.index, self._pulls, self._extensions
        )
        """Read requests: pulls, queries, offsets and times."""
        self._add_cleaning()
        # The end of the log after each turn, and the store timestamp of the turn.
        self._store_times: deque[tuple[int, int]] = deque()
        self._dispatched_store_ms = 0
        self._claims = Claims(CheckpointValues(), 0, IndexMark())
        self._add_syncs()
        self.confirmed = 0
        """In an elected group all brokers in sync have the log before this; its owner sets it."""
        self.damages: list[Damage] = []
        """What the last recovery could not read."""
        self._add_hooks()

    def _add_hooks(self) -> None:
        self.on_arrival: Callable[[list[Dispatched]], None] = lambda _entries: None
        """Called on the owner's thread, once per turn, with messages that consumers now see."""
        self.on_written: Callable[[], None] = lambda: None
        """Called on the owner's thread when the log has grown."""
        self.why_refused: Callable[[], str] = lambda: ""
        """Returns why the owner lets no messages be stored now; empty if it does."""
        self.confirmed_end: Callable[[], int] | None = None
        """Consumers see no message at or after the offset of the log that it returns. None: all."""
        self.on_truncate: Callable[[int], None] = lambda _end: None
        """Called on the owner's thread before a replica's log is cut, with its end to be; it may
        raise StoreError."""

    def _add_syncs(self) -> None:
        given = (self._disk, self._path(CHECKPOINT), self._checkpoint_values)
        self._checkpoint = CheckpointWriter(*given, self._workers, self._when_done)
        self._queue_sync = QueueSync(
            self.queues, self.index, self._ends, self._disk, self._workers, self._when_done
        )
        self._queue_sync.on_failure = self._fail_to_sync
        self._queue_sync.make_room = self._make_room
        self.truncation = Truncation(
            *(self._disk, self.directory, self._segments, self.log, self.queues, self.index),
            *(self._ends, self._checkpoint),
        )

    def _add_cleaning(self) -> None:
        self._ends = QueueEnds(self._disk, self._path(QUEUE_ENDS))
        self._expiry = LogExpiry(
            *(self._disk, self.directory, self.settings, self._segments, self.queues, self.index),
            *(self._workers, self._when_done),
        )
        self._expiry.sync_queues = self._begin_queue_sync
        self._removal = Removal(
            *(self._disk, self.directory, self.log, self.queues, self._ends),
            lambda: self._expiry.log_start,
        )

    def __repr__(self) -> str:
        return f"<MessageStore {self.directory} {self.log.first_offset}..{self.log.end}>"

    def _new_segments(self) -> Segments:
        path = self.settings.log_directory(self.directory)
        size = self.settings.segment_bytes
        return Segments(self._disk, path, size, self._workers, self._make_room)

    def _new_log(self) -> CommitLog:
        log = CommitLog(self._segments, self.settings, self._next_queue_offset, self._dispatcher)
        log.may_make_light = self._may_make_light
        return log

    def apply(self, settings: StoreSettings) -> None:
        """Change the ``CHANGEABLE`` settings while the store is in use; the others are ignored."""
        taken = {name: getattr(settings, name) for name in CHANGEABLE}
        self.settings = msgspec.structs.replace(self.settings, **taken)
        self.log.apply(self.settings)
        self._flusher.settings = self.settings
        self._pulls.apply(self.settings)
        self._expiry.apply(self.settings)

    # Life

    def open(
        self,
        progress: Progress = lambda _done, _total: None,
        on_locked: Callable[[], None] = lambda: None,
    ) -> None:
        """Lock and recover the directory; then the store can be used.

        Any thread may call this, if no other uses the store meanwhile. A long recovery logs its
        progress; ``progress`` is called more often, with bytes of the log. ``on_locked`` is called
        before anything is read, to load what ``queues.topic_has_batches`` depends on. Raise
        StoreLocked if another process uses the directory, and StoreDamaged if its files contradict
        each other.
        """
        self._lock = StoreLock(self._disk, self.directory)
        try:
            on_locked()
            crashed = self._abort.is_present
            self._checkpoint.open()
            if crashed:
                mend_store(self._disk, self.directory, self.settings)
            self._segments.load()
            self.queues.load()
            listed = self._listed_ends()
            lost = accepted_loss(
                *(self._segments, self.queues, self._checkpoint.values, listed),
                crashed=crashed,
                is_accepted=self.settings.accept_loss,
            )
            if self.settings.index_enabled:
                known = self._checkpoint.values
                self.index.load(
                    clean_stop=not crashed,
                    checkpoint_ms=known.index_ms,
                    mark=known.own and known.own.index_mark,
                    find_keyed=partial(first_keyed, self._segments),
                )
            self._abort.create(str(self._pid))
            self._recover(crashed, listed, lost, progress)
        except BaseException:
            self._release()
            raise
        self._is_open = True

    def close(self) -> None:
        """Flush and dispatch everything, and release the directory.

        After a disk failure the abort marker stays, so that the next start recovers as after a
        crash. A store that is not open is only released. Raise StoreError if the disk failed; the
        directory is released nevertheless.
        """
        try:
            if self._is_open:
                self._is_open = False
                self._stop()
        finally:
            self._release()

    def _stop(self) -> None:
        self._flusher.flush_all(self.log.end)
        self._dispatch_before(self.log.end)
        self._expiry.finish()
        self._queue_sync.finish()
        self._checkpoint.finish()
        self._write_waiting()
        self.queues.sync()
        self._drop_spoiled_index()
        is_whole = not self._undispatched and self.failure is None
        if is_whole:
            self.index.reach(self.log.end - 1)
        self.index.sync()
        if not is_whole:
            return
        self._close_idle_files()  # the rest must not run out of descriptors
        self._queue_sync.list_now()
        self._claims.add(Synced(self._dispatched_store_ms))
        self._checkpoint.write(self._checkpoint_values())
        self._segments.remove_unused(self.log.end)
        self._abort.remove()

    def _release(self) -> None:
        with ExitStack() as held:  # the lock is released last, even if a file can't be closed
            if self._lock is not None:
                held.callback(self._lock.release)
            held.callback(self._checkpoint.close)
            held.callback(self._segments.close)
            held.callback(self.index.close)
            held.callback(self.queues.close)
            held.callback(self._extensions.close)
            held.callback(self._workers.close)

    # Writing

    @overload
    def append(self, parts: Sequence[Incoming]) -> list[PutResult]: ...
    @overload
    def append(self, parts: Sequence[Part]) -> Sequence[PutResult | PutRecords]: ...
    def append(self, parts: Sequence[Part]) -> Sequence[PutResult | PutRecords]:
        """Store what one turn brought; return the results of the parts, in order.

        They are messages, and lists of records if ``log.takes_records``. They are in the log when
        this returns; ``when_durable`` reports when they are on disk.
        """
        if refusal := self._refusal():
            return [result_of(part, refusal) for part in parts]
        results, appended = self.log.append(parts, self._time.now_ms())
        self._appended(appended)
        return results

    def forward(self, messages: Sequence[Incoming]) -> list[PutResult]:
        """Store messages that the log already has in other queues; return their results.

        After one that can't be stored, the others are not stored either.
        """
        if refusal := self._refusal():
            return [refusal for _ in messages]
        results, appended = self.log.forward(messages, self._time.now_ms())
        self._appended(appended)
        return results

    def _refusal(self) -> PutResult | None:
        if reason := self._why_not_writable():
            return PutResult(status=PutStatus.SERVICE_NOT_AVAILABLE, remark=reason)
        return None

    def begin_copy(self, offset: int) -> None:
        """Let the empty log of a replica begin where a file of its primary's does.

        Raise StoreDamaged if it is not empty, or the files have other sizes.
        """
        self.log.begin_copy(offset)
        self._flusher.start_at(offset, self._clock.monotonic_ms())

    def append_copy(self, data: Buffer) -> None:
        """Store bytes of a primary's log that begin at ``copy.next_offset``.

        Whole records are in the log when this returns. Raise StoreDamaged if the bytes are no
        records of that place, and StoreError if the store can't be written to.
        """
        if reason := self._why_stopped():
            self.copy.forget()
            raise StoreError(f"the log can't be copied: {reason}", path=self.directory)
        self.copy.append(data)

    def truncate(self, end: int, pieces: Sequence[LogPiece] = ()) -> None:
        """Cut off the end of a replica's log, with what queues and index have of it.

        ``pieces`` of the log are saved in files before. Raise StoreDamaged, and cut nothing, if no
        record ends there. Raise StoreError if the disk is full or fails: nothing is cut, or the
        store takes no more writes until the next start.
        """
        if reason := self._why_stopped():
            raise StoreError(f"the log can't be cut: {reason}", path=self.directory)
        cut = self.truncation
        last_store_ms = cut.last_store_ms(end)
        cut.save(pieces)
        self._flusher.flush_all(self.log.end)
        self._dispatch_before(end)  # a start does not know what is confirmed either
        self._queue_sync.drain()
        self._checkpoint.finish()
        self._write_waiting()
        self.queues.sync()
        self.index.sync()
        if self.failure is not None:
            raise self.failure
        self.on_truncate(end)
        self.confirmed = min(self.confirmed, end)
        cut.unclaim(end, last_store_ms, self.confirmed, with_index=self.settings.index_enabled)
        log.warning("cutting the log, which ends at %d, at %d", self.log.end, end)
        try:
            mark = cut.cut(end, last_store_ms)
        except StoreError as error:
            self._fail_to_dispatch(error)
            raise
        self._undispatched.clear()
        self._store_times.clear()
        self.copy.forget()
        self._start_at_end(mark)

    def _appended(self, entries: list[Dispatched]) -> None:
        if entries:
            self._store_times.append((self.log.end, self.log.last_store_ms))
            if self.settings.flush_mode is FlushMode.ASYNC and self.confirmed_end is None:
                self._dispatch(entries)
            else:
                self._undispatched.extend(entries)
            self.on_written()
            self.dispatch_confirmed()

    def dispatch_confirmed(self) -> None:
        """Let consumers see what ``confirmed_end`` allows; a tick does it, too."""
        if self._undispatched:
            is_sync = self.settings.flush_mode is FlushMode.SYNC
            self._dispatch_before(self.lasting_end if is_sync else self._confirmed_end())

    def dispatch_all(self) -> None:
        """Flush and dispatch pending messages, synchronously, confirmed or not.

        Raise StoreError if the disk fails, or failed before.
        """
        if self._undispatched:
            self._flusher.flush_all(self.log.end)
            self._dispatch_before(self.log.end)

    def when_durable(self, end: int, notify: Callable[[bool], None]) -> None:
        """Call ``notify`` with True when all of the log before ``end`` is on disk.

        It is called with False if that fails or takes too long. Call ``flush_soon`` after the
        last one of a turn.
        """
        self._flusher.wait_for(end, self._clock.monotonic_ms(), notify)

    def flush_soon(self) -> None:
        """Begin to flush for waiters, unless a flush is in flight."""
        self._flusher.appended(self.log.end)

    def tick(self) -> None:
        """Do what is due by the clock; call it about every hundred milliseconds."""
        now_ms = self._clock.monotonic_ms()  # the time of day may be set back
        self.log.wipe_rest()
        self._flusher.tick(self.log.end, now_ms)
        self.dispatch_confirmed()
        self._write_queues(_QUEUES_PER_TICK)
        if now_ms - self._queues_synced_at_ms >= self.settings.queue_flush_thorough_interval_ms:
            self._queues_synced_at_ms = now_ms
            self._begin_queue_sync()
        self._expiry.step()
        is_due = now_ms - self._cleaned_at_ms >= _CLEAN_MS or self._expiry.is_asked
        if is_due and not self._expiry.is_in_flight and not self._clean_by_the_clock():
            self._cleaned_at_ms = now_ms
        if now_ms - self._checkpoint_at_ms >= _CHECKPOINT_MS:
            self._checkpoint_at_ms = now_ms
            if self._is_open and self.failure is None:
                self._checkpoint.soon()

    def clean(self, *, asked: bool = False) -> list[int]:
        """Begin to remove expired log files; return their offsets.

        Workers and later ticks remove them, then trim queues and index. Views that others hold stay
        readable. ``asked`` means that an operator asked for it, whatever the hour; if it can't
        begin now, a later tick begins it.
        """
        now_ms = self._clock.now_ms()
        return self._expiry.begin(flushed=self._flusher.flushed, now_ms=now_ms, asked=asked)

    def delete_topic(self, topic: str) -> None:
        """Remove the queues of a topic; if it is used again, its offsets start at 0.

        Pending messages are flushed first, synchronously: a message of the topic that became
        visible later would restore a queue with the old offsets.
        """
        self.dispatch_all()
        self._removal.delete_topic(topic)

    def delete_unused_topics(self, kept: Collection[str]) -> list[str]:
        """Delete all topics except ``kept``, system topics and light queues; return their names."""
        self.dispatch_all()
        return self._removal.delete_unused_topics(kept)

    def delete_expired_queues(self) -> list[tuple[str, int]]:
        """Delete the queues whose records are all gone; return their topics and ids.

        Their offsets start at 0 again, as in Java (``ConsumeQueueStore.cleanExpired``).
        """
        self.dispatch_all()
        return self._removal.delete_expired_queues()

    def now_ms(self) -> int:
        """Return the time that a message stored now gets, by which delay levels are due."""
        return self._time.now_ms()

    @property
    def flushed(self) -> int:
        """Everything before this offset of the log is on disk."""
        return self._flusher.flushed

    @property
    def lasting_end(self) -> int:
        """Everything before this offset of the log is on disk, and confirmed, so that it stays."""
        return min(self._flusher.flushed, self._confirmed_end())

    @property
    def undispatched_bytes(self) -> int:
        """How many bytes of the log consumers can't see yet, because they are not on disk."""
        waiting = self._undispatched
        return self.log.end - waiting[0].commit_log_offset if waiting else 0

    @property
    def disk_used_ratio(self) -> float:
        """The used fraction of the disk, from 0 to 1; of the fuller one if the log has its own."""
        return self._expiry.disk_used_ratio

    @property
    def failure(self) -> StoreError | None:
        """Why no writes are accepted any more."""
        return self._flusher.failure or self.log.failure or self._dispatch_failure

    # Reading

    def record(self, commit_log_offset: int) -> RecordView | None:
        """Return the record at an offset of the log; None if none begins there."""
        return self.log.record(commit_log_offset)

    def is_filed(self, record: RecordView) -> bool:
        """Return whether the queue of a record has it, or gets it when it is on disk.

        False after its topic was deleted, and for bytes of a body that look like a record: an
        offset that a client names may lead to them.
        """
        offset = record.commit_log_offset
        if offset >= self.log.end - self.undispatched_bytes:
            return any(one.commit_log_offset == offset for one in self._undispatched)
        queue = self.queues.queue(record.topic.decode(errors="replace"), record.queue_id)
        entry = None if queue is None else queue.entry(record.queue_offset)
        return entry is not None and entry.commit_log_offset == offset

    # Inside

    def _why_not_writable(self) -> str:
        """Return why no messages are accepted now; empty if they are."""
        if self.is_replica:
            return "message store is in slave mode, so putMessage is forbidden"
        return self.why_refused() or self._why_stopped()

    def _why_stopped(self) -> str:
        """Return why the log can't be written to now; empty if it can."""
        if not self._is_open:
            return "the store is not open"
        if self.log.is_full:
            return f"the disk is full: {self.log.failure}"
        if failure := self._flusher.failure or self.log.failure:
            return f"the disk failed: {failure}"
        if self._dispatch_failure is not None:
            return f"queues or index can't be written: {self._dispatch_failure}"
        if self._obstacle is not None:
            return obstacle_text(self._obstacle)
        return "the disk is full" if self._expiry.is_disk_full else ""

    def _make_room(self) -> None:
        """Close idle files, because the process has run out of descriptors."""
        self._shortages += 1
        warn_of_shortage(self._shortages)
        self._close_idle_files()

    def _close_idle_files(self) -> None:
        """Close the files of queues and index, which are opened again when they are used."""
        self.queues.close()
        self.index.close()

    def _path(self, name: str) -> str:
        return path_join(self.directory, name)

    def _next_queue_offset(self, topic: str, queue_id: int) -> int:
        queue = self.queues.queue(topic, queue_id)
        return 0 if queue is None else queue.max_offset

    def _may_make_light(self, name: str, new: int) -> bool:
        """Return whether a message that names ``new`` others may be the first of a light queue."""
        queues = self.queues
        is_known = queues.queue(name, 0) is not None
        return is_known or queues.light_count + new < self.settings.lmq_queues_max

    def _dispatch_flushed(self, end: int) -> None:
        while self._store_times and self._store_times[0][0] <= end:
            self._claims.log_ms = self._store_times.popleft()[1]
        self.dispatch_confirmed()

    def _confirmed_end(self) -> int:
        return self.log.end if self.confirmed_end is None else self.confirmed_end()

    def _dispatch_before(self, end: int) -> None:
        entries = []
        while self._undispatched and self._undispatched[0].commit_log_offset < end:
            entries.append(self._undispatched.popleft())
        if entries:
            self._dispatch(entries)

    def _dispatch(self, entries: Sequence[Dispatched]) -> None:
        """Add records to the index and to their queues, and notify the listener."""
        arrived: list[Dispatched] = []
        try:
            if self.settings.index_enabled:
                self._write_if_possible(lambda: self.index.put_all(entries))
            arrived = self.queues.append_all(entries)
            # Most are written by a tick, several per queue at once.
            if self.queues.buffered > _BUFFERED_ENTRIES:
                self._write_if_possible(lambda: self.queues.write(len(entries)))
        except StoreError as error:
            self._fail_to_dispatch(error)
        if arrived:
            self._dispatched_store_ms = arrived[-1].store_timestamp_ms
            self.on_arrival(arrived)

    def _write_queues(self, most: int | None = None) -> None:
        """Write what queues have buffered, of ``most`` queues or all."""
        if self.failure is not None:
            return
        try:
            if self._obstacle is None:
                self._write_if_possible(lambda: self.queues.write(most))
            elif self._write_if_possible(self._write_waiting):
                self._obstacle = None
                log.warning("queues and index are written: messages are accepted again")
        except StoreError as error:
            self._fail_to_dispatch(error)

    def _write_waiting(self) -> None:
        """Write what queues and index have in memory because they could not write it."""
        if self.settings.index_enabled:
            self.index.put_waiting()
        self.queues.write()

    def _write_if_possible(self, write: Callable[[], None]) -> bool:
        """Write to queues or index, which keep what they can't write.

        Return False if there is no space, or no descriptor. The store then refuses messages, so
        that little is kept, until a tick could write it.
        """
        try:
            write()
        except StoreError as error:
            if not is_obstacle(error):
                raise
            if self._obstacle is None:
                log.error("messages are refused until queues and index are written: %s", error)
            self._obstacle = error
            return False
        return True

    def _fail_to_dispatch(self, error: StoreError) -> None:
        # The log has the records; the next start adds them to queues and index.
        log.critical("dispatch failed; the store accepts no more writes: %s", error)
        self._dispatch_failure = error

    def _listed_ends(self) -> Ends:
        """Return where queues ended; nothing if another program used the store since."""
        listed = self._ends.load()
        # It may have deleted topics, and the log still has their messages.
        return {} if self._checkpoint.values.is_of_another else listed

    def _recover(self, crashed: bool, listed: Ends, lost: list[Damage], progress: Progress) -> None:
        known = self._checkpoint.values
        if self.settings.index_enabled:  # what is missing is rebuilt, and not claimed meanwhile
            filled_ms, name = self.index.filled_timestamp_ms, self.index.last_name
            self._checkpoint.write(without_lost_index(known, filled_ms=filled_ms, last_name=name))
        recovery = StoreRecovery(
            *(self._segments, self.log, self.queues, self.index, self._dispatcher),
            self.settings,
            self._clock,
        )
        if crashed:
            log.warning("%s was not stopped cleanly: the log is read again", self.directory)
        logged = LoggedProgress("recovery of the log", self._clock, progress)
        recovery.damages = lost
        recovery.run(known if crashed else None, logged, listed, own=known.own)
        self.damages = recovery.damages
        self.confirmed = min(known.confirmed_offset, self.log.end)
        self._start_at_end(recovery.index_mark)
        # So that a start after a crash does not read all of it again, nor cut the log at damage.
        self._checkpoint.write(self._checkpoint_values())

    def _start_at_end(self, mark: IndexMark | None) -> None:
        """Begin with a log, queues and index that are all on disk."""
        now_ms = self._clock.monotonic_ms()
        self._flusher.start_at(self.log.end, now_ms)
        self._time.start_after(self.log.last_store_ms)
        self._dispatched_store_ms = self.log.last_store_ms
        self._claims = Claims(self._checkpoint.values, self.log.last_store_ms, IndexMark())
        self._claims.add(Synced(0, *self.index.filled, mark))
        self._queue_sync.on_listed = self._claims.add
        self._queues_synced_at_ms = now_ms
        self._queue_sync.list_now()

    def _begin_queue_sync(self, done: Callable[[bool], None] = lambda _ok: None) -> bool:
        """Begin to sync and list the queues, so that the checkpoint may claim them.

        Returns False if another sync is in flight, or the store has failed.
        """
        self._write_queues()
        if self._queue_sync.is_under_way or self.failure is not None or self._obstacle is not None:
            return False
        mark = self._index_mark()
        self._queue_sync.begin(Synced(self._dispatched_store_ms, *self.index.filled, mark), done)
        return True

    def _index_mark(self) -> IndexMark | None:
        """Write the index entries in memory; return how far the index reaches, None if unknown."""
        waiting = self._undispatched
        dispatched_end = waiting[0].commit_log_offset if waiting else self.log.end
        try:
            return self.index.write_mark(dispatched_end)
        except StoreError as error:
            log.error("the index could not be written; retrying: %s", error)
            return None

    def _fail_to_sync(self, error: StoreError) -> None:
        log.critical("a sync of queues failed; the store accepts no more writes: %s", error)
        self._dispatch_failure = error

    def _when_done(self, work: Future[Any], notify: Callable[[BaseException | None], None]) -> None:
        """Call back on the owner's thread when a worker is done, unless a stop cancelled it."""
        work.add_done_callback(
            lambda done: self._post(lambda: None if done.cancelled() else notify(done.exception()))
        )

    def _drop_spoiled_index(self) -> None:
        if self.settings.index_enabled and not self.index.is_untouched():
            self.index.remove_spoiled()
            self._claims.drop_index()

    def _clean_by_the_clock(self) -> bool:
        """Begin to remove the oldest log file if it has expired; return whether that began."""
        now_ms, flushed = self._clock.now_ms(), self._flusher.flushed
        try:
            # One file at a time, as in Java: removing many at once would delay sends.
            return bool(self._expiry.begin(flushed=flushed, now_ms=now_ms, most=1))
        except StoreError as error:
            log.error("expired files could not be removed; retrying: %s", error)
            return False

    def _checkpoint_values(self) -> CheckpointValues:
        """Return what is known to be on disk."""
        flushed = self._flusher.flushed
        before = self._checkpoint.values._replace(confirmed_offset=min(self.confirmed, flushed))
        return self._claims.values(
            before,
            flushed=flushed,
            with_index=self.settings.index_enabled,
        )
