"""Times as arguments."""

import pytest

from orbitmq.cli.times import duration_ms, past_ms, time_ms
from orbitmq.errors import InvalidInput


class Noon:
    """A clock that stands still."""

    def now_ms(self) -> int:
        return 1_800_000_000_000

    def monotonic_ms(self) -> int:
        return 0


@pytest.mark.parametrize(
    ("text", "ago_ms"), [("30s", 30_000), ("10m", 600_000), ("2h", 7_200_000), ("1d", 86_400_000)]
)
def test_a_duration_counts_back_from_now(text: str, ago_ms: int) -> None:
    assert past_ms(text, "from", Noon()) == Noon().now_ms() - ago_ms


def test_a_moment_may_name_its_time_zone() -> None:
    assert past_ms("2026-11-15T09:30+00:00", "from") == 1_794_735_000_000


@pytest.mark.parametrize("text", ["", "10", "1.5h", "10 m", "-5s", "2026-11-15"])
def test_no_duration(text: str) -> None:
    with pytest.raises(InvalidInput, match="write it as 30s, 10m, 2h or 1d") as caught:
        duration_ms(text, "delay")
    assert caught.value.field == "delay"


@pytest.mark.parametrize("text", ["", "soon", "10", "10w", "2026-13-01"])
def test_other_texts_are_refused_with_an_example(text: str) -> None:
    with pytest.raises(InvalidInput, match="2026-11-15T09:30") as caught:
        time_ms(text, "until")
    assert caught.value.field == "until"
