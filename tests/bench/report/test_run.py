import json
from pathlib import Path

import msgspec
import pytest

from bench.report.run import Run, here, joined, read, written
from bench.rows import BY_NAME, ROWS
from tests.bench.report.figures import run_of


def test_a_run_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    run = run_of()
    written(run, path)
    again = read(path)
    assert [result.name for result in again.rows] == [row.name for row in ROWS]
    assert again.rows[0].ratio.median == pytest.approx(run.rows[0].ratio.median, rel=1e-3)
    assert again.met() == run.met()


def test_a_written_row_describes_itself(tmp_path: Path) -> None:
    written(run_of(), tmp_path / "run.json")
    rows = json.loads((tmp_path / "run.json").read_text())["rows"]
    (recovery,) = (row for row in rows if row["name"] == "start.recovery")
    assert recovery["work"] == BY_NAME["start.recovery"].work
    assert (recovery["size"], recovery["aim"], recovery["met"]) == ("2 GiB", 1.0, True)
    assert recovery["ratio"]["least"] <= recovery["ratio"]["median"] <= recovery["ratio"]["most"]


def test_rows_that_are_no_longer_described_are_left_out() -> None:
    old = run_of().rows[0]
    renamed = type(old)(name="broker.gone", ours=old.ours, theirs=old.theirs, ratio=old.ratio)
    run = Run(kind="full", date="", versions={}, machine={}, rows=(renamed, old))
    assert [result for _, result in run.results] == [old]


def test_of_a_row_in_two_parts_the_later_one_counts() -> None:
    before, after = run_of(0.4), run_of(0.2)
    first = msgspec.structs.replace(before, rows=before.rows[:2])
    again = msgspec.structs.replace(after, rows=after.rows[1:])
    rows = joined([first, again]).rows
    assert [row.name for row in rows] == [row.name for row in ROWS]
    assert rows == (before.rows[0], *after.rows[1:])


def test_a_run_in_parts_says_from_when_to_when_it_was_measured() -> None:
    dates = ("2026-01-01 22:00 UTC", "2026-01-02 09:00 UTC")
    parts = [msgspec.structs.replace(run_of(), date=date) for date in dates]
    assert joined(parts).date == "2026-01-01 22:00 to 2026-01-02 09:00 UTC"
    assert joined(parts[:1]).date == dates[0]
    both = joined(parts)
    assert joined([both, parts[1]]).date == both.date


def test_parts_of_different_kinds_are_refused() -> None:
    with pytest.raises(ValueError, match="full, quick"):
        joined([run_of(), msgspec.structs.replace(run_of(), kind="quick")])


def test_a_run_says_whether_the_kernel_was_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orbitmq.kernel.load", lambda switch: object())
    assert here("quick", [], []).is_compiled
    monkeypatch.setattr("orbitmq.kernel.load", lambda switch: None)
    assert not here("quick", [], []).is_compiled


def test_the_machine_and_its_software_are_noted() -> None:
    run = here("quick", [], [])
    software = {"Python", "uvloop", "msgspec", "Java", "RocketMQ", "isal", "compiled kernel"}
    assert set(run.versions) == software
    assert run.machine["cores"]
    assert run.machine["kernel"]
