"""Times as arguments: a moment such as 2026-11-15T09:30, or how long ago it was."""

import re
from datetime import datetime
from typing import Final

from orbitmq.clock import Clock, SystemClock
from orbitmq.errors import InvalidInput

__all__ = ["duration_ms", "past_ms", "time_ms"]

_UNITS_MS: Final = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_DURATION: Final = re.compile(r"(\d{1,9})([smhd])")


def time_ms(text: str, field: str) -> int:
    """Return a time in milliseconds since 1970; local time, unless it names a time zone.

    >>> time_ms("2026-11-15T09:30+00:00", "begin")
    1794735000000
    """
    try:
        return int(datetime.fromisoformat(text).timestamp() * 1000)
    except (ValueError, OverflowError, OSError):
        raise InvalidInput(
            f"{text[:40]!r} is not a time; write it as 2026-11-15T09:30", field=field
        ) from None


def duration_ms(text: str, field: str) -> int:
    """Return a duration in milliseconds.

    >>> duration_ms("10m", "delay")
    600000
    """
    found = _DURATION.fullmatch(text)
    if found is None:
        raise InvalidInput(
            f"{text[:40]!r} is not a duration; write it as 30s, 10m, 2h or 1d", field=field
        )
    return int(found[1]) * _UNITS_MS[found[2]]


def past_ms(text: str, field: str, clock: Clock | None = None) -> int:
    """Return a time, given as such or as a duration before now: 30s, 10m, 2h or 1d."""
    if _DURATION.fullmatch(text):
        return (clock or SystemClock()).now_ms() - duration_ms(text, field)
    return time_ms(text, field)
