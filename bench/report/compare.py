"""Whether a run is worse than the committed one, by :data:`RULE`.

So a single noisy round on either side decides nothing. Rows whose size differs between the runs,
and those that only one of them has, are not compared.
"""

from typing import Final, NamedTuple

from bench.measure import Cell, table
from bench.report.run import Run
from bench.report.text import number
from bench.rounds import Result
from bench.rows import Row

__all__ = ["RULE", "Comparison", "compared", "is_worse", "shown"]

SLACK: Final = 1.25
"""How far the same code may be apart in two runs, besides the spread of their rounds: measured on
two shared cores, where the speed of a machine changes within minutes."""
RULE: Final = """\
A row got worse if the median of its ratios is worse, by more than 25 %, than
every round of the committed run, and every round of this run is worse than the
committed median."""


class Comparison(NamedTuple):
    """A row in both runs."""

    row: Row
    committed: Result
    new: Result
    worse: bool | None
    """None if the sizes differ."""


def is_worse(row: Row, committed: Result, new: Result) -> bool:
    """Return whether a row got worse, by :data:`RULE`."""
    old, now = committed.ratio, new.ratio
    if row.more_is_better:
        return now.median * SLACK < old.least and now.most < old.median
    return now.median > old.most * SLACK and now.least > old.median


def compared(committed: Run, new: Run) -> list[Comparison]:
    """Return all rows that both runs have."""
    before = {result.name: result for result in committed.rows}
    return [
        Comparison(
            row,
            before[row.name],
            result,
            is_worse(row, before[row.name], result)
            if committed.size(row) == new.size(row)
            else None,
        )
        for row, result in new.results
        if row.name in before
    ]


def shown(comparisons: list[Comparison]) -> str:
    """Return a table of both ratios, with the spread of their rounds."""
    words = {True: "WORSE", False: "", None: "other size"}
    rows: list[list[Cell]] = [
        [
            one.row.name,
            _spread(one.committed),
            _spread(one.new),
            words[one.worse],
        ]
        for one in comparisons
    ]
    return table(["ratio, and its rounds", "committed", "now", ""], rows)


def _spread(result: Result) -> str:
    ratio = result.ratio
    return f"{number(ratio.median)} ({number(ratio.least)}–{number(ratio.most)})"
