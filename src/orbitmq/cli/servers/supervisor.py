"""Broker processes, restarted when they die.

::

    starting ── ready line ──▶ running ── exits ──▶ pausing, longer each time ──▶ starting
        └── exits ──▶ (an error, if it is the first start) ───────────▲
    reload ─▶ SIGHUP to each
    close ──▶ SIGTERM to each ──▶ exits, or is killed after a timeout
"""

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from typing import Final, Self

from orbitmq.errors import OrbitError

__all__ = ["ProcessFailed", "Supervisor"]

log = logging.getLogger("orbitmq.supervisor")

_STOP_S: Final = 60
"""A broker that takes longer to drain, flush and persist is killed."""
_PAUSE_S: Final = 0.5
_PAUSE_S_MAX: Final = 30.0
_STEADY_S: Final = 60
"""After a process ran for this long, its next restart has the shortest pause again."""


class ProcessFailed(OrbitError):
    """A broker process ended before it was ready; its error is on stderr."""


class Supervisor:
    """Runs ``orbitmq`` commands as processes; an async context manager.

    Their standard input is a pipe that ends when this process does: commands that stop at its end
    don't outlive a supervisor that is killed.
    """

    def __init__(self, commands: Mapping[str, Sequence[str]]) -> None:
        self._commands = dict(commands)  # name → arguments
        self._processes: dict[str, asyncio.subprocess.Process] = {}
        self._running: set[str] = set()
        self._keepers: list[asyncio.Task[None]] = []
        self._closing = False
        self.ready: dict[str, str] = {}
        """The address in the ready line of each process, by name."""

    def __repr__(self) -> str:
        return f"<Supervisor of {', '.join(self._commands)}>"

    async def __aenter__(self) -> Self:
        """Start all processes; return when each is ready.

        If one can't start, stop the others and raise ProcessFailed.
        """
        try:
            await asyncio.gather(*(self._start(name) for name in self._commands))
        except BaseException:
            await self.close()
            raise
        self._keepers = [asyncio.create_task(self._keep(name)) for name in self._commands]
        self.ready = {name: self.ready[name] for name in self._commands}
        return self

    async def __aexit__(self, *_exc_info: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Stop all processes cleanly; return when they have ended."""
        self._closing = True
        for keeper in self._keepers:
            keeper.cancel()
        await asyncio.gather(*self._keepers, return_exceptions=True)
        await asyncio.gather(*(self._stop(name) for name in list(self._processes)))

    def reload(self) -> None:
        """Have all processes reload their settings; one that is starting reads them anyway."""
        for name in self._running:
            if self._processes[name].returncode is None:
                self._processes[name].send_signal(signal.SIGHUP)

    async def _start(self, name: str) -> None:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "orbitmq", *self._commands[name]),
            stdin=asyncio.subprocess.PIPE,  # ends when this process does, even if it is killed
            stdout=asyncio.subprocess.PIPE,
            start_new_session=True,  # ^C goes to the supervisor alone, which stops them
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
        self._processes[name] = process
        self._running.discard(name)  # SIGHUP would end it until it is ready
        assert process.stdout is not None
        line = (await process.stdout.readline()).decode().strip()
        if not line.startswith("ready broker="):
            raise ProcessFailed(f"{name} ended before it was ready: {await _end(process)}")
        self.ready[name] = line.partition("=")[2]
        self._running.add(name)
        log.info("%s is ready on %s, process %d", name, self.ready[name], process.pid)

    async def _keep(self, name: str) -> None:
        """Restart a process whenever it ends."""
        loop = asyncio.get_running_loop()
        pause_s = _PAUSE_S
        while True:
            began = loop.time()
            reason = await _end(self._processes[name])
            if loop.time() - began > _STEADY_S:
                pause_s = _PAUSE_S
            log.error("%s ended: %s; restarting it in %g s", name, reason, pause_s)
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
            log.error("%s did not stop within %d s; killing it", name, _STOP_S)
            process.kill()
            await process.wait()


async def _end(process: asyncio.subprocess.Process) -> str:
    """Wait for a process, and return how it ended."""
    status = await process.wait()
    if status >= 0:
        return f"exit status {status}"
    return f"killed by {signal.Signals(-status).name}"
