"""The time of day of a broker under test, which its tests move on."""

from orbitmq.clock import SystemClock

__all__ = ["MovedClock"]


class MovedClock(SystemClock):
    """The clock of the machine, ahead by what ``move`` was given.

    Only the time of day moves: heartbeats, locks, held pulls and timeouts go by monotonic time,
    and clients that are connected don't expire.

    >>> clock = MovedClock()
    >>> before_ms, monotonic_ms = clock.now_ms(), clock.monotonic_ms()
    >>> clock.move(3_600_000)
    >>> clock.now_ms() - before_ms >= 3_600_000, clock.monotonic_ms() - monotonic_ms < 3_600_000
    (True, True)
    """

    __slots__ = ("_ahead_ms",)

    def __init__(self) -> None:
        self._ahead_ms = 0

    def now_ms(self) -> int:
        """Return the time of day in milliseconds since 1970."""
        return super().now_ms() + self._ahead_ms

    def move(self, by_ms: int) -> None:
        """Move the time of day on."""
        self._ahead_ms += by_ms

    def __repr__(self) -> str:
        return f"<MovedClock {self._ahead_ms} ms ahead>"
