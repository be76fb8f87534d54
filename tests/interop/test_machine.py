"""What the machine gives: packages one after the other, and what a failed command said."""

import os
import shutil
import sys
from pathlib import Path

import pytest

from tests.interop import machine

SECONDS = 60


class Apt:
    """Stands in for apt-get: has some packages, and remembers what it was asked for."""

    def __init__(self, *packages: str) -> None:
        self.asked: list[str] = []
        self._packages = packages

    def run(self, command: list[str], seconds: int) -> str | None:
        self.asked.append(command[-1])
        return None if command[-1] in (*self._packages, "update") else "no such package"


@pytest.fixture(autouse=True)
def root(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with apt-get where we may use it, whose lists of packages are not fetched yet."""
    monkeypatch.setattr(shutil, "which", lambda name: f"/bin/{name}")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    machine.update_package_lists.cache_clear()


def test_the_first_package_that_there_is_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    apt = Apt("new", "newer")
    monkeypatch.setattr(machine, "run", apt.run)
    assert machine.install_debian_package("old", "new", "newer") is None
    assert apt.asked == ["update", "old", "new"]


def test_lists_of_packages_are_fetched_once(monkeypatch: pytest.MonkeyPatch) -> None:
    apt = Apt("one", "other")
    monkeypatch.setattr(machine, "run", apt.run)
    assert machine.install_debian_package("one") is None
    assert machine.install_debian_package("other") is None
    assert apt.asked == ["update", "one", "other"]


def test_what_can_not_be_installed_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "run", Apt().run)
    assert machine.install_debian_package("none") == "no such package"


def test_who_is_not_root_needs_sudo(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(shutil, "which", lambda name: None if name == "sudo" else f"/bin/{name}")
    assert machine.install_debian_package("any") == "apt-get needs root or sudo"


def test_a_command_that_goes_well_says_nothing(tmp_path: Path) -> None:
    program = "import os, pathlib; pathlib.Path(os.environ['FILE']).touch(); print('done')"
    command = [sys.executable, "-c", program]
    assert machine.run(command, SECONDS, directory=tmp_path, environment={"FILE": "made"}) is None
    assert (tmp_path / "made").exists()


def test_a_command_that_fails_gives_its_reason() -> None:
    assert machine.run([sys.executable, "-c", "exit('disk full')"], SECONDS) == "disk full"
    status = machine.run([sys.executable, "-c", "exit(3)"], SECONDS)
    assert status == f"{sys.executable} ended with 3"
    assert "no-such-command" in str(machine.run(["no-such-command"], SECONDS))


def test_what_is_said_on_the_way_is_not_the_reason() -> None:
    said = "go: downloading module v1\n\n  npm warn old\nmain.go:1: expected 'package'\nmore\n"
    assert machine.complaint(said) == "main.go:1: expected 'package'"
    assert machine.complaint("npm warn old\n") is None
