"""The charts of the report: SVG, in light and dark colours.

The page that shows the charts includes ``STYLE``, which sets the colours of their classes.
"""

from collections.abc import Iterator, Sequence
from html import escape
from math import ceil, floor, log10
from typing import Final

from orbitmq.client.observe.statistics import BUCKET_NAMES
from orbitmq.demo.figures import Rate

__all__ = ["STYLE", "latency_chart", "throughput_chart"]

STYLE: Final = """\
.chart { font: 12px system-ui, "Segoe UI", Roboto, Helvetica, Arial, sans-serif; }
.chart text { fill: #5b6774; }
.chart .strong { fill: #1c2733; font-weight: 600; }
.chart .small { font-size: 10.5px; }
.chart .grid { stroke: #e3e8ee; }
.chart .base { stroke: #a9b4c0; }
.chart .sent { fill: #2f6fb3; }
.chart .written { fill: #dd8a26; }
@media (prefers-color-scheme: dark) {
  .chart text { fill: #9aa7b5; }
  .chart .strong { fill: #e8edf2; }
  .chart .grid { stroke: #2b343e; }
  .chart .base { stroke: #5a6774; }
  .chart .sent { fill: #6aa7e6; }
  .chart .written { fill: #f0b25c; }
}
"""

_WIDTH: Final = 720
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 12, 34, 30
_INNER: Final = _WIDTH - _LEFT - _RIGHT
_THROUGHPUT_HEIGHT: Final = 250
_PANEL_HEIGHT: Final = 210
_SLOTS_MAX: Final = 60  # more bars would be too narrow
_TICKS: Final = 4
_BUCKETS: Final = (
    *(("< 1", "ms"), ("1–10", "ms"), ("10–50", "ms"), ("50–100", "ms"), ("100–200", "ms")),
    *(("200–500", "ms"), ("0.5–1", "s"), ("1–2", "s"), ("2–3", "s"), ("3–4", "s"), ("4–5", "s")),
    *(("5–10", "s"), ("> 10", "s")),
)
assert len(_BUCKETS) == len(BUCKET_NAMES)


def throughput_chart(rates: Sequence[Rate]) -> str:
    """Return a bar chart of messages sent and rows written to Parquet, by second.

    In a run of more than a minute, each bar is the average of several seconds.
    """
    seconds = max(1, ceil(len(rates) / _SLOTS_MAX))
    slots = [rates[at : at + seconds] for at in range(0, len(rates), seconds)]
    sent = [sum(rate.sent for rate in slot) / len(slot) for slot in slots]
    written = [sum(rate.written for rate in slot) / len(slot) for slot in slots]
    step = nice_step(max([*sent, *written, 1]))
    top = step * ceil(max([*sent, *written, 1]) / step)
    body = [*_legend(), *_grid(step, top)]
    room = _INNER / len(slots)
    bar = room * 0.36
    for number, (out, into) in enumerate(zip(sent, written, strict=True)):
        left = _LEFT + number * room + room * 0.12
        second = number * seconds
        body += _bar(left, bar, out / top, "sent", f"second {second + 1}: {out:,.0f} sent")
        body += _bar(
            left + bar + 1, bar, into / top, "written", f"second {second + 1}: {into:,.0f} written"
        )
    body += _seconds(len(slots), seconds, room)
    return _svg(_THROUGHPUT_HEIGHT, "Messages sent and rows written per second", body)


def latency_chart(minutes: Sequence[Sequence[int]]) -> str:
    """Return a histogram of send latencies for each minute, on a logarithmic scale."""
    body: list[str] = []
    most = log10(1 + max([1, *(max(counts) for counts in minutes)]))
    for number, counts in enumerate(minutes):
        body.append(f'<g transform="translate(0 {number * _PANEL_HEIGHT})">')
        body += _panel(number + 1, counts, most)
        body.append("</g>")
    height = _PANEL_HEIGHT * max(1, len(minutes))
    return _svg(height, "Sends by latency, for each minute", body)


