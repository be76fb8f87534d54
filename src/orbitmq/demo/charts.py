"""The charts of the report."""

from collections.abc import Sequence
from math import ceil
from typing import Final

from orbitmq.demo.figures import Rate
from orbitmq.demo.latency import BUCKETS, by_bucket
from orbitmq.reports.charts import Series, columns, histogram

__all__ = ["latency_chart", "throughput_chart"]

_SLOTS_MAX: Final = 60  # more bars would be too narrow


def throughput_chart(rates: Sequence[Rate], *, with_files: bool = True) -> str:
    """Return a bar chart of messages sent and rows written to Parquet, by second.

    In a run of more than a minute, each bar is the average of several seconds.
    """
    seconds = max(1, ceil(len(rates) / _SLOTS_MAX))
    slots = [rates[at : at + seconds] for at in range(0, len(rates), seconds)]
    series = [Series("sent", [sum(rate.sent for rate in slot) / len(slot) for slot in slots])]
    if with_files:
        written = [sum(rate.written for rate in slot) / len(slot) for slot in slots]
        series.append(Series("in Parquet, by batch", written))
    labels = [f"{1 + number * seconds} s" for number in range(len(slots))]
    return columns("messages per second", labels, series)


def latency_chart(send_ms: Sequence[int]) -> str:
    """Return a histogram of send latencies on a logarithmic scale."""
    return histogram(
        "send to receipt",
        f"{len(send_ms):,} sends; the scale is logarithmic",
        BUCKETS,
        by_bucket(send_ms),
    )
