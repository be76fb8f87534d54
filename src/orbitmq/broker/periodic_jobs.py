"""What time moves in a broker: jobs, each at its own pace, on one timer of the loop."""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

import msgspec

from orbitmq.clock import Clock

__all__ = ["PeriodicJobs"]

log = logging.getLogger("orbitmq.broker")

_TICK_S: Final = 0.1
"""The pace of Java's delay levels, and short against every other period there is."""


class _Job(msgspec.Struct):
    run: Callable[[], None]
    every_ms: Callable[[], int]
    last_ms: int


class PeriodicJobs:
    """Calls what is due ten times a second, from ``start`` to ``stop``."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._jobs: list[_Job] = []
        self._timer: asyncio.TimerHandle | None = None

    def add(self, run: Callable[[], None], every_ms: Callable[[], int] | int = 0) -> None:
        """Have ``run`` called at every beat, or at the first beat after each such period."""
        period = every_ms if callable(every_ms) else lambda: every_ms
        self._jobs.append(_Job(run, period, self._clock.monotonic_ms()))

    def start(self) -> None:
        """Begin; call it on the loop."""
        self._timer = asyncio.get_running_loop().call_later(_TICK_S, self._beat)

    def stop(self) -> None:
        """Call nothing any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _beat(self) -> None:
        now_ms = self._clock.monotonic_ms()
        for job in self._jobs:
            if now_ms - job.last_ms >= job.every_ms():
                job.last_ms = now_ms
                try:
                    job.run()
                except Exception:  # the others are due all the same
                    log.exception("a job of the broker failed")
        if self._timer is not None:
            self.start()