def nice_step(most: float) -> int:
    """Return a round step between grid lines, so that about four fit.

    >>> nice_step(730), nice_step(8), nice_step(12_000)
    (200, 2, 5000)
    """
    rough = max(1, ceil(most / _TICKS))
    power = int(10 ** floor(log10(rough)))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough)


def _svg(height: int, label: str, body: Sequence[str]) -> str:
    lines = "\n".join(body)
    box = f'viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}"'
    return f'<svg class="chart" role="img" aria-label="{escape(label)}" {box}>\n{lines}\n</svg>'


def _text(x: float, y: float, text: str, *, anchor: str = "start", kind: str = "") -> str:
    known_options = f' class="{kind}"' if kind else ""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{known_options}>{escape(text)}</text>'
    )


def _line(y: float, kind: str) -> str:
    return f'<line class="{kind}" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'


def _legend() -> Iterator[str]:
    yield _text(_LEFT, 16, "messages per second", kind="strong")
    for at, kind, name in ((_WIDTH - 250, "sent", "sent"), (_WIDTH - 180, "written", "written")):
        yield f'<rect class="{kind}" x="{at}" y="6" width="11" height="11" rx="2"/>'
        yield _text(at + 17, 16, "in Parquet, by batch" if name == "written" else name)


def _plot_height() -> int:
    return _THROUGHPUT_HEIGHT - _TOP - _BOTTOM


def _grid(step: int, top: int) -> Iterator[str]:
    base = _TOP + _plot_height()
    for number in range(top // step + 1):
        y = base - _plot_height() * number * step / top
        yield _line(y, "grid" if number else "base")
        yield _text(_LEFT - 8, y + 4, f"{number * step:,}", anchor="end")


def _bar(x: float, width: float, share: float, kind: str, label: str) -> list[str]:
    if share <= 0:
        return []
    height = _plot_height() * share
    y = _TOP + _plot_height() - height
    place = f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"'
    return [f'<rect class="{kind}" {place} rx="1.5"><title>{escape(label)}</title></rect>']


def _seconds(slots: int, seconds: int, room: float) -> Iterator[str]:
    """Yield the labels of the seconds, as many as fit."""
    each = max(1, ceil(slots / 12))
    y = _THROUGHPUT_HEIGHT - _BOTTOM + 18
    for number in range(0, slots, each):
        unit = " s" if number + each >= slots else ""
        yield _text(
            _LEFT + (number + 0.5) * room, y, f"{1 + number * seconds}{unit}", anchor="middle"
        )


def _panel(minute: int, counts: Sequence[int], most: float) -> Iterator[str]:
    """Yield the histogram of a minute: a bar per bucket, its count above and its name below."""
    base, tallest = _PANEL_HEIGHT - 44, _PANEL_HEIGHT - 44 - 46
    left, room = 8, (_WIDTH - 16) / len(counts)
    yield _text(left, 16, f"minute {minute}", kind="strong")
    yield _text(left + 72, 16, f"{sum(counts):,} sends by latency; the scale is logarithmic")
    yield f'<line class="base" x1="{left}" x2="{_WIDTH - 8}" y1="{base}" y2="{base}"/>'
    for number, ((span, unit), count) in enumerate(zip(_BUCKETS, counts, strict=True)):
        middle = left + (number + 0.5) * room
        yield _text(middle, base + 17, span, anchor="middle", kind="small")
        yield _text(middle, base + 31, unit, anchor="middle", kind="small")
        if count:
            height = max(2.0, tallest * log10(1 + count) / most)
            place = f'x="{middle - room * 0.36:.1f}" y="{base - height:.1f}"'
            size = f'width="{room * 0.72:.1f}" height="{height:.1f}"'
            yield f'<rect class="sent" {place} {size} rx="2"/>'
            yield _text(middle, base - height - 6, f"{count:,}", anchor="middle", kind="strong")
