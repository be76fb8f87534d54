"""The charts of the report."""

from collections.abc import Sequence
from math import ceil
from typing import Final

from orbitmq.client.observe.statistics import BUCKET_NAMES
from orbitmq.demo.figures import Rate
from orbitmq.reports.charts import Series, columns, stacked

__all__ = ["latency_chart", "throughput_chart"]

_SLOTS_MAX: Final = 60  # more bars would be too narrow
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
    return columns(
        "messages per second",
        [f"{1 + number * seconds} s" for number in range(len(slots))],
        [
            Series("sent", [sum(rate.sent for rate in slot) / len(slot) for slot in slots]),
            Series(
                "in Parquet, by batch",
                [sum(rate.written for rate in slot) / len(slot) for slot in slots],
            ),
        ],
    )


def latency_chart(minutes: Sequence[Sequence[int]]) -> str:
    """Return a histogram of send latencies for each minute, on a logarithmic scale."""
    panels = [
        (f"minute {number}", f"{sum(counts):,} sends by latency; the scale is logarithmic", counts)
        for number, counts in enumerate(minutes, 1)
    ]
    return stacked("Sends by latency, for each minute", panels, _BUCKETS)
