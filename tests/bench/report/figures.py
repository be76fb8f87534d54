"""A run with made-up figures for each row."""

import msgspec

from bench.report.run import Run
from bench.rounds import Result, Round, WarmUp, summed_up
from bench.rows import ROWS, Row


def result_of(row: Row, ratio: float, spread: float = 0.05) -> Result:
    """Return a row of three rounds, whose ratios differ by a part."""
    ratios = (ratio * (1 - spread), ratio, ratio * (1 + spread))
    ours = [Round(20 * each, 30_000.0) for each in ratios]
    result = summed_up(row.name, ours, [Round(20.0, 25_000.0)] * 3)
    points = ((1, 5.0), (100, 6.0), (5_000, 9.0)) if row.group == "growth" else ()
    return msgspec.structs.replace(result, points=points)


def run_of(ratio: float = 0.4, kind: str = "full") -> Run:
    """Return a run whose rows all have the same ratio."""
    return Run(
        kind=kind,
        date="2026-01-02",
        versions={"Python": "3.11.7", "Java": "17"},
        machine={"cores": 2, "memory_gib": 23.5, "kernel": "6.1"},
        warm_ups=(WarmUp("Java broker", 7, 0.03),),
        rows=tuple(result_of(row, ratio) for row in ROWS),
    )
