"""docs/commands.md names every command, and its examples print what it shows."""

import argparse
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from orbitmq.cli.main import main, parser
from orbitmq.embedded import start
from tests.architecture.sources import ROOT
from tests.cli.outboxes import message, outbox_file
from tests.cli.running_servers import serving
from tests.store.unpacked import unpacked

PAGE = (ROOT / "docs" / "commands.md").read_text()


class Example(NamedTuple):
    """A command line, and its output."""

    typed: str
    printed: str


def examples() -> list[Example]:
    blocks = re.findall(r"(?ms)^```console\n(.*?)^```", PAGE)
    found = re.findall(r"(?m)^\$ (.*)\n((?:(?!\$ ).*\n)*)", "".join(blocks))
    return [Example(typed, printed) for typed, printed in found]


def matches(printed: str, expected: str) -> bool:
    """Return whether a text is that of the page, where ``…`` is any part of a line."""
    pattern = re.escape(expected).replace("…", ".*")
    return re.fullmatch(pattern, printed) is not None


def commands(of: argparse.ArgumentParser) -> Iterator[str]:
    """Yield each command in full, as ``orbitmq topic list``."""
    families = [one for one in of._actions if isinstance(one, argparse._SubParsersAction)]
    if not families or of.get_default("run"):  # `broker` is a command and a family
        yield of.prog
    for family in families:
        for command in family.choices.values():
            yield from commands(command)


def test_the_page_has_every_command() -> None:
    headings = re.findall(r"(?m)^### `(.*)`$", PAGE)
    assert sorted(headings) == sorted(commands(parser()))


@pytest.mark.parametrize("arguments", [one.typed for one in examples() if one.typed.endswith(" &")])
def test_servers_print_its_ready_lines(
    arguments: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    _, *words = arguments.removesuffix(" &").split()
    expected = next(one.printed for one in examples() if one.typed == arguments)
    with serving(*words) as server:
        assert matches(f"{server.ready_line()}\n", expected)
        server.process.terminate()
        assert server.end().status == 0


@pytest.fixture
def orbitmq(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Set up what the examples use: command, cluster, outbox, ledger, and a copy of a store."""
    command = tmp_path / "bin" / "orbitmq"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m orbitmq.cli.main "$@"\n')
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{command.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))
    monkeypatch.setenv("PYTHONIOENCODING", "utf-8")
    monkeypatch.chdir(tmp_path)
    outbox_file(tmp_path, message("orders", b"paid"))
    (tmp_path / "checkpoint" / "orbitmq-ledger").mkdir(parents=True)
    Path(unpacked("normal", tmp_path)).rename(tmp_path / "backup")
    with start() as cluster:
        monkeypatch.setenv("NAMESRV_ADDR", cluster.nameserver)
        yield


def run(typed: str, capsys: pytest.CaptureFixture[str]) -> str:
    """Run a command line, and return its output; only pipes need a shell."""
    if "|" in typed:
        ran = subprocess.run(
            ["sh", "-c", typed],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=True,
        )
        return ran.stdout + ran.stderr
    main(shlex.split(typed)[1:])
    printed = capsys.readouterr()
    return printed.out + printed.err


@pytest.mark.usefixtures("orbitmq")
def test_examples_print_its_output(capsys: pytest.CaptureFixture[str]) -> None:
    message_id = ""
    for one in examples():
        if not one.typed.endswith(" &"):
            printed = run(one.typed.replace("MESSAGE_ID", message_id), capsys)
            assert matches(printed, one.printed), f"$ {one.typed}\n{printed}"
            wide = [line for line in printed.splitlines() if len(line) > 80]
            assert not wide or "--json" in one.typed or printed.startswith("orbitmq: "), wide
            sent = re.match(r"Message +(\w+)", printed)
            message_id = message_id or (sent[1] if sent else "")
