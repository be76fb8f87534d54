"""Simulated processes on a virtual loop, which can be killed or paused at any moment.

All processes share one loop. A process owns its tasks, the tasks that those start, and all their
callbacks and timers. A kill drops all of them: no ``finally`` and no handler runs, as when the
system kills a process.

>>> async def main(clock):
...     cleaned_up = []
...     async def work():
...         try:
...             await clock.sleep(10)
...         finally:
...             cleaned_up.append("never reached")
...     process = Process("worker")
...     task = process.start(work())
...     await clock.sleep(1)
...     process.kill()
...     await clock.sleep(60)
...     return list(cleaned_up), process.is_alive, task.done()
>>> from orbitmq.testing.clocks import run_virtual
>>> run_virtual(main)
([], False, False)

A kill does not touch connections and files; the caller ends those with ``MemoryHost.crash`` and
``SimulatedDisk.kill``.
"""

import asyncio
import contextvars
import inspect
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, TypeVar

from orbitmq.errors import OrbitError
from orbitmq.testing.clocks import VirtualLoop

__all__ = ["Killed", "Process"]

T = TypeVar("T")

_RUNNING: contextvars.ContextVar["Process | None"] = contextvars.ContextVar(
    "orbitmq_simulated_process", default=None
)


class Killed(OrbitError):
    """The process was killed before its work ended."""


class Process:
    """Work on a virtual loop that can be killed from outside; ``name`` is shown in errors."""

    def __init__(self, name: str) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        self.name = name
        self._loop = loop
        self._context = contextvars.copy_context()
        self._context.run(_RUNNING.set, self)
        self._killed: asyncio.Future[None] = loop.create_future()
        self._is_paused = False
        self._remains: list[asyncio.Task[Any]] = []

    def __repr__(self) -> str:
        return f"<Process {self.name} {'alive' if self.is_alive else 'killed'}>"

    @property
    def is_alive(self) -> bool:
        """Whether it was not killed."""
        return not self._killed.done()

    def start(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Start ``work`` as part of the process and return its task.

        The task of a killed process never ends; use ``run`` to wait for work.
        """
        return self._loop.create_task(work, context=self._context)

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run ``work`` as part of the process and return its result.

        Raise Killed if the process was killed before ``work`` ended.
        """
        task = self.start(work)
        ends: list[asyncio.Future[Any]] = [task, self._killed]
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise Killed(f"{self.name} was killed")
        return task.result()

    def kill(self) -> None:
        """Drop everything that runs in the process; call it from outside.

        Keep the process until the end of the run: it holds the dropped tasks.
        """
        assert _RUNNING.get() is not self, "a process can't kill itself"
        self._remains += self._loop.drop(self._owns)
        self.resume()
        if self.is_alive:
            self._killed.set_result(None)

    def pause(self) -> None:
        """Let nothing of the process run until ``resume``, as SIGSTOP does; call it from outside.

        Its peers see it silent: bytes arrive, and are read after the pause. Its timers go on, and
        those that are due fire then.

        >>> async def main(clock):
        ...     process = Process("worker")
        ...     async def work():
        ...         await clock.sleep(1)
        ...         return clock.monotonic_ms()
        ...     task = process.start(work())
        ...     await clock.sleep(0.5)
        ...     process.pause()
        ...     await clock.sleep(9.5)
        ...     process.resume()
        ...     return await task
        >>> from orbitmq.testing.clocks import run_virtual
        >>> run_virtual(main)
        10000
        """
        assert _RUNNING.get() is not self, "a process can't pause itself"
        if not self._is_paused and self.is_alive:
            self._is_paused = True
            self._loop.pause(self._owns)

    def resume(self) -> None:
        """End a pause, if there is one."""
        if self._is_paused:
            self._is_paused = False
            self._loop.resume(self._owns)

    def _owns(self, context: contextvars.Context) -> bool:
        return context.get(_RUNNING) is self

    def discard(self) -> None:
        """Let go of what a kill dropped, at the end of a run, while the loop still runs.

        Their ``finally`` runs now, up to the first ``await``; collected later, it would meet a
        closed loop.
        """
        remains, self._remains = self._remains, []
        for task in remains:
            coroutine = task.get_coro()
            if inspect.iscoroutine(coroutine):
                with suppress(Exception):  # it awaited something, or its disk is gone
                    self._context.copy().run(coroutine.close)
        # What they scheduled meanwhile, such as the end of other tasks.
        self._remains += self._loop.drop(self._owns)
