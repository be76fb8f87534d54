from bench.__main__ import FULL, PROGRAMS, QUICK
from bench.broker import COMMIT_LOADS, LATER_LOADS, LOADS, SYNC_LOADS
from bench.client import loads_of
from bench.growth import AXES
from bench.measure import RESULTS
from bench.notes import NOTES
from bench.report.run import read
from bench.rows import BY_NAME, GROUPS, ROWS


def test_names_are_unique_and_begin_with_their_group() -> None:
    assert len(BY_NAME) == len(ROWS)
    assert {row.group for row in ROWS} == set(GROUPS)


def test_each_group_has_a_program() -> None:
    assert {group for groups in PROGRAMS.values() for group in groups} == set(GROUPS)


def test_each_axis_of_growth_has_a_row_and_sizes() -> None:
    rows = {row.name.partition(".")[2] for row in ROWS if row.group == "growth"}
    assert rows == set(AXES) == set(FULL.growth) == set(QUICK.growth)


def test_each_load_has_a_row() -> None:
    assert set(loads_of(1_000)) <= set(BY_NAME)
    named = {
        load.args[0]
        for load in (*LOADS, *LATER_LOADS, *SYNC_LOADS, *COMMIT_LOADS)
        if hasattr(load, "args")
    }
    assert named <= set(BY_NAME)


def test_an_aim_is_met_from_below_or_from_above() -> None:
    cost, rate, reported = BY_NAME["broker.send"], BY_NAME["whole.64"], BY_NAME["commit.1"]
    assert (cost.aim_text, rate.aim_text, reported.aim_text) == ("≤ 0.35", "≥ 1.8", "–")
    assert (cost.is_met(0.35), cost.is_met(0.36)) == (True, False)
    assert (rate.is_met(1.8), rate.is_met(1.7)) == (True, False)
    assert reported.is_met(0.1) is None


def test_each_aim_that_is_missed_has_a_note() -> None:
    assert all(BY_NAME[name].aim is not None for name in NOTES)
    run = read(RESULTS / "latest.json")
    missed = [row for row, one in run.results if row.is_met(one.ratio.median) is False]
    assert [row.name for row in missed if not row.note] == []
