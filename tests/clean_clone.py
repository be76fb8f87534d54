"""The README's commands as a newcomer types them: in a clean clone, with an empty home.

::

    git clone ─┬─ make demo, make test                       in the clone
               ├─ pip wheel ──▶ pip install …, orbitmq …     in a new environment each
               └─ the rest of README and docs/start.md       by tests/test_first_steps.py

``python -m tests.clean_clone`` runs all of it, and needs an index of packages; ``--without-tests``
leaves out ``make test``, which takes a quarter of an hour. The first command that fails ends it.
"""

import argparse
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from time import monotonic

from tests.architecture.documents import Document
from tests.architecture.sources import ROOT

KEPT = re.compile(r"PATH$|LANG$|TMPDIR$|PIP_|\w+_PROXY$|\w+_proxy$|SSL_|REQUESTS_CA_BUNDLE$")
"""Variables that a newcomer has too; all others are left out."""
TAIL = 30
SECONDS_MAX = 3_600


class CommandFailed(Exception):
    """A command of the README did not do what it says."""


def typed(readme: str) -> list[str]:
    """Return the make and pip commands in the blocks of the README, in their order.

    >>> typed("```sh\\nmake demo     # a comment\\norbitmq up\\n```\\n`make bench` compares")
    ['make demo']
    """
    lines = [
        line.partition("  #")[0].strip()
        for block in Document("README.md", readme).blocks
        if block.language == "sh"
        for line in block.text.splitlines()
    ]
    return [line for line in lines if re.match("(make|pip) ", line)]


def environment(home: Path, given: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of a newcomer whose home is empty."""
    return {"HOME": str(home), **{name: given[name] for name in given if KEPT.match(name)}}


def run(command: Sequence[str], directory: Path, variables: Mapping[str, str]) -> None:
    """Run a command, and say how long it took.

    Raises:
        CommandFailed: it failed; the text has the end of its output.
    """
    began = monotonic()
    done = subprocess.run(
        command,
        cwd=directory,
        env=variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    words = shlex.join(command)
    if done.returncode != 0:
        last = "\n".join(done.stdout.splitlines()[-TAIL:])
        raise CommandFailed(f"{words}\nfailed with status {done.returncode}:\n{last}")
    print(f"{monotonic() - began:7.0f} s  {words}", flush=True)


def follow(
    commands: Sequence[str], place: Path
) -> Iterator[tuple[list[str], Path, dict[str, str]]]:
    """Yield each command to run, where, and with which variables."""
    clone, home = place / "clone", place / "home"
    home.mkdir()
    variables = environment(home, os.environ)
    yield ["git", "clone", "--quiet", str(ROOT), str(clone)], place, variables
    for command in commands:
        words = shlex.split(command)
        if words[0] == "make":
            yield words, clone, variables
    wheels = place / "wheels"
    yield [sys.executable, "-m", "venv", str(place / "builder")], place, variables
    pip = str(place / "builder" / "bin" / "pip")
    yield [pip, "wheel", "--no-deps", "--wheel-dir", str(wheels), "."], clone, variables
    for number, command in enumerate(one for one in commands if one.startswith("pip install")):
        fresh = place / f"environment-{number}"
        yield [sys.executable, "-m", "venv", str(fresh)], place, variables
        found = {**variables, "PIP_FIND_LINKS": str(wheels)}
        yield [str(fresh / "bin" / "pip"), *shlex.split(command)[1:]], place, found
        yield [str(fresh / "bin" / "orbitmq"), "demo", "--orders", "50"], place, variables
    steps = ["-m", "pytest", "-q", "tests/test_first_steps.py"]
    yield [str(clone / ".venv" / "bin" / "python"), *steps], clone, variables


def main(arguments: Sequence[str]) -> int:
    """Run the commands; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.clean_clone", description=__doc__)
    parser.add_argument("--without-tests", action="store_true", help="leave out make test")
    options = parser.parse_args(arguments)
    commands = typed((ROOT / "README.md").read_text())
    if options.without_tests:
        commands.remove("make test")
    with tempfile.TemporaryDirectory(prefix="orbitmq-clean-clone-") as place:
        try:
            for command, directory, variables in follow(commands, Path(place)):
                run(command, directory, variables)
        except CommandFailed as failure:
            print(failure, file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
