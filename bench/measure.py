"""Timing, memory, and results as tables of 80 columns and as JSON.

Most figures are CPU time, system time included, and the best of some rounds: other programs on the
machine can only add to it.
"""

import json
import logging
import os
import platform
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter_ns, process_time_ns
from typing import NamedTuple, ParamSpec, Self, TypeVar

RESULTS = Path(__file__).parent / "results"
WIDTH = 80
MB = 1_000_000
HOW = "CPU time, the best of some rounds; other programs may have used the machine"

P = ParamSpec("P")
T = TypeVar("T")

Cell = str | int | float | None


class Figure(NamedTuple):
    """The cost of one call, and the target."""

    what: str
    microseconds: float
    aim: float | None = None


# Time


def microseconds(call: Callable[[], object], *, rounds: int = 7, round_ms: int = 60) -> float:
    """Return the time of one call: the best of some rounds, since noise can only add."""
    count = 1
    while (spent := _time(call, count)) < round_ms * 1_000_000 / 10:
        count *= 4
    count = max(1, count * round_ms * 1_000_000 // spent)
    return min(_time(call, count) for _ in range(rounds)) / count / 1000


def _time(call: Callable[[], object], count: int) -> int:
    repeat = range(count)
    begin = perf_counter_ns()
    for _ in repeat:
        call()
    return perf_counter_ns() - begin


def cpu_each(work: Callable[[], int]) -> float:
    """Return the CPU time of some work in µs per item; ``work`` returns the number of items.

    Raises:
        RuntimeError: there were no items.
    """
    begin = process_time_ns()
    done = work()
    spent = process_time_ns() - begin
    if done < 1:
        raise RuntimeError("there were no items, so nothing was measured")
    return spent / done / 1000


# Memory


class Resident(NamedTuple):
    """The memory of a process, in MB."""

    own: float
    """Its heap, which it shares with no other process."""
    mapped: float
    """Pages of mapped files, which are page cache."""
    peak: float
    """The highest total of both so far."""


def resident() -> Resident | None:
    """Return the memory of this process; None where there is no ``/proc``."""
    status = Path("/proc/self/status")
    return resident_of(status.read_text()) if status.exists() else None


def resident_of(status: str) -> Resident:
    """Return the memory by the text of ``/proc/<pid>/status``.

    >>> resident_of("VmHWM: 3000 kB\\nVmRSS: 2500 kB\\nRssAnon: 1000 kB\\nRssFile: 1500 kB\\n")
    Resident(own=1.0, mapped=1.5, peak=3.1)
    """
    fields = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
    own, mapped, peak = (
        round(int(fields[name].split()[0]) * 1024 / MB, 1)
        for name in ("RssAnon", "RssFile", "VmHWM")
    )
    return Resident(own, mapped, peak)


# Places and processes


@contextmanager
def scratch() -> Iterator[str]:
    """Yield an empty directory, and remove it afterwards, even after a SIGTERM."""
    before = signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))
    try:
        with TemporaryDirectory(prefix="orbitmq-bench-", ignore_cleanup_errors=True) as directory:
            yield directory
    finally:
        signal.signal(signal.SIGTERM, before)


def in_child(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run ``work`` in its own process and return its result; the process then dies as if killed.

    Files that it has not closed stay as they are. Its memory is that of this work alone.

    Raises:
        RuntimeError: the process ended without a result; it has printed why.
    """
    spawn = get_context("spawn")
    receiver, sender = spawn.Pipe(duplex=False)
    call = partial(work, *args, **kwargs)
    child = spawn.Process(target=_call_and_die, args=(call, sender), daemon=True)
    child.start()
    sender.close()  # only the child has it now, so that recv() ends if the child dies
    try:
        result: T = receiver.recv()
    except EOFError:
        raise RuntimeError(f"{work.__name__} failed in its process; see above") from None
    finally:
        child.kill()
        child.join()
        receiver.close()
    return result


class Child:
    """A process of its own for one piece of work after the other; for a ``with`` statement."""

    def __init__(self) -> None:
        self._pool = ProcessPoolExecutor(
            1,
            mp_context=get_context("spawn"),
            # Loads do what a program should not, such as starting many producers.
            initializer=logging.disable,
            initargs=(logging.WARNING,),
        )

    def run(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run ``work`` there and return its result, or raise its error."""
        return self._pool.submit(work, *args, **kwargs).result()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self._pool.shutdown(cancel_futures=True)


def _call_and_die(call: Callable[[], object], sender: Connection) -> None:
    sender.send(call())
    sender.close()
    os._exit(0)  # without destructors and exit handlers


# Results


def machine() -> dict[str, str | int | None]:
    """Return the machine and Python that the figures were measured on."""
    return {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
    }


def table(head: Sequence[str], rows: Sequence[Sequence[Cell]]) -> str:
    """Return a table as text: the first column left-aligned, the others right-aligned.

    >>> print(table(["queues", "µs", "aim"], [[4, 5.25, 6.0], [10_000, 31.5, None]]))
    queues     µs   aim
    4        5.25  6.00
    10,000  31.50     –

    Raises:
        ValueError: it is wider than a terminal.
    """
    texts = [list(head), *([_shown(cell) for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    if (width := sum(widths) + 2 * (len(widths) - 1)) > WIDTH:
        raise ValueError(f"the table has {width} columns, but a terminal has {WIDTH}")
    lines = []
    for text in texts:
        first, *others = zip(text, widths, strict=True)
        cells = [first[0].ljust(first[1]), *(cell.rjust(room) for cell, room in others)]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def _shown(cell: Cell) -> str:
    if cell is None:
        return "–"
    if isinstance(cell, float):
        return f"{cell:,.0f}" if abs(cell) >= 100 else f"{cell:.2f}"
    return f"{cell:,}" if isinstance(cell, int) else cell


def report(name: str, figures: list[Figure]) -> None:
    """Print the figures as a table and write them to ``bench/results/<name>.json``."""
    print(table(["", "µs", "target", ""], [[*figure, _verdict(figure)] for figure in figures]))
    write(name, {"figures": [figure._asdict() for figure in figures]})


def _verdict(figure: Figure) -> str:
    return "over" if figure.aim is not None and figure.microseconds > figure.aim else ""


def write(name: str, result: dict[str, object]) -> None:
    """Write a result file, machine included, and print its path."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    text = json.dumps({"machine": machine(), **result}, indent=2, ensure_ascii=False)
    path.write_text(text + "\n")
    print(f"written to {path.relative_to(RESULTS.parent.parent)}\n")
