"""Flushing of the log: the owner decides when, a worker syncs, waiters are notified.

::

    IDLE ── something to flush ──▶ SYNCING (a worker runs fdatasync) ── done ──▶ IDLE
                                        │ failed
                                        ▼
                                     BROKEN   for good: after a failed fsync it is unknown what is
                                              on disk, and a second one may succeed wrongly

Invariants:

- ``flushed`` never decreases, and everything before it is on disk, file names included.
- All waiters whose end has been reached are notified together, in order.
- One sync runs at a time. Waiters that arrive meanwhile are the next group.
- Running out of descriptors is not a failed sync: idle files are closed, and a later tick or the
  next waiter starts another sync.
- All methods are called by the owner. The worker only syncs; the owner is notified through
  ``post``.
"""

import logging
from collections import deque
from collections.abc import Callable
from typing import Final

import msgspec

from orbitmq.errors import StoreError
from orbitmq.store.disk.open_files import MakeRoom, is_shortage, with_room
from orbitmq.store.log.segments import Segment, Segments
from orbitmq.store.settings import FlushMode, StoreSettings
from orbitmq.threads import Future, Workers

__all__ = ["Flusher", "Post"]

log = logging.getLogger("orbitmq.store")

PAGE: Final = 4096

Post = Callable[[Callable[[], None]], None]
"""Schedules a call on the owner's thread: ``loop.call_soon_threadsafe``."""


class _Waiter(msgspec.Struct, gc=False):
    end: int
    deadline_ms: int
    notify: Callable[[bool], None]


class Flusher:
    """Flushes the segments of a log, and notifies waiters."""

    def __init__(
        self, segments: Segments, settings: StoreSettings, workers: Workers, post: Post
    ) -> None:
        self._segments = segments
        self.settings = settings
        """The intervals; may be replaced at any time."""
        self._workers = workers
        self._post = post
        self._waiters: deque[_Waiter] = deque()
        self._awaited = 0  # the largest end of a waiter
        self._work: Future[None] | None = None
        self._last_thorough_ms = 0
        self._last_look_ms = 0
        self._names_end = 0
        self.flushed = 0
        """Everything before this offset of the log is on disk."""
        self.failure: StoreError | None = None
        """Why the disk is not trusted any more; nothing may be written after that."""
        self.on_flushed: Callable[[int], None] = lambda _end: None
        """Called on the owner's thread with the new ``flushed``."""
        self.make_room: MakeRoom = lambda: None
        """Called on the owner's thread to close idle files, if descriptors run out."""

    def start_at(self, end: int, now_ms: int) -> None:
        """Start with a log that ends at ``end``, all of it on disk."""
        self.flushed = end
        self._names_end = self._segments.next_base()
        self._last_thorough_ms = self._last_look_ms = now_ms

    def wait_for(self, end: int, now_ms: int, notify: Callable[[bool], None]) -> None:
        """Call ``notify`` with True when everything before ``end`` is on disk.

        It is called with False if that takes longer than the settings allow, or fails.
        """
        if end <= self.flushed:
            notify(True)
        elif self.failure is not None:
            notify(False)
        else:
            deadline = now_ms + self.settings.sync_flush_timeout_ms
            self._waiters.append(_Waiter(end, deadline, notify))
            self._awaited = max(self._awaited, end)

    def appended(self, end: int) -> None:
        """Begin to flush a log that has grown to ``end``, if there are waiters."""
        if self._waiters and self._work is None:
            self._begin(end)

    def tick(self, end: int, now_ms: int) -> None:
        """Flush what is due by the clock, and notify waiters that have timed out."""
        while self._waiters and self._waiters[0].deadline_ms <= now_ms:
            self._waiters.popleft().notify(False)
        if self._work is not None or self.failure is not None or end <= self.flushed:
            return
        if self._waiters or self._is_due(end, now_ms):
            self._begin(end)

    def flush_all(self, end: int) -> None:
        """Flush synchronously; raise StoreError if the disk fails, or failed before."""
        work, self._work = self._work, None
        # Wait for a sync in flight: if it fails, the next one would still succeed.
        error = None if work is None else work.exception()
        if isinstance(error, StoreError) and not is_shortage(error):
            self._break(error)
        if self.failure is not None:
            raise self.failure
        if end > self.flushed:
            try:
                names_end = self._segments.next_base()
                files, names = self._files_to_sync(end), self._names_end < end
                with_room(lambda: _sync(self._segments, files, names), self.make_room)
            except StoreError as error:
                self._break(error)
                raise
            self._done(end, names_end)

    def _is_due(self, end: int, now_ms: int) -> bool:
        settings = self.settings
        if settings.flush_mode is FlushMode.SYNC:
            return True  # consumers see only what is on disk
        if now_ms - self._last_thorough_ms >= settings.flush_thorough_interval_ms:
            self._last_thorough_ms = self._last_look_ms = now_ms
            return True
        if now_ms - self._last_look_ms < settings.flush_interval_ms:
            return False
        self._last_look_ms = now_ms
        rolled = end // self._segments.segment_bytes > self.flushed // self._segments.segment_bytes
        return rolled or end // PAGE - self.flushed // PAGE >= settings.flush_least_pages

    def _begin(self, end: int) -> None:
        names_end = self._segments.next_base()
        self._work = work = self._workers.submit(
            _sync, self._segments, self._files_to_sync(end), self._names_end < end
        )
        work.add_done_callback(
            lambda done: self._post(lambda: self._finished(end, names_end, done))
        )

    def _files_to_sync(self, end: int) -> list[Segment]:
        return [
            segment
            for segment in self._segments.files
            if segment.end > self.flushed and segment.base < end
        ]

    def _finished(self, end: int, names_end: int, work: "Future[None]") -> None:
        if work is not self._work:
            return  # flush_all has waited for it
        self._work = None
        error = work.exception()
        if error is None:
            self._done(end, names_end)
            if self._waiters and self._work is None:  # the next group
                self._begin(self._awaited)
        elif is_shortage(error):
            log.error("the log could not be flushed; retrying: %s", error)
            self.make_room()
        elif isinstance(error, StoreError):
            self._break(error)
        else:
            raise error

    def _done(self, end: int, names_end: int) -> None:
        size = self._segments.segment_bytes
        if end // size > self.flushed // size:
            self._segments.close_before(end)
        self.flushed = end
        if self._names_end < end:  # then the names of all files were synced, too
            self._names_end = names_end
        while self._waiters and self._waiters[0].end <= end:
            self._waiters.popleft().notify(True)
        self.on_flushed(end)

    def _break(self, error: StoreError) -> None:
        log.critical("the disk failed; the store accepts no more writes: %s", error)
        self.failure = error
        while self._waiters:
            self._waiters.popleft().notify(False)


def _sync(segments: Segments, files: list[Segment], names: bool) -> None:
    """Sync files, and names if some are new. Runs on a worker."""
    for segment in files:
        segment.file.sync()
    if names:
        segments.sync_names()
