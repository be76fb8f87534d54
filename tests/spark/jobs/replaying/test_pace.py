"""A pace never exceeds its rate, with time as an argument."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbitmq.errors import InvalidInput
from orbitmq.spark.jobs.replaying.pace import Pace, Rate

PIECES = st.lists(
    st.tuples(st.integers(0, 3_000), st.integers(1, 50), st.integers(0, 5_000)), min_size=1
)


@given(PIECES, st.sampled_from([None, 0.5, 40.0]), st.sampled_from([None, 900.0]))
def test_no_window_has_more_than_the_rate_and_a_piece(
    given_pieces: list[tuple[int, int, int]], messages: float | None, size: float | None
) -> None:
    pace = Pace(Rate(messages, size))
    now_ms = 0
    sent: list[tuple[int, int, int]] = []
    for idle_ms, count, more in given_pieces:
        now_ms += idle_ms
        wait_ms = pace.wait_ms(now_ms, messages=count, size=more)
        assert wait_ms >= 0
        now_ms += wait_ms
        sent.append((now_ms, count, more))
    for first in range(len(sent)):
        for last in range(first, len(sent)):
            seconds = (sent[last][0] - sent[first][0]) / 1000
            window = sent[first:last]  # without the last piece
            if messages is not None:
                assert sum(count for _, count, _ in window) <= messages * seconds + 1e-6
            if size is not None:
                assert sum(more for _, _, more in window) <= size * seconds + 1e-6


def test_without_limits_nothing_waits() -> None:
    pace = Pace(Rate())
    assert not Rate().is_limited
    assert {pace.wait_ms(0, messages=10**6, size=10**9) for _ in range(3)} == {0}


def test_the_limits_together() -> None:
    pace = Pace(Rate(messages=10, bytes=1_000))
    pace.wait_ms(0, messages=5, size=100)  # half a second of messages
    assert pace.wait_ms(0, messages=1, size=900) == 500  # then 0.9 of bytes
    assert pace.wait_ms(0, messages=1, size=1) == 1_400


def test_tasks_share_a_rate_and_send_in_small_pieces() -> None:
    rate = Rate(1_000, 5 << 20).shared(4)
    assert (rate.messages, rate.bytes) == (250, 5 << 18)
    assert rate.piece == (50, 1 << 18)
    assert Rate(0.1, 0.1).piece == (1, 1)
    assert Rate().piece == (4_096, 4 << 20)


@pytest.mark.parametrize("limit", [0, -1, float("nan")])
def test_a_rate_is_positive(limit: float) -> None:
    with pytest.raises(InvalidInput, match="more than 0"):
        Rate(messages=limit)
