import pytest

from orbitmq.client.observe.consume_statistics import ConsumeStatistics
from orbitmq.wire.bodies.running import ConsumeStatus


class HandClock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.at_ms = 5_000

    def now_ms(self) -> int:
        return self.at_ms

    def monotonic_ms(self) -> int:
        return self.at_ms


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def statistics(clock: HandClock) -> ConsumeStatistics:
    return ConsumeStatistics("billing", clock)


def test_rates_and_durations_are_those_of_the_last_minute(
    statistics: ConsumeStatistics, clock: HandClock
) -> None:
    for _ in range(120):  # twenty minutes, a call each ten seconds
        statistics.pulled("orders", 60, took_ms=4)
        statistics.consumed("orders", 50, took_ms=20)
        statistics.failed("orders", 10)
        clock.at_ms += 10_000
    found = statistics.status("orders")
    assert found == ConsumeStatus(
        pull_rt=4.0,
        pull_tps=6.0,
        consume_rt=20.0,
        consume_ok_tps=5.0,
        consume_failed_tps=1.0,
        consume_failed_msgs=1_200,
    )


def test_an_idle_topic_keeps_what_java_takes_from_the_last_hour(
    statistics: ConsumeStatistics, clock: HandClock
) -> None:
    statistics.consumed("orders", 1, took_ms=10)
    statistics.failed("orders", 3, took_ms=30)
    clock.at_ms += 70_001
    found = statistics.status("orders")
    assert found == ConsumeStatus(consume_rt=20.0, consume_failed_msgs=3)
    clock.at_ms += 70 * 60_000
    assert statistics.status("orders") == ConsumeStatus()


def test_a_long_pause_leaves_nothing_of_before_in_the_minute(
    statistics: ConsumeStatistics, clock: HandClock
) -> None:
    statistics.consumed("orders", 1_000, took_ms=10)
    clock.at_ms += 24 * 3_600_000
    statistics.consumed("orders", 60, took_ms=10)
    clock.at_ms += 5_000
    assert statistics.status("orders").consume_ok_tps <= 60 / 5
    assert statistics.status("orders").consume_failed_msgs == 0


def test_several_calls_may_be_counted_at_once(statistics: ConsumeStatistics) -> None:
    statistics.consumed("orders", 4, took_ms=40, calls=2)
    assert statistics.status("orders").consume_rt == 20.0


def test_reading_changes_nothing(statistics: ConsumeStatistics, clock: HandClock) -> None:
    statistics.consumed("orders", 60, took_ms=10)
    clock.at_ms += 30_000
    assert statistics.status("orders") == statistics.status("orders")
    assert statistics.status("orders").consume_ok_tps == 2.0


def test_a_topic_without_counts_has_zeros(statistics: ConsumeStatistics) -> None:
    assert statistics.status("orders") == ConsumeStatus()


def test_prometheus_gets_counters_since_the_start(
    statistics: ConsumeStatistics, clock: HandClock
) -> None:
    statistics.pulled("orders", 32, took_ms=1_500)
    clock.at_ms += 3_600_000
    statistics.consumed("orders", 30, took_ms=250)
    statistics.failed("orders", 2)
    labels = '{group="billing",topic="orders"}'
    page = statistics.prometheus().splitlines()
    assert [line for line in page if not line.startswith("#")] == [
        f"orbitmq_consumer_pulled_messages_total{labels} 32",
        f"orbitmq_consumer_pull_seconds_sum{labels} 1.5",
        f"orbitmq_consumer_pull_seconds_count{labels} 1",
        f"orbitmq_consumer_consumed_messages_total{labels} 30",
        f"orbitmq_consumer_failed_messages_total{labels} 2",
        f"orbitmq_consumer_consume_seconds_sum{labels} 0.25",
        f"orbitmq_consumer_consume_seconds_count{labels} 1",
    ]
    assert repr(statistics) == "<ConsumeStatistics of billing: 30 consumed, 2 failed>"
