"""The command, where disks can't be mounted and nothing is installed: it says so, and goes on."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bench import measure
from bench.chaos import __main__ as command
from bench.chaos import pair
from tests.interop import counterparts
from tests.small_disks import CannotMount


@contextmanager
def no_disk(_directory: Path, _mib: int) -> Iterator[Path]:
    raise CannotMount("not here")
    yield


def test_a_configuration_that_can_not_run_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    results = tmp_path / "bench" / "results"
    results.parent.mkdir()
    monkeypatch.setattr(measure, "RESULTS", results)
    monkeypatch.setattr(pair, "small_disk", no_disk)
    monkeypatch.setattr(counterparts, "etcd_command", lambda: None)
    monkeypatch.setattr(counterparts, "faketime_library", lambda: None)
    assert command.main(["--only", "small-disk", "--minutes", "1"]) == 0
    (found,) = json.loads((results / "chaos.json").read_text())["configurations"]
    assert command.main(["--only", "clocks", "elected", "--minutes", "1"]) == 0
    all_of_it = json.loads((results / "chaos.json").read_text())["configurations"]
    assert [one["name"] for one in all_of_it] == ["small-disk", "elected", "clocks"]
    assert all_of_it[0] == found
    assert ["etcd" in one["skipped"] for one in all_of_it] == [False, True, False]
    assert ["libfaketime" in one["skipped"] for one in all_of_it] == [False, False, True]
    assert (found["name"], found["skipped"], found["faults"]) == ("small-disk", "not here", [])
    assert "not run, not here" in capsys.readouterr().out
