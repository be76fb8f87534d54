"""Wall-clock and monotonic time: the only module that imports ``time`` and ``datetime``.

Code that depends on time takes a :class:`Clock`, so that tests and simulations can pass their own.

>>> clock = SystemClock()
>>> clock.now_ms() > 1_700_000_000_000
True
>>> before = clock.monotonic_ms()
>>> clock.monotonic_ms() >= before
True

"""

import time
from typing import NamedTuple, Protocol

__all__ = ["Clock", "LocalMonth", "SystemClock", "local_month", "local_stamp", "pause", "utc_text"]

_NS_PER_MS = 1_000_000
_DECEMBER = 12


class Clock(Protocol):
    """A source of time, in whole milliseconds."""

    def now_ms(self) -> int:
        """Return the wall-clock time in milliseconds since 1970; it may jump in both directions."""
        ...

    def monotonic_ms(self) -> int:
        """Return milliseconds since an arbitrary moment; never decreases. For durations."""
        ...


class SystemClock:
    """The clock of the machine."""

    __slots__ = ()

    def now_ms(self) -> int:
        """Return the wall-clock time in milliseconds since 1970."""
        return time.time_ns() // _NS_PER_MS

    def monotonic_ms(self) -> int:
        """Return milliseconds since an arbitrary moment; never decreases."""
        return time.monotonic_ns() // _NS_PER_MS

    def __repr__(self) -> str:
        return "<SystemClock>"


def pause(duration_ms: int) -> None:
    """Block the calling thread; for code without an event loop, such as a Spark task.

    >>> pause(0)
    """
    time.sleep(duration_ms / 1000)


class LocalMonth(NamedTuple):
    """A calendar month in the local time zone, in milliseconds since 1970; the end is exclusive."""

    start_ms: int
    end_ms: int


def local_month(at_ms: int) -> LocalMonth:
    """Return the month of a time, in the local time zone.

    RocketMQ's unique message ids count from the local start of the month (Java's
    MessageClientIDSetter); nothing else here should need local time.

    >>> month = local_month(1_700_000_000_000)
    >>> month.start_ms <= 1_700_000_000_000 < month.end_ms
    True
    """
    local = time.localtime(at_ms // 1000)
    year, month = local.tm_year, local.tm_mon
    following = (year, month + 1) if month < _DECEMBER else (year + 1, 1)
    return LocalMonth(_month_start_ms(year, month), _month_start_ms(*following))


def local_stamp(at_ms: int) -> str:
    """Return a time as seventeen digits of local time, the name of an index file.

    >>> len(local_stamp(1_700_000_000_123)), local_stamp(1_700_000_000_123)[-3:]
    (17, '123')
    """
    return time.strftime("%Y%m%d%H%M%S", time.localtime(at_ms // 1000)) + f"{at_ms % 1000:03d}"


def utc_text(at_ms: int) -> str:
    """Return a time in ISO 8601, in UTC.

    >>> utc_text(1_700_000_000_123)
    '2023-11-14T22:13:20.123Z'
    """
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(at_ms // 1000)) + f".{at_ms % 1000:03d}Z"


def _month_start_ms(year: int, month: int) -> int:
    # -1: the C library decides whether daylight saving time applies on that day.
    return int(time.mktime((year, month, 1, 0, 0, 0, 0, 0, -1))) * 1000
