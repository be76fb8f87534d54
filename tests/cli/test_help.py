"""What ``--help`` says of each command: it fits 80 columns, and has examples and exit statuses."""

import argparse
import re
import shlex
from collections.abc import Iterator
from itertools import takewhile

import pytest

from orbitmq.cli.main import parser


def commands(of: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    families = [one for one in of._actions if isinstance(one, argparse._SubParsersAction)]
    if not families or of.get_default("run"):  # `broker` is a command and a family
        yield of
    for family in families:
        for command in family.choices.values():
            yield from commands(command)


ALL = {one.prog: one for one in commands(parser())}


@pytest.fixture(autouse=True)
def eighty_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


@pytest.mark.parametrize("name", ALL)
def test_it_fits_80_columns(name: str) -> None:
    long = [line for line in ALL[name].format_help().splitlines() if len(line) > 80]
    assert long == []


@pytest.mark.parametrize("name", ALL)
def test_it_says_what_the_exit_status_means(name: str) -> None:
    assert "Exit status" in " ".join(ALL[name].format_help().split())


@pytest.mark.parametrize("name", ALL)
def test_it_has_examples_that_the_command_takes(name: str) -> None:
    # An example may go on in the next line, and a comment may follow it.
    text = re.sub(r"\\\n\s*", "", ALL[name].epilog or "")
    lines = [line.strip() for line in text.splitlines()]
    examples = [line.partition("   ")[0] for line in lines if line.startswith("orbitmq ")]
    assert examples
    for example in examples:
        words = [*takewhile(lambda word: word not in "<>|", shlex.split(example)[1:])]
        parsed, rest = parser(words[0]).parse_known_args(words)
        assert rest == []
        assert parsed.parser.prog == name
