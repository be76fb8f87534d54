"""Broker processes beside the supervisor's own, started again when they die.

::

    starting ── ready line ──▶ running ── exits ──▶ waiting, longer each time ──▶ starting
        └── exits ──▶ (at the first start: an error of ours) ─────────▲
    close ──▶ SIGTERM to each ──▶ exits, or is killed when its time is over
"""

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Final, Self

from orbitmq.errors import OrbitError

__all__ = ["ProcessFailed", "Supervisor"]

log = logging.getLogger("orbitmq.supervisor")

_STOP_S: Final = 60
"""How long a broker may take to drain, flush and persist, before it is killed."""
_PAUSE_S: Final = 0.5
_PAUSE_S_MAX: Final = 30.0
_STEADY_S: Final = 60
"""A process that ran for so long begins anew with the shortest pause."""


class ProcessFailed(OrbitError):
    """A broker process ended before it was ready; its own words are on stderr."""


class Supervisor:
    """Runs ``orbitmq`` commands as processes; an async context manager.

    Their standard input is a pipe that ends with this process: a command that stops at its end
    does not outlive a supervisor that is killed.

    Args:
        commands: the arguments of each, by a name for people.

    """

    def __init__(self, commands: Mapping[str, Sequence[str]]) -> None:
        self._commands = dict(commands)
        self._processes: dict[str, asyncio.subprocess.Process] = {}
        self._keepers: list[asyncio.Task[None]] = []
        self._closing = False
        self.ready: dict[str, str] = {}
        """What each said when it was ready, without the first words."""

    def __repr__(self) -> str:
        return f"<Supervisor of {', '.join(self._commands)}>"

    async def __aenter__(self) -> Self:
        """Start all; return when each is ready.

        Raises:
            ProcessFailed: one could not start; the others were stopped.

        """
        try:
            await asyncio.gather(*(self._start(name) for name in self._commands))
        except BaseException:
            await self.close()
            raise
        self._keepers = [asyncio.create_task(self._keep(name)) for name in self._commands]
        self.ready = {name: self.ready[name] for name in self._commands}
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Stop all in order; return when they have ended."""
        self._closing = True
        for keeper in self._keepers:
            keeper.cancel()
        await asyncio.gather(*self._keepers, return_exceptions=True)
        await asyncio.gather(*(self._stop(name) for name in list(self._processes)))

    async def _start(self, name: str) -> None:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "orbitmq", *self._commands[name]),
            stdin=asyncio.subprocess.PIPE,  # it ends with us, however we end
            stdout=asyncio.subprocess.PIPE,
            start_new_session=True,  # a ^C is for the supervisor, which stops them in order
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
        self._processes[name] = process
        assert process.stdout is not None
        line = (await process.stdout.readline()).decode().strip()
        if not line.startswith("ready broker="):
            raise ProcessFailed(f"{name} ended before it was ready: {await _end(process)}")
        self.ready[name] = line.partition("=")[2]
        log.info("%s is ready on %s, process %d", name, self.ready[name], process.pid)

    async def _keep(self, name: str) -> None:
        """Start a process again whenever it ends."""
        loop = asyncio.get_running_loop()
        pause_s = _PAUSE_S
        while True:
            began = loop.time()
            reason = await _end(self._processes[name])
            if loop.time() - began > _STEADY_S:
                pause_s = _PAUSE_S
            log.error("%s ended: %s; it is started again in %g s", name, reason, pause_s)
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, _PAUSE_S_MAX)
            try:
                await self._start(name)
            except (ProcessFailed, OSError) as error:
                log.error("%s", error)

    async def _stop(self, name: str) -> None:
        process = self._processes[name]
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(_STOP_S):
                await process.wait()
        except TimeoutError:
            log.error("%s did not stop within %d s, and is killed", name, _STOP_S)
            process.kill()
            await process.wait()


async def _end(process: asyncio.subprocess.Process) -> str:
    """Return how a process ended, in words."""
    status = await process.wait()
    if status >= 0:
        return f"exit status {status}"
    return f"killed by {signal.Signals(-status).name}"
