"""The life of a server command: ready line, signal, stop."""

import errno
import io
import os
import resource
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from orbitmq.cli.servers.serving import allow_many_open_files, recovery_progress, serve
from orbitmq.errors import InvalidInput, OrbitError
from tests.cli.running_servers import few_open_files, serving
from tests.cli.terminal import Terminal


async def no_reload(_server: object) -> None:
    raise AssertionError("reloaded")


def test_a_signal_stops_it_cleanly(capsys: pytest.CaptureFixture[str]) -> None:
    steps: list[str] = []

    @asynccontextmanager
    async def server() -> AsyncIterator[str]:
        steps.append("started")
        yield "broker-a"
        steps.append("stopped")

    def ready(name: str) -> str:
        os.kill(os.getpid(), signal.SIGTERM)
        return f"ready {name}"

    assert serve(server, ready, no_reload) == 0
    assert steps == ["started", "stopped"]
    assert capsys.readouterr().out == "ready broker-a\n"


def test_a_signal_while_it_starts_is_not_lost() -> None:
    @asynccontextmanager
    async def server() -> AsyncIterator[None]:
        os.kill(os.getpid(), signal.SIGINT)
        yield None

    assert serve(server, lambda _: "ready", no_reload) == 0


def test_a_server_that_cannot_go_on_is_closed_and_its_error_raised() -> None:
    steps: list[str] = []

    @asynccontextmanager
    async def server() -> AsyncIterator[str]:
        try:
            yield "broker-a"
        finally:
            steps.append("stopped")

    async def ended(name: str) -> OrbitError:
        return OrbitError(f"{name} takes part in no election any more")

    with pytest.raises(OrbitError, match="broker-a takes part in no election"):
        serve(server, lambda _: "ready", no_reload, ended=ended)
    assert steps == ["stopped"]


class ClosedTerminal(io.StringIO):
    def flush(self) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))


def test_a_terminal_that_is_closed_while_it_starts_stops_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    steps: list[str] = []

    @asynccontextmanager
    async def server() -> AsyncIterator[None]:
        os.kill(os.getpid(), signal.SIGHUP)
        yield None
        steps.append("stopped")

    terminals = iter([True, False])
    monkeypatch.setattr("orbitmq.cli.servers.serving._has_terminal", lambda: next(terminals))
    monkeypatch.setattr("sys.stdout", ClosedTerminal())
    assert serve(server, lambda _: "ready", no_reload) == 0
    assert steps == ["stopped"]


