"""Iteration: the user's loop takes one message after another.

::

    next ──▶ a message in hand ── next ──▶ finished, and the next one in hand
      ▲              └─ break, an error, close ──▶ given back: delivered to the group again
      └── cancelled while it waits, as by a timeout: the step ends, not the loop

Nothing is sent back to the broker: user code either goes on, or leaves the loop.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Final, Self

from orbitmq.client.consumer.delivery.delivery import Batch, DeliveryParts
from orbitmq.client.consumer.delivery.in_hand import InHand
from orbitmq.client.consumer.fetching.inbox import Inbox
from orbitmq.message.model import StoredMessage

__all__ = ["IteratedDelivery", "Messages"]

_TURN_MS: Final = 2
"""How long a loop over messages may keep the event loop from other work."""


class IteratedDelivery:
    """Hands messages to loops of the user; with ``ordered``, one of each queue at a time.

    Several loops at once share the messages. ``batch_max`` has no effect.
    """

    def __init__(self, parts: DeliveryParts) -> None:
        self._parts = parts
        self._is_ordered = parts.settings.ordered
        self._in_hand = InHand(parts, one_at_a_time=self._is_ordered, wake=self._wake, batch_max=1)
        self._loop = asyncio.get_running_loop()
        self._now_ms = parts.clock.monotonic_ms
        self._resumed_ms = 0
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._held: dict[Batch, asyncio.Task[object] | None] = {}
        self._released: asyncio.Future[None] | None = None
        self._is_closed = False

    def __repr__(self) -> str:
        return f"<IteratedDelivery {self._in_hand!r}, {len(self._held)} in hand>"

    def messages(self) -> "Messages":
        """Return a loop over messages; several share them."""
        return Messages(self)

    # For owned queues

    def ready(self, inbox: Inbox) -> None:
        """Note that messages were put into an inbox."""
        self._in_hand.ready(inbox)
        self._wake()

    async def drained(self, inbox: Inbox) -> None:
        """Wait until nothing of a dropped inbox is in hand."""
        await self._in_hand.drained(inbox)

    async def close(self, timeout_ms: int) -> None:
        """End the loops that wait; wait for the others to take a step, and give back the rest.

        A loop of the calling task is not waited for: it can't take a step.
        """
        self._is_closed = True
        self._in_hand.close()
        while self._waiters:
            _set(self._waiters.popleft())
        await asyncio.sleep(0)  # loops that were left give back what they had
        deadline = self._loop.time() + timeout_ms / 1_000
        own = asyncio.current_task()
        while any(task is not own and not (task and task.done()) for task in self._held.values()):
            left_s = deadline - self._loop.time()
            if left_s <= 0:
                break
            self._released = self._loop.create_future()
            await asyncio.wait([self._released], timeout=left_s)
        for batch in list(self._held):
            self.give_back(batch)
        self._in_hand.flush()

    # For loops

    async def take(self) -> Batch | None:
        """Return the next message, when there is one; None once closed."""
        while not self._is_closed:
            batch = self._in_hand.take()
            if batch is None:
                await self._woken()
                continue
            self._held[batch] = None
            now_ms = batch.began_ms = self._now_ms()
            if now_ms - self._resumed_ms >= _TURN_MS:
                await self._yield(batch)
            self._held[batch] = asyncio.current_task()
            if self._parts.hooks:
                batch.tell_before(self._parts)
            return batch
        return None

    async def _woken(self) -> None:
        waiter = self._loop.create_future()
        self._waiters.append(waiter)
        try:
            await waiter
        except BaseException:
            if waiter.done() and not waiter.cancelled():
                self._wake()  # it was this loop's turn; another takes it
            raise
        self._resumed_ms = self._now_ms()

    async def _yield(self, batch: Batch) -> None:
        """Let the event loop go on."""
        try:
            await asyncio.sleep(0)
        except BaseException:
            self.give_back(batch)
            raise
        self._resumed_ms = batch.began_ms = self._now_ms()

    def _wake(self) -> None:
        for _ in range(self._in_hand.waiting(len(self._waiters))):
            _set(self._waiters.popleft())

    def acknowledge(self, batch: Batch) -> None:
        """Finish a message that was taken."""
        if self._forget(batch):
            took_ms = self._now_ms() - batch.began_ms
            batch.tell_after(self._parts, "success", took_ms)
            self._in_hand.finish(batch.inbox, batch.messages, took_ms)
            if self._is_ordered:
                self._next_of(batch)

    def give_back(self, batch: Batch) -> None:
        """Have a message that was taken delivered again."""
        if self._forget(batch):
            batch.tell_after(self._parts, "later", self._now_ms() - batch.began_ms)
            self._in_hand.give_back(batch.inbox, batch.messages)
            self._next_of(batch)

    def leave(self, batch: Batch) -> None:
        """Give back the message of a loop that was left; may be called on any thread."""
        with suppress(RuntimeError):  # the event loop is closed
            self._loop.call_soon_threadsafe(self.give_back, batch)

    def _next_of(self, batch: Batch) -> None:
        self._in_hand.next_of(batch.inbox)
        self._wake()

    def _forget(self, batch: Batch) -> bool:
        """Return whether a batch was held; False if a close has given it back."""
        if batch not in self._held:
            return False
        del self._held[batch]
        _set(self._released)
        return True


class Messages(AsyncIterator[StoredMessage]):
    """A loop over messages: a step acknowledges the last one, leaving the loop gives it back.

    A step can be cancelled, such as by ``asyncio.timeout``: it takes no message, and the next step
    goes on. The message before it is acknowledged.
    """

    __slots__ = ("_delivery", "_last")

    def __init__(self, delivery: IteratedDelivery) -> None:
        self._delivery = delivery
        self._last: Batch | None = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> StoredMessage:
        last, self._last = self._last, None
        if last is not None:
            self._delivery.acknowledge(last)
        batch = self._last = await self._delivery.take()
        if batch is None:
            raise StopAsyncIteration
        return batch.seen[0]

    async def aclose(self) -> None:
        """Leave the loop."""
        last, self._last = self._last, None
        if last is not None:
            self._delivery.give_back(last)

    def __del__(self) -> None:
        if self._last is not None:  # by a break or an error
            self._delivery.leave(self._last)


def _set(future: asyncio.Future[None] | None) -> None:
    if future is not None and not future.done():
        future.set_result(None)
