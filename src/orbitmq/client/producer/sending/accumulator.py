"""Automatic batching: single sends are collected for some milliseconds and sent together.

::

    add ─▶ batch of its key ─▶ full (bytes or count), or the first has waited long enough ─▶ send
       └▶ None: it can't be batched, or too much is held already; the caller sends it alone

Messages of one topic, tag and wait flag, and of one queue if the caller chose it, make a batch; the
limits are those of Java's ProduceAccumulator. :class:`Batches` decides, :class:`Accumulator` has
the timer and the tasks.

A batch in flight is cancelled when all its callers are cancelled. While one of them still waits,
all messages of the batch are sent.
"""

import asyncio
import copy
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Final, NamedTuple

import msgspec

from orbitmq.client.settings import ProducerSettings
from orbitmq.clock import Clock
from orbitmq.errors import OrbitError
from orbitmq.message.model import Message, MessageQueue, SendReceipt
from orbitmq.message.names import RETRY_PREFIX
from orbitmq.message.properties import PRODUCER_GROUP

__all__ = ["Accumulator", "Batch", "BatchKey", "Batches", "SendBatch", "can_be_gathered"]

_MESSAGES_MAX: Final = 1_024
"""Messages of a batch: all of them wait for one answer."""


class BatchKey(NamedTuple):
    """What the messages of a batch have in common."""

    topic: str
    tags: str | None
    wait_stored: bool
    queue: MessageQueue | None


Waiter = asyncio.Future[SendReceipt]


class Batch(msgspec.Struct):
    """Messages that will be sent together, and the futures of their receipts."""

    key: BatchKey
    due_ms: int
    size: int = 0
    messages: list[Message] = msgspec.field(default_factory=list)
    waiters: list[Waiter] = msgspec.field(default_factory=list)


SendBatch = Callable[
    [Sequence[Message], MessageQueue | None], Awaitable[Sequence[SendReceipt | OrbitError]]
]
"""Sends messages of one key together, to the queue if one is given; returns a result for each."""


def can_be_gathered(message: Message) -> bool:
    """Return whether a message may be in a batch: not if it is delayed, or a retry.

    >>> can_be_gathered(Message("orders", b"paid")), can_be_gathered(
    ...     Message("orders", b"paid", delay_level=3)
    ... )
    (True, False)
    """
    return (
        message.delay_level == 0
        and message.delay is None
        and message.deliver_at is None
        and not (message.properties and PRODUCER_GROUP in message.properties)
        and not message.topic.startswith(RETRY_PREFIX)
    )


class Batches:
    """The batches that are filling, and the bytes in all of them. Pure: time is an argument.

    ``total_bytes`` limits the bytes in all batches, those in flight included.
    """

    def __init__(self, *, linger_ms: int, batch_bytes: int, total_bytes: int) -> None:
        self._linger_ms = linger_ms
        self._batch_bytes = batch_bytes
        self._total_bytes = total_bytes
        # All linger equally long, so the first added is the first due.
        self._filling: dict[tuple[str, str | None, bool, MessageQueue | None], Batch] = {}
        self.held_bytes = 0

    @property
    def next_due_ms(self) -> int | None:
        """The time when the next batch is due; None if none is filling."""
        return next((batch.due_ms for batch in self._filling.values()), None)

    def takes(self, message: Message) -> bool:
        """Return whether there is room for a message that is smaller than a batch.

        Java exceeds both the total and the size of a batch by one message.
        """
        size = len(message.body)
        return size < self._batch_bytes and self.held_bytes + size <= self._total_bytes

    def add(
        self,
        message: Message,
        queue: MessageQueue | None,
        waiter: Waiter,
        now_ms: Callable[[], int],
    ) -> Sequence[Batch] | None:
        """Add a message; return the batches that are full now, None if it must be sent alone.

        The caller sends them, in their order. ``now_ms`` is called if a batch begins.
        """
        # It equals a BatchKey, and is created in a quarter of the time.
        key = (message.topic, message.tags, message.wait_stored, queue)
        batch = self._filling.get(key)
        if batch is not None and not message.properties:
            added = len(message.body)
            size, held = batch.size + added, self.held_bytes + added
            if (
                size < self._batch_bytes
                and held <= self._total_bytes
                and message.delay_level == 0
                and message.delay is None
                and message.deliver_at is None
                and len(batch.messages) < _MESSAGES_MAX - 1
            ):
                batch.size, self.held_bytes = size, held
                batch.messages.append(message)
                batch.waiters.append(waiter)
                return ()
        if not (self.takes(message) and can_be_gathered(message)):
            return None
        return self._add(key, message, waiter, now_ms)

    def _add(
        self,
        key: tuple[str, str | None, bool, MessageQueue | None],
        message: Message,
        waiter: Waiter,
        now_ms: Callable[[], int],
    ) -> Sequence[Batch]:
        """Add any message that can be in a batch, which may begin or become full."""
        full = []
        added = len(message.body)
        batch = self._filling.get(key)
        if batch is not None and batch.size + added > self._batch_bytes:
            full.append(self._filling.pop(key))
            batch = None
        if batch is None:
            batch = self._filling[key] = Batch(BatchKey(*key), now_ms() + self._linger_ms)
        batch.size += added
        self.held_bytes += added
        batch.messages.append(message)
        batch.waiters.append(waiter)
        if batch.size >= self._batch_bytes or len(batch.messages) >= _MESSAGES_MAX:
            full.append(self._filling.pop(key))
        return full

    def due(self, now_ms: int) -> list[Batch]:
        """Remove and return the batches whose first message has waited long enough."""
        due = []
        for key, batch in self._filling.items():
            if batch.due_ms > now_ms:
                break
            due.append(key)
        return [self._filling.pop(key) for key in due]

    def drain(self) -> list[Batch]:
        """Remove and return all batches."""
        batches = list(self._filling.values())
        self._filling.clear()
        return batches

    def settled(self, batch: Batch) -> None:
        """Record that a batch has ended, sent or not."""
        self.held_bytes -= batch.size


