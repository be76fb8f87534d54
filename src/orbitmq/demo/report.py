"""The HTML report of a demo run: one file without external resources."""

from collections.abc import Iterable, Iterator
from typing import Final

from orbitmq.demo.charts import latency_chart, throughput_chart
from orbitmq.demo.figures import Comparison, Measured, Streamed
from orbitmq.demo.latency import shown_ms
from orbitmq.reports.page import Page, Tile, links, note, paragraph, table

__all__ = ["amount", "page", "verdict"]

_INTRODUCTION: Final = (
    "One run of orbitmq demo: a broker, a producer, two consumers and Spark on one machine. All "
    "figures were measured in this run."
)
_BY_BATCH: Final = "A batch of the stream counts in the second when its files were complete."
_BY_LATENCY: Final = (
    "The scale is logarithmic, so that a few slow sends are visible beside thousands of fast ones. "
    "The first send, which made Spark start its workers, is left out."
)
_BY_PERCENTILE: Final = (
    "p99: 99 of 100 took no longer. From stored to handler is by the clock of the broker, and "
    "without deliveries after a failure; from send to Parquet is until a file is complete."
)
_TOTALS: Final = ("state", "messages", "amount", "rows in files", "amount")
_SPREADS: Final = ("", "p50", "p90", "p99", "p99.9", "longest")
_JOBS: Final = (
    ("traces.html", "Traces: how long sends and handlers took, what failed, what nobody got"),
    ("reconcile.html", "Reconcile: what the producer says it sent, against what is stored"),
)


def page(measured: Measured) -> str:
    """Return the report of a run as an HTML page."""
    streamed = measured.streamed
    made = Page(
        "A shop's orders, from broker to Parquet" if streamed else "A shop's orders on a broker",
        _INTRODUCTION,
        title=f"orbitmq demo: {measured.sent:,} messages",
    )
    made.tiles(_tiles(measured))
    throughput = throughput_chart(measured.rates, with_files=streamed is not None)
    made.section("Throughput", throughput, *([note(_BY_BATCH)] if streamed else []))
    spreads = [(name, *map(shown_ms, found[1:])) for name, found in measured.spreads]
    made.section(
        "Latency",
        latency_chart(measured.send_ms),
        note(_BY_LATENCY),
        table(_SPREADS, spreads),
        note(_BY_PERCENTILE),
    )
    if streamed is not None:
        compared = streamed.comparison
        made.section("Topic and files", table(_TOTALS, _totals(compared)), note(verdict(compared)))
        made.section("Jobs", links(_JOBS), *map(paragraph, streamed.jobs.judgement))
    made.section("All figures", table((), measured.summary, facts=True))
    made.section("This run", table((), measured.facts, facts=True))
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
    yield Tile(f"{measured.sent:,}", "messages sent")
    yield Tile(f"{max(rate.sent for rate in measured.rates):,}", "in the busiest second")
    (_, sends), *_ = measured.spreads
    yield Tile(shown_ms(sends.p50_ms), "from send to receipt, median")
    if measured.streamed is not None:
        yield from _tiles_of_spark(measured.streamed)
    elif measured.is_right:
        yield Tile("all", "were consumed", "good")
    else:
        yield Tile(f"{measured.billed.missing:,}", "were not consumed", "bad")


def _tiles_of_spark(streamed: Streamed) -> Iterator[Tile]:
    yield Tile(shown_ms(streamed.comparison.arrived.p50_ms), "from send to file, median")
    if streamed.comparison.is_equal:
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
