"""``orbitmq doctor`` as a shell sees it."""

import json

import pytest

from orbitmq.cli.main import main

pytestmark = pytest.mark.usefixtures("nameserver")


def test_what_developers_want_is_a_note_on_their_own_machine(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["doctor", "--strict"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("NOTE     a misspelled topic or group is created, ")
    assert printed.endswith("nothing is wrong; 15 checks passed\n")


def test_risks_alone_are_no_failure_unless_asked(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orbitmq.cli.doctor.cluster_checks.is_loopback", lambda _host: False)
    assert main(["doctor"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("RISK     autoCreateTopicEnable is on at broker-a/0: a send to a ")
    assert printed.endswith("2 risks; 15 checks passed\n")
    assert max(map(len, printed.splitlines())) <= 80
    assert main(["doctor", "--strict"]) == 1


def test_a_problem_is_told_by_the_exit_status(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--topic", "TBW102", "--group", "nobody", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    (problem,) = [one for one in found["findings"] if one["level"] == "problem"]
    assert problem == {
        "level": "problem",
        "check": "group",
        "says": "no broker has group nobody: the first consumer creates it.",
        "do": "Check the name, or create it:",
        "run": "orbitmq group create nobody",
    }
    assert {"route", "ports"} <= set(found["passed"])


def test_no_nameserver_is_a_finding(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--nameserver", "127.0.0.1:1"]) == 1
    printed = capsys.readouterr().out
    assert printed.startswith("PROBLEM  nameserver 127.0.0.1:1 does not answer")
    assert printed.endswith("1 problem; 0 checks passed\n")


def test_wrong_arguments(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--max-lag", "-1"]) == 2
    assert "--max-lag is -1" in capsys.readouterr().err
