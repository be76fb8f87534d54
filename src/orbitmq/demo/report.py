"""The page that a run of the demo leaves: one file, which needs nothing from anywhere else."""

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
<p>One run of <code>orbitmq demo</code>: messages sent to a broker, streamed by Spark into Parquet
while they arrived, then counted in the topic and in the files.</p>
</header>
<section class="tiles">
{tiles}
</section>
<section>
<h2>Throughput</h2>
{throughput}
<p class="note">A batch of the stream counts in the second in which its files were complete.</p>
</section>
<section>
<h2>Latency of sends</h2>
{latency}
<p class="note">The heights are logarithmic, so that a few slow ones show beside thousands of quick
ones. The very first send is left out: it had Spark start its workers. Broker, producer and Spark
shared one machine.</p>
</section>
<section>
<h2>Topic and files</h2>
{comparison}
<p class="note">{verdict}</p>
</section>
<section>
<h2>What was measured</h2>
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
    """Return the report on a run as a whole HTML page."""
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
    """Return in a sentence whether topic and files hold the same."""
    if compared.is_equal:
        return "Row by row the same, and in order for each customer."
    return (
        f"They differ: {compared.missing:,} rows are missing in the files, {compared.surplus:,} "
        f"should not be there, {compared.out_of_order:,} are out of order."
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
    """Return a sum of money.

    >>> amount(1_234_560)
    '12,345.60'
    """
    return f"{cents / 100:,.2f}"


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]], *, kind: str = "") -> str:
    named = f' class="{kind}"' if kind else ""
    lines = [_row("th", heads)] if heads else []
    lines += [_row("td", row) for row in rows]
    return "\n".join([f"<table{named}>", *lines, "</table>"])


def _row(tag: str, cells: Iterable[str]) -> str:
    return f"<tr>{''.join(f'<{tag}>{escape(cell)}</{tag}>' for cell in cells)}</tr>"
