"""A run as one HTML page with plots, without scripts and without the network.

Each row is a line of a table with a bar: its ratio, the spread of its rounds, its aim, and a line
where both sides are equal.
"""

from html import escape
from pathlib import Path

from bench.report.plots import bar, curve
from bench.report.run import Run
from bench.report.text import number, verdict, versions
from bench.rounds import Result, Spread
from bench.rows import GROUPS, Row

__all__ = ["html", "write"]

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #1d2733; background: #fff;
       max-width: 1120px; margin: 0 auto; padding: 24px; }
h1 { font-size: 26px; margin: 0 0 4px; }
h2 { font-size: 17px; margin: 32px 0 6px; }
p { margin: 4px 0; max-width: 75ch; }
.quiet, .spread { color: #5c6875; }
.spread { font-size: 12px; white-space: nowrap; }
table { border-collapse: collapse; width: 100%; table-layout: fixed;
        font-variant-numeric: tabular-nums; }
th { text-align: right; font-weight: 500; font-size: 13px; color: #5c6875; padding: 0 8px;
     width: 14%; }
th:first-child { width: 26%; }
th:nth-child(4) { width: 20%; }
th:nth-child(5) { width: 12%; }
th:nth-child(6), th:nth-child(7) { width: 7%; }
td:first-child { text-align: left; }
td { text-align: right; padding: 3px 8px; border-top: 1px solid #e7eaee; white-space: nowrap; }
td:first-child { white-space: normal; padding-left: 0; }
td.plot svg { display: block; width: 100%; height: 22px; }
td.met { font-weight: 600; color: #1f7a57; }
td.missed { font-weight: 600; color: #b4472c; }
.curves { display: flex; flex-wrap: wrap; gap: 16px; margin-top: 12px; }
.key span { display: inline-block; margin-right: 18px; }
.key i { display: inline-block; width: 14px; height: 10px; margin-right: 6px; }
"""
_KEY = """<p class="key quiet"><span><i style="background:#3f9b78"></i>aim met</span>
<span><i style="background:#d0694c"></i>aim missed</span>
<span><i style="background:#8a96a3"></i>no aim</span>
<span><i style="background:#1d2733;width:2px"></i>aim</span>
<span><i style="background:#9aa5b1;width:1px"></i>1, as the other side</span>
<span>thin line: from the least to the most of all rounds</span></p>"""


def write(run: Run, path: Path) -> None:
    """Write the page."""
    path.write_text(html(run))


def html(run: Run) -> str:
    """Return the page."""
    met, aims = run.met()
    groups = "\n".join(_group(run, group) for group in GROUPS if run.group(group))
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>orbitmq: figures</title>
<style>{_STYLE}</style>
</head>
<body>
<h1>orbitmq beside Apache RocketMQ</h1>
<p>{met} of {aims} aims are met. The two sides took turns on the same machine; a figure is the
median of {"all" if run.kind == "full" else "a few"} rounds, and a ratio the median of the ratios of
neighbouring rounds.</p>
<p class="quiet">{escape(versions(run)).replace(chr(10), "<br>")}; {escape(run.kind)} run</p>
{_KEY}
{groups}
</body>
</html>
"""


def _group(run: Run, group: str) -> str:
    results = run.group(group)
    most = max(1.0, *(max(result.ratio.most, row.aim or 0) for row, result in results))
    lines = "\n".join(_line(run, row, result, most * 1.05) for row, result in results)
    curves = "".join(
        curve(row.work, result.points, row.aim or 1.0) for row, result in results if result.points
    )
    return f"""<h2>{escape(GROUPS[group])}</h2>
<table>
<tr><th></th><th>ours</th><th>{escape(_other(results))}</th><th></th><th>ratio</th><th>aim</th>
<th>met</th></tr>
{lines}
</table>
{f'<div class="curves">{curves}</div>' if curves else ""}"""


def _other(results: list[tuple[Row, Result]]) -> str:
    """Return what a group is compared with."""
    others = {row.against for row, _ in results}
    return others.pop() if len(others) == 1 else "Java"


def _line(run: Run, row: Row, result: Result, most: float) -> str:
    ratio = result.ratio
    met = row.is_met(ratio.median)
    kind = "" if met is None else "met" if met else "missed"
    size = run.size(row)
    work = f"{row.work}, {size}" if size else row.work
    rates = _rates(row, result)
    return f"""<tr><td>{escape(work)}{rates}</td>
<td>{_figure(result.ours, row.unit)}</td><td>{_figure(result.theirs, row.unit)}</td>
<td class="plot">{bar(ratio, row.aim, most, met)}</td>
<td>{number(ratio.median)}<br><span class="spread">{_range(ratio)}</span></td>
<td>{escape(row.aim_text)}</td><td class="{kind}">{verdict(row, ratio.median)}</td></tr>"""


def _figure(spread: Spread, unit: str) -> str:
    figure = f"{number(spread.median)} {escape(unit)}"
    return f'{figure}<br><span class="spread">{_range(spread)}</span>'


def _range(spread: Spread) -> str:
    return f"{number(spread.least)} – {number(spread.most)}"


def _rates(row: Row, result: Result) -> str:
    """Return the throughput, for a row that is about something else."""
    if row.more_is_better or result.ours_per_second is None or result.theirs_per_second is None:
        return ""
    ours, theirs = number(result.ours_per_second), number(result.theirs_per_second)
    return f'<br><span class="spread">{ours}/s and {theirs}/s</span>'
