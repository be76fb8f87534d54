"""The pictures of the documents, taken from a run of the demo: ``python -m tools.pictures``.

``docs/images/demo.svg`` is the end of what it prints, ``demo-report.svg`` the charts of its report.
What they show depends on the machine, so they are not taken while it is busy (``--anyway``).
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from typing import Final

from orbitmq.reports.charts import STYLE

__all__ = ["charts", "main", "summary", "terminal"]

IMAGES: Final = Path(__file__).parents[1] / "docs" / "images"
_LOAD_MAX: Final = 0.5
"""Processes that want a core, for each core there is."""
_COLUMN: Final = 8.43
_ROW: Final = 20
_MARGIN: Final = 20
_GAP: Final = 16
_TERMINAL: Final = """\
.paper { fill: #171c22; }
text { font: 14px ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; fill: #e8edf2; }
.title { fill: #5fcf97; font-weight: 600; }
.rule { fill: #2b343e; }
.command { fill: #6aa7e6; font-weight: 600; }
"""
_PAPER: Final = """\
.paper { fill: #ffffff; }
@media (prefers-color-scheme: dark) { .paper { fill: #171c22; } }
"""


def main(arguments: Sequence[str], images: Path = IMAGES) -> int:
    """Run the demo and write the pictures; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tools.pictures", description=__doc__)
    parser.add_argument("--anyway", action="store_true", help="although the machine is busy")
    asked = parser.parse_args(arguments)
    load, cores = os.getloadavg()[0], os.cpu_count() or 1
    if load > _LOAD_MAX * cores and not asked.anyway:
        print(f"the machine is busy: {load:.1f} processes want its {cores} cores", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as place:
        command = [sys.executable, "-m", "orbitmq", "demo"]
        ran = subprocess.run(command, cwd=place, capture_output=True, text=True, check=True)
        report = (Path(place) / "orbitmq-demo" / "report.html").read_text(encoding="utf-8")
    shown = ["$ make demo", "…", *summary(ran.stdout)]
    (images / "demo.svg").write_text(terminal(shown), encoding="utf-8")
    (images / "demo-report.svg").write_text(charts(report), encoding="utf-8")
    return 0


def summary(printed: str) -> list[str]:
    r"""Return the summary in what the demo prints.

    >>> summary("Jobs\n────\n\nSummary\n───────\nsent   5\n\nWhere to go on\n")
    ['Summary', '───────', 'sent   5']
    """
    found = re.search(r"(?ms)^Summary\n.*?(?=\n\n)", printed)
    if found is None:
        raise ValueError("the demo printed no summary")
    return found[0].splitlines()


def terminal(lines: Sequence[str]) -> str:
    """Return lines as a picture of a terminal."""
    body = [
        f'<text x="{_MARGIN}" y="{_MARGIN + (row + 0.75) * _ROW:.0f}" xml:space="preserve"'
        f"{_kind(lines, row)}>{escape(line)}</text>"
        for row, line in enumerate(lines)
        if line
    ]
    width = 2 * _MARGIN + _COLUMN * max(map(len, lines))
    return _picture(width, 2 * _MARGIN + _ROW * len(lines), _TERMINAL, body)


def _kind(lines: Sequence[str], row: int) -> str:
    if lines[row].startswith("$ "):
        return ' class="command"'
    if lines[row].startswith("──"):
        return ' class="rule"'
    if lines[row + 1 : row + 2] and lines[row + 1].startswith("──"):
        return ' class="title"'
    return ""


def charts(page: str) -> str:
    """Return the charts of a report, one below the other."""
    body, y, width = [], _GAP, 0.0
    for whole, wide, high in re.findall(
        r'(?s)(<svg class="chart".*? width="(\d+)" height="(\d+)">.*?</svg>)', page
    ):
        body.append(whole.replace("<svg ", f'<svg x="{_MARGIN}" y="{y}" ', 1))
        y += int(high) + _GAP
        width = max(width, 2 * _MARGIN + int(wide))
    if not body:
        raise ValueError("the report has no charts")
    return _picture(width, y, STYLE + _PAPER, body)


def _picture(width: float, height: float, style: str, body: Iterable[str]) -> str:
    size = f'viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" height="{height:.0f}"'
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" class="chart" {size}>',
            f"<style>\n{style}</style>",
            f'<rect class="paper" width="{width:.0f}" height="{height:.0f}" rx="10"/>',
            *body,
            "</svg>\n",
        ]
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
