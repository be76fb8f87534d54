import logging

import pytest

from orbitmq.broker.figures.throughput import Throughput
from orbitmq.client.admin.results import BrokerStatus

BUCKETS_MS = (0, 9, 49, 99, 199, 499, 999, 1_999, 2_999, 3_999, 4_999, 9_999, 10_000)


def sampled(passed: Throughput, first_s: int, last_s: int) -> None:
    for second in range(first_s, last_s + 1):
        passed.sample(second * 1_000)


def test_each_of_the_thirteen_buckets_gets_its_put() -> None:
    passed = Throughput(now_ms=0)
    for times, elapsed_ms in enumerate(BUCKETS_MS, start=1):
        passed.put(1, 100, elapsed_ms, times)
    passed.sample(60_000)
    counts = [int(part.rpartition(":")[2]) for part in passed.distribution().split()]
    assert counts == list(range(1, 14))


def test_a_bucket_begins_where_the_one_before_it_ends() -> None:
    passed = Throughput(now_ms=0)
    passed.put(1, 100, 10)
    passed.sample(60_000)
    assert "[0~10ms]:0 [10~50ms]:1 " in passed.distribution()


def test_the_distribution_is_logged_after_each_minute_with_puts(
    caplog: pytest.LogCaptureFixture,
) -> None:
    passed = Throughput(now_ms=0)
    passed.put(3, 300, 0, times=3)
    with caplog.at_level(logging.INFO, logger="orbitmq.broker"):
        sampled(passed, 1, 119)
    (line,) = caplog.messages
    assert line == "[PAGECACHERT] TotalPut 3, PutMessageDistributeTime [<=0ms]:3"


def test_an_idle_broker_logs_no_distribution(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="orbitmq.broker"):
        sampled(Throughput(now_ms=0), 1, 600)
    assert caplog.messages == []


def test_a_minute_without_puts_shows_none_of_the_one_before() -> None:
    passed = Throughput(now_ms=0)
    passed.put(3, 300, 0)
    sampled(passed, 1, 120)
    assert passed.distribution().startswith("[<=0ms]:0 ")


def test_rates_appear_as_soon_as_there_are_samples_for_them() -> None:
    passed = Throughput(now_ms=0)
    for second in range(1, 61):
        passed.put(5, 500, 0)
        passed.got(3)
        passed.sample(second * 1_000)
    assert passed.rates("put") == (5.0, 5.0, None)
    info = passed.info(60_000)
    assert info["putTps"] == "5.0 5.0 "
    assert info["getTransferredTps"] == "3.0 3.0 "
    assert info["getFoundTps"] == "1.0 1.0 "
    assert info["getTotalTps"] == "1.0 1.0 0.0"


def test_samples_are_bounded() -> None:
    passed = Throughput(now_ms=0)
    passed.put(600, 1, 0)
    sampled(passed, 1, 1_000)
    assert passed.rates("put")[2] == 0.0  # what came before the last ten minutes is forgotten


def test_after_the_clock_is_set_back_sampling_starts_again() -> None:
    passed = Throughput(now_ms=1_000_000)
    sampled(passed, 1_001, 1_020)
    passed.put(10, 1, 0)
    passed.sample(5_000)
    assert passed.rates("put") == (None, None, None)


def test_percentiles_lie_inside_the_bucket() -> None:
    passed = Throughput(now_ms=0)
    passed.put(99, 1, 3, times=99)
    passed.put(1, 1, 700, times=1)
    passed.sample(60_000)
    assert 2 < passed.latency_ms(0.5) <= 3
    assert 600 < passed.latency_ms(1.0) <= 700


def test_a_broker_whose_clock_was_set_back_tells_so() -> None:
    info = Throughput(now_ms=3_605_005).info(5)
    assert info["runtime"] == "[ 0 days, -1 hours, 0 minutes, -5 seconds ]"
    assert BrokerStatus.of(info).now_ms == 5


def test_totals_tell_java_s_words() -> None:
    passed = Throughput(now_ms=5)
    passed.put(2, 300, 7)
    passed.put_failed(4)
    passed.got(1, elapsed_ms=9)
    passed.got(1, elapsed_ms=3)
    info = passed.info(3_605_005)
    assert info["bootTimestamp"] == "5"
    assert info["runtime"] == "[ 0 days, 1 hours, 0 minutes, 5 seconds ]"
    assert info["putMessageTimesTotal"] == "2"
    assert info["putMessageSizeTotal"] == "300"
    assert info["putMessageAverageSize"] == "150.0"
    assert info["putMessageFailedTimes"] == "4"
    assert info["putMessageEntireTimeMax"] == "7"
    assert info["getMessageEntireTimeMax"] == "9"
