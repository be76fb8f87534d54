"""Progress of long work on a store, logged every few seconds."""

import logging
from collections.abc import Callable
from typing import Final

from orbitmq.clock import Clock

__all__ = ["LoggedProgress", "Progress"]

log = logging.getLogger("orbitmq.store")

Progress = Callable[[int, int], None]
"""Called with the bytes done and all bytes to do."""

_EVERY_MS: Final = 5_000
_MB: Final = 1_000_000


class LoggedProgress:
    """Logs a line that begins with ``what`` every few seconds; none for shorter work."""

    def __init__(self, what: str, clock: Clock, progress: Progress) -> None:
        self._what = what
        self._clock = clock
        self._progress = progress
        self._begun_ms = self._logged_ms = clock.monotonic_ms()

    def __call__(self, done: int, total: int) -> None:
        """Report ``done`` of ``total`` bytes, and log it if the last line is long ago."""
        self._progress(done, total)
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
