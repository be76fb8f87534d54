"""Charts as inline SVG, in light and dark colours; a page includes ``STYLE``.

``columns``    values by time or name, several series side by side
``lines``      values by time, a line for each series
``histogram``  counts by bucket, on a logarithmic scale, each with its number
``heatmap``    counts by time and bucket, the darker the more
``ranking``    named values, the largest first, as horizontal bars
"""

from collections.abc import Iterator, Sequence
from html import escape
from math import ceil, floor, log10
from typing import Final, NamedTuple

__all__ = [
    "STYLE",
    "Series",
    "columns",
    "heatmap",
    "histogram",
    "lines",
    "nice_step",
    "ranking",
    "stacked",
]

STYLE: Final = """\
.chart { font: 12px system-ui, "Segoe UI", Roboto, Helvetica, Arial, sans-serif; }
.chart text { fill: #5b6774; }
.chart .strong { fill: #1c2733; font-weight: 600; }
.chart .small { font-size: 10.5px; }
.chart .grid { stroke: #e3e8ee; }
.chart .base { stroke: #a9b4c0; }
.chart .c0 { fill: #2f6fb3; } .chart .c1 { fill: #dd8a26; }
.chart .c2 { fill: #3f9b78; } .chart .c3 { fill: #b3372f; }
.chart .l0 { stroke: #2f6fb3; } .chart .l1 { stroke: #dd8a26; }
.chart .l2 { stroke: #3f9b78; } .chart .l3 { stroke: #b3372f; }
.chart polyline { fill: none; stroke-width: 2; }
@media (prefers-color-scheme: dark) {
  .chart text { fill: #9aa7b5; }
  .chart .strong { fill: #e8edf2; }
  .chart .grid { stroke: #2b343e; }
  .chart .base { stroke: #5a6774; }
  .chart .c0 { fill: #6aa7e6; } .chart .c1 { fill: #f0b25c; }
  .chart .c2 { fill: #6cc9a3; } .chart .c3 { fill: #ff8a80; }
  .chart .l0 { stroke: #6aa7e6; } .chart .l1 { stroke: #f0b25c; }
  .chart .l2 { stroke: #6cc9a3; } .chart .l3 { stroke: #ff8a80; }
}
"""

_WIDTH: Final = 720
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 12, 34, 30
_INNER: Final = _WIDTH - _LEFT - _RIGHT
_HEIGHT: Final = 250
_PLOT: Final = _HEIGHT - _TOP - _BOTTOM
_COLUMN_WIDTH_MAX: Final = 96
"""Of the columns of one label: a chart of a single day is no wall."""
_PANEL_HEIGHT: Final = 210
_ROW_HEIGHT: Final = 24
_CELL_HEIGHT: Final = 15
_NAME_WIDTH: Final = 220
_NAME_CHARACTERS: Final = 34
_TICKS: Final = 4
_LABELS: Final = 12
_COLOURS: Final = 4


class Series(NamedTuple):
    """Values of one name; None where there is none."""

    name: str
    values: Sequence[float | None]


def nice_step(most: float) -> int:
    """Return a round step between grid lines, so that about four fit.

    >>> nice_step(730), nice_step(8), nice_step(12_000)
    (200, 2, 5000)
    """
    rough = max(1, ceil(most / _TICKS))
    power = int(10 ** floor(log10(rough)))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough)


def columns(title: str, labels: Sequence[str], series: Sequence[Series]) -> str:
    """Return bars by label, those of several series side by side."""
    step, top = _scale(series)
    body = [*_legend(title, series), *_grid(step, top)]
    room = _INNER / max(1, len(labels))
    width = min(room * 0.74, _COLUMN_WIDTH_MAX) / len(series)
    margin = (room - len(series) * (width + 1)) / 2
    for number, one in enumerate(series):
        for at, value in enumerate(one.values):
            left = _LEFT + at * room + margin + number * (width + 1)
            if value:
                label = f"{labels[at]}: {_figure(value)} {one.name}"
                body.append(_bar(left, width, value / top, number, label))
    body += _labels(labels, room)
    return _svg(_HEIGHT, title, body)


