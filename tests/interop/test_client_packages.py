"""Installing clients in other languages: what counts as complete, what is tried, what is told."""

import json
import shutil
from pathlib import Path

import pytest

from tests.interop import machine
from tests.interop.client_packages import GO, NODE, OTHER_CLIENTS, OtherClient


class LocalClient(OtherClient):
    """A client whose installation is a copy, which fails so often as it is told to."""

    language = "local"
    package = "local"
    installed_by = ("installer",)
    run_by = ("runner",)
    version = "1.0"

    def __init__(self, source: Path, *, failures: int = 0) -> None:
        self.tries = 0
        self._source = source
        self._failures = failures

    @property
    def sources(self) -> tuple[Path, ...]:
        return (self._source,)

    @property
    def command(self) -> tuple[str, ...]:
        return (str(self.place / self._source.name),)

    def _install(self) -> str | None:
        self.tries += 1
        assert not any(self.place.iterdir()), "it starts with nothing"
        shutil.copy(self._source, self.place)
        return "no route to host" if self.tries <= self._failures else None


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The source of a client, on a machine that has all commands and nothing installed."""
    monkeypatch.setattr(machine, "HOME", tmp_path / "home")
    monkeypatch.setattr(shutil, "which", lambda name: f"/bin/{name}")
    file = tmp_path / "client"
    file.write_text("first")
    return file


def test_what_is_complete_is_left_alone(source: Path) -> None:
    client = LocalClient(source)
    assert client.missing() == "local 1.0 is not in .counterparts"
    assert [client.ensure().state for _ in range(2)] == ["installed", "found"]
    assert client.tries == 1
    assert client.missing() is None


def test_a_change_of_the_source_installs_it_anew(source: Path) -> None:
    client = LocalClient(source)
    client.ensure()
    source.write_text("second")
    assert client.missing() is not None
    assert client.ensure().state == "installed"
    assert Path(*client.command).read_text() == "second"


def test_an_installation_is_tried_twice(source: Path) -> None:
    assert LocalClient(source, failures=1).ensure().state == "installed"


def test_one_that_fails_says_why(source: Path) -> None:
    client = LocalClient(source, failures=2)
    told = client.ensure()
    assert (told.state, told.why) == ("missing", "installer could not: no route to host")
    assert client.missing() is not None


def test_without_a_command_it_is_missing(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    client = LocalClient(source)
    client.ensure()
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert client.missing() == "no runner on the PATH"
    source.write_text("second")
    assert client.ensure().why == "installer is needed to install it"


def test_all_that_comes_along_is_pinned() -> None:
    assert [client.version for client in OTHER_CLIENTS] == ["3.12.0", "2.1.2"]
    lock = json.loads(NODE.sources[1].read_text())
    for name, package in lock["packages"].items():
        assert not name or package["integrity"], name
        # Where the machine is set up to fetch from, not where the lock was made.
        assert "resolved" not in package, name
    sums = GO.sources[1].read_text().splitlines()
    assert f"github.com/apache/rocketmq-client-go/v2 v{GO.version}" in {
        " ".join(line.split()[:2]) for line in sums
    }
