"""How far long work on a store has come: told to whoever asked, and logged now and then."""

import logging
from collections.abc import Callable
from typing import Final

from orbitmq.clock import Clock

__all__ = ["LoggedProgress", "Progress"]

log = logging.getLogger("orbitmq.store")

Progress = Callable[[int, int], None]
"""Called now and then with the work done and all of it, in bytes."""

_EVERY_MS: Final = 5_000
_MB: Final = 1_000_000


class LoggedProgress:
    """Logs a line every few seconds, none at all for work that is over sooner.

    Args:
        what: the work, to begin the line with.
        clock: when it is.
        told: who is told of every step.

    """

    def __init__(self, what: str, clock: Clock, told: Progress) -> None:
        self._what = what
        self._clock = clock
        self._told = told
        self._begun_ms = self._logged_ms = clock.monotonic_ms()

    def __call__(self, done: int, total: int) -> None:
        """Note how much is done, of how much in all."""
        self._told(done, total)
        now_ms = self._clock.monotonic_ms()
        if now_ms - self._logged_ms < _EVERY_MS:
            return
        self._logged_ms = now_ms
        log.info(
            "%s: %d of %d MB, %d %%, after %d s",
            self._what,
            done // _MB,
            total // _MB,
            100 * done // total if total else 100,
            (now_ms - self._begun_ms) // 1000,
        )
