"""The family has a command for each job, with examples and exit statuses in its help."""

import argparse

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
