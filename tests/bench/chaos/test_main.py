"""The command, where disks can't be mounted and no etcd is: it says so, and keeps what it had."""

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
    assert command.main(["--only", "small-disk", "--minutes", "1"]) == 0
    (found,) = json.loads((results / "chaos.json").read_text())["configurations"]
    assert command.main(["--only", "elected", "--minutes", "1"]) == 0
    both = json.loads((results / "chaos.json").read_text())["configurations"]
    assert [one["name"] for one in both] == ["small-disk", "elected"]
    assert both[0] == found
    assert (found["name"], found["skipped"], found["faults"]) == ("small-disk", "not here", [])
    assert "not run, not here" in capsys.readouterr().out
