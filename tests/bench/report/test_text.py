import pytest

from bench.measure import WIDTH
from bench.report.text import shown
from bench.rows import GROUPS, ROWS
from tests.bench.report.figures import run_of


@pytest.mark.parametrize("kind", ["full", "quick"])
def test_the_table_has_every_row_and_fits_a_terminal(kind: str) -> None:
    lines = shown(run_of(12.3, kind)).splitlines()
    assert all(len(line) <= WIDTH for line in lines)
    assert sum(line.startswith("  ") for line in lines[1:]) == len(ROWS)
    assert set(GROUPS.values()) <= set(lines)


def test_met_and_missed_aims_are_counted() -> None:
    aims = sum(row.aim is not None for row in ROWS)
    assert f"{aims - 1} of {aims} aims are met" in shown(run_of(0.1))  # but for the throughput
    assert f"1 of {aims} aims are met" in shown(run_of(9.0))
