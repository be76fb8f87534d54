"""Time that only a broker under test sees."""

from orbitmq.clock import SystemClock
from orbitmq.testing.broker.clock import MovedClock


def test_only_the_time_of_day_moves() -> None:
    clock, own = MovedClock(), SystemClock()
    clock.move(1_000_000)
    clock.move(500_000)
    ahead_ms = clock.now_ms() - own.now_ms()
    assert 1_490_000 < ahead_ms < 1_510_000
    assert abs(clock.monotonic_ms() - own.monotonic_ms()) < 10_000
    assert repr(clock) == "<MovedClock 1500000 ms ahead>"
