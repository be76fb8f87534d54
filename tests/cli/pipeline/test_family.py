"""The family has a command for each job, with examples and exit statuses in its help."""

import argparse
import subprocess
import sys

import pytest

from orbitmq.cli.pipeline.family import add_arguments


def jobs() -> dict[str, argparse.ArgumentParser]:
    command = argparse.ArgumentParser(prog="orbitmq pipeline")
    add_arguments(command)
    (found,) = (
        action for action in command._actions if isinstance(action, argparse._SubParsersAction)
    )
    return dict(found.choices)


def test_the_help_of_a_job_has_examples_and_statuses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    for name, job in jobs().items():
        text = job.format_help()
        assert f"  orbitmq pipeline {name} " in text, name
        assert "Exit status: 0" in text, name
        assert all(len(line) <= 80 for line in text.splitlines()), name


def test_without_the_extra_each_job_says_what_to_install() -> None:
    given = {
        "archive": "--topic orders --to archive",
        "replay": "--topic orders --to-topic again",
        "reconcile": "--topic orders --receipts sent.csv",
        "rebuild": "--store store --to rebuilt",
        "trace": "",
        "dead-letters": "",
        "profile": "--topic orders",
        "settle": "--ledger ledger",
    }
    assert given.keys() == jobs().keys()
    words = [["pipeline", name, *options.split()] for name, options in given.items()]
    code = (
        "import sys; sys.modules['pyspark'] = None; from orbitmq.cli.main import main\n"
        f"print(*(main(arguments) for arguments in {words!r}))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["2"] * len(given)
    assert ran.stderr.splitlines() == [
        f"orbitmq: orbitmq pipeline {name} needs an extra package: pip install 'orbitmq[spark]'"
        for name in given
    ]
