"""Fetching the counterparts: what counts as complete, what is tried, and what is told."""

import shutil
from pathlib import Path

import pytest

from tests.interop import counterparts
from tests.interop.counterparts import Counterpart

VERSION = "5.4.0"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home, and a machine that has Java and Maven."""
    monkeypatch.setattr(counterparts, "HOME", tmp_path)
    monkeypatch.setattr(counterparts, "java_home", lambda: tmp_path)
    monkeypatch.setattr(shutil, "which", lambda name, path=None: f"/bin/{name}")
    return tmp_path


class Maven:
    """Stands in for Maven: fails so often, then leaves a jar."""

    def __init__(self, failures: int) -> None:
        self.runs = 0
        self._failures = failures

    def run(self, command: list[str], seconds: int) -> str | None:
        self.runs += 1
        if self.runs <= self._failures:
            return "no route to host"
        jars = counterparts.jars_of(VERSION)
        jars.mkdir(parents=True)
        (jars / "rocketmq-client.jar").touch()
        return None


def test_a_download_is_tried_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    maven = Maven(failures=1)
    monkeypatch.setattr(counterparts, "run", maven.run)
    assert counterparts.ensure_jars(VERSION).state == "installed"
    assert maven.runs == 2
    assert counterparts.is_complete(VERSION)


def test_what_is_complete_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    maven = Maven(failures=0)
    monkeypatch.setattr(counterparts, "run", maven.run)
    counterparts.ensure_jars(VERSION)
    assert counterparts.ensure_jars(VERSION).state == "found"
    assert maven.runs == 1


def test_a_directory_left_half_full_starts_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counterparts, "run", Maven(failures=0).run)
    stale = counterparts.jars_of(VERSION) / "half.jar"
    stale.parent.mkdir(parents=True)
    stale.touch()
    assert counterparts.ensure_jars(VERSION).state == "installed"
    assert not stale.exists()


def test_a_download_that_fails_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counterparts, "run", Maven(failures=2).run)
    told = counterparts.ensure_jars(VERSION)
    assert told.state == "missing"
    assert "no route to host" in told.why
    assert counterparts.missing_for(VERSION) is not None


@pytest.mark.parametrize(("required", "status"), [("", 0), ("require", 1)])
def test_what_is_missing_fails_the_run_only_where_it_is_required(
    monkeypatch: pytest.MonkeyPatch, required: str, status: int
) -> None:
    missing = Counterpart("rocketmq", "missing", "no network")
    monkeypatch.setenv("ORBITMQ_INTEROP", required)
    monkeypatch.setattr(counterparts, "ensure_jars", lambda version: missing)
    assert counterparts.main() == status


def test_without_apt_and_java_the_advice_is_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counterparts, "java_home", lambda: None)
    monkeypatch.setattr(shutil, "which", lambda name, path=None: None)
    for told in counterparts.ensure_commands():
        assert told.state == "missing"
        assert "install a JRE" in told.why
