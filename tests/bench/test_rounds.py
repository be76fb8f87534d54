from collections.abc import Callable

import pytest

from bench.rounds import Round, alternate, settle, summed_up


def noted(who: str, order: list[str]) -> Callable[[], Round]:
    def run() -> Round:
        order.append(who)
        return Round(1.0)

    return run


def test_the_sides_alternate_and_take_turns_to_begin() -> None:
    order: list[str] = []
    sides = {load: (noted(f"our {load}", order), noted(f"their {load}", order)) for load in "ab"}
    found = alternate(sides, 2)
    assert order == [
        *("our a", "their a", "our b", "their b"),
        *("their a", "our a", "their b", "our b"),
    ]
    assert {load: list(map(len, both)) for load, both in found.items()} == {
        "a": [2, 2],
        "b": [2, 2],
    }


@pytest.mark.parametrize(
    ("costs", "rounds", "settled"),
    [
        ([10.0, 10.0, 10.0], 2, True),  # at least two
        ([90.0, 50.0, 49.0], 3, True),
        ([90.0, 50.0, 30.0, 20.0, 10.0], 4, False),  # at most four
    ],
)
def test_a_warm_up_ends_when_two_rounds_agree(
    costs: list[float], rounds: int, settled: bool
) -> None:
    found = settle("Java", iter(costs).__next__, 2)
    assert (found.rounds, found.is_settled) == (rounds, settled)


def test_a_ratio_is_that_of_rounds_next_to_each_other() -> None:
    # The machine became twice as slow: the medians of the sides mix fast and slow rounds.
    ours = [Round(1.0, 10.0), Round(2.0, 5.0), Round(2.0, 5.0)]
    theirs = [Round(2.0), Round(4.0), Round(4.0)]
    result = summed_up("broker.send", ours, theirs)
    assert (result.ratio.least, result.ratio.median, result.ratio.most) == (0.5, 0.5, 0.5)
    assert (result.ours.median, result.ours_per_second) == (2.0, 5.0)
    assert result.theirs_per_second is None
