"""What a pull consumer does with the queues that it reads: seeks, pauses, commits.

::

    returned by polls ── acknowledged ──▶ position ── commit ──▶ stored
                                             ▲
    seek ──▶ what was fetched is dropped, what is in hand discarded

Callers give queues by the names of users.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import NamedTuple

from orbitmq.client.consumer.fetching.owned_queues import OwnedQueues
from orbitmq.client.consumer.names import Names
from orbitmq.client.consumer.offsets.start import StartOffsets
from orbitmq.client.consumer.polling.assignments import Assignments
from orbitmq.client.consumer.polling.polled import PolledDelivery
from orbitmq.client.consumer.polling.positions import Positions
from orbitmq.client.core.queue_offsets import QueueOffsets
from orbitmq.client.field_types import shown
from orbitmq.errors import InvalidInput, NotAssigned
from orbitmq.message.model import MessageQueue

__all__ = ["ReadQueues", "listed"]


class ReadQueues(NamedTuple):
    """The queues that a pull consumer reads.

    ``ask`` is what their brokers know of them; ``is_shared`` whether the group shares them now.
    """

    names: Names
    assignments: Assignments
    owned: OwnedQueues
    polled: PolledDelivery
    positions: Positions
    start: StartOffsets
    ask: QueueOffsets
    is_shared: Callable[[], bool]

    def assigned(self, queue: MessageQueue) -> MessageQueue:
        """Return a queue with its name on the wire; raise NotAssigned if it is not read."""
        wire = self.names.wire_queue(queue)
        if wire not in self.assignments.queues:
            rebalancing = ", may be rebalancing" if self.is_shared() else ""
            raise NotAssigned(
                f"The message queue is not in assigned list{rebalancing}, message queue: {queue}; "
                "consumer.assignment has the queues that can be used",
                queue=str(queue),
            )
        return wire

    def chosen(self, queues: Iterable[MessageQueue] | None) -> list[MessageQueue]:
        """Return queues, or all that are read, with their names on the wire; or NotAssigned."""
        if queues is None:
            return sorted(self.assignments.queues)
        return [self.assigned(queue) for queue in listed(queues)]

    async def position(self, queue: MessageQueue) -> int:
        """Return the offset after what polls returned, or where they begin."""
        wire = self.assigned(queue)
        position = self._returned(wire)
        return await self.start.of(wire) if position is None else position

    async def seek(self, queue: MessageQueue, offset: int) -> None:
        """Continue at an offset; raise InvalidInput if the queue doesn't have it."""
        wire = self.assigned(queue)
        begin, end = await asyncio.gather(self.ask.begin(wire), self.ask.end(wire))
        if not begin <= offset <= end:
            raise InvalidInput(
                f"Seek offset illegal, seek offset = {offset}, min offset = {begin}, max offset = "
                f"{end}: seek within them, or use seek_to_begin or seek_to_end",
                field="offset",
            )
        await self._move(wire, offset)

    async def seek_all(
        self,
        queues: Iterable[MessageQueue] | None,
        target: Callable[[MessageQueue], Awaitable[int]],
    ) -> None:
        """Continue queues, or all, at the offsets that ``target`` returns."""
        chosen = self.chosen(queues)
        offsets = await asyncio.gather(*map(target, chosen))
        for queue, offset in zip(chosen, offsets, strict=True):
            await self._move(queue, offset)

    def pause(self, queues: Iterable[MessageQueue] | None) -> None:
        """Fetch and return no messages of queues, or of all."""
        chosen = self.chosen(queues)
        self.polled.pause(chosen)
        self.owned.pause(chosen)

    def resume(self, queues: Iterable[MessageQueue] | None) -> None:
        """Fetch and return messages of queues, or of all, again."""
        chosen = self.chosen(queues)
        self.polled.resume(chosen)
        self.owned.resume(chosen)

    def released(self, queue: MessageQueue) -> None:
        """Note that a queue, by its name on the wire, is no longer read."""
        self.polled.resume([queue])
        self.owned.resume([queue])
        self.assignments.released(queue)

    def commit(self, offsets: Mapping[MessageQueue, int] | None) -> list[MessageQueue] | None:
        """Commit what polls returned, or offsets, in memory; return the queues, None for all.

        Raise NotAssigned, or InvalidInput if an offset is past what polls returned.
        """
        if offsets is None:
            self.polled.acknowledge()
            self.positions.commit()
            return None
        checked = {}
        for queue, offset in offsets.items():
            wire = self.assigned(queue)
            returned = self._returned(wire)
            if returned is None or not 0 <= offset <= returned:
                raise InvalidInput(
                    f"offset {offset} of {queue} can't be committed: polls returned what is before "
                    f"{returned}; seek first, to pass over messages",
                    field="offsets",
                )
            checked[wire] = offset
        for wire, offset in checked.items():
            self.positions.commit_at(wire, offset)
        return list(checked)

    async def _move(self, wire: MessageQueue, offset: int) -> None:
        await self.positions.store.persist([wire])  # the reset forgets what was committed
        self.assigned(self.names.seen_queue(wire))  # it may have been taken away meanwhile
        # All at once: from here on no poll returns what was fetched.
        if (inbox := self.owned.inboxes.get(wire)) is not None:
            inbox.drop()
        self.polled.discard(wire)
        # For a queue that is not fetched yet, since the listener of assignments seeks:
        self.positions.update(wire, offset, increase_only=False)
        await self.owned.reset({wire: offset})

    def _returned(self, wire: MessageQueue) -> int | None:
        """Return the offset after what polls returned of a queue; None if it is not known yet."""
        in_hand = self.polled.next_offset(wire)
        return self.positions.get(wire) if in_hand is None else in_hand


def listed(queues: object) -> list[MessageQueue]:
    """Return the queues of an argument, which may be a single one."""
    if isinstance(queues, MessageQueue):
        return [queues]
    if not isinstance(queues, Iterable) or isinstance(queues, str | bytes):
        raise InvalidInput(
            f"queues is {shown(queues)}; it must be MessageQueues, such as consumer.queues(topic)",
            field="queues",
        )
    return list(queues)