def lines(title: str, labels: Sequence[str], series: Sequence[Series]) -> str:
    """Return a line for each series; it is interrupted where values are missing."""
    step, top = _scale(series)
    body = [*_legend(title, series), *_grid(step, top)]
    room = _INNER / max(1, len(labels))
    for number, one in enumerate(series):
        for run in _runs(one.values):
            points = [(_LEFT + (at + 0.5) * room, _y(value / top), value, at) for at, value in run]
            path = " ".join(f"{x:.1f},{y:.1f}" for x, y, _, _ in points)
            body.append(f'<polyline class="l{number % _COLOURS}" points="{path}"/>')
            for x, y, value, at in points:
                label = escape(f"{labels[at]}: {_figure(value)} {one.name}")
                body.append(
                    f'<circle class="c{number % _COLOURS}" cx="{x:.1f}" cy="{y:.1f}" r="2.5">'
                    f"<title>{label}</title></circle>"
                )
    body += _labels(labels, room)
    return _svg(_HEIGHT, title, body)


def histogram(
    title: str, explanation: str, buckets: Sequence[tuple[str, str]], counts: Sequence[int]
) -> str:
    """Return counts by bucket, each of which is named by a span and a unit."""
    most = log10(1 + max([1, *counts]))
    return _svg(_PANEL_HEIGHT, title, list(_panel(title, explanation, buckets, counts, most)))


def stacked(
    label: str,
    panels: Sequence[tuple[str, str, Sequence[int]]],
    buckets: Sequence[tuple[str, str]],
) -> str:
    """Return a histogram for each panel (title, explanation, counts), all on one scale."""
    most = log10(1 + max([1, *(max(counts) for _, _, counts in panels)]))
    body: list[str] = []
    for number, (title, explanation, counts) in enumerate(panels):
        body.append(f'<g transform="translate(0 {number * _PANEL_HEIGHT})">')
        body += _panel(title, explanation, buckets, counts, most)
        body.append("</g>")
    return _svg(_PANEL_HEIGHT * max(1, len(panels)), label, body)


def heatmap(
    title: str, labels: Sequence[str], buckets: Sequence[str], counts: Sequence[Sequence[int]]
) -> str:
    """Return a cell for each label (from left to right) and bucket (from bottom to top).

    ``counts`` has a row of counts by bucket for each label.
    """
    most = log10(1 + max([1, *(count for row in counts for count in row)]))
    room = _INNER / max(1, len(labels))
    base = _TOP + _CELL_HEIGHT * len(buckets)
    body = [_text(_LEFT, 16, title, kind="strong")]
    for number, name in enumerate(buckets):
        y = base - (number + 1) * _CELL_HEIGHT
        body.append(_text(_LEFT - 6, y + 11, name, anchor="end", kind="small"))
    for at, row in enumerate(counts):
        for number, count in enumerate(row):
            if count:
                y = base - (number + 1) * _CELL_HEIGHT
                shade = 0.12 + 0.88 * log10(1 + count) / most
                place = f'x="{_LEFT + at * room:.1f}" y="{y}" width="{max(room - 1, 0.8):.1f}"'
                said = escape(f"{labels[at]}, {buckets[number]}: {count:,}")
                body.append(
                    f'<rect class="c0" {place} height="{_CELL_HEIGHT - 1}" '
                    f'fill-opacity="{shade:.2f}"><title>{said}</title></rect>'
                )
    body += _labels(labels, room, base + 18)
    return _svg(base + _BOTTOM, title, body)


def ranking(title: str, rows: Sequence[tuple[str, float, str]]) -> str:
    """Return horizontal bars; a row has a name, a value, and the text beside its bar."""
    most = max([1e-9, *(value for _, value, _ in rows)])
    room = _WIDTH - _NAME_WIDTH - 130
    body = [_text(0, 16, title, kind="strong")]
    for number, (name, value, shown) in enumerate(rows):
        y = _TOP + number * _ROW_HEIGHT
        width = room * value / most
        body.append(_text(_NAME_WIDTH - 8, y + 12, _elided(name), anchor="end"))
        body.append(
            f'<rect class="c0" x="{_NAME_WIDTH}" y="{y}" width="{max(width, 1):.1f}" height="16" '
            f'rx="2"><title>{escape(f"{name}: {shown}")}</title></rect>'
        )
        body.append(_text(_NAME_WIDTH + max(width, 1) + 6, y + 12, shown, kind="strong"))
    return _svg(_TOP + _ROW_HEIGHT * max(1, len(rows)), title, body)


# Parts of charts


def _svg(height: int, label: str, body: Sequence[str]) -> str:
    inner = "\n".join(body)
    box = f'viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}"'
    return f'<svg class="chart" role="img" aria-label="{escape(label)}" {box}>\n{inner}\n</svg>'


