import json
import subprocess
import sys

import pytest

from orbitmq.cli.main import main
from orbitmq.cli.problems import tell, tell_bug, tell_missing, warn
from orbitmq.errors import ConnectFailed, InvalidInput, OrbitError


def test_an_error_is_one_line_with_its_notes(capsys: pytest.CaptureFixture[str]) -> None:
    error = OrbitError("broker-a refused:\n  no permission")
    error.add_note("broker-a: broker-a refused:\n  no permission")  # the same
    error.add_note("broker-b: done")
    assert tell(error, as_json=False) == 2
    assert capsys.readouterr().err == ("orbitmq: broker-a refused: no permission; broker-b: done\n")


def test_an_error_of_the_system_is_told_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    tell(PermissionError(13, "Permission denied", "orbitmq-demo"), as_json=False)
    tell(OSError(28, "No space left on device"), as_json=False)
    tell(TimeoutError("no answer"), as_json=False)
    assert capsys.readouterr().err.splitlines() == [
        "orbitmq: orbitmq-demo: Permission denied",
        "orbitmq: input or output failed: No space left on device",
        "orbitmq: no answer",
    ]


def test_an_error_as_json_says_what_a_script_decides_by(
    capsys: pytest.CaptureFixture[str],
) -> None:
    tell(ConnectFailed("no connection\nto ns:9876"), as_json=True)
    printed = capsys.readouterr()
    told = json.loads(printed.err)
    assert printed.out == ""
    assert told.pop("docs").endswith("docs/errors.md#connectfailed")
    assert told == {
        "error": "ConnectFailed",
        "message": "no connection to ns:9876",
        "retriable": True,
        "exit_status": 2,
    }


def test_a_nameserver_that_is_not_there_comes_with_what_to_do(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["topic", "list", "--nameserver", "127.0.0.1:1"]) == 2
    told = capsys.readouterr().err
    assert told.startswith("orbitmq: no nameserver answers: no connection to 127.0.0.1:1: ")
    assert told.endswith("; --nameserver or NAMESRV_ADDR names others\n")


def test_a_warning_is_a_line_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["settings", "accessKey", "--set", "acessKey=alice"]) == 0
    says = "--set: acessKey is not known here and has no effect; did you mean accessKey?"
    assert capsys.readouterr().err == f"orbitmq: warning: {says}\n"
    warn(says, as_json=True)
    assert json.loads(capsys.readouterr().err) == {"warning": says}


def test_nothing_found_has_a_status_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    assert tell_missing("no message", as_json=False) == 1
    assert capsys.readouterr().err == "orbitmq: no message\n"


@pytest.mark.parametrize("debug", [False, True])
def test_where_an_error_was_raised_is_shown_on_request(
    debug: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    tell(InvalidInput("--count is x", field="count"), as_json=False, debug=debug)
    shown = capsys.readouterr().err
    assert shown.startswith("orbitmq: --count is x\n")
    assert (shown.count("\n") > 1) == debug


def test_a_bug_says_that_it_is_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert tell_bug(KeyError("orders"), as_json=False, debug=False) == 70
    assert capsys.readouterr().err == (
        "orbitmq: this is a bug of orbitmq: KeyError: 'orders'; --debug shows where, for a report\n"
    )


def test_a_bug_has_no_traceback_without_debug(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def failing(*_: object, **__: object) -> None:
        raise RuntimeError("what nobody foresaw")

    monkeypatch.setattr("orbitmq.cli.commands.store.StoreReader", failing)
    assert main(["store", "inspect", "DIR"]) == 70
    assert "Traceback" not in capsys.readouterr().err
    assert main(["store", "inspect", "DIR", "--debug"]) == 70
    assert 'raise RuntimeError("what nobody foresaw")' in capsys.readouterr().err


def test_wrong_arguments_are_json_as_well() -> None:
    command = [sys.executable, "-m", "orbitmq", "topic", "lst", "--json"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert json.loads(ran.stderr)["message"] == (
        "'lst' is no command of orbitmq topic; did you mean list? See orbitmq topic --help"
    )
