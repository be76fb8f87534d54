"""Processes of a virtual run: code that is killed at any moment, and never runs again.

All processes share one loop. What runs in one belongs to it: its tasks, the tasks these start, and
every callback and timer that they ask for. To kill it drops all of those. No ``finally`` runs and
no handler is told, as when the system ends a process.

>>> async def main(clock):
...     told = []
...     async def work():
...         try:
...             await clock.sleep(10)
...         finally:
...             told.append("this is never told")
...     process = Process("worker")
...     task = process.start(work())
...     await clock.sleep(1)
...     process.kill()
...     await clock.sleep(60)
...     return list(told), process.is_alive, task.done()
>>> from orbitmq.testing.clocks import run_virtual
>>> run_virtual(main)
([], False, False)

A kill leaves the outside alone: whoever kills a process also closes its connections and its files
(``MemoryHost.crash``, ``SimulatedDisk.kill``).
"""

import asyncio
import contextvars
from collections.abc import Coroutine
from typing import Any, TypeVar

from orbitmq.errors import OrbitError
from orbitmq.testing.clocks import VirtualLoop

__all__ = ["Killed", "Process"]

T = TypeVar("T")

_RUNNING: contextvars.ContextVar["Process | None"] = contextvars.ContextVar(
    "orbitmq_simulated_process", default=None
)


class Killed(OrbitError):
    """The process was killed before it came to an end."""


class Process:
    """Something that runs on a virtual loop, and can be killed from outside.

    Args:
        name: shown in errors.

    """

    def __init__(self, name: str) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        self.name = name
        self._loop = loop
        self._context = contextvars.copy_context()
        self._context.run(_RUNNING.set, self)
        self._killed: asyncio.Future[None] = loop.create_future()
        self._remains: list[asyncio.Task[Any]] = []

    def __repr__(self) -> str:
        return f"<Process {self.name} {'alive' if self.is_alive else 'killed'}>"

    @property
    def is_alive(self) -> bool:
        """Whether it was not killed yet."""
        return not self._killed.done()

    def start(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Begin ``work`` as a part of the process, and return its task.

        A task of a killed process never ends: wait for it with ``run``.
        """
        return self._loop.create_task(work, context=self._context)

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Return what ``work`` returns, as a part of the process.

        Raises:
            Killed: the process was killed before the end.

        """
        task = self.start(work)
        ends: list[asyncio.Future[Any]] = [task, self._killed]
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise Killed(f"{self.name} was killed")
        return task.result()

    def kill(self) -> None:
        """Let nothing of the process run any more; call it from outside.

        Keep the process until the run is over: it holds the tasks that are left.
        """
        assert _RUNNING.get() is not self, "a process can't see its own end"
        self._remains += self._loop.drop(lambda context: context.get(_RUNNING) is self)
        if self.is_alive:
            self._killed.set_result(None)
