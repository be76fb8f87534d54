"""Queues and index synced while the store is in use: what a checkpoint may speak for after it.

::

    IDLE ── begin ──▶ SYNCING ──▶ LISTING where queues end ──▶ IDLE, and claimed
                         │           │
                         │           └── failed ──▶ IDLE, and tried again
                         ├── no descriptor was left ──▶ IDLE, and tried again
                         └── failed ──▶ told: what is on the disk is unknown

    finish: what is under way is waited for, a failure is raised, and no round begins after it

All methods are called by the owner. Workers sync and write the list.
"""

import logging
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from orbitmq.errors import StoreError
from orbitmq.store.checkpoint.claims import Synced
from orbitmq.store.checkpoint.queue_ends import QueueEnds
from orbitmq.store.disk.disk import Disk
from orbitmq.store.disk.open_files import MakeRoom, Unsynced, is_shortage
from orbitmq.store.index.key_index import KeyIndex
from orbitmq.store.queues.consume_queues import ConsumeQueues
from orbitmq.threads import Future, Workers

__all__ = ["QueueSync", "WhenDone"]

log = logging.getLogger("orbitmq.store")

WhenDone = Callable[["Future[Any]", Callable[[BaseException | None], None]], None]
"""Has the owner told how a worker fared."""


class _Syncing(NamedTuple):
    """The first half of a round."""

    synced: Synced
    taken: tuple[Unsynced, Unsynced]
    """What queues and index had written when it began."""
    work: Future[None]
    done: Callable[[bool], None]


class QueueSync:
    """Syncs queues and index and lists where queues end, one round at a time."""

    def __init__(
        self,
        queues: ConsumeQueues,
        index: KeyIndex,
        ends: QueueEnds,
        disk: Disk,
        workers: Workers,
        when_done: WhenDone,
    ) -> None:
        self._queues = queues
        self._index = index
        self._ends = ends
        self._disk = disk
        self._workers = workers
        self._when_done = when_done
        self._syncing: _Syncing | None = None
        self._listing: Future[None] | None = None
        self._is_finished = False
        self.on_listed: Callable[[Synced], None] = lambda _synced: None
        """Called with what a round has made true."""
        self.on_failure: Callable[[StoreError], None] = lambda _error: None
        """Called if something could not be synced; nothing may be written after that."""
        self.make_room: MakeRoom = lambda: None
        """Called to close idle files, if the process can't open more."""

    def __repr__(self) -> str:
        return f"<QueueSync {'under way' if self.is_under_way else 'idle'}>"

    @property
    def is_under_way(self) -> bool:
        """Whether a round has begun and not ended."""
        return self._syncing is not None or self._listing is not None

    def begin(self, synced: Synced, done: Callable[[bool], None] = lambda _ok: None) -> None:
        """Begin a round that makes ``synced`` true, unless one is under way.

        The queues have written what they had buffered. ``done`` is called with whether they could
        be synced, before that is listed.
        """
        if self.is_under_way or self._is_finished:
            return
        self._ends.note(self._queues.ends())
        taken = (self._queues.take_unsynced(), self._index.take_unsynced())
        work = self._workers.submit(_sync_all, taken, self._disk)
        self._syncing = _Syncing(synced, taken, work, done)
        self._when_done(work, lambda error: self._synced(work, error))

    def settle(self) -> None:
        """Wait for a sync that is under way: whoever relies on one of its own needs both.

        Raises:
            StoreError: something could not be synced.

        """
        if self._syncing is not None:
            work = self._syncing.work
            error = work.exception()
            self._synced(work, error)
            if error is not None and not is_shortage(error):
                raise error

    def finish(self) -> None:
        """Wait for what is under way and begin no more, for a stop that syncs and lists the rest.

        A sync is waited for: if it failed, one that follows would still succeed. So is a list that
        is being written, whose file the next list is written to.

        Raises:
            StoreError: something could not be synced.

        """
        self._is_finished = True
        self.settle()
        listing, self._listing = self._listing, None
        if listing is not None:
            _log_unlisted(listing.exception())

    def list_now(self) -> None:
        """List where the queues end, all of which is on the disk; go on without if it must be."""
        try:
            self._ends.write(self._queues.ends())
        except StoreError as error:  # a full disk for one, which is no reason not to stop or start
            log.error(
                "where queues end could not be listed, and one that goes missing before it can be "
                "is not noticed: %s",
                error,
            )

    def _synced(self, work: Future[None], error: BaseException | None) -> None:
        syncing = self._syncing
        if syncing is None or syncing.work is not work:  # somebody has waited for it, and was told
            return
        self._syncing = None
        if error is not None:
            self._failed(error, syncing.taken)
        elif not self._is_finished:
            listing = self._listing = self._workers.submit(self._ends.write_noted)
            self._when_done(listing, lambda error: self._listed(listing, syncing.synced, error))
        syncing.done(error is None)

    def _listed(self, work: Future[None], synced: Synced, error: BaseException | None) -> None:
        if self._listing is not work:  # a stop has waited for it, and lists anew
            return
        self._listing = None
        if error is None:
            self.on_listed(synced)
        _log_unlisted(error)

    def _failed(self, error: BaseException, taken: tuple[Unsynced, Unsynced]) -> None:
        if not isinstance(error, StoreError):
            raise error
        if is_shortage(error):  # no file was asked to sync and refused: nothing is lost
            of_queues, of_index = taken
            self._queues.put_back(of_queues)
            self._index.put_back(of_index)
            log.error("queues could not be synced, and are tried again: %s", error)
            self.make_room()
            return
        # A second sync would succeed without the pages that were lost, and the checkpoint lie.
        self.on_failure(error)


def _log_unlisted(error: BaseException | None) -> None:
    if isinstance(error, StoreError):
        log.error("where queues end could not be listed, and is tried again: %s", error)
    elif error is not None:
        raise error


def _sync_all(unsynced: Sequence[Unsynced], disk: Disk) -> None:
    """Sync what was written. Runs on a worker."""
    for one in unsynced:
        one.sync(disk)
