"""What tests/clean_clone.py takes from the README, and how it runs it."""

import sys
from pathlib import Path

import pytest

from tests.architecture.sources import ROOT
from tests.clean_clone import CommandFailed, environment, follow, run, typed

README = (ROOT / "README.md").read_text()


def test_the_commands_are_those_of_the_readme() -> None:
    found = typed(README)
    assert found[:2] == ["make demo", "make test"]
    assert set(found[2:]) == {"pip install orbitmq", "pip install 'orbitmq[spark]'"}


def test_prose_and_other_commands_are_no_commands_to_run() -> None:
    text = "`make bench` compares\n\n```sh\nmake demo     # in one terminal\norbitmq up\n```\n"
    assert typed(text) == ["make demo"]


def test_a_newcomer_has_few_variables() -> None:
    given = {"PATH": "/bin", "HOME": "/x", "PIP_CERT": "c", "VIRTUAL_ENV": "v", "PYTHONPATH": "p"}
    assert environment(Path("new"), given) == {"HOME": "new", "PATH": "/bin", "PIP_CERT": "c"}


def test_each_command_is_run_with_an_empty_home(tmp_path: Path) -> None:
    steps = list(follow(typed(README), tmp_path))
    assert list((tmp_path / "home").iterdir()) == []
    assert {variables["HOME"] for _, _, variables in steps} == {str(tmp_path / "home")}
    commands = [" ".join(command) for command, _, _ in steps]
    for wanted in (
        "git clone ",
        "make demo",
        "make test",
        "/pip wheel ",
        "/pip install orbitmq[spark]",
    ):
        assert any(wanted in f" {command}" for command in commands), wanted
    assert commands[-1].endswith("pytest -q tests/test_first_steps.py")


def test_a_command_that_fails_says_how(tmp_path: Path) -> None:
    run([sys.executable, "-c", ""], tmp_path, {})
    with pytest.raises(CommandFailed, match=r"failed with status 3:\nno such index"):
        run([sys.executable, "-c", "print('no such index'); raise SystemExit(3)"], tmp_path, {})
