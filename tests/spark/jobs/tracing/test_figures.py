"""Buckets, and what figures say in words."""

from datetime import UTC, datetime

import pytest

from orbitmq.broker.figures.throughput import Throughput
from orbitmq.spark.jobs.tracing.figures import (
    BUCKET_ENDS_MS,
    BUCKETS,
    Delay,
    GroupFigures,
    Latency,
    Minute,
    Orphans,
    TraceFigures,
    bucket_of,
    judgement,
    put_times,
)

AT_MS = int(datetime(2026, 11, 15, 9, 30, tzinfo=UTC).timestamp() * 1000)


def minute(slow: int, broker: str = "10.0.0.1:10911", at: int = 0) -> Minute:
    counts = [0] * len(BUCKETS)
    counts[1], counts[4], counts[12] = 500, slow - slow // 2, slow // 2
    return Minute(AT_MS + at * 60_000, broker, tuple(counts))


def said(found: TraceFigures) -> str:
    return "\n".join(judgement(found))


def about(*minutes: Minute) -> str:
    return said(TraceFigures(counts={}, minutes=minutes, put_times=tuple(put_times(minutes))))


@pytest.mark.parametrize(
    "cost_ms", sorted({0, 1, 100_000} | {end + by for end in BUCKET_ENDS_MS for by in (-1, 0, 1)})
)
def test_the_buckets_are_those_of_the_broker(cost_ms: int) -> None:
    broker = Throughput(now_ms=0)
    broker.put(count=1, size=1, elapsed_ms=cost_ms)
    broker.sample(60_000)
    counts = [int(part.rpartition(":")[2]) for part in broker.distribution().split()]
    assert len(counts) == len(BUCKETS)
    assert counts.index(1) == bucket_of(cost_ms)


@pytest.mark.parametrize(
    ("slow", "kind"), [(0, "fine"), (1, "jitter"), (20, "jitter"), (21, "slow")]
)
def test_more_than_twenty_slow_puts_a_minute_are_slow(slow: int, kind: str) -> None:
    (one,) = put_times([minute(slow)])
    assert (one.kind, one.slow, one.puts) == (kind, slow, 500 + slow)


def test_twenty_a_minute_for_long_stay_jitter() -> None:
    (one,) = put_times([minute(20, at=at) for at in range(50)])
    assert (one.kind, one.slow, one.minutes) == ("jitter", 1_000, 50)


def test_the_worst_broker_and_its_worst_minute_come_first() -> None:
    calm, slow = "10.0.0.1:10911", "10.0.0.2:10911"
    text = about(minute(2, calm), minute(30, slow), minute(90, slow, at=7), minute(0, slow, at=9))
    first, second = text.splitlines()
    assert first.startswith(f"Sends to {slow} were slow: in 2 of 3 minutes")
    assert "(worst: 90 sends at 2026-11-15 09:37 UTC)" in first
    assert second.startswith(f"{calm} shows jitter: 2 of 502 sends")


def test_a_calm_broker() -> None:
    assert about(minute(0)) == "No send to 10.0.0.1:10911 took 100 ms or more."


TIMES = {"p50_ms": 1, "p95_ms": 2, "p99_ms": 3, "max_ms": 4}


def of_billing(outcomes: dict[str, int]) -> TraceFigures:
    group = GroupFigures(
        group="billing", deliveries=9, redeliveries=0, results=9, outcomes=outcomes
    )
    return TraceFigures(counts={}, groups=(group,))


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (
            TraceFigures(counts={}, topics=(Latency(name="a", sends=9, failed=1, **TIMES),)),
            "1 send failed",
        ),
        (
            of_billing({"success": 6, "failed": 1, "exception": 2}),
            "Listeners of billing failed on 3 of 9: exception 2, failed 1.",
        ),
        (
            of_billing({"success": 6, "failed": 3}),
            "Listeners of billing failed on 3 of 9.",
        ),
        (
            TraceFigures(
                counts={},
                orphans=(
                    Orphans(
                        kind="never delivered",
                        group="billing",
                        topic="orders",
                        count=2,
                        message_ids=("7F01", "7F02"),
                    ),
                ),
            ),
            "2 messages of orders never reached billing, such as 7F01",
        ),
        (
            TraceFigures(
                counts={},
                delays=(Delay(topic="a", group="b", deliveries=3, negative=1, **TIMES),),
            ),
            "1 delivery came before the send",
        ),
        (TraceFigures(counts={"malformed": 2}), "2 records could not be read"),
    ],
)
def test_what_stands_out_is_said(found: TraceFigures, words: str) -> None:
    assert words in said(found)


def test_nothing_is_said_of_nothing() -> None:
    assert said(TraceFigures(counts={})) == ""
