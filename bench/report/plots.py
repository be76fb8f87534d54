"""Plots as inline SVG."""

from collections.abc import Sequence
from html import escape
from math import log10
from typing import Final

from bench.report.text import number
from bench.rounds import Spread

__all__ = ["bar", "curve"]

_COLOURS: Final = {True: "#3f9b78", False: "#d0694c", None: "#8a96a3"}
_INK, _QUIET, _GRID = "#1d2733", "#5c6875", "#9aa5b1"
_WIDTH, _HEIGHT = 1_000, 22

_PLOT_WIDTH, _PLOT_HEIGHT = 256, 190
_LEFT, _RIGHT, _TOP, _BOTTOM = 34, 8, 30, 34
_TITLE_AT: Final = 16


def bar(ratio: Spread, aim: float | None, most: float, met: bool | None) -> str:
    """Return a bar as wide as its place; ``most`` is the end of the scale, which begins at 0."""

    def x(value: float) -> float:
        return round(value / most * _WIDTH, 1)

    colour = _COLOURS[met]
    parts = [
        f'<rect x="0" y="5" width="{x(ratio.median)}" height="12" fill="{colour}"/>',
        _line((x(1.0), 0), (x(1.0), _HEIGHT), _GRID, 1),
        _line((x(ratio.least), 11), (x(ratio.most), 11), _INK, 1),
    ]
    if aim is not None:
        parts.append(_line((x(aim), 1), (x(aim), _HEIGHT - 1), _INK, 2))
    title = f"<title>ratio {number(ratio.median)}</title>"
    return (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" preserveAspectRatio="none" role="img">'
        f"{title}{''.join(parts)}</svg>"
    )


def _line(begin: tuple[float, float], end: tuple[float, float], colour: str, width: int) -> str:
    """Return a line that keeps its width when the plot is stretched."""
    return (
        f'<line x1="{begin[0]}" y1="{begin[1]}" x2="{end[0]}" y2="{end[1]}" stroke="{colour}" '
        f'stroke-width="{width}" vector-effect="non-scaling-stroke"/>'
    )


def curve(title: str, points: Sequence[tuple[int, float]], limit: float) -> str:
    """Return the cost by size, as a multiple of that at the smallest size, and its limit."""
    base = points[0][1]
    values = [(size, cost / base) for size, cost in points]
    first, last = log10(max(1, values[0][0])), log10(values[-1][0])
    top = max(limit, *(value for _, value in values)) * 1.15

    def x(size: int) -> float:
        part = (log10(max(1, size)) - first) / ((last - first) or 1)
        return round(_LEFT + part * (_PLOT_WIDTH - _LEFT - _RIGHT), 1)

    def y(value: float) -> float:
        part = value / top
        return round(_PLOT_HEIGHT - _BOTTOM - part * (_PLOT_HEIGHT - _BOTTOM - _TOP), 1)

    path = " ".join(f"{x(size)},{y(value)}" for size, value in values)
    parts = [
        _text(_LEFT, _TITLE_AT, escape(title), size=13, colour=_INK, anchor="start"),
        _level(y(0), "0", _GRID),
        _level(y(1), "1", _GRID),
        _level(y(limit), f"{limit:g}", _COLOURS[False], dashes="4 4"),
        f'<polyline points="{path}" fill="none" stroke="#2f6fb0" stroke-width="2"/>',
    ]
    for size, value in values:
        anchor = "end" if size == values[-1][0] else "start" if size == values[0][0] else "middle"
        parts.append(f'<circle cx="{x(size)}" cy="{y(value)}" r="3.5" fill="#2f6fb0"/>')
        parts.append(_text(x(size), y(value) - 8, number(value), anchor=anchor, colour=_INK))
        parts.append(_text(x(size), _PLOT_HEIGHT - 14, f"{size:,}", anchor=anchor))
    return (
        f'<svg width="{_PLOT_WIDTH}" height="{_PLOT_HEIGHT}" '
        f'viewBox="0 0 {_PLOT_WIDTH} {_PLOT_HEIGHT}" role="img">{"".join(parts)}</svg>'
    )


def _level(y: float, label: str, colour: str, dashes: str = "") -> str:
    dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
    line = (
        f'<line x1="{_LEFT}" y1="{y}" x2="{_PLOT_WIDTH - _RIGHT}" y2="{y}" '
        f'stroke="{colour}" stroke-width="1"{dashed}/>'
    )
    return line + _text(_LEFT - 8, y + 4, label, anchor="end")


def _text(
    x: float, y: float, text: str, *, anchor: str, size: int = 11, colour: str = _QUIET
) -> str:
    return (
        f'<text x="{x}" y="{y}" font-size="{size}" fill="{colour}" text-anchor="{anchor}" '
        f'font-family="system-ui, sans-serif">{text}</text>'
    )
