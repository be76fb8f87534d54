"""The README and docs/start.md from top to bottom, as a newcomer follows them, in an empty home."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.architecture.documents import Block, Document
from tests.architecture.sources import ROOT
from tests.cli.running_servers import serving

ADDRESS = "127.0.0.1:9876"  # that of the pages; a run takes a free port
ELSEWHERE = ("make", "pip")  # tests/clean_clone.py runs these
PRINTED = re.compile(r"(?m)^ *print\(.*\)  # (.*)$")


class Step(NamedTuple):
    """What is typed, or a program; and what it prints, where ``…`` is any text."""

    what: str
    prints: str | None
    is_program: bool = False


def steps(page: str) -> list[Step]:
    document = Document(page, (ROOT / page).read_text())
    return [step for block in document.blocks for step in steps_of(block)]


def steps_of(block: Block) -> Iterator[Step]:
    if block.language == "sh":
        for line in block.text.splitlines():
            typed, _, comment = line.partition("  #")
            prints = re.search(r"prints: (.*)", comment)
            yield Step(typed.strip(), prints[1] + "\n" if prints else None)
    elif block.language == "console":
        found = re.findall(r"(?m)^\$ (.*)\n((?:(?!\$ ).*\n)*)", block.text)
        yield from (Step(typed, printed) for typed, printed in found)
    elif block.language == "python" and not re.search(">>>|orbitmq.spark", block.text):
        lines = [one for line in PRINTED.findall(block.text) for one in line.split(" and ")]
        yield Step(block.text, "\n".join(lines) + "\n", is_program=True)


def arguments(step: Step, nameserver: str) -> list[str]:
    """Return the command of a step; empty if it is not for here."""
    if step.is_program:
        return [sys.executable, "-u", "-c", step.what.replace(ADDRESS, nameserver)]
    words = re.findall(r'"[^"]*"|\S+', step.what)
    if words[0] in ELSEWHERE or words[:2] == ["orbitmq", "up"]:
        return []
    assert words[0] == "orbitmq", f"a page has a command that isn't run: {step.what}"
    return [sys.executable, "-m", *(word.strip('"') for word in words)]


def run(step: Step, command: list[str], environment: dict[str, str], home: Path) -> str:
    """Run a step to its end, a consumer until it has printed its lines; return what it prints."""
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env=environment, cwd=home
    ) as process:
        assert process.stdout is not None
        lines = []
        try:
            if "orbitmq.run(" in step.what:
                lines = [process.stdout.readline() for _ in (step.prints or "").splitlines()]
                process.send_signal(signal.SIGTERM)
            lines.append(process.communicate(timeout=120)[0])
        except BaseException:
            process.kill()
            raise
    assert process.returncode == 0, step.what
    return "".join(lines)


@pytest.mark.parametrize("page", ["README.md", "docs/start.md"])
def test_the_first_steps_print_what_the_page_says(page: str, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    taken = 0
    with serving(
        *("up", "--nameserver-port", "0", "--broker-port", "0"),
        *("--store", str(tmp_path / "data")),
    ) as up:
        nameserver = up.ready_line().partition("nameserver=")[2].partition(" ")[0]
        environment = {**os.environ, "HOME": str(home), "NAMESRV_ADDR": nameserver}
        for step in steps(page):
            if command := arguments(step, nameserver):
                taken += 1
                printed = run(step, command, environment, home)
                if step.prints is not None:
                    assert same(printed, step.prints), step.what
        up.process.send_signal(signal.SIGTERM)
        assert up.end().status == 0
    assert taken > 3
    assert [one.name for one in home.iterdir()] == []


def same(printed: str, expected: str) -> bool:
    """Compare lines in any order: queues are read as brokers answer."""
    lines, wanted = (sorted(text.splitlines()) for text in (printed, expected))
    if "…" not in expected:
        return lines == wanted
    return re.fullmatch(re.escape(expected).replace("…", ".*"), printed) is not None
