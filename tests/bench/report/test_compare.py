import pytest

from bench.report.compare import compared, is_worse, shown
from bench.rows import BY_NAME
from tests.bench.report.figures import result_of, run_of

COST, RATE = BY_NAME["broker.send"], BY_NAME["whole.64"]


@pytest.mark.parametrize(
    ("row", "committed", "new", "worse"),
    [
        (COST, 0.40, 0.40, False),
        (COST, 0.40, 0.50, False),  # within 25 % and the spread
        (COST, 0.40, 0.60, True),
        (COST, 0.40, 0.20, False),
        (RATE, 2.0, 1.6, False),
        (RATE, 2.0, 1.4, True),
        (RATE, 2.0, 3.0, False),
    ],
)
def test_a_ratio_is_worse_only_beyond_the_spread(
    row: object, committed: float, new: float, worse: bool
) -> None:
    assert row in (COST, RATE)
    described = COST if row is COST else RATE
    assert is_worse(described, result_of(described, committed), result_of(described, new)) is worse


def test_one_noisy_round_decides_nothing() -> None:
    steady = result_of(COST, 0.4)
    assert not is_worse(COST, result_of(COST, 0.4, spread=0.6), result_of(COST, 0.6))
    assert not is_worse(COST, steady, result_of(COST, 0.6, spread=0.4))


def test_rows_of_another_size_are_not_compared() -> None:
    comparisons = compared(run_of(0.4, "full"), run_of(0.9, "quick"))
    by_name = {one.row.name: one.worse for one in comparisons}
    assert by_name["broker.send"] is True
    assert by_name["start.recovery"] is None
    lines = {line.split()[0]: line for line in shown(comparisons).splitlines()}
    assert lines["broker.send"].endswith("WORSE")
    assert lines["start.recovery"].endswith("other size")


def test_rows_that_only_one_run_has_are_not_compared() -> None:
    committed, new = run_of(), run_of()
    fewer = type(committed)(kind="full", date="", versions={}, machine={}, rows=committed.rows[:3])
    assert len(compared(fewer, new)) == 3
