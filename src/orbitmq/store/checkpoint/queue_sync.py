"""Syncs of queues and index while the store is in use; a checkpoint may claim them afterwards.

::

    IDLE ── begin ──▶ SYNCING ──▶ LISTING the queue ends ──▶ IDLE, and claimed
                         │           │
                         │           └── failed ──▶ IDLE; repeated later
                         ├── out of descriptors ──▶ IDLE; repeated later
                         └── failed ──▶ on_failure: it is unknown what is on disk

    drain: waits for the round in flight, raises its failure
    finish: the same, and no round begins after it

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
"""Calls back on the owner's thread, with the error of a worker's job or None."""


class _Syncing(NamedTuple):
    """The first half of a round."""

    synced: Synced
    taken: tuple[Unsynced, Unsynced]
    """What queues and index had written before."""
    work: Future[None]
    done: Callable[[bool], None]


class QueueSync:
    """Syncs queues and index, and lists the queue ends, one round at a time."""

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
        """Called with what a round has synced."""
        self.on_failure: Callable[[StoreError], None] = lambda _error: None
        """Called if a sync failed; nothing may be written after that."""
        self.make_room: MakeRoom = lambda: None
        """Called to close idle files, if the process runs out of descriptors."""

    def __repr__(self) -> str:
        return f"<QueueSync {'under way' if self.is_under_way else 'idle'}>"

    @property
    def is_under_way(self) -> bool:
        """Whether a round is in flight."""
        return self._syncing is not None or self._listing is not None

    def begin(self, synced: Synced, done: Callable[[bool], None] = lambda _ok: None) -> None:
        """Begin a round that covers ``synced``, unless one is in flight.

        The queues must have written their buffers. ``done`` is called with whether the sync
        succeeded, before the ends are listed.
        """
        if self.is_under_way or self._is_finished:
            return
        self._ends.note(self._queues.ends())
        taken = (self._queues.take_unsynced(), self._index.take_unsynced())
        work = self._workers.submit(_sync_all, taken, self._disk)
        self._syncing = _Syncing(synced, taken, work, done)
        self._when_done(work, lambda error: self._synced(work, error))

    def settle(self) -> None:
        """Wait for a sync in flight; raise StoreError if it failed."""
        if self._syncing is not None:
            work = self._syncing.work
            error = work.exception()
            self._synced(work, error)
            if error is not None and not is_shortage(error):
                raise error

    def drain(self) -> None:
        """Wait for the round in flight, and claim nothing of it: the caller syncs and lists all.

        A list being written would replace that of the caller. Raise StoreError if the sync in
        flight failed, since the next one would still succeed.
        """
        before, self._is_finished = self._is_finished, True
        try:
            self.settle()
        finally:
            self._is_finished = before
        listing, self._listing = self._listing, None
        if listing is not None:
            _log_unlisted(listing.exception())

    def finish(self) -> None:
        """Wait for the round in flight, as ``drain`` does, and begin no more: the store stops."""
        self._is_finished = True
        self.drain()

    def list_now(self) -> None:
        """List the ends of the queues, which are synced; a failure is only logged."""
        try:
            self._ends.write(self._queues.ends())
        except StoreError as error:  # a full disk is no reason not to stop or start
            log.error(
                "the queue ends could not be listed; a queue that goes missing meanwhile is not "
                "noticed: %s",
                error,
            )

    def _synced(self, work: Future[None], error: BaseException | None) -> None:
        syncing = self._syncing
        if syncing is None or syncing.work is not work:  # ``settle`` has waited for it
            return
        self._syncing = None
        if error is not None:
            self._failed(error, syncing.taken)
        elif not self._is_finished:
            listing = self._listing = self._workers.submit(self._ends.write_noted)
            self._when_done(listing, lambda error: self._listed(listing, syncing.synced, error))
        syncing.done(error is None)

    def _listed(self, work: Future[None], synced: Synced, error: BaseException | None) -> None:
        if self._listing is not work:  # ``finish`` has waited for it
            return
        self._listing = None
        if error is None:
            self.on_listed(synced)
        _log_unlisted(error)

    def _failed(self, error: BaseException, taken: tuple[Unsynced, Unsynced]) -> None:
        if not isinstance(error, StoreError):
            raise error
        if is_shortage(error):  # no sync failed
            of_queues, of_index = taken
            self._queues.put_back(of_queues)
            self._index.put_back(of_index)
            log.error("queues could not be synced; retrying: %s", error)
            self.make_room()
            return
        # A second sync would succeed without the lost pages, and the checkpoint would be wrong.
        self.on_failure(error)


def _log_unlisted(error: BaseException | None) -> None:
    if isinstance(error, StoreError):
        log.error("the queue ends could not be listed; retrying: %s", error)
    elif error is not None:
        raise error


def _sync_all(unsynced: Sequence[Unsynced], disk: Disk) -> None:
    """Sync what was written. Runs on a worker."""
    for one in unsynced:
        one.sync(disk)
