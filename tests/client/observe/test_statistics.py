from itertools import pairwise

import pytest

from orbitmq.client.observe.statistics import BUCKET_NAMES, SendStatistics
from orbitmq.errors import SendUnreachable
from orbitmq.message.model import SendStatus

OK = SendStatus.SEND_OK


@pytest.mark.parametrize(
    ("took_ms", "bucket"),
    [
        (0, "<=0ms"),
        (1, "0~10ms"),
        (9, "0~10ms"),
        (10, "10~50ms"),
        (999, "500ms~1s"),
        (1_000, "1~2s"),
        (9_999, "5~10s"),
        (10_000, "10s~"),
        (1_000_000, "10s~"),
    ],
)
def test_a_time_falls_into_the_bucket_that_brokers_have_for_it(took_ms: int, bucket: str) -> None:
    statistics = SendStatistics("billing", now_ms=0)
    statistics.stored(OK, took_ms, now_ms=5)
    found = statistics.last_minute(now_ms=60_000)
    assert {name for name, count in found.items() if count} == {bucket}


def test_what_is_served_is_the_last_whole_minute() -> None:
    statistics = SendStatistics("billing", now_ms=0)
    statistics.stored(OK, 3, now_ms=59_999)
    assert sum(statistics.last_minute(now_ms=59_999).values()) == 0
    statistics.stored(OK, 3, now_ms=60_000)
    assert sum(statistics.last_minute(now_ms=60_001).values()) == 1
    assert sum(statistics.last_minute(now_ms=120_000).values()) == 1
    assert sum(statistics.last_minute(now_ms=180_000).values()) == 0


def test_after_a_silence_the_last_minute_was_empty() -> None:
    statistics = SendStatistics("billing", now_ms=0)
    statistics.stored(OK, 3, now_ms=10)
    assert sum(statistics.last_minute(now_ms=500_000).values()) == 0


def test_figures_have_prometheus_names() -> None:
    statistics = SendStatistics('bil"ling', now_ms=0)
    statistics.stored(OK, 3, now_ms=10, count=16)
    statistics.stored(SendStatus.FLUSH_DISK_TIMEOUT, 700, now_ms=70_000)
    statistics.failed_with(SendUnreachable("x", topic="t", send_id="i"), count=2)
    statistics.failed_with(TimeoutError())
    statistics.retried()
    statistics.left()
    assert (statistics.sent, statistics.failed) == (17, 3)
    lines = statistics.prometheus().splitlines()
    for line in (
        'orbitmq_producer_messages_total{group="bil\\"ling",status="SEND_OK"} 16',
        'orbitmq_producer_messages_total{group="bil\\"ling",status="FLUSH_DISK_TIMEOUT"} 1',
        'orbitmq_producer_errors_total{group="bil\\"ling",error="SendUnreachable"} 2',
        'orbitmq_producer_errors_total{group="bil\\"ling",error="TimeoutError"} 1',
        'orbitmq_producer_retries_total{group="bil\\"ling"} 1',
        'orbitmq_producer_oneway_messages_total{group="bil\\"ling"} 1',
        'orbitmq_producer_send_seconds_bucket{group="bil\\"ling",le="0.01"} 1',
        'orbitmq_producer_send_seconds_bucket{group="bil\\"ling",le="1"} 2',
        'orbitmq_producer_send_seconds_bucket{group="bil\\"ling",le="+Inf"} 2',
        'orbitmq_producer_send_seconds_sum{group="bil\\"ling"} 0.703',
        'orbitmq_producer_send_seconds_count{group="bil\\"ling"} 2',
    ):
        assert line in lines
    buckets = [line for line in lines if "_bucket" in line]
    assert buckets == sorted(buckets, key=lambda line: int(line.split()[-1]))


@pytest.mark.parametrize("took_ms", [0, 1, 2, 3, 4, 5, 9, 10, 14, 49, 99, 999, 9_999, 10_000])
def test_a_duration_is_within_the_first_bucket_that_is_not_shorter(took_ms: int) -> None:
    statistics = SendStatistics("billing", now_ms=0)
    statistics.stored(OK, took_ms, now_ms=10)
    buckets = [one for one in statistics.samples() if one.name.endswith("_bucket")]
    within = next(float(dict(one.labels)["le"]) for one in buckets if one.value)
    assert took_ms < within * 1_000
    shorter = [float(dict(one.labels)["le"]) for one in buckets if not one.value]
    assert all(end * 1_000 <= took_ms for end in shorter)


def test_one_millisecond_and_nine_are_told_apart() -> None:
    def page(took_ms: int) -> str:
        statistics = SendStatistics("billing", now_ms=0)
        statistics.stored(OK, took_ms, now_ms=10)
        return statistics.prometheus()

    def buckets(took_ms: int) -> list[str]:
        return [line for line in page(took_ms).splitlines() if "_bucket" in line]

    assert buckets(1) != buckets(3) != buckets(9) != buckets(1)


def test_the_buckets_of_brokers_are_sums_of_ours() -> None:
    statistics = SendStatistics("billing", now_ms=0)
    for took_ms in range(12_000):
        statistics.stored(OK, took_ms, now_ms=10)
    ends = (0, 1, 10, 50, 100, 200, 500, 1_000, 2_000, 3_000, 4_000, 5_000, 10_000, 12_000)
    counts = [end - begin for begin, end in pairwise(ends)]
    assert statistics.last_minute(60_000) == dict(zip(BUCKET_NAMES, counts, strict=True))


def test_kinds_of_errors_are_bounded() -> None:
    statistics = SendStatistics("billing", now_ms=0)
    for number in range(150):
        statistics.failed_with(type(f"Error{number}", (Exception,), {})())
    errors = [sample for sample in statistics.samples() if "errors" in sample.name]
    assert len(errors) == 101
    assert statistics.failed == 150


def test_messages_that_were_stored_together_are_counted_like_single_ones() -> None:
    together = SendStatistics("billing", now_ms=0)
    together.stored(OK, 3, now_ms=5, count=2, frames=2)
    single = SendStatistics("billing", now_ms=0)
    for _ in range(2):
        single.stored(OK, 3, now_ms=5)
    assert together.prometheus() == single.prometheus()
    assert together.last_minute(60_000) == single.last_minute(60_000)
