"""The messages in hand: taken from inboxes in turn, and finished once per turn of the loop.

::

    inboxes with messages ── ring ──▶ batches taken ──▶ user code ──▶ done, by inbox
                                                                        │  once per turn
                       Inbox.finish · Offsets.update · statistics ◀─────┘

Taking some batches of a queue at once, and finishing all of a turn together, makes the cost of a
message small. What was taken but not begun is given back when its queue is dropped.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from itertools import repeat
from typing import Final

from orbitmq.client.consumer.delivery.delivery import Batch, DeliveryParts, as_seen
from orbitmq.client.consumer.fetching.inbox import Inbox
from orbitmq.message.model import StoredMessage

__all__ = ["InHand"]

_BATCHES_AT_ONCE: Final = 16
"""Batches taken from a queue before the next queue's turn."""


class _Done:
    """What user code has finished of one inbox in this turn."""

    __slots__ = ("calls", "inbox", "messages", "took_ms")

    def __init__(self, inbox: Inbox) -> None:
        self.inbox = inbox
        self.messages: list[StoredMessage] = []
        self.took_ms = 0
        self.calls = 0


class InHand:
    """Takes batches from inboxes, fair over queues, and finishes them.

    ``wake`` is called when a timer has made messages ready. With ``one_at_a_time`` a queue has one
    batch in hand, until ``next_of`` allows the next, and what succeeds after a drop is committed:
    its lock is held until the inbox is drained. ``batch_max`` replaces that of the settings.
    """

    def __init__(
        self,
        parts: DeliveryParts,
        *,
        one_at_a_time: bool,
        wake: Callable[[], None],
        batch_max: int | None = None,
    ) -> None:
        self._parts = parts
        self._wake = wake
        self._loop = asyncio.get_running_loop()
        self._batch_max = batch_max or parts.settings.batch_max
        self._one_at_a_time = one_at_a_time
        self._now_ms = parts.clock.monotonic_ms
        self._ring: deque[Inbox] = deque()
        self._known: set[Inbox] = set()  # in the ring, or its next batch is not allowed yet
        self._taken: deque[Batch] = deque()
        self._done: dict[Inbox, _Done] = {}
        self._last_done: _Done | None = None
        self._timers: dict[asyncio.TimerHandle, tuple[Inbox, Sequence[StoredMessage]]] = {}
        self._drained: dict[Inbox, asyncio.Future[None]] = {}
        self._is_closed = False

    def __repr__(self) -> str:
        return f"<InHand {len(self._ring)} queues ready, {len(self._taken)} batches taken>"

    # Taking

    def ready(self, inbox: Inbox) -> None:
        """Note that an inbox has messages."""
        if inbox not in self._known:
            self._known.add(inbox)
            self._ring.append(inbox)

    def take(self) -> Batch | None:
        """Return the next batch; None if there is none."""
        taken = self._taken
        if taken:
            return taken.popleft()
        ring = self._ring
        while ring and not self._is_closed:
            inbox = ring[0]
            messages = inbox.take(self._count(), self._now_ms())
            if not messages:
                ring.popleft()
                self._known.discard(inbox)
                continue
            if self._one_at_a_time:
                ring.popleft()  # still known: ``next_of`` brings it back
            else:
                ring.rotate(-1)
            self._split(inbox, messages)
            return taken.popleft()
        return None

    def waiting(self, limit: int) -> int:
        """Return how many batches could be taken, as far as ``limit``."""
        count = len(self._taken)
        for inbox in self._ring:
            if count >= limit:
                break
            count += 1 if self._one_at_a_time else -(-inbox.waiting // self._batch_max)
        return min(count, limit)

    def next_of(self, inbox: Inbox) -> None:
        """Allow the next batch of an inbox, when one is in hand at a time."""
        if self._one_at_a_time:
            self._known.discard(inbox)
        self.ready(inbox)

    def _count(self) -> int:
        return self._batch_max if self._one_at_a_time else self._batch_max * _BATCHES_AT_ONCE

    def _split(self, inbox: Inbox, messages: list[StoredMessage]) -> None:
        size = self._batch_max
        seen = as_seen(messages, inbox.queue, self._parts.namespace)
        parts = [messages[start : start + size] for start in range(0, len(messages), size)]
        if seen is messages:
            self._taken.extend([Batch(inbox, part, part) for part in parts])
            return
        shown = [seen[start : start + size] for start in range(0, len(seen), size)]
        self._taken.extend(map(Batch, repeat(inbox), parts, shown))

    # The end of a message

    def finish(self, inbox: Inbox, messages: Sequence[StoredMessage], took_ms: int) -> None:
        """Finish messages that were consumed, at the end of this turn."""
        done = self._last_done  # mostly of the same inbox: batches are taken some at a time
        if done is None or done.inbox is not inbox:
            done = self._done.get(inbox)
            if done is None:
                if not self._done:
                    self._loop.call_soon(self.flush)
                done = self._done[inbox] = _Done(inbox)
            self._last_done = done
        done.messages += messages
        done.took_ms += took_ms
        done.calls += 1

    def finish_unconsumed(self, inbox: Inbox, messages: Sequence[StoredMessage]) -> None:
        """Finish messages that were sent back or dropped, now."""
        inbox.finish(messages)
        self._commit(inbox)

    def give_back(self, inbox: Inbox, messages: Sequence[StoredMessage]) -> None:
        """Let messages wait again, in front of the others of their queue."""
        self.flush()
        inbox.give_back(messages)
        self._check_drained(inbox)

    def give_back_later(
        self, inbox: Inbox, messages: Sequence[StoredMessage], delay_ms: int
    ) -> None:
        """Give messages back after a time, and deliver them again; they stay in hand until then."""
        if self._is_closed or inbox.is_dropped:
            self.give_back(inbox, messages)
            return
        timer: asyncio.TimerHandle = self._loop.call_later(
            delay_ms / 1_000, lambda: self._again(timer)
        )
        self._timers[timer] = inbox, messages

    def flush(self) -> None:
        """Finish now what is to be finished at the end of the turn."""
        if not self._done:
            return
        finished, self._done, self._last_done = self._done, {}, None
        for inbox, done in finished.items():
            inbox.finish(done.messages)
            self._parts.statistics.consumed(
                inbox.queue.topic, len(done.messages), done.took_ms, done.calls
            )
            self._commit(inbox)

    def _commit(self, inbox: Inbox) -> None:
        offset = inbox.commit_offset
        if offset is not None and (self._one_at_a_time or not inbox.is_dropped):
            self._parts.offsets.update(inbox.queue, offset)
        self._check_drained(inbox)

    def next_of_later(self, inbox: Inbox, delay_ms: int) -> None:
        """Allow the next batch of an inbox after a time."""
        if not self._is_closed:
            timer: asyncio.TimerHandle = self._loop.call_later(
                delay_ms / 1_000, lambda: self._again(timer)
            )
            self._timers[timer] = inbox, ()

    def _again(self, timer: asyncio.TimerHandle) -> None:
        inbox, messages = self._timers.pop(timer)
        if messages:
            self.give_back(inbox, messages)
        self.next_of(inbox)
        self._wake()

    # Drops and the end

    async def drained(self, inbox: Inbox) -> None:
        """Wait until nothing of a dropped inbox is in hand."""
        self._drop_taken(inbox)
        self._stop_timers(inbox)
        self.flush()
        while inbox.in_hand:
            waiter = self._drained.get(inbox)
            if waiter is None:
                waiter = self._drained[inbox] = self._loop.create_future()
            await asyncio.shield(waiter)
        self._known.discard(inbox)  # its next batch may never have been allowed

    def close(self) -> None:
        """Take no more; give back what was not begun."""
        self._is_closed = True
        self._drop_taken()
        self._stop_timers()
        self.flush()

    def _drop_taken(self, inbox: Inbox | None = None) -> None:
        kept: deque[Batch] = deque()
        dropped: dict[Inbox, list[StoredMessage]] = {}
        for batch in self._taken:
            if inbox is None or batch.inbox is inbox:
                dropped.setdefault(batch.inbox, []).extend(batch.messages)
            else:
                kept.append(batch)
        self._taken = kept
        for one, messages in dropped.items():
            self.give_back(one, messages)

    def _stop_timers(self, inbox: Inbox | None = None) -> None:
        for timer, (one, messages) in list(self._timers.items()):
            if inbox is None or one is inbox:
                timer.cancel()
                del self._timers[timer]
                if messages:
                    self.give_back(one, messages)

    def _check_drained(self, inbox: Inbox) -> None:
        if inbox.is_dropped and self._drained and not inbox.in_hand:
            waiter = self._drained.pop(inbox, None)
            if waiter is not None and not waiter.done():
                waiter.set_result(None)
