"""The time of day, and time that only runs forward: the one home of ``time`` and ``datetime``.

Whatever depends on time takes a :class:`Clock`, so that a test or a simulation can hand in its own.

>>> clock = SystemClock()
>>> clock.now_ms() > 1_700_000_000_000
True
>>> before = clock.monotonic_ms()
>>> clock.monotonic_ms() >= before
True

"""

import time
from typing import NamedTuple, Protocol

__all__ = ["Clock", "LocalMonth", "SystemClock", "local_month", "local_stamp", "pause"]

_NS_PER_MS = 1_000_000
_DECEMBER = 12


class Clock(Protocol):
    """What a program may ask about time, in whole milliseconds."""

    def now_ms(self) -> int:
        """Return the time of day in milliseconds since 1970; it may jump, either way."""
        ...

    def monotonic_ms(self) -> int:
        """Return milliseconds since some fixed moment; never less than before. For durations."""
        ...


class SystemClock:
    """The clock of the machine."""

    __slots__ = ()

    def now_ms(self) -> int:
        """Return the time of day in milliseconds since 1970."""
        return time.time_ns() // _NS_PER_MS

    def monotonic_ms(self) -> int:
        """Return milliseconds since some fixed moment; never less than before."""
        return time.monotonic_ns() // _NS_PER_MS

    def __repr__(self) -> str:
        return "<SystemClock>"


def pause(duration_ms: int) -> None:
    """Let the calling thread wait; for code without an event loop, such as a Spark task.

    >>> pause(0)
    """
    time.sleep(duration_ms / 1000)


class LocalMonth(NamedTuple):
    """One calendar month of the local time zone, as epoch milliseconds; the end is outside."""

    start_ms: int
    end_ms: int


def local_month(at_ms: int) -> LocalMonth:
    """Return the month, in the local time zone, that holds the moment ``at_ms``.

    RocketMQ's unique message ids count from the local start of the month (Java's
    MessageClientIDSetter), hence local time, which nothing else here should need.

    >>> month = local_month(1_700_000_000_000)
    >>> month.start_ms <= 1_700_000_000_000 < month.end_ms
    True

    """
    local = time.localtime(at_ms // 1000)
    year, month = local.tm_year, local.tm_mon
    following = (year, month + 1) if month < _DECEMBER else (year + 1, 1)
    return LocalMonth(_month_start_ms(year, month), _month_start_ms(*following))


def local_stamp(at_ms: int) -> str:
    """Return a moment as seventeen digits of local time, which is how index files are named.

    >>> len(local_stamp(1_700_000_000_123)), local_stamp(1_700_000_000_123)[-3:]
    (17, '123')
    """
    return time.strftime("%Y%m%d%H%M%S", time.localtime(at_ms // 1000)) + f"{at_ms % 1000:03d}"


def _month_start_ms(year: int, month: int) -> int:
    # -1: the C library knows whether summer time was in force on that day.
    return int(time.mktime((year, month, 1, 0, 0, 0, 0, 0, -1))) * 1000
