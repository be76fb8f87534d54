"""The HTML report of a demo run: one file without external resources."""

from collections.abc import Iterable
from typing import Final

from orbitmq.demo.charts import latency_chart, throughput_chart
from orbitmq.demo.figures import Comparison, Measured
from orbitmq.reports.page import Page, Tile, note, table

__all__ = ["page"]

_INTRODUCTION: Final = (
    "One run of orbitmq demo: messages were sent to a broker, streamed into Parquet by Spark while "
    "they arrived, and then counted in the topic and in the files."
)
_BY_BATCH: Final = "A batch of the stream counts in the second when its files were complete."
_BY_LATENCY: Final = (
    "The scale is logarithmic, so that a few slow sends are visible beside thousands of fast ones. "
    "The first send, which made Spark start its workers, is left out. Broker, producer and Spark "
    "ran on one machine."
)
_TOTALS: Final = ("state", "messages", "amount", "rows in files", "amount")


def page(measured: Measured) -> str:
    """Return the report of a run as an HTML page."""
    compared = measured.comparison
    made = Page(
        "A shop's orders, from broker to Parquet",
        _INTRODUCTION,
        title=f"orbitmq demo: {measured.sent:,} messages",
    )
    made.tiles(_tiles(measured))
    made.section("Throughput", throughput_chart(measured.rates), note(_BY_BATCH))
    made.section("Send latency", latency_chart(measured.latencies), note(_BY_LATENCY))
    made.section("Topic and files", table(_TOTALS, _totals(compared)), note(verdict(compared)))
    made.section("All figures", table((), measured.summary, facts=True))
    return made.html()


def verdict(compared: Comparison) -> str:
    """Return a sentence that says whether topic and files have the same rows."""
    if compared.is_equal:
        return "Topic and files have the same rows, in order for each customer."
    return (
        f"Topic and files differ: {compared.missing:,} rows are missing in the files, "
        f"{compared.extra:,} should not be there, {compared.out_of_order:,} are out of order."
    )


def _tiles(measured: Measured) -> Iterable[Tile]:
    compared = measured.comparison
    median_ms = compared.arrived_ms[0]
    yield Tile(f"{measured.sent:,}", "messages sent")
    yield Tile(f"{max(rate.sent for rate in measured.rates):,}", "in the busiest second")
    yield Tile(f"{measured.written:,}", "rows in Parquet")
    yield Tile(f"{median_ms / 1000:.1f} s", "from send to file, median")
    if compared.is_equal:
        yield Tile("equal", "topic and files", "good")
    else:
        yield Tile("not equal", "topic and files", "bad")


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
