"""Handlers that are plain functions: threads take batches from one deque, the loop collects.

::

    loop:    fill ──▶ pending ─┐                          ┌─▶ collect: settle, fill
    threads:                   └─▶ handler ──▶ done ──────┘   (one wake-up for all that is done)

A thread runs until ``pending`` is empty. Quick handlers get batches ahead and one thread, so that
neither the loop nor other threads are woken per message; a timer adds threads if it gets stuck. As
soon as handlers take a millisecond or more, each batch in hand has a thread.
"""

import asyncio
import inspect
import logging
from collections import deque
from collections.abc import Awaitable, Coroutine, Iterator
from typing import Any, Final

from orbitmq.client.consumer.delivery.delivery import Batch, BatchSource
from orbitmq.client.consumer.delivery.handler import Handler
from orbitmq.client.core.periodic import cancel_all
from orbitmq.clock import Clock

__all__ = ["ThreadRunner"]

log = logging.getLogger("orbitmq.client")

_AHEAD: Final = 64
"""Batches that quick handlers have waiting."""
_SPREAD_S: Final = 0.005
"""After this time, batches that still wait get threads of their own."""
_QUICK_MS: Final = 1.0
_AVERAGED: Final = 16


class ThreadRunner:
    """Runs a function for up to ``concurrency`` batches at once, on the handler's threads."""

    def __init__(
        self, handler: Handler, source: BatchSource, *, concurrency: int, clock: Clock
    ) -> None:
        self._handler = handler
        self._source = source
        self._concurrency = concurrency
        self._now_ms = clock.monotonic_ms
        self._loop = asyncio.get_running_loop()
        self._pending: deque[Batch] = deque()
        self._done: deque[Batch | None] = deque()  # None: a thread has ended
        self._handed: set[Batch] = set()  # pending, running, or being settled
        self._settling: set[asyncio.Task[None]] = set()
        self._threads = 0
        self._average_ms = 2 * _QUICK_MS
        self._is_notified = False
        self._is_stopping = False
        self._spreading: asyncio.TimerHandle | None = None
        self._all_ended: asyncio.Future[None] | None = None

    def __repr__(self) -> str:
        return f"<ThreadRunner {len(self._handed)} batches, {self._threads} threads>"

    def wake(self) -> None:
        """Hand what is ready to threads, as far as some are free."""
        if self._is_stopping or self._handler.is_closing:
            return
        is_quick = self._average_ms < _QUICK_MS
        limit = self._concurrency + (_AHEAD if is_quick else 0)
        while len(self._handed) < limit and (batch := self._source.take()) is not None:
            self._handed.add(batch)
            self._pending.append(batch)
        if not self._pending:
            return
        if not is_quick:
            self._start_threads(len(self._pending))
        else:
            self._start_threads(1 - self._threads)
            if self._spreading is None:
                self._spreading = self._loop.call_later(_SPREAD_S, self._spread)

    def running(self) -> Iterator[Batch]:
        """Yield the batches that user code has."""
        return (one for one in self._handed if one.began_ms >= 0)

    def drop(self, inbox: object) -> None:
        """Give back what no thread has begun of a dropped inbox."""
        kept = []
        while (batch := self._next()) is not None:
            if batch.inbox is inbox:
                self._give_back(batch)
            else:
                kept.append(batch)
        self._pending.extend(kept)  # threads that ended meanwhile are noticed by ``_collect``

    async def stop(self, timeout_ms: int) -> None:
        """Start no handler, and wait for those that run; their threads can't be stopped."""
        self._is_stopping = True
        while (batch := self._next()) is not None:
            self._give_back(batch)
        if self._handed:
            self._all_ended = self._loop.create_future()
            await asyncio.wait([self._all_ended], timeout=timeout_ms / 1_000)
        await cancel_all(self._settling)
        for batch in list(self._handed):
            self._give_back(batch)
        if self._spreading is not None:
            self._spreading.cancel()
        self._handler.workers.close(wait=False)

    def _give_back(self, batch: Batch) -> None:
        self._handed.discard(batch)
        if not batch.is_over:
            batch.is_over = True
            self._source.give_back(batch)

    def _spread(self) -> None:
        self._spreading = None
        if not self._is_stopping:
            self._start_threads(len(self._pending))

    def _start_threads(self, count: int) -> None:
        for _ in range(min(count, self._concurrency - self._threads)):
            self._threads += 1
            self._handler.workers.submit(self._work)

    # On a thread

    def _next(self) -> Batch | None:
        try:
            return self._pending.popleft()
        except IndexError:
            return None

    def _work(self) -> None:
        handler, now_ms = self._handler, self._now_ms
        call, argument = handler.function, handler.argument
        handler.take_thread()
        began_ms = now_ms()  # read once for each batch: one begins when the one before has ended
        while not handler.is_closing and (batch := self._next()) is not None:
            batch.began_ms = began_ms
            try:
                batch.result = call(argument(batch.seen))
            except BaseException as error:  # settled on the loop
                batch.error = error
            ended_ms = now_ms()
            batch.took_ms, began_ms = ended_ms - began_ms, ended_ms
            self._report(batch)
        self._report(None)

    def _report(self, batch: Batch | None) -> None:
        self._done.append(batch)
        if not self._is_notified:
            self._is_notified = True
            try:
                self._loop.call_soon_threadsafe(self._collect)
            except RuntimeError:
                log.debug("the loop has ended before a handler: %r is not acknowledged", batch)

    # On the loop

    def _collect(self) -> None:
        self._is_notified = False  # first: what is added from now on notifies again
        done = self._done
        while done:
            batch = done.popleft()
            if batch is None:
                self._threads -= 1
                continue
            self._average_ms += (batch.took_ms - self._average_ms) / _AVERAGED
            if batch.result is not None and inspect.isawaitable(batch.result):
                self._continue(batch, self._awaited(batch, batch.result))
            else:
                self._settle(batch)
        self.wake()

    async def _awaited(self, batch: Batch, result: Awaitable[object]) -> None:
        """Await what the function returned, then settle its batch."""
        began_ms = self._now_ms()
        try:
            await result
        except asyncio.CancelledError:
            self._give_back(batch)
            raise
        except Exception as error:
            batch.error = error
        batch.took_ms += self._now_ms() - began_ms
        rest = self._source.settle(batch, batch.error, batch.took_ms)
        if rest is not None:
            await rest

    def _settle(self, batch: Batch) -> None:
        if batch not in self._handed:
            return  # it was given back when the time to stop was over
        rest = self._source.settle(batch, batch.error, batch.took_ms)
        if rest is None:
            self._end(batch)
        else:
            self._continue(batch, rest)

    def _continue(self, batch: Batch, rest: Coroutine[Any, Any, None]) -> None:
        """Keep the place of a batch until the rest is done."""
        task = asyncio.create_task(rest, name=f"settle {batch!r}")
        self._settling.add(task)
        task.add_done_callback(lambda ended: self._continued(batch, ended))

    def _continued(self, batch: Batch, task: asyncio.Task[None]) -> None:
        self._settling.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("%s failed", task.get_name(), exc_info=error)
        self._end(batch)
        self.wake()

    def _end(self, batch: Batch) -> None:
        self._handed.discard(batch)
        if self._all_ended is not None and not self._handed and not self._all_ended.done():
            self._all_ended.set_result(None)
