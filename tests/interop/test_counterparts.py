"""Fetching the counterparts: what counts as complete, what is tried, and what is told."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.interop import counterparts, machine, spark_classes
from tests.interop.client_packages import OtherClient
from tests.interop.machine import Counterpart

VERSION = "5.4.0"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home, and a machine that has Java and Maven."""
    monkeypatch.setattr(machine, "HOME", tmp_path)
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
    slow = Counterpart("spark classes", "skipped", "Spark starts will be slow")
    monkeypatch.setenv("ORBITMQ_INTEROP", required)
    monkeypatch.setattr(counterparts, "ensure_faketime", lambda: slow)
    monkeypatch.setattr(counterparts, "ensure_jars", lambda version: missing)
    monkeypatch.setattr(counterparts, "ensure_classes", lambda version: slow)
    monkeypatch.setattr(OtherClient, "ensure", lambda client: missing)
    monkeypatch.setattr(spark_classes, "ensure", lambda java_home: slow)
    assert counterparts.main() == status


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that has no command at all."""
    monkeypatch.setattr(counterparts, "java_home", lambda: None)
    monkeypatch.setattr(shutil, "which", lambda name, path=None: None)


@pytest.mark.usefixtures("bare")
def test_without_apt_the_advice_is_to_install() -> None:
    told = {one.name: one for one in counterparts.ensure_commands()}
    assert {one.state for one in told.values()} == {"missing"}
    assert "install a JRE" in told["java"].why
    assert "install strace: this machine has no apt-get" in told["strace"].why


@pytest.mark.usefixtures("bare")
def test_without_strace_the_reason_is_told() -> None:
    assert counterparts.strace_trouble() == "no strace on the PATH"


def test_a_kernel_that_refuses_to_trace_is_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    refusal = "strace: ptrace(PTRACE_TRACEME, ...): Operation not permitted"
    monkeypatch.setattr(counterparts, "run", lambda command, seconds: refusal)
    assert counterparts.strace_trouble() == f"strace can't trace here: {refusal}"


def test_only_what_is_missing_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, ...]] = []
    homes = iter([None, Path("/jre")])
    monkeypatch.setattr(counterparts, "java_home", lambda: next(homes))
    monkeypatch.setattr(counterparts, "install_debian_package", lambda *names: asked.append(names))
    states = {one.name: one.state for one in counterparts.ensure_commands()}
    assert states.pop("java") == "installed"
    assert set(states.values()) == {"found"}
    assert asked == [("openjdk-17-jre-headless", "default-jre-headless")]


def test_every_command_has_a_package_and_advice() -> None:
    assert counterparts.DEBIAN_PACKAGES.keys() == counterparts.ADVICE.keys()


UNPACKED = {
    counterparts.ensure_etcd: "usr/bin/etcd",
    counterparts.ensure_faketime: "usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1",
}
"""Counterparts that need no installation, and a file of each package."""


@pytest.fixture
def bare_but_for_apt(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine that has nothing of these, and apt-get."""
    monkeypatch.setattr(shutil, "which", lambda name: None if name == "etcd" else f"/bin/{name}")
    monkeypatch.setattr(counterparts, "SYSTEM", tmp_path / "system")


@pytest.mark.usefixtures("bare_but_for_apt")
@pytest.mark.parametrize("ensure", UNPACKED)
def test_a_package_is_unpacked_and_not_installed(
    ensure: Callable[[], Counterpart], monkeypatch: pytest.MonkeyPatch
) -> None:
    commands: list[list[str]] = []

    def run(command: list[str], seconds: int, *, directory: Path | None = None) -> str | None:
        commands.append(command)
        if "download" in command:
            assert directory is not None
            (directory / "some.deb").touch()
        if "-x" in command:
            file = Path(command[-1]) / UNPACKED[ensure]
            file.parent.mkdir(parents=True)
            file.touch()
        return None

    monkeypatch.setattr(machine, "run", run)
    assert ensure().state == "installed"
    assert not any("install" in command for command in commands)
    commands.clear()
    assert ensure().state == "found"
    assert not commands


@pytest.mark.usefixtures("bare_but_for_apt")
@pytest.mark.parametrize("ensure", UNPACKED)
def test_a_package_that_can_not_be_had_says_why(
    ensure: Callable[[], Counterpart], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "run", lambda *_args, **_options: "no route to host")
    told = ensure()
    assert told.state == "missing"
    assert "no route to host" in told.why
