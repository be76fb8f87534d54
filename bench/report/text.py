"""A run as a table of 80 columns: each row with its ratio, its aim, and whether it is met.

Beside it, what all documents with figures are made of.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from bench.report.run import Run
from bench.rounds import Result
from bench.rows import GROUPS, Row

__all__ = ["BEGIN", "END", "between", "markdown", "number", "shown", "verdict", "versions"]

BEGIN: Final = "<!-- figures: written by bench/report/docs.py -->"
END: Final = "<!-- end of figures -->"
_LINE: Final = "{:<38} {:>8} {:>8} {:<2} {:>6} {:>7} {:>4}"
_HEAD: Final = ("", "ours", "other", "", "ratio", "aim", "met")


def shown(run: Run) -> str:
    """Return the table, with a heading for each group, and a summary."""
    lines = [_LINE.format(*_HEAD)]
    for group, heading in GROUPS.items():
        if found := run.group(group):
            lines += ["", heading]
        lines += [_line(run, row, result) for row, result in found]
    met, aims = run.met()
    return "\n".join([*lines, "", f"{met} of {aims} aims are met", versions(run)])


def _line(run: Run, row: Row, result: Result) -> str:
    size = run.size(row)
    ratio = result.ratio.median
    return _LINE.format(
        f"  {row.work}, {size}" if size else f"  {row.work}",
        number(result.ours.median),
        number(result.theirs.median),
        row.unit,
        number(ratio),
        row.aim_text,
        verdict(row, ratio),
    )


def number(value: float) -> str:
    """Return a figure with three digits or all before the point.

    >>> [number(value) for value in (0.1234, 12.34, 123.4, 54_321.0)]
    ['0.12', '12.3', '123', '54,321']
    """
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def verdict(row: Row, ratio: float) -> str:
    """Return whether a ratio meets the aim, as a word."""
    met = row.is_met(ratio)
    return "–" if met is None else "yes" if met else "NO"


def versions(run: Run) -> str:
    """Return the versions and the machine of a run in two lines."""
    machine = run.machine
    software = ", ".join(f"{name} {version}" for name, version in run.versions.items())
    where = f"{machine['cores']} cores, {machine['memory_gib']} GiB, Linux {machine['kernel']}"
    return f"{software}\n{where}, {run.date}"


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table for a document.

    >>> print(markdown(["", "µs"], [["send", "7.1"]]))
    | | µs |
    |---|---|
    | send | 7.1 |
    """
    lines = [f"| {' | '.join(line)} |".replace("|  |", "| |") for line in (head, *rows)]
    return "\n".join([lines[0], "|---" * len(head) + "|", *lines[1:]])


def between(text: str, lines: Sequence[str]) -> str:
    """Return a document with new lines between the markers.

    Raises:
        ValueError: the markers are missing.
    """
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{text[:60]!r}… has no {BEGIN} and {END}, between which figures go")
    return "\n".join([before + BEGIN, *lines, END + after])
