"""Commits of queues that change hands: what is stored must not go back.

::

              first minute                       later                       dropped
    taken ──▶ each 0.2 s: read, then commit ──▶ each pull commits, too ──▶ read, then commit

Two owners of a queue overlap: the last one commits messages that it finished late, after the next
one has read where to begin, and has perhaps come further. Brokers store any offset they get, so:

- An owner that has just taken a queue, or drops it, reads the stored offset before it commits, and
  commits only if that is not further. What the broker has already is not sent soon after a take: on
  a slow link it could arrive after a later commit of the last owner.
- Pulls commit without reading, so they commit when the last owner has nothing in hand any more.

A member that is killed repeats what it had in hand, and what it finished since its last commit.
Java's members commit with each pull from the first one on, and don't read: what they store may go
back for a while.
"""

import asyncio
import logging
from collections.abc import Iterable
from typing import Final

from orbitmq.client.consumer.offsets.offsets import Offsets
from orbitmq.client.core.periodic import cancel_all
from orbitmq.clock import Clock
from orbitmq.errors import OrbitError
from orbitmq.message.model import MessageQueue

__all__ = ["Handover"]

log = logging.getLogger("orbitmq.client")

_HANDOVER_MS: Final = 60_000
"""How long the last owner of a queue may have messages in hand."""
_INTERVAL_MS: Final = 200
"""How often it is read and committed meanwhile."""


class Handover:
    """Commits noted offsets.

    ``soon``: those of queues that were taken lately are committed without a call, as pulls would
    do it later.
    """

    def __init__(self, offsets: Offsets, clock: Clock, *, soon: bool) -> None:
        self._offsets = offsets
        self._clock = clock
        self._soon = soon
        self._ends_ms: dict[MessageQueue, int] = {}
        self._committed: dict[MessageQueue, int] = {}
        self._unreadable: set[MessageQueue] = set()
        self._running: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        return f"<Handover of {len(self._ends_ms)} queues>"

    def take(self, queue: MessageQueue) -> int:
        """Note that a queue is taken; return when its pulls may commit, by the monotonic clock."""
        end_ms = self._ends_ms[queue] = self._clock.monotonic_ms() + _HANDOVER_MS
        self._committed.pop(queue, None)
        if self._soon and self._running is None:
            self._running = asyncio.create_task(self._run(), name="commit taken queues")
        return end_ms

    def forget(self, queue: MessageQueue) -> None:
        """Drop what is known of a queue that is no longer owned."""
        self._ends_ms.pop(queue, None)
        self._committed.pop(queue, None)
        self._unreadable.discard(queue)

    async def commit(self, queues: Iterable[MessageQueue]) -> None:
        """Store the noted offsets of owned queues; a failure is logged."""
        queues, now_ms = list(queues), self._clock.monotonic_ms()
        checked = [one for one in queues if now_ms < self._ends_ms.get(one, now_ms)]
        behind = set(checked) - await self._ahead(checked)
        await self._offsets.persist([one for one in queues if one not in behind])

    async def commit_last(self, queue: MessageQueue, *, confirm: bool) -> None:
        """Store the noted offset of a queue that is being dropped; a failure is logged."""
        await self._offsets.persist(await self._ahead([queue]), confirm=confirm)

    async def close(self) -> None:
        """Commit nothing more without a call."""
        if self._running is not None:
            await cancel_all([self._running])

    async def _run(self) -> None:
        while self._ends_ms:
            await asyncio.sleep(_INTERVAL_MS / 1_000)
            try:
                await self._commit_progress()
            except Exception:
                log.exception("offsets of taken queues can't be stored; trying again")
        self._running = None

    async def _commit_progress(self) -> None:
        now_ms, offsets = self._clock.monotonic_ms(), self._offsets
        for queue in [one for one, end_ms in self._ends_ms.items() if end_ms <= now_ms]:
            self.forget(queue)
        noted = {one: at for one in self._ends_ms if (at := offsets.get(one)) is not None}
        moved = [queue for queue, at in noted.items() if at != self._committed.get(queue)]
        if moved:
            ahead = await self._ahead(moved)
            new = [one for one in moved if one in ahead and noted[one] != self._committed.get(one)]
            await offsets.persist(new)
            self._committed.update((queue, noted[queue]) for queue in ahead & self._ends_ms.keys())

    async def _ahead(self, queues: list[MessageQueue]) -> set[MessageQueue]:
        """Return the queues whose noted offset is not behind the stored one, which can be read."""
        are_ahead = await asyncio.gather(*map(self._is_ahead, queues))
        return {queue for queue, is_ahead in zip(queues, are_ahead, strict=True) if is_ahead}

    async def _is_ahead(self, queue: MessageQueue) -> bool:
        try:
            stored = await self._offsets.stored(queue)
        except OrbitError as error:
            if queue not in self._unreadable:
                self._unreadable.add(queue)
                log.warning("%s: its offset is not stored: it can't be read: %s", queue, error)
            return False
        self._unreadable.discard(queue)
        noted = self._offsets.get(queue)
        if stored is not None and queue in self._ends_ms:
            self._committed[queue] = stored
        return stored is None or noted is None or stored <= noted
