"""The time of store timestamps, while the clock of the machine jumps."""

from orbitmq.store.store_time import StoreTime
from tests.store.stores import HandClock

HOUR_MS = 3_600_000


class JumpingClock(HandClock):
    """A clock that goes when a test sets it, and whose time of day can be set apart."""

    def __init__(self) -> None:
        super().__init__()
        self.ahead_ms = 0

    def now_ms(self) -> int:
        return self.now + self.ahead_ms


def test_it_is_the_time_of_day_and_jumps_forward_with_it() -> None:
    clock = JumpingClock()
    time = StoreTime(clock)
    for step in (0, 1, 250, HOUR_MS):
        clock.now += step
        assert time.now_ms() == clock.now_ms()
    clock.ahead_ms = HOUR_MS
    assert time.now_ms() == clock.now + HOUR_MS


def test_after_a_set_back_it_goes_on_at_half_speed_until_the_clock_is_there() -> None:
    clock = JumpingClock()
    time = StoreTime(clock)
    before = time.now_ms()
    clock.ahead_ms = -1_000
    assert time.now_ms() == before
    shown = []
    for _ in range(5):
        clock.now += 500
        shown.append(time.now_ms() - before)
    assert shown == [250, 500, 500, 1_000, 1_500]
    clock.now += 1
    assert time.now_ms() == clock.now_ms()


def test_a_start_goes_on_after_the_last_message_of_a_clock_that_was_ahead() -> None:
    clock = JumpingClock()
    time = StoreTime(clock)
    time.start_after(clock.now + HOUR_MS)
    assert time.now_ms() == clock.now + HOUR_MS
    clock.now += 10_000
    assert time.now_ms() == clock.now - 10_000 + HOUR_MS + 5_000


def test_another_set_back_while_the_clock_is_behind_changes_nothing() -> None:
    clock = JumpingClock()
    time = StoreTime(clock)
    before = time.now_ms()
    clock.ahead_ms = -HOUR_MS
    time.now_ms()
    clock.now += 2_000
    clock.ahead_ms = -2 * HOUR_MS
    assert time.now_ms() == before + 1_000
