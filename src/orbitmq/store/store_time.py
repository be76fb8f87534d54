"""The time that messages get when they are stored.

::

    the clock    10:00:00 ──▶ 10:00:30, set back ──▶ 10:00:10 ──▶ … 10:00:50 ──▶ on with the clock
    store time   10:00:00 ──▶ 10:00:30 ───────────── half as fast ──▶ 10:00:50

Store times never decrease along the log, and what counts from them, such as a delay level, must go
on while the clock catches up: with a time that stands still, new delayed messages would seem to be
due since long, and each retry of a consumer would follow at once.
"""

from orbitmq.clock import Clock

__all__ = ["StoreTime"]


class StoreTime:
    """The time of day, except that it goes on at half speed after the clock was set back.

    >>> from orbitmq.clock import SystemClock
    >>> time = StoreTime(SystemClock())
    >>> time.start_after(SystemClock().now_ms() + 3_600_000)
    >>> time
    <StoreTime, the clock is behind by 3600 s>
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._last_ms = 0
        self._behind: tuple[int, int] | None = None  # this time, and monotonic, at a set-back

    def __repr__(self) -> str:
        behind_s = round((self._last_ms - self._clock.now_ms()) / 1000)
        return f"<StoreTime, the clock is behind by {max(behind_s, 0)} s>"

    def start_after(self, last_store_ms: int) -> None:
        """Start with a log whose last message has this time; the clock may be behind it."""
        self._last_ms = max(self._last_ms, last_store_ms)

    def now_ms(self) -> int:
        """Return the time; never less than before."""
        clock_ms = self._clock.now_ms()
        if clock_ms >= self._last_ms:
            self._last_ms, self._behind = clock_ms, None
            return clock_ms
        monotonic_ms = self._clock.monotonic_ms()
        if self._behind is None:
            self._behind = (self._last_ms, monotonic_ms)
        since_ms, began_ms = self._behind
        self._last_ms = max(self._last_ms, since_ms + (monotonic_ms - began_ms) // 2)
        return self._last_ms
