from collections.abc import Iterator
from pathlib import Path

import pytest

from bench import __main__ as bench
from bench.report.run import read, written
from bench.rounds import Plan, Result, WarmUp
from bench.rows import BY_NAME
from tests.bench.report.figures import result_of, run_of

SEND = BY_NAME["broker.send"]


def quick(_directory: Path, plan: Plan) -> Iterator[Result | WarmUp]:
    assert plan is bench.QUICK
    yield WarmUp("Java broker", 2, 0.01)
    yield result_of(SEND, 0.4)


def broken(_directory: Path, _plan: Plan) -> Iterator[Result | WarmUp]:
    yield result_of(BY_NAME["broker.pull"], 0.4)
    raise RuntimeError("the broker died")


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(bench, "RESULTS", tmp_path)
    monkeypatch.setattr(bench, "PROGRAMS", {quick: ("broker",)})
    return tmp_path


def test_a_quick_run_is_printed_and_written_beside_the_committed_one(
    results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert bench.main(["--quick"]) == 0
    assert SEND.work in capsys.readouterr().out
    assert sorted(path.name for path in results.iterdir()) == ["quick.html", "quick.json"]
    run = read(results / "quick.json")
    assert run.warm_ups == (WarmUp("Java broker", 2, 0.01),)
    assert run.kind == "quick"


def test_some_groups_are_only_printed(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert bench.main(["--quick", "--only", "latency"]) == 0
    assert SEND.work not in capsys.readouterr().out
    assert list(results.iterdir()) == []


def test_parts_are_joined_to_a_run_that_is_kept(results: Path) -> None:
    part = results / "part.json"
    assert bench.main(["--quick", "--only", "broker", "--part", str(part)]) == 0
    assert bench.main(["--join", str(part), "--keep"]) == 0
    (kept,) = (results / "runs").iterdir()
    assert read(kept) == read(results / "quick.json") == read(part)


@pytest.mark.parametrize(("committed", "status"), [(0.4, 0), (0.2, 1)])
def test_a_check_fails_if_a_ratio_got_worse(
    results: Path, committed: float, status: int, capsys: pytest.CaptureFixture[str]
) -> None:
    written(run_of(committed), results / "latest.json")
    assert bench.main(["--check"]) == status
    assert ("WORSE" in capsys.readouterr().out) is bool(status)


def test_a_program_that_fails_does_not_end_the_others(
    results: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(bench, "PROGRAMS", {broken: ("broker",), quick: ("broker",)})
    assert bench.main(["--quick"]) == 1
    assert {result.name for result in read(results / "quick.json").rows} == {
        "broker.pull",
        "broker.send",
    }
    assert "the broker died" in capsys.readouterr().err
