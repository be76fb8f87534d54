"""Runs at different times: how far their ratios differ, since no single run tells.

``bench/results/runs/`` has a file for each run that was kept with ``--keep``.
"""

import re
from pathlib import Path
from typing import Final

from bench.report.run import Run, read, written
from bench.report.text import number
from bench.rounds import Spread
from bench.rows import ROWS

__all__ = ["keep", "kept", "table"]

_KEPT: Final = "runs"


def keep(run: Run, results: Path) -> None:
    """Write a run beside those of other times."""
    (results / _KEPT).mkdir(exist_ok=True)
    stamp = re.sub(r"[^0-9]+", "-", run.date).strip("-")
    written(run, results / _KEPT / f"{stamp}.json")


def kept(results: Path) -> list[Run]:
    """Return the runs that were kept, the oldest first."""
    return [read(file) for file in sorted((results / _KEPT).glob("*.json"))]


def table(runs: list[Run]) -> tuple[list[str], list[list[str]]]:
    """Return the ratios of all runs: heads, and a row for each figure that has an aim.

    A run with the compiled kernel has a column, but no part in the spread.
    """
    heads = ["", *map(_head, runs), "least–most", "aim"]
    rows = []
    for row in ROWS:
        found = [{one.name: one for one in run.rows}.get(row.name) for run in runs]
        ratios = [
            one.ratio.median
            for run, one in zip(runs, found, strict=True)
            if one is not None and not run.is_compiled
        ]
        if row.aim is None or not ratios:
            continue
        spread = Spread.of(ratios)
        rows.append(
            [
                f"{row.group}: {row.work}",
                *("–" if one is None else number(one.ratio.median) for one in found),
                f"{number(spread.least)}–{number(spread.most)}",
                row.aim_text,
            ]
        )
    return heads, rows


def _head(run: Run) -> str:
    return f"{run.date}, {run.kind}{', compiled kernel' if run.is_compiled else ''}"
