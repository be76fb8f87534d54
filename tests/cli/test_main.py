"""The command as a shell sees it."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from orbitmq.cli.main import main
from orbitmq.version import VERSION
from tests.architecture.sources import ROOT
from tests.store.unpacked import unpacked


def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "orbitmq.cli.main", *arguments]
    environment = {**os.environ, "PYTHONIOENCODING": "utf-8"}
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)


def test_exit_statuses(tmp_path: Path) -> None:
    sound, torn = unpacked("normal", tmp_path), unpacked("crash-torn", tmp_path)
    assert run("store", "verify", sound).returncode == 0
    assert run("store", "verify", torn).returncode == 1
    assert run("store", "verify", str(tmp_path)).returncode == 2
    assert run("store", "no-such-command").returncode == 2


def test_errors_have_no_traceback(tmp_path: Path) -> None:
    finished = run("store", "inspect", str(tmp_path / "absent"))
    assert finished.stdout == ""
    assert finished.stderr.startswith("orbitmq: ")
    assert "Traceback" not in finished.stderr


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["store", "verify"], "arguments are required: DIR; see orbitmq store verify --help"),
        (
            ["topic", "create", "x", "--queues", "y"],
            "orbitmq: --queues is 'y'; it must be a number; see orbitmq topic create --help",
        ),
        (
            ["consume", "x", "--count", "y"],
            "orbitmq: --count: 'y' is not a number of messages; see orbitmq consume --help",
        ),
        (
            ["--nameserver=x", "topic", "list"],
            "orbitmq: --nameserver goes behind the command: orbitmq topic … --nameserver; see ",
        ),
        (
            ["-c", "file", "topic", "list"],
            "orbitmq: -c goes behind the command: orbitmq topic … -c; see orbitmq topic --help",
        ),
        (["--jso"], "orbitmq: unrecognized arguments: --jso; see orbitmq --help"),
        (
            ["cluster", "nodes", "--every", "1"],
            "orbitmq: unrecognized arguments: --every 1; see orbitmq cluster nodes --help",
        ),
        (["up", "now"], "unrecognized arguments: now; see orbitmq up --help"),
        (["topc", "list"], "'topc' is no command of orbitmq; did you mean topic? See orbitmq"),
        (["topic", "list", "--nmeserver=x"], "--nmeserver=x; did you mean --nameserver? See"),
        (["topic", "create", "x", "--perm", "w+"], "--perm is 'w+'; it must be one of r, w, rw;"),
    ],
)
def test_wrong_arguments_take_one_line(
    arguments: list[str], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("orbitmq: ")
    assert expected in printed.err
    assert printed.err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], "  orbitmq send orders hello  "),
        (["topic"], "show which brokers have the queues of a topic"),
        (["broker", "config"], "    set "),
        (["pipeline"], "    archive "),
    ],
)
def test_a_family_without_a_command_shows_those_it_has(
    arguments: list[str], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith(" ".join(["usage: orbitmq", *arguments]))
    assert expected in printed.err


def test_no_progress_bar_without_a_terminal(tmp_path: Path) -> None:
    finished = run("store", "verify", unpacked("normal", tmp_path))
    assert finished.stderr == ""


def test_a_reader_that_has_seen_enough(tmp_path: Path) -> None:
    directory = unpacked("normal", tmp_path)
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as closed:
        finished = subprocess.run(
            [sys.executable, "-m", "orbitmq.cli.main", "store", "inspect", directory],
            stdout=closed,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert (finished.stderr, finished.returncode) == (b"", 141)


def test_a_disk_that_is_full(tmp_path: Path) -> None:
    if not os.path.exists("/dev/full"):
        pytest.skip("this system has no /dev/full to print to")
    with open("/dev/full", "wb") as full:
        finished = subprocess.run(
            [
                sys.executable,
                "-m",
                "orbitmq.cli.main",
                "store",
                "inspect",
                unpacked("normal", tmp_path),
            ],
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert finished.stderr == b"orbitmq: input or output failed: No space left on device\n"
    assert finished.returncode == 2


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
class TestClosedStreams:
    """Shells, supervisors and cron jobs close them."""

    def run(self, closed: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
        command = [sys.executable, "-m", "orbitmq.cli.main", *arguments]
        line = f"{shlex.join(command)} {closed}"
        return subprocess.run(
            line, shell=True, capture_output=True, text=True, timeout=60, check=False
        )

    @pytest.mark.usefixtures("nameserver")
    def test_a_message_that_is_stored_is_no_failure(self, closed: str) -> None:
        finished = self.run(closed, "send", "closed-streams", "paid")
        assert (finished.returncode, finished.stderr) == (0, "")
        assert ("SEND_OK" in finished.stdout) == (" >&-" not in f" {closed}")

    def test_an_error_is_one_still(self, closed: str, tmp_path: Path) -> None:
        finished = self.run(closed, "store", "inspect", str(tmp_path / "absent"))
        assert finished.returncode == 2
        assert finished.stdout == ""
        assert finished.stderr.startswith("orbitmq: ") != ("2>&-" in closed)

    def test_arguments_that_are_wrong_are_so_still(self, closed: str) -> None:
        assert self.run(closed, "no-such-command").returncode == 2


@pytest.mark.usefixtures("nameserver")
def test_lines_of_a_closed_input_are_an_error() -> None:
    finished = subprocess.run(
        f"{shlex.join([sys.executable, '-m', 'orbitmq.cli.main', 'send', 'lines', '-'])} <&-",
        shell=True,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert finished.returncode == 2
    assert "standard input is closed" in finished.stderr


def test_help_names_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["store", "--help"])
    assert ended.value.code == 0
    printed = capsys.readouterr().out
    assert "inspect" in printed
    assert "verify" in printed


def test_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert (ended.value.code, capsys.readouterr().out) == (0, f"orbitmq {VERSION}\n")


def test_a_command_imports_no_other() -> None:
    code = "import sys; from orbitmq.cli.main import parser; parser('topic'); print(*sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    imported = set(ran.stdout.split())
    assert "orbitmq.cli.commands.topic" in imported
    assert not {"orbitmq.broker", "orbitmq.store", "orbitmq.cli.commands.send"} & imported


def test_all_commands_are_named_without_their_modules(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    printed = capsys.readouterr().out
    lines = [line.split(maxsplit=1) for line in printed.splitlines()]
    for name in ("up", "nameserver", "topic", "consume", "completion", "pipeline"):
        assert any(len(line) == 2 and line[0] == name for line in lines)
    assert max(map(len, printed.splitlines())) <= 80


@pytest.mark.parametrize(
    "start",
    [
        ["-m", "orbitmq"],
        ["-c", "import sys; from orbitmq.cli.main import main; sys.exit(main())"],
    ],
    ids=["module", "script"],
)
def test_an_interrupt_while_modules_are_imported_shows_no_traceback(
    start: list[str], tmp_path: Path
) -> None:
    interrupting = "import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n"
    (tmp_path / "asyncio.py").write_text(interrupting)  # the commands import it, orbitmq does not
    finished = subprocess.run(
        [sys.executable, *start, "store", "inspect", str(tmp_path)],
        env={**os.environ, "PYTHONPATH": f"{tmp_path}:{ROOT / 'src'}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (finished.returncode, finished.stdout, finished.stderr) == (130, "", "")


def test_an_interrupt_is_reported_as_a_shell_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("orbitmq.cli.commands.store.inspect", interrupted)
    assert main(["store", "inspect", unpacked("normal", tmp_path)]) == 130
