import time
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone

import pytest

from orbitmq.clock import Clock, SystemClock, local_month, local_stamp

# POSIX names of zones spell out their rule, so the machine needs no zone database.
KATHMANDU = "<+0545>-5:45"
SHANGHAI = "CST-8"
NEW_YORK = "EST5EDT,M3.2.0,M11.1.0"


@pytest.fixture
def live_in(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    def move(zone: str) -> None:
        monkeypatch.setenv("TZ", zone)
        time.tzset()

    yield move
    monkeypatch.undo()
    time.tzset()


def midnight_ms(year: int, month: int, utc_offset_hours: float) -> int:
    zone = timezone(timedelta(hours=utc_offset_hours))
    return int(datetime(year, month, 1, tzinfo=zone).timestamp() * 1000)


def test_the_time_of_day_is_the_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time_ns", lambda: 1_700_000_000_123_999_999)
    assert SystemClock().now_ms() == 1_700_000_000_123


def test_monotonic_time_is_not_the_time_of_day(monkeypatch: pytest.MonkeyPatch) -> None:
    clock: Clock = SystemClock()
    monkeypatch.setattr(time, "monotonic_ns", lambda: 5_999_999)
    monkeypatch.setattr(time, "time_ns", lambda: 0)
    assert clock.monotonic_ms() == 5


@pytest.mark.parametrize(
    ("zone", "start_ms", "end_ms"),
    [
        ("UTC0", midnight_ms(2024, 2, 0), midnight_ms(2024, 3, 0)),
        ("UTC0", midnight_ms(1970, 1, 0), midnight_ms(1970, 2, 0)),
        (SHANGHAI, midnight_ms(2024, 12, 8), midnight_ms(2025, 1, 8)),
        (KATHMANDU, midnight_ms(2024, 2, 5.75), midnight_ms(2024, 3, 5.75)),
        # The month begins in winter time and ends in summer time.
        (NEW_YORK, midnight_ms(2024, 3, -5), midnight_ms(2024, 4, -4)),
    ],
)
def test_a_month_begins_at_local_midnight_of_its_first_day(
    live_in: Callable[[str], None], zone: str, start_ms: int, end_ms: int
) -> None:
    live_in(zone)
    for moment in (start_ms, start_ms + 1, (start_ms + end_ms) // 2, end_ms - 1):
        assert local_month(moment) == (start_ms, end_ms)
    assert local_month(end_ms).start_ms == end_ms


def test_a_moment_is_stamped_in_local_time() -> None:
    stamp = local_stamp(1_700_000_000_123)
    parsed = time.mktime(time.strptime(stamp[:14], "%Y%m%d%H%M%S"))
    assert (int(parsed), stamp[14:]) == (1_700_000_000, "123")
