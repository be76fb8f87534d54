"""Timing of one call, and results as a table and as JSON."""

import json
import os
import platform
from collections.abc import Callable
from pathlib import Path
from time import perf_counter_ns
from typing import NamedTuple

RESULTS = Path(__file__).parent / "results"


class Figure(NamedTuple):
    """What one call costs, and what we aim at."""

    what: str
    microseconds: float
    aim: float | None = None


def microseconds(call: Callable[[], object], *, rounds: int = 7, round_ms: int = 60) -> float:
    """Return the time of one call: the best of some rounds, since noise only ever adds."""
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


def machine() -> dict[str, str | int | None]:
    """Return what the figures were measured on."""
    return {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
    }


def report(name: str, figures: list[Figure]) -> None:
    """Print the figures as a table and write them to ``bench/results/<name>.json``."""
    width = max(len(figure.what) for figure in figures)
    print(f"{'':{width}}      µs     aim")
    for figure in figures:
        aim = "      –" if figure.aim is None else f"{figure.aim:7.1f}"
        over = "  over" if figure.aim is not None and figure.microseconds > figure.aim else ""
        print(f"{figure.what:{width}} {figure.microseconds:7.2f} {aim}{over}")
    write(name, {"machine": machine(), "figures": [figure._asdict() for figure in figures]})


def write(name: str, result: dict[str, object]) -> None:
    """Write a result file and say where it is."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps(result, indent=2, ensure_ascii=False) + "\n")
    print(f"written to {path.relative_to(RESULTS.parent.parent)}")