class Accumulator:
    """Collects the sends of one producer into batches; belongs to one loop.

    ``send`` sends a batch; its error is raised to all callers of the batch.
    """

    def __init__(self, settings: ProducerSettings, clock: Clock, send: SendBatch) -> None:
        self._batches = Batches(
            linger_ms=settings.linger_ms,
            batch_bytes=settings.batch_bytes,
            total_bytes=settings.total_bytes,
        )
        self._now_ms = clock.monotonic_ms
        self._send = send
        self._loop = asyncio.get_running_loop()
        self._create_future = self._loop.create_future
        self._timer: asyncio.TimerHandle | None = None
        self._sending: set[asyncio.Task[None]] = set()

    @property
    def held_bytes(self) -> int:
        """The bytes of bodies in batches that are filling or in flight."""
        return self._batches.held_bytes

    def add(self, message: Message, queue: MessageQueue | None = None) -> Waiter | None:
        """Add a message to its batch; return the future of its receipt, None: send it alone.

        A message whose future is cancelled before the batch leaves is not sent; once all futures
        of a batch are cancelled, no further attempt is made.
        """
        waiter: Waiter = self._create_future()
        full = self._batches.add(message, queue, waiter, self._now_ms)
        if full is None:
            return None
        for batch in full:
            self._begin(batch)
        if self._timer is None:
            self._set_timer()
        return waiter

    async def flush(self, timeout_ms: int) -> None:
        """Send all batches, and wait up to that long for them to end."""
        for batch in self._batches.drain():
            self._begin(batch)
        self._set_timer()
        if self._sending:
            await asyncio.wait(self._sending, timeout=timeout_ms / 1_000)

    def cancel(self) -> None:
        """Send no more batches, and cancel all futures."""
        for batch in self._batches.drain():
            self._batches.settled(batch)
            for waiter in batch.waiters:
                waiter.cancel()
        for task in self._sending:
            task.cancel()
        self._set_timer()

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        due_ms = self._batches.next_due_ms
        if due_ms is not None:
            delay_ms = max(0, due_ms - self._now_ms())
            self._timer = self._loop.call_later(delay_ms / 1_000, self._send_due)

    def _send_due(self) -> None:
        for batch in self._batches.due(self._now_ms()):
            self._begin(batch)
        self._set_timer()

    def _begin(self, batch: Batch) -> None:
        task = self._loop.create_task(self._send_batch(batch))
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)

    async def _send_batch(self, batch: Batch) -> None:
        messages, waiters = _wanted(batch)
        try:
            if messages:
                _cancel_when_unwanted(asyncio.current_task(), iter(waiters))
                outcomes = await self._send(messages, batch.key.queue)
                _settle(waiters, outcomes)
        except asyncio.CancelledError:
            for waiter in waiters:
                waiter.cancel()
            raise
        except Exception as error:  # all callers of the batch get it
            _settle(waiters, [error] * len(waiters))
        finally:
            self._batches.settled(batch)


def _wanted(batch: Batch) -> tuple[list[Message], list[Waiter]]:
    """Return the messages of a batch whose futures are not cancelled, with their futures."""
    for waiter in batch.waiters:
        if waiter.done():
            break
    else:
        return batch.messages, batch.waiters
    pairs = zip(batch.messages, batch.waiters, strict=True)
    wanted = [(message, waiter) for message, waiter in pairs if not waiter.done()]
    return [message for message, _ in wanted], [waiter for _, waiter in wanted]


def _cancel_when_unwanted(task: asyncio.Task[None] | None, waiters: Iterator[Waiter]) -> None:
    """Cancel a task when all futures that depend on it are cancelled.

    One of them is watched at a time, so that a batch without cancellations costs one callback.
    """
    if task is None or task.done():
        return
    for waiter in waiters:
        if not waiter.done():
            waiter.add_done_callback(lambda _done: _cancel_when_unwanted(task, waiters))
            return
    task.cancel()


def _settle(waiters: Sequence[Waiter], outcomes: Sequence[SendReceipt | Exception]) -> None:
    """Set the outcomes of the messages of a batch, except for callers that were cancelled."""
    for waiter, outcome in zip(waiters, outcomes, strict=True):
        if waiter.done():
            continue
        if isinstance(outcome, SendReceipt):
            waiter.set_result(outcome)
        else:
            waiter.set_exception(_own(outcome))


def _own(error: Exception) -> Exception:
    """Return a copy of an error for one caller, since each raise adds to its traceback."""
    if not isinstance(error, OrbitError):
        return error
    own = copy.copy(error)
    own.__cause__ = error
    return own
