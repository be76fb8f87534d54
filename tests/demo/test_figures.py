"""From samples to figures: by second, by minute, in words."""

import pytest

from orbitmq.client.observe.statistics import SendStatistics
from orbitmq.demo.figures import Batch, Rate, Sample, sample, within
from orbitmq.message.model import SendStatus
from tests.demo.measured import buckets, comparison, measured


def test_a_sample_counts_sends_by_bucket() -> None:
    statistics = SendStatistics("shop", now_ms=0)
    for took_ms in (0, 3, 4, 60):
        statistics.stored(SendStatus.SEND_OK, took_ms=took_ms, now_ms=took_ms)
    assert sample(statistics, 70) == Sample(70, 4, buckets(b0=1, b1=2, b3=1))


def test_sends_and_rows_are_counted_by_second() -> None:
    assert measured().rates == [Rate(15, 0), Rate(0, 15), Rate(10, 0), Rate(0, 10)]


def test_a_second_ends_with_its_last_millisecond() -> None:
    samples = (Sample(0, 0, buckets()), Sample(1_000, 5, buckets(b0=5)))
    run = measured(samples=samples, batches=(Batch(1_001, 5),))
    assert run.rates == [Rate(5, 0), Rate(0, 5)]


def test_latencies_are_counted_by_minute() -> None:
    samples = (
        Sample(0, 0, buckets()),
        Sample(30_000, 3, buckets(b0=3)),
        Sample(59_000, 5, buckets(b0=3, b1=2)),
        Sample(130_000, 9, buckets(b0=3, b1=2, b5=4)),
    )
    assert measured(samples=samples).latencies == [buckets(b0=3, b1=2), buckets(), buckets(b5=4)]


@pytest.mark.parametrize(
    ("counts", "percent", "words"),
    [
        (buckets(b0=1), 50, "under 1 ms"),
        (buckets(b0=50, b1=50), 50, "under 1 ms"),
        (buckets(b0=49, b1=51), 50, "under 10 ms"),
        (buckets(b1=98, b7=2), 99, "under 2 s"),
        (buckets(b12=1), 99, "over 10 s"),
    ],
)
def test_the_latency_of_a_percentile(counts: tuple[int, ...], percent: int, words: str) -> None:
    assert within(counts, percent) == words


def test_the_summary_has_all_figures() -> None:
    assert dict(measured().summary) == {
        "broker ready": "85 ms",
        "Spark ready": "6.2 s (Spark 4.3.0, Java 17.0.15)",
        "messages sent": "25, 2 of them delayed by one second",
        "sent per second": "10, the pace of the shop",
        "send latency": "under 10 ms (median), under 50 ms (p99)",
        "written to Parquet": "25 rows in 2 batches",
        "from send to Parquet": "1.4 s (median), 3.8 s (p99)",
        "query on the topic": "1.8 s",
        "query on the files": "420 ms",
        "rows missing, extra": "0, 0",
        "rows out of order": "0",
    }


def test_topic_and_files_are_equal_only_if_nothing_is_wrong() -> None:
    assert comparison().is_equal
    assert not comparison(missing=1).is_equal
    assert not comparison(extra=1).is_equal
    assert not comparison(out_of_order=1).is_equal