@pytest.mark.parametrize(
    "command", ["up --broker-port 0 --nameserver-port 0", "nameserver --port 0"]
)
def test_it_does_not_outlive_the_program_at_the_other_end_of_its_input(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ours, its = os.pipe()
    started = [sys.executable, "-m", "orbitmq", *command.split(), "--stop-at-eof"]
    with os.fdopen(ours) as its_input, os.fdopen(its, "w") as parent:
        with subprocess.Popen(started, stdin=its_input, stdout=-1, stderr=-1) as server:
            assert server.stdout is not None
            assert server.stdout.readline().startswith(b"ready ")
            parent.close()
            assert server.wait(timeout=60) == 0


def test_an_input_that_is_no_pipe_has_no_program_at_its_other_end() -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "orbitmq", "nameserver", "--port", "0", "--stop-at-eof"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.startswith("orbitmq: --stop-at-eof needs a pipe as standard input")


def test_nothing_is_drawn_of_a_store_without_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    show = recovery_progress()
    show(0, 0)
    assert terminal.getvalue() == ""
    show(1, 2)
    assert "recovering" in terminal.getvalue()


@pytest.mark.parametrize("has_terminal", [True, False])
def test_a_hangup_reloads_and_a_failed_reload_changes_nothing(
    has_terminal: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("orbitmq.cli.servers.serving._has_terminal", lambda: has_terminal)
    errors = [InvalidInput("line 3 is bad", field="x"), RuntimeError("a bug"), None]

    @asynccontextmanager
    async def server() -> AsyncIterator[None]:
        os.kill(os.getpid(), signal.SIGHUP)  # during the start: it counts afterwards
        yield None

    async def reload(_server: None) -> None:
        error = errors.pop(0)
        os.kill(os.getpid(), signal.SIGHUP if errors else signal.SIGTERM)
        if error is not None:
            raise error

    assert serve(server, lambda _: "ready", reload) == 0
    assert not errors
    assert [one.getMessage() for one in caplog.records] == [
        "the settings are not reloaded, and stay as they are: line 3 is bad",
        "the settings could not be reloaded",
    ]


def test_a_start_that_fails_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    @asynccontextmanager
    async def server() -> AsyncIterator[None]:
        raise InvalidInput("the port is taken", field="port")
        yield

    with pytest.raises(InvalidInput, match="the port is taken"):
        serve(server, lambda _: "ready", no_reload)
    assert capsys.readouterr().out == ""


def test_a_hangup_that_nohup_ignores_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup leaves it to its command
    try:
        with serving("nameserver", "--port=0", "--set=kvConfigPath=") as server:
            assert server.ready_line().startswith("ready")
            status = Path(f"/proc/{server.process.pid}/status").read_text()
    finally:
        signal.signal(signal.SIGHUP, before)
    ignored = next(line.split()[1] for line in status.splitlines() if line.startswith("SigIgn"))
    assert int(ignored, 16) & 1 << signal.SIGHUP - 1


@pytest.mark.parametrize(
    "arguments",
    [
        ("broker", "--set=listenPort=0", "--set=storePathRootDir="),
        ("up", "--nameserver-port=0", "--broker-port=0", "--store="),
    ],
    ids=["broker", "up"],
)
def test_brokers_raise_the_limit_of_open_files(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    *others, store = arguments
    small = "--set=mappedFileSizeCommitLog=8388608"
    with few_open_files(512) as most, serving(*others, small, f"{store}{tmp_path}") as server:
        assert server.ready_line().startswith("ready")
        assert resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE) == (most, most)


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The soft and the hard limit of open files of a pretended system."""
    found = [256, 20_000]

    def set_limit(_what: int, wanted: tuple[int, int]) -> None:
        found[:] = wanted

    monkeypatch.setattr("resource.getrlimit", lambda _what: tuple(found))
    monkeypatch.setattr("resource.setrlimit", set_limit)
    return found


def test_the_limit_of_open_files_is_raised_to_the_hard_limit(
    limits: list[int], caplog: pytest.LogCaptureFixture
) -> None:
    allow_many_open_files()
    assert limits == [20_000, 20_000]
    assert caplog.messages == []


def test_a_low_limit_of_open_files_is_a_warning_that_says_what_to_do(
    limits: list[int], caplog: pytest.LogCaptureFixture
) -> None:
    limits[:] = 256, 1024
    allow_many_open_files()
    (warning,) = caplog.messages
    assert "the limit of open files, connections included, is 1024; " in warning
    assert "ulimit -Hn" in warning


def test_no_limit_at_all_is_enough(limits: list[int], caplog: pytest.LogCaptureFixture) -> None:
    limits[:] = resource.RLIM_INFINITY, resource.RLIM_INFINITY
    allow_many_open_files()
    assert caplog.messages == []


def test_a_limit_that_cannot_be_raised_is_a_warning(
    limits: list[int], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_what: int, _wanted: tuple[int, int]) -> None:
        raise ValueError("not allowed to raise maximum limit")

    monkeypatch.setattr("resource.setrlimit", refuse)
    allow_many_open_files()
    assert limits == [256, 20_000]
    assert "can't raise the limit of open files above 256: not allowed" in caplog.messages[0]
    assert "connections included, is 256; " in caplog.messages[1]
