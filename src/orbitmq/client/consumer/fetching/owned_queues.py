"""The queues that this client owns now: taken, fetched, dropped.

Each queue has a task, from the assignment until its drop has ended::

    assigned ──▶ start offset read ──▶ fetched ──┬── not assigned any more ─┐
        ▲         (again after an error)         ├── moved, or reset ───────┤
        │                                        └──────────────────────────▼
        │                             dropped: finished messages committed, wait for those in hand
        └── assigned again, moved, reset ◀──────────────┤
                                                        └──▶ released, forgotten

When progress is committed while a queue changes hands is said in ``offsets.handover``.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from orbitmq.client.consumer.fetching.fetcher import Fetcher, FetchParts
from orbitmq.client.consumer.fetching.flow_control import FlowLimits
from orbitmq.client.consumer.fetching.inbox import Inbox
from orbitmq.client.consumer.fetching.room import Room
from orbitmq.client.consumer.offsets.handover import Handover
from orbitmq.client.consumer.offsets.start import StartOffsets
from orbitmq.client.core.periodic import cancel_all, run_periodically
from orbitmq.errors import OrbitError
from orbitmq.message.model import MessageQueue

__all__ = ["OwnedQueues"]

log = logging.getLogger("orbitmq.client")

_AGAIN_S: Final = 1.0


@dataclass(eq=False)
class _Owned:
    """A queue with its task."""

    queue: MessageQueue
    resumed: asyncio.Event = field(default_factory=asyncio.Event)
    is_wanted: bool = True
    restart_at: int | None = None
    """Where to continue after a reset, not at the stored offset."""
    fetching: asyncio.Task[int] | None = None
    task: asyncio.Task[None] | None = None
    reset: asyncio.Future[None] | None = None
    """Done when a reset is carried out."""

    def stop_fetching(self) -> None:
        if self.fetching is not None:
            self.fetching.cancel()

    def note_reset(self) -> None:
        if self.reset is not None and not self.reset.done():
            self.reset.set_result(None)


def _unlocked(_queue: MessageQueue) -> None:
    """Do nothing: only queues of ordered consumers are locked."""


@dataclass(kw_only=True, eq=False, repr=False)
class OwnedQueues:
    """The queues of a consumer, on the loop of its user.

    ``released`` is called when a dropped queue is free: nothing of it is in hand, and its offset
    is stored.
    """

    parts: FetchParts
    start: StartOffsets
    limits: FlowLimits
    offset_interval_ms: int
    released: Callable[[MessageQueue], None] = _unlocked
    _inboxes: dict[MessageQueue, Inbox] = field(default_factory=dict, init=False)
    _owned: dict[MessageQueue, _Owned] = field(default_factory=dict, init=False)
    _paused: set[MessageQueue] = field(default_factory=set, init=False)
    _is_paused: bool = field(default=False, init=False)
    _is_closed: bool = field(default=False, init=False)
    _persisting: asyncio.Task[None] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self._room = Room(self.limits, self._inboxes)
        parts = self.parts
        self._handover = Handover(parts.offsets, parts.clock, soon=parts.commits)

    def __repr__(self) -> str:
        return f"<OwnedQueues {len(self._inboxes)} fetched of {len(self._owned)}>"

    @property
    def inboxes(self) -> Mapping[MessageQueue, Inbox]:
        """The inboxes of the queues that are being fetched."""
        return self._inboxes

    # Assignment

    def assign(self, topic: str, queues: frozenset[MessageQueue]) -> None:
        """Own exactly these queues of a topic from now on; those missing are dropped.

        A queue whose drop has not ended is taken again when it has.
        """
        if self._is_closed:
            return
        for owned in [one for one in self._owned.values() if one.queue.topic == topic]:
            if owned.queue not in queues and owned.is_wanted:
                log.debug("%s is dropped", owned.queue)
                owned.is_wanted = False
                owned.stop_fetching()
        for queue in sorted(queues):
            if queue in self._owned:
                self._owned[queue].is_wanted = True
            else:
                self._take(queue)
        if self._persisting is None:
            self._persisting = asyncio.create_task(self._persist(), name="persist offsets")

    async def reset(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Continue at other offsets, for an operator; queues that are not owned are skipped.

        It returns when messages in hand are finished and the new offsets are stored.
        """
        waiters = []
        for queue, offset in offsets.items():
            owned = self._owned.get(queue)
            if owned is not None and owned.is_wanted:
                owned.restart_at = offset
                owned.note_reset()  # a newer one replaces it
                owned.reset = asyncio.get_running_loop().create_future()
                waiters.append(owned.reset)
                owned.stop_fetching()
        if waiters:
            await asyncio.wait(waiters)

    def pause(self, queues: Iterable[MessageQueue] | None = None) -> None:
        """Pull no more of these queues, or of all, until ``resume``.

        Messages that were pulled, and those of a pull in flight, are still delivered.
        """
        if queues is None:
            self._is_paused = True
        else:
            self._paused.update(queues)
        self._apply_pauses()

    def resume(self, queues: Iterable[MessageQueue] | None = None) -> None:
        """Pull these queues, or all, again."""
        if queues is None:
            self._is_paused = False
            self._paused.clear()
        else:
            self._paused.difference_update(queues)
        self._apply_pauses()

    def _apply_pauses(self) -> None:
        for owned in self._owned.values():
            if self._is_paused or owned.queue in self._paused:
                owned.resumed.clear()
            else:
                owned.resumed.set()

    async def close(self, timeout_ms: int) -> None:
        """Drop all queues, wait for their messages in hand up to the timeout, and store offsets."""
        self._is_closed = True
        if self._persisting is not None:
            await cancel_all([self._persisting])
        await self._handover.close()
        for owned in self._owned.values():
            owned.is_wanted = False
            owned.stop_fetching()
        tasks = [one.task for one in self._owned.values() if one.task is not None]
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=timeout_ms / 1_000)
            for owned in list(self._owned.values()):
                log.warning("%s is left with messages in hand; they will be repeated", owned.queue)
            await cancel_all(late)

    async def _persist(self) -> None:
        await run_periodically(
            self.offset_interval_ms,
            lambda: self._handover.commit(self._inboxes),
            "offsets can't be stored",
        )

    # One queue

    def _take(self, queue: MessageQueue) -> None:
        owned = self._owned[queue] = _Owned(queue)
        self._apply_pauses()
        owned.task = asyncio.create_task(
            self._own(owned), name=f"{queue.topic} {queue.broker_name}:{queue.queue_id}"
        )

    async def _own(self, owned: _Owned) -> None:
        queue = owned.queue
        try:
            while owned.is_wanted:
                try:
                    await self._own_once(owned)
                except Exception:
                    log.exception("%s failed, and is taken again", queue)
                    await asyncio.sleep(_AGAIN_S)
        finally:
            del self._owned[queue]
            if (inbox := self._inboxes.pop(queue, None)) is not None:
                inbox.drop()
            self._room.changed()
            self.parts.offsets.forget(queue)
            self.parts.pulls.forget(queue)
            self._handover.forget(queue)
            owned.note_reset()
            self.released(queue)

    async def _own_once(self, owned: _Owned) -> None:
        """Fetch a queue until it is not assigned any more, moved, or reset; then drop it."""
        owned.fetching = asyncio.create_task(self._fetch(owned), name=f"fetch {owned.queue}")
        try:
            await asyncio.wait([owned.fetching])
            if not owned.fetching.cancelled() and owned.restart_at is None:
                owned.restart_at = owned.fetching.result()
        finally:
            fetching, owned.fetching = owned.fetching, None
            await cancel_all([fetching])
        await self._drop(owned)

    async def _fetch(self, owned: _Owned) -> int:
        """Fetch a queue until cancelled, or until it has to continue at the returned offset."""
        queue, offsets = owned.queue, self.parts.offsets
        offset, owned.restart_at = owned.restart_at, None
        if offset is None:
            offset = await self._start_of(queue)
        offsets.update(queue, offset, increase_only=False)
        inbox = self._inboxes[queue] = Inbox(queue)
        self._room.changed()
        owned.note_reset()
        fetcher = Fetcher(
            inbox=inbox,
            offset=offset,
            room=self._room,
            resumed=owned.resumed,
            commits_from_ms=self._handover.take(queue),
            parts=self.parts,
        )
        return await fetcher.run()

    async def _start_of(self, queue: MessageQueue) -> int:
        is_failing = False
        while True:
            try:
                return await self.start.of(queue)
            except OrbitError as error:
                if not is_failing:
                    log.warning("%s is not taken yet: its offset can't be read: %s", queue, error)
                is_failing = True
            except Exception:
                log.exception("%s is not taken yet: its offset can't be read", queue)
            await asyncio.sleep(_AGAIN_S)

    async def _drop(self, owned: _Owned) -> None:
        """End the life of a queue's inbox; the next begins at ``restart_at``, if that is set."""
        queue, offsets = owned.queue, self.parts.offsets
        inbox = self._inboxes.pop(queue, None)
        if inbox is None:  # its start offset was not read
            offsets.forget(queue)
            return
        inbox.drop()
        self._room.changed()
        if owned.restart_at is not None and owned.is_wanted:
            offsets.forget(queue)
            await self.parts.delivery.drained(inbox)
            offsets.update(queue, owned.restart_at, increase_only=False)
            await offsets.persist([queue], confirm=True)
            return
        was_busy = inbox.in_hand > 0
        self._note(inbox)
        await self._handover.commit_last(queue, confirm=not was_busy)
        offsets.forget(queue)
        if was_busy:
            await self.parts.delivery.drained(inbox)
            self._note(inbox)
            await self._handover.commit_last(queue, confirm=True)
            offsets.forget(queue)

    def _note(self, inbox: Inbox) -> None:
        if inbox.commit_offset is not None:
            self.parts.offsets.update(inbox.queue, inbox.commit_offset)
