"""The messages that wait for ``poll``, and those that the last one returned.

::

    fetcher ── ready ──▶ waiting ── take ──▶ in hand ── acknowledge ──▶ the position moves past them
                                                └── discard ──▶ they will be read again

What a poll returned is in hand until the next one, or a commit: until then it is not committed in
the background, and another member gets it again if its queue is taken away.
"""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Set

from orbitmq.client.consumer.fetching.inbox import Inbox
from orbitmq.client.consumer.offsets.offsets import Offsets
from orbitmq.clock import Clock
from orbitmq.message.model import MessageQueue, StoredMessage

__all__ = ["PolledDelivery", "PolledMessages"]


class PolledDelivery:
    """Hands messages to ``poll``: a ``Delivery`` that pushes nothing.

    ``consumed`` counts acknowledged messages: topic, count, milliseconds since the poll.
    """

    def __init__(
        self, positions: Offsets, clock: Clock, consumed: Callable[[str, int, int], None]
    ) -> None:
        self._positions = positions
        self._clock = clock
        self._consumed = consumed
        self._taken_ms = 0
        self._waiting: OrderedDict[Inbox, None] = OrderedDict()  # in turn
        self._held: dict[Inbox, None] = {}  # they have messages, but are paused
        self._in_hand: dict[Inbox, list[StoredMessage]] = {}
        self._paused: set[MessageQueue] = set()
        self._arrived = asyncio.Event()
        self._is_closed = False

    # For the fetchers

    def ready(self, inbox: Inbox) -> None:
        """Note that messages of a queue wait."""
        if inbox.queue in self._paused:
            self._held[inbox] = None
        else:
            self._waiting[inbox] = None
            self._arrived.set()

    async def drained(self, inbox: Inbox) -> None:
        """Forget a dropped queue; what is in hand is not waited for, and not committed."""
        self._in_hand.pop(inbox, None)
        self._waiting.pop(inbox, None)
        self._held.pop(inbox, None)

    async def close(self, timeout_ms: int) -> None:  # noqa: ARG002 - nothing to wait for
        """Hand out nothing more; a poll that waits returns."""
        self._is_closed = True
        self._arrived.set()

    # For polls

    def take(self, count: int) -> list[StoredMessage]:
        """Return up to ``count`` messages, queue by queue; each queue's in their order."""
        messages: list[StoredMessage] = []
        waiting, in_hand = self._waiting, self._in_hand
        self._taken_ms = now_ms = self._clock.monotonic_ms()
        while waiting and len(messages) < count:
            inbox, _ = waiting.popitem(last=False)
            taken = inbox.take(count - len(messages), now_ms)  # none if it is dropped
            if not taken:
                continue
            messages += taken
            if inbox in in_hand:
                in_hand[inbox] += taken
            else:
                in_hand[inbox] = taken
            if inbox.waiting:
                waiting[inbox] = None
        return messages

    async def wait(self, timeout_s: float | None) -> bool:
        """Wait until ``take`` may return something; False if the time is over or it is closed."""
        if self._is_closed:
            return False
        self._arrived.clear()
        try:
            async with asyncio.timeout(timeout_s):
                await self._arrived.wait()
        except TimeoutError:
            return False
        return not self._is_closed

    def acknowledge(self) -> None:
        """Finish what is in hand, and move the positions past it."""
        if not self._in_hand:
            return
        in_hand, self._in_hand = self._in_hand, {}
        took_ms = self._clock.monotonic_ms() - self._taken_ms
        for inbox, messages in in_hand.items():
            if not inbox.is_dropped:
                inbox.finish(messages)
                self._consumed(inbox.queue.topic, len(messages), took_ms)
                if (offset := inbox.commit_offset) is not None:
                    self._positions.update(inbox.queue, offset)

    def discard(self, queue: MessageQueue | None = None) -> None:
        """Forget what is in hand, of one queue or all: its positions don't move."""
        for inbox in list(self._in_hand):
            if queue is None or inbox.queue == queue:
                del self._in_hand[inbox]

    def next_offset(self, queue: MessageQueue) -> int | None:
        """Return the offset after the last message in hand; None if there is none of the queue."""
        for inbox, messages in self._in_hand.items():
            if inbox.queue == queue and not inbox.is_dropped:
                return messages[-1].queue_offset + 1
        return None

    # Pauses

    @property
    def paused(self) -> Set[MessageQueue]:
        """The queues that ``take`` passes over."""
        return self._paused

    def pause(self, queues: Iterable[MessageQueue]) -> None:
        """Leave the messages of queues where they are."""
        self._paused.update(queues)
        for inbox in [one for one in self._waiting if one.queue in self._paused]:
            del self._waiting[inbox]
            self._held[inbox] = None

    def resume(self, queues: Iterable[MessageQueue]) -> None:
        """Hand them out again."""
        self._paused.difference_update(queues)
        for inbox in [one for one in self._held if one.queue not in self._paused]:
            self._held.pop(inbox, None)
            self.ready(inbox)


class PolledMessages(AsyncIterator[StoredMessage]):
    """A loop over messages, by polls of one each; a poll returns none once it is closed."""

    def __init__(self, poll: Callable[[float | None, int], Awaitable[list[StoredMessage]]]) -> None:
        self._poll = poll

    async def __anext__(self) -> StoredMessage:
        if messages := await self._poll(None, 1):
            return messages[0]
        raise StopAsyncIteration