def _text(x: float, y: float, text: str, *, anchor: str = "start", kind: str = "") -> str:
    styled = f' class="{kind}"' if kind else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{styled}>{escape(text)}</text>'


def _elided(name: str) -> str:
    return name if len(name) <= _NAME_CHARACTERS else f"{name[: _NAME_CHARACTERS - 1]}…"


def _figure(value: float) -> str:
    """Return a number with as many digits as are of interest.

    >>> _figure(12345.6), _figure(0.25), _figure(12.0)
    ('12,346', '0.25', '12')
    """
    return f"{value:,.0f}" if value == int(value) or value >= 100 else f"{value:,.3g}"


def _scale(series: Sequence[Series]) -> tuple[int, int]:
    """Return the step between grid lines, and the end of the scale."""
    most = max([1, *(value for one in series for value in one.values if value is not None)])
    step = nice_step(most)
    return step, step * ceil(most / step)


def _y(share: float) -> float:
    return _TOP + _PLOT * (1 - share)


def _legend(title: str, series: Sequence[Series]) -> Iterator[str]:
    yield _text(_LEFT, 16, title, kind="strong")
    if len(series) == 1:
        return
    x = _WIDTH - _RIGHT
    for number, one in reversed([*enumerate(series)]):
        x -= 7 * len(one.name) + 28
        colour = f"c{number % _COLOURS}"
        yield f'<rect class="{colour}" x="{x}" y="6" width="11" height="11" rx="2"/>'
        yield _text(x + 17, 16, one.name)


def _grid(step: int, top: int) -> Iterator[str]:
    for number in range(top // step + 1):
        y = _y(number * step / top)
        kind = "grid" if number else "base"
        place = f'x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"'
        yield f'<line class="{kind}" {place}/>'
        yield _text(_LEFT - 8, y + 4, f"{number * step:,}", anchor="end")


def _bar(x: float, width: float, share: float, colour: int, label: str) -> str:
    y = _y(share)
    place = f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{_TOP + _PLOT - y:.1f}"'
    title = f"<title>{escape(label)}</title>"
    return f'<rect class="c{colour % _COLOURS}" {place} rx="1.5">{title}</rect>'


def _labels(labels: Sequence[str], room: float, y: float = _HEIGHT - _BOTTOM + 18) -> Iterator[str]:
    """Yield the labels below a chart, as many as fit."""
    longest = max([1, *map(len, labels)])
    fitting = max(1, min(_LABELS, int(_INNER / (7 * longest + 10))))
    for number in range(0, len(labels), max(1, ceil(len(labels) / fitting))):
        yield _text(_LEFT + (number + 0.5) * room, y, labels[number], anchor="middle")


def _runs(values: Sequence[float | None]) -> Iterator[list[tuple[int, float]]]:
    """Yield the values that follow each other without a missing one, with their positions."""
    run: list[tuple[int, float]] = []
    for at, value in enumerate(values):
        if value is not None:
            run.append((at, value))
        elif run:
            yield run
            run = []
    if run:
        yield run


def _panel(
    title: str,
    explanation: str,
    buckets: Sequence[tuple[str, str]],
    counts: Sequence[int],
    most: float,
) -> Iterator[str]:
    """Yield a histogram: a bar for each bucket, its count above and its name below."""
    base, tallest = _PANEL_HEIGHT - 44, _PANEL_HEIGHT - 44 - 46
    left, room = 8, (_WIDTH - 16) / len(counts)
    yield _text(left, 16, title, kind="strong")
    yield _text(left + 8 + 7.2 * len(title), 16, explanation)
    yield f'<line class="base" x1="{left}" x2="{_WIDTH - 8}" y1="{base}" y2="{base}"/>'
    for number, ((span, unit), count) in enumerate(zip(buckets, counts, strict=True)):
        middle = left + (number + 0.5) * room
        yield _text(middle, base + 17, span, anchor="middle", kind="small")
        yield _text(middle, base + 31, unit, anchor="middle", kind="small")
        if count:
            height = max(2.0, tallest * log10(1 + count) / most)
            place = f'x="{middle - room * 0.36:.1f}" y="{base - height:.1f}"'
            size = f'width="{room * 0.72:.1f}" height="{height:.1f}"'
            yield f'<rect class="c0" {place} {size} rx="2"/>'
            yield _text(middle, base - height - 6, f"{count:,}", anchor="middle", kind="strong")
