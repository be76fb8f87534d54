"""How far ``poll`` came in each queue, in front of the offsets that the group has committed.

::

    acknowledged, seek ─ update ─▶ position ─ commit ─▶ store (memory) ─ persist ─▶ broker, or file

``OwnedQueues`` has this for its offsets: what it persists when a queue is taken away is the
position with auto commit, and otherwise no more than what the user committed.
"""

import asyncio
from collections.abc import Iterable
from typing import Protocol

from orbitmq.client.consumer.offsets.offsets import Offsets
from orbitmq.message.model import MessageQueue

__all__ = ["OffsetStore", "Positions"]


class OffsetStore(Offsets, Protocol):
    """Where a group commits."""

    async def commit(self, queues: Iterable[MessageQueue] | None = None) -> None:
        """Store the noted offsets of these queues, or of all; raise OrbitError if one fails."""
        ...


class Positions:
    """The positions of the queues that are read; an ``Offsets``. ``run`` is its task."""

    def __init__(self, store: OffsetStore, *, auto_commit: bool) -> None:
        self.store = store
        self._auto_commit = auto_commit
        self._positions: dict[MessageQueue, int] = {}
        self._committed: dict[MessageQueue, int] = {}
        self._is_wanted = asyncio.Event()

    async def load(self) -> None:
        """Load what is committed, if it is in a file."""
        await self.store.load()

    def update(self, queue: MessageQueue, offset: int, *, increase_only: bool = True) -> None:
        """Move the position of a queue; the committed offset stays."""
        if not increase_only or offset > self._positions.get(queue, -1):
            self._positions[queue] = offset

    def get(self, queue: MessageQueue) -> int | None:
        """Return the position of a queue; None if it is not known yet."""
        return self._positions.get(queue)

    async def stored(self, queue: MessageQueue) -> int | None:
        """Return where to begin: the target of a seek, or what the group has committed."""
        position = self._positions.get(queue)
        if position is None:
            position = await self.store.stored(queue)
            if position is not None:
                self._committed[queue] = position
        return position

    def commit(self, queues: Iterable[MessageQueue] | None = None) -> None:
        """Commit positions in memory, backwards too: a seek may have moved them.

        One that has not moved since it was read or committed is left alone: the member that had the
        queue before may have committed more in the meantime.
        """
        for queue in list(self._positions) if queues is None else queues:
            position = self._positions.get(queue)
            if position is not None and position != self._committed.get(queue):
                self.commit_at(queue, position)

    def commit_at(self, queue: MessageQueue, offset: int) -> None:
        """Commit another offset in memory; the position stays."""
        self._committed[queue] = offset
        self.store.update(queue, offset, increase_only=False)

    async def persist(
        self, queues: Iterable[MessageQueue] | None = None, *, confirm: bool = False
    ) -> None:
        """Write what is committed to the broker or file; with auto commit, commit before."""
        if queues is not None:
            queues = list(queues)
        if self._auto_commit:
            self.commit(queues)
        await self.store.persist(queues, confirm=confirm)

    def persist_soon(self) -> None:
        """Have ``run`` write what is committed."""
        self._is_wanted.set()

    async def run(self) -> None:
        """Persist when ``persist_soon`` is called, until cancelled."""
        while True:
            await self._is_wanted.wait()
            self._is_wanted.clear()
            await self.store.persist()

    def forget(self, queue: MessageQueue) -> None:
        """Forget a queue that is no longer read."""
        self._positions.pop(queue, None)
        self._committed.pop(queue, None)
        self.store.forget(queue)
