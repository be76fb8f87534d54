"""How long a program waits before it begins: imports, a command, a broker in a test.

``python -m bench.startup`` prints the table and writes ``bench/results/startup.json``. Each is a
new process, from its start to its end; the figure is the best of some, since another process on
the machine only adds to it.
"""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from time import perf_counter_ns
from typing import Final, NamedTuple

from bench.measure import Cell, table, write

__all__ = ["Spent", "best", "main"]

ROUNDS: Final = 25
IN_TEST: Final = """
import os, shutil
from orbitmq.testing.broker import start
broker = start()
shutil.rmtree(os.path.dirname(broker.directories[0]))
os._exit(0)  # ready; a stop is not measured
"""
PROGRAMS: Final[Mapping[str, tuple[tuple[str, ...], int | None]]] = {
    "an empty Python": (("-c", ""), None),
    "import orbitmq": (("-c", "import orbitmq"), 100),
    "orbitmq --help": (("-m", "orbitmq", "--help"), 300),
    "a broker in a test, until it is ready": (("-c", IN_TEST), 150),
}
"""Arguments of Python, and the aim in milliseconds, if there is one."""


class Spent(NamedTuple):
    """What a process took, in milliseconds."""

    wall: float
    cpu: float


def best(arguments: Sequence[str], rounds: int) -> Spent:
    """Run Python some times; return the least that it took.

    Raises:
        CalledProcessError: it failed.
    """
    spent = [_ran([sys.executable, *arguments]) for _ in range(rounds)]
    return Spent(min(one.wall for one in spent), min(one.cpu for one in spent))


def _ran(command: list[str]) -> Spent:
    began_ns = perf_counter_ns()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    wall = (perf_counter_ns() - began_ns) / 1e6
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return Spent(wall, (usage.ru_utime + usage.ru_stime) * 1e3)


def main() -> None:
    """Measure all, print the table, and write the results."""
    # Users' installations keep bytecode; without it each start would compile the package again.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    figures = {what: best(arguments, ROUNDS) for what, (arguments, _) in PROGRAMS.items()}
    rows: list[list[Cell]] = [
        [what, one.wall, one.cpu, PROGRAMS[what][1]] for what, one in figures.items()
    ]
    print(table(["", "ms", "CPU ms", "aim ms"], rows))
    found = {what: {**one._asdict(), "aim": PROGRAMS[what][1]} for what, one in figures.items()}
    write("startup", {"rounds": ROUNDS, "figures": found})


if __name__ == "__main__":
    main()
