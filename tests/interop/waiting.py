"""Waiting for what another process will do some time soon: a condition and a deadline."""

import time
from collections.abc import Callable
from typing import TypeVar

from orbitmq.clock import SystemClock

T = TypeVar("T")

PAUSE_S = 0.02
"""Between two looks; long enough to leave the processor to whom we wait for."""


def until(look: Callable[[], T | None], *, what: str, seconds: float = 60) -> T:
    """Look again and again until there is something to see, and return it.

    False and empty count as nothing, like None. TimeoutError, which says what was waited for, when
    the time is over.
    """
    clock = SystemClock()
    deadline_ms = clock.monotonic_ms() + seconds * 1000
    while True:
        seen = look()
        if seen:
            return seen
        if clock.monotonic_ms() >= deadline_ms:
            raise TimeoutError(f"waited {seconds:g} s in vain: {what}")
        time.sleep(PAUSE_S)
