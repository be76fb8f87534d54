"""An HTML page in one file: no script, no font, no image from elsewhere; light and dark.

::

    heading, introduction
    tiles      the few figures that answer the question
    sections   charts, tables, notes
"""

from collections.abc import Iterable, Sequence
from html import escape
from typing import Final, NamedTuple

from orbitmq.reports.charts import STYLE as CHART_STYLE

__all__ = ["Page", "Tile", "links", "note", "paragraph", "table"]

_PAGE: Final = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<style>
{style}
</style>
</head>
<body>
<main>
<header>
<h1>{heading}</h1>
<p>{introduction}</p>
</header>
{parts}
</main>
</body>
</html>
"""

_STYLE: Final = """\
:root {
  --page: #f4f6f9; --card: #ffffff; --ink: #1c2733; --soft: #5b6774; --line: #e3e8ee;
  --good: #1d7f4e; --bad: #b3372f; --link: #2f6fb3; --shade: #1c273359;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #0f1317; --card: #171c22; --ink: #e8edf2; --soft: #9aa7b5; --line: #2b343e;
    --good: #5fcf97; --bad: #ff8a80; --link: #6aa7e6; --shade: #9aa7b566;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0; background: var(--page); color: var(--ink);
  font: 15px/1.5 system-ui, "Segoe UI", Roboto, Helvetica, Arial, sans-serif;
}
main { max-width: 800px; margin: 0 auto; padding: 32px 16px 48px; }
h1 { font-size: 26px; line-height: 1.2; margin: 0 0 8px; letter-spacing: -0.01em; }
h2 { font-size: 17px; margin: 0 0 14px; }
h1, h2 { overflow-wrap: anywhere; }
header p { color: var(--soft); margin: 0 0 24px; max-width: 62ch; }
section {
  overflow-x: auto;  /* a side with more has a shadow, which its end covers: it scrolls along */
  background:
    linear-gradient(to right, var(--card) 50%, transparent) local 0 / 32px 100% no-repeat,
    linear-gradient(to left, var(--card) 50%, transparent) local 100% / 32px 100% no-repeat,
    linear-gradient(to right, var(--shade), transparent) 0 / 12px 100% no-repeat,
    linear-gradient(to left, var(--shade), transparent) 100% / 12px 100% no-repeat,
    var(--card);
  border: 1px solid var(--line); border-radius: 10px;
  padding: 20px 24px; margin: 0 0 16px;
}
.tiles {
  display: grid; gap: 16px 8px; grid-template-columns: repeat(auto-fit, minmax(120px, 1fr));
}
.tile b { display: block; font-size: 24px; line-height: 1.25; font-weight: 650; }
.tile span { color: var(--soft); font-size: 13px; }
.good b { color: var(--good); }
.bad b { color: var(--bad); }
svg.chart { display: block; width: 100%; height: auto; margin: 0 0 12px; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: 6px 0 6px 16px; border-bottom: 1px solid var(--line); }
.left1 :is(th, td):nth-child(-n+1), .left2 :is(th, td):nth-child(-n+2),
.left3 :is(th, td):nth-child(-n+3), .left4 :is(th, td):nth-child(-n+4),
.left5 :is(th, td):nth-child(-n+5), .left9 :is(th, td) { text-align: left; }
.left1 td:nth-child(n+2), .left2 td:nth-child(n+3), .left3 td:nth-child(n+4),
.left4 td:nth-child(n+5), .left5 td:nth-child(n+6) { white-space: nowrap; }  /* numbers */
th:first-child, td:first-child { padding-left: 0; }
td { overflow-wrap: anywhere; }
.left4, .left5 { font-size: 13px; }
:is(.left4, .left5) td { overflow-wrap: normal; }
.left4 td:nth-child(4) { overflow-wrap: anywhere; }  /* a body, for one */
tr:last-child td { border-bottom: 0; }
th { color: var(--soft); font-weight: 500; font-size: 13px; }
.facts td { text-align: left; }
.facts td:first-child { color: var(--soft); width: 34%; }
p { margin: 0 0 10px; }
a { color: var(--link); }
ul { margin: 0 0 14px; padding-left: 20px; }
.note { color: var(--soft); font-size: 13px; margin: 12px 0 0; }
.note + svg, .note + table { margin-top: 20px; }
code { font: 0.92em ui-monospace, Menlo, Consolas, monospace; }
@media (max-width: 600px) {  /* a phone: what is too wide is scrolled within its section */
  main { padding: 20px 12px 32px; }
  section { padding: 16px; }
  table { font-size: 13px; }
  th, td { padding: 6px 0 6px 10px; }
  td, .left4 td:nth-child(4) { overflow-wrap: normal; }
  .facts td { overflow-wrap: anywhere; }
  svg.chart { width: 640px; max-width: none; }
}
"""


class Tile(NamedTuple):
    """One figure with its label; ``kind`` is ``good``, ``bad`` or empty."""

    figure: str
    label: str
    kind: str = ""


class Page:
    """A page, filled from top to bottom. All texts are escaped, except the parts of a section.

    >>> page = Page("Archive of orders", "One run of orbitmq pipeline archive.")
    >>> page.tiles([Tile("1,000", "rows")])
    >>> page.section("Files", table(["file", "rows"], [["part-0.parquet", "1,000"]]))
    >>> "<td>1,000</td>" in page.html()
    True
    """

    def __init__(self, heading: str, introduction: str, *, title: str = "") -> None:
        self._heading = heading
        self._introduction = introduction
        self._title = title or heading
        self._parts: list[str] = []

    def tiles(self, tiles: Iterable[Tile]) -> None:
        """Add a row of figures."""
        shown = (
            f'<div class="{f"tile {tile.kind}".rstrip()}"><b>{escape(tile.figure)}</b>'
            f"<span>{escape(tile.label)}</span></div>"
            for tile in tiles
        )
        self._parts.append("\n".join(['<section class="tiles">', *shown, "</section>"]))

    def section(self, heading: str, *parts: str) -> None:
        """Add a section; the parts are HTML, made by this module or by ``charts``."""
        self._parts.append(
            "\n".join(["<section>", f"<h2>{escape(heading)}</h2>", *parts, "</section>"])
        )

    def html(self) -> str:
        """Return the page."""
        return _PAGE.format(
            title=escape(self._title),
            style=_STYLE + CHART_STYLE,
            heading=escape(self._heading),
            introduction=escape(self._introduction),
            parts="\n".join(self._parts),
        )


def table(
    heads: Sequence[str], rows: Iterable[Sequence[str]], *, left: int = 1, facts: bool = False
) -> str:
    """Return a table; the first ``left`` columns (up to 5, or all: 9) are aligned to the left.

    Those behind them have numbers, which are never broken. ``facts`` is for rows of a name and a
    text.
    """
    lines = [_row("th", heads)] if heads else []
    lines += [_row("td", row) for row in rows]
    kind = "facts" if facts else f"left{left}"
    return "\n".join([f'<table class="{kind}">', *lines, "</table>"])


def _row(tag: str, cells: Iterable[str]) -> str:
    return f"<tr>{''.join(f'<{tag}>{escape(cell)}</{tag}>' for cell in cells)}</tr>"


def paragraph(text: str) -> str:
    """Return a paragraph."""
    return f"<p>{escape(text)}</p>"


def links(targets: Iterable[tuple[str, str]]) -> str:
    """Return a list of links, each an address beside the page and a text.

    >>> links([("traces.html", "traces")])
    '<ul><li><a href="traces.html">traces</a></li></ul>'
    """
    shown = (f'<li><a href="{escape(to)}">{escape(text)}</a></li>' for to, text in targets)
    return f"<ul>{''.join(shown)}</ul>"


def note(text: str) -> str:
    """Return a paragraph in small print."""
    return f'<p class="note">{escape(text)}</p>'
