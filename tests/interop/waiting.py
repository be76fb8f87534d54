"""Waiting for what another process will do some time soon: a condition and a deadline."""

import asyncio
import time
from collections.abc import Callable
from typing import TypeVar

from orbitmq.clock import SystemClock

T = TypeVar("T")

PAUSE_S = 0.02
PAUSE_MAX_S = 0.2
GROWTH = 1.3
"""The pause between two looks, and by what it grows, to leave the processor to what we wait for."""


def until(look: Callable[[], T | None], *, what: str, seconds: float = 60) -> T:
    """Look again and again until there is something to see, and return it.

    False and empty count as nothing, like None. TimeoutError, which says what was waited for, when
    the time is over.
    """
    deadline = _Deadline(what, seconds)
    while not (seen := look()):
        time.sleep(deadline.pause_s())
    return seen


async def until_async(look: Callable[[], T | None], *, what: str, seconds: float = 60) -> T:
    """Do as ``until`` does, and let the loop run between two looks."""
    deadline = _Deadline(what, seconds)
    while not (seen := look()):
        pause_s = deadline.pause_s()
        await asyncio.sleep(pause_s)
    return seen


class _Deadline:
    """The end of somebody's patience."""

    def __init__(self, what: str, seconds: float) -> None:
        self._clock = SystemClock()
        self._at_ms = self._clock.monotonic_ms() + seconds * 1000
        self._pause_s = PAUSE_S
        self._told = f"waited {seconds:g} s in vain: {what}"

    def pause_s(self) -> float:
        """Return how long to wait before the next look; TimeoutError if the time is over."""
        if self._clock.monotonic_ms() >= self._at_ms:
            raise TimeoutError(self._told)
        pause_s = self._pause_s
        self._pause_s = min(pause_s * GROWTH, PAUSE_MAX_S)
        return pause_s
