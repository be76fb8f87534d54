"""Coroutine handlers: a fixed number of tasks on the loop, which take batches one after another.

::

    idle ── wake ──▶ take ──▶ handler ──▶ settle ──▶ take …  ──▶ idle
                               │ suspends: the loop goes on, and
                               └──▶ wakes as many idle workers as there are batches

A handler that never suspends keeps one worker busy, and costs no trip through the loop; the worker
lets the loop go on every few milliseconds. There is no task and no future per message.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import Final, cast

from orbitmq.client.consumer.delivery.delivery import Batch, BatchSource
from orbitmq.client.consumer.delivery.handler import Handler
from orbitmq.clock import Clock

__all__ = ["LoopRunner"]

log = logging.getLogger("orbitmq.client")

_TURN_MS: Final = 2
"""How long a worker may keep the loop from other work."""
_CANCEL_S: Final = 1.0
"""How long a cancelled handler may take to end."""
_AGAIN_S: Final = 1.0
"""When the place of a worker that was cancelled is filled."""


class LoopRunner:
    """Runs a coroutine handler for up to ``concurrency`` batches at once."""

    def __init__(
        self, handler: Handler, source: BatchSource, *, concurrency: int, clock: Clock
    ) -> None:
        self._call = cast("Callable[[object], Awaitable[object]]", handler.function)
        self._argument = handler.argument
        self._source = source
        self._now_ms = clock.monotonic_ms
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self._free_slots = list(reversed(range(concurrency)))
        self._current: list[Batch | None] = [None] * concurrency
        self._idle: deque[asyncio.Future[None]] = deque()
        self._yielding = 0
        self._is_stopping = False

    def __repr__(self) -> str:
        return f"<LoopRunner {len(self._tasks)} workers, {len(self._idle)} idle>"

    def wake(self) -> None:
        """Have one worker take what is ready."""
        if not self._yielding:  # it looks for batches itself
            self._wake(1)

    def running(self) -> Iterator[Batch]:
        """Yield the batches that user code has."""
        return (one for one in self._current if one is not None)

    async def stop(self, timeout_ms: int) -> None:
        """Start no handler, wait for those that run, cancel them after the timeout.

        What they don't finish is given back: also the batch of a handler that closes its own
        consumer, which can't be waited for, and of one that ignores the cancellation.
        """
        self._is_stopping = True
        self._wake(len(self._idle))
        others = [task for task in self._tasks if task is not asyncio.current_task()]
        if others:
            _, late = await asyncio.wait(others, timeout=timeout_ms / 1_000)
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late, timeout=_CANCEL_S)
        for batch in list(self.running()):
            log.warning("%r is given back: its handler has not returned", batch)
            self._source.give_back(batch)

    def _wake(self, count: int) -> None:
        while count and self._idle:
            waiter = self._idle.popleft()
            if not waiter.done():  # not of a worker that was cancelled
                waiter.set_result(None)
                count -= 1
        for _ in range(min(count, len(self._free_slots))):
            if not self._is_stopping:
                slot = self._free_slots.pop()
                task = asyncio.create_task(self._work(slot), name=f"handler {slot}")
                task.add_done_callback(partial(self._ended, slot))
                self._tasks.add(task)

    def _ended(self, slot: int, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._free_slots.append(slot)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("%s ended, with its messages given back", task.get_name(), exc_info=error)
        if not self._is_stopping:
            # Cancelled by user code, or by the end of the loop: then there is no later.
            self._loop.call_later(_AGAIN_S, self._wake_others)

    def _wake_others(self) -> None:
        """Wake workers for what is waiting: one that had the loop has suspended."""
        free = len(self._idle) + len(self._free_slots)
        if free and not self._yielding:
            self._wake(self._source.waiting(free))

    async def _work(self, slot: int) -> None:
        now_ms, take, settle, current = (
            self._now_ms,
            self._source.take,
            self._source.settle,
            self._current,
        )
        call, argument = self._call, self._argument
        # The clock is read once for each batch: one begins when the one before has ended.
        began_ms = resumed_ms = now_ms()
        self._loop.call_soon(self._wake_others)
        while not self._is_stopping:
            batch = take()
            if batch is None or began_ms - resumed_ms >= _TURN_MS:
                await (self._idle_until_woken() if batch is None else self._yield(batch))
                began_ms = resumed_ms = now_ms()
                self._loop.call_soon(self._wake_others)
                if batch is None or self._is_stopping:
                    continue
            batch.began_ms = began_ms
            current[slot] = batch
            failure: BaseException | None = None
            try:
                await call(argument(batch.seen))
            except Exception as error:
                failure = error
            except BaseException as error:
                failure = self._failure_of(slot, batch, error)
            ended_ms = now_ms()
            rest = settle(batch, failure, ended_ms - began_ms)
            current[slot] = None
            began_ms = ended_ms
            if rest is not None:
                await rest
                began_ms = now_ms()

    async def _idle_until_woken(self) -> None:
        waiter = self._loop.create_future()
        self._idle.append(waiter)
        await waiter

    def _failure_of(self, slot: int, batch: Batch, error: BaseException) -> BaseException:
        """Return the error of a handler; raise it if it ends the worker, not only the handler."""
        task = asyncio.current_task()
        assert task is not None
        if not isinstance(error, asyncio.CancelledError) or task.cancelling():
            self._current[slot] = None
            self._source.give_back(batch)
            raise error
        return error  # something that the handler awaited was cancelled

    async def _yield(self, batch: Batch) -> None:
        """Let the loop go on."""
        self._yielding += 1
        try:
            await asyncio.sleep(0)
        except BaseException:
            self._source.give_back(batch)
            raise
        finally:
            self._yielding -= 1
        if self._is_stopping:
            self._source.give_back(batch)
