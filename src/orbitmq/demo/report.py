"""The HTML report of a demo run: one file without external resources."""

from collections.abc import Iterable, Sequence
from html import escape
from typing import Final

from orbitmq.demo.charts import STYLE, latency_chart, throughput_chart
from orbitmq.demo.figures import Comparison, Measured

__all__ = ["page"]

_PAGE: Final = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>orbitmq demo: {title}</title>
<style>
{style}
</style>
</head>
<body>
<main>
<header>
<h1>A shop's orders, from broker to Parquet</h1>
<p>One run of <code>orbitmq demo</code>: messages were sent to a broker, streamed into Parquet by
Spark while they arrived, and then counted in the topic and in the files.</p>
</header>
<section class="tiles">
{tiles}
</section>
<section>
<h2>Throughput</h2>
{throughput}
<p class="note">A batch of the stream counts in the second when its files were complete.</p>
</section>
<section>
<h2>Send latency</h2>
{latency}
<p class="note">The scale is logarithmic, so that a few slow sends are visible beside thousands of
fast ones. The first send, which made Spark start its workers, is left out. Broker, producer and
Spark ran on one machine.</p>
</section>
<section>
<h2>Topic and files</h2>
{comparison}
<p class="note">{verdict}</p>
</section>
<section>
<h2>All figures</h2>
{summary}
</section>
</main>
</body>
</html>
"""

_PAGE_STYLE: Final = """\
:root {
  --page: #f4f6f9; --card: #ffffff; --ink: #1c2733; --soft: #5b6774; --line: #e3e8ee;
  --good: #1d7f4e; --bad: #b3372f;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #0f1317; --card: #171c22; --ink: #e8edf2; --soft: #9aa7b5; --line: #2b343e;
    --good: #5fcf97; --bad: #ff8a80;
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
header p { color: var(--soft); margin: 0 0 24px; max-width: 62ch; }
section {
  overflow-x: auto;
  background: var(--card); border: 1px solid var(--line); border-radius: 10px;
  padding: 20px 24px; margin: 0 0 16px;
}
.tiles { display: flex; flex-wrap: wrap; gap: 16px 8px; }
.tile { flex: 1 1 120px; }
.tile b { display: block; font-size: 24px; line-height: 1.25; font-weight: 650; }
.tile span { color: var(--soft); font-size: 13px; }
.good b { color: var(--good); }
.bad b { color: var(--bad); }
svg.chart { display: block; width: 100%; height: auto; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: 6px 0 6px 16px; border-bottom: 1px solid var(--line); }
th:first-child, td:first-child { text-align: left; padding-left: 0; }
tr:last-child td { border-bottom: 0; }
th { color: var(--soft); font-weight: 500; font-size: 13px; }
.facts td { text-align: left; }
.facts td:first-child { color: var(--soft); width: 34%; }
.note { color: var(--soft); font-size: 13px; margin: 12px 0 0; }
code { font: 0.92em ui-monospace, Menlo, Consolas, monospace; }
"""


def page(measured: Measured) -> str:
    """Return the report of a run as an HTML page."""
    compared = measured.comparison
    return _PAGE.format(
        title=f"{measured.sent:,} messages",
        style=_PAGE_STYLE + STYLE,
        tiles="\n".join(_tiles(measured)),
        throughput=throughput_chart(measured.rates),
        latency=latency_chart(measured.latencies),
        comparison=_table(
            ("state", "messages", "amount", "rows in files", "amount"), _totals(compared)
        ),
        verdict=escape(verdict(compared)),
        summary=_table((), measured.summary, kind="facts"),
    )


def verdict(compared: Comparison) -> str:
    """Return a sentence that says whether topic and files have the same rows."""
    if compared.is_equal:
        return "Topic and files have the same rows, in order for each customer."
    return (
        f"Topic and files differ: {compared.missing:,} rows are missing in the files, "
        f"{compared.extra:,} should not be there, {compared.out_of_order:,} are out of order."
    )


def _tiles(measured: Measured) -> Iterable[str]:
    compared = measured.comparison
    median_ms = compared.arrived_ms[0]
    facts = (
        ("", f"{measured.sent:,}", "messages sent"),
        ("", f"{max(rate.sent for rate in measured.rates):,}", "in the busiest second"),
        ("", f"{measured.written:,}", "rows in Parquet"),
        ("", f"{median_ms / 1000:.1f} s", "from send to file, median"),
        ("good", "equal", "topic and files")
        if compared.is_equal
        else ("bad", "not equal", "topic and files"),
    )
    for kind, figure, label in facts:
        classes = f"tile {kind}".rstrip()
        yield f'<div class="{classes}"><b>{escape(figure)}</b><span>{escape(label)}</span></div>'


def _totals(compared: Comparison) -> list[tuple[str, ...]]:
    return [
        (
            total.state,
            f"{total.topic_messages:,}",
            amount(total.topic_cents),
            f"{total.file_rows:,}",
            amount(total.file_cents),
        )
        for total in compared.totals
    ]


def amount(cents: int) -> str:
    """Return an amount of money.

    >>> amount(1_234_560)
    '12,345.60'
    """
    return f"{cents / 100:,.2f}"


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]], *, kind: str = "") -> str:
    known_options = f' class="{kind}"' if kind else ""
    lines = [_row("th", heads)] if heads else []
    lines += [_row("td", row) for row in rows]
    return "\n".join([f"<table{known_options}>", *lines, "</table>"])


def _row(tag: str, cells: Iterable[str]) -> str:
    return f"<tr>{''.join(f'<{tag}>{escape(cell)}</{tag}>' for cell in cells)}</tr>"
