"""Periodic jobs of a broker, on one timer of the event loop."""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

import msgspec

from orbitmq.clock import Clock

__all__ = ["PeriodicJobs"]

log = logging.getLogger("orbitmq.broker")

_TICK_S: Final = 0.1
"""The period of Java's delay levels, and shorter than every other period."""


class _Job(msgspec.Struct):
    run: Callable[[], None]
    every_ms: Callable[[], int]
    last_ms: int


class PeriodicJobs:
    """Runs due jobs ten times a second, from ``start`` to ``stop``."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._jobs: list[_Job] = []
        self._timer: asyncio.TimerHandle | None = None

    def add(self, run: Callable[[], None], every_ms: Callable[[], int] | int = 0) -> None:
        """Call ``run`` at every tick, or at the first tick after each period."""
        period = every_ms if callable(every_ms) else lambda: every_ms
        self._jobs.append(_Job(run, period, self._clock.monotonic_ms()))

    def start(self) -> None:
        """Start the timer; call it on the event loop."""
        self._timer = asyncio.get_running_loop().call_later(_TICK_S, self._tick)

    def stop(self) -> None:
        """Stop the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _tick(self) -> None:
        now_ms = self._clock.monotonic_ms()
        for job in self._jobs:
            if now_ms - job.last_ms >= job.every_ms():
                job.last_ms = now_ms
                try:
                    job.run()
                except Exception:  # the other jobs are due all the same
                    log.exception("a periodic job of the broker failed")
        if self._timer is not None:
            self.start()
