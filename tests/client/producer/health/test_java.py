"""How long Java's ways keep away from a broker; their tables are golden."""

import pytest

from orbitmq.client.producer.health.health import AttemptOutcome, Standing
from orbitmq.client.producer.health.java import (
    JAVA4_PENALTIES,
    JAVA5_PENALTIES,
    Java4Health,
    Java5Health,
    Penalties,
    penalty_ms,
)
from tests.golden_files import golden

GOLDEN = golden("fault_strategy")
A, B, C = "broker-a", "broker-b", "broker-c"
GOOD, BARRED, BAD = Standing.GOOD, Standing.BARRED, Standing.BAD

FAILED = [AttemptOutcome.REFUSED, AttemptOutcome.UNHEALTHY, AttemptOutcome.NO_ANSWER]


@pytest.mark.parametrize(
    ("penalties", "release"), [(JAVA5_PENALTIES, "5x"), (JAVA4_PENALTIES, "4x")]
)
def test_penalties_are_java_s(penalties: Penalties, release: str) -> None:
    for case in GOLDEN[f"cases_{release}"]:
        assert penalty_ms(penalties, case["latency_ms"]) == case["not_available_ms"], case
    assert [least for least, _ in penalties] == GOLDEN[f"latency_max_{release}"]
    assert [barred for _, barred in penalties] == GOLDEN[f"not_available_duration_{release}"]


@pytest.mark.parametrize("case", GOLDEN["cases_5x"], ids=lambda case: f"{case['latency_ms']}ms")
def test_java5_bars_a_slow_broker_for_as_long_as_the_table_says(case: dict[str, int]) -> None:
    health = Java5Health()
    health.learn(A, AttemptOutcome.STORED, case["latency_ms"], 1_000)
    end_ms = 1_000 + case["not_available_ms"]
    assert health.standing(A, end_ms) is GOOD
    if case["not_available_ms"]:
        assert health.standing(A, end_ms - 1) is BARRED


def test_java5_takes_a_failure_for_ten_seconds_whatever_it_took() -> None:
    as_ms = GOLDEN["isolation_uses_latency_ms"]
    for outcome in FAILED:
        health = Java5Health()
        health.learn(A, outcome, 1, 0)
        end_ms = penalty_ms(JAVA5_PENALTIES, as_ms)
        assert health.standing(A, end_ms - 1) is not GOOD
        assert health.standing(A, end_ms) is GOOD


def test_java5_only_ever_extends_a_time() -> None:
    health = Java5Health()
    health.learn(A, AttemptOutcome.NO_ANSWER, 1, 0)
    health.learn(A, AttemptOutcome.STORED, 600, 100)
    assert health.standing(A, 9_999) is BARRED
    health.learn(A, AttemptOutcome.STORED, 3, 200)
    assert health.standing(A, 9_999) is BARRED
    health.learn(A, AttemptOutcome.NO_ANSWER, 1, 5_000)
    assert health.standing(A, 14_999) is BARRED


@pytest.mark.parametrize(
    ("outcome", "detector", "standing"),
    [
        (AttemptOutcome.NO_ANSWER, False, BARRED),
        (AttemptOutcome.NO_ANSWER, True, BAD),
        (AttemptOutcome.REFUSED, False, BAD),
        (AttemptOutcome.UNHEALTHY, True, BAD),
        (AttemptOutcome.UNKNOWN, True, GOOD),
    ],
)
def test_java5_tells_the_reachable_from_the_rest(
    outcome: AttemptOutcome, detector: bool, standing: Standing
) -> None:
    health = Java5Health(detector=detector)
    health.learn(A, outcome, 1, 0)
    assert health.standing(A, 1) is standing


def test_java5_detector_finds_a_broker_reachable_again() -> None:
    health = Java5Health(detector=True)
    health.learn(A, AttemptOutcome.NO_ANSWER, 1, 0)
    assert health.due_probes(3_000) == [A]
    assert health.due_probes(4_999) == []
    health.probed(A, reached=False)
    assert health.standing(A, 5_000) is BAD
    assert health.due_probes(5_000) == [A]
    health.probed(A, reached=True)
    assert health.standing(A, 5_001) is BARRED
    health.forget(A)
    assert health.standing(A, 5_002) is GOOD
    assert health.due_probes(60_000) == []
    health.probed(A, reached=True)  # it answers after it was forgotten


def test_without_a_detector_nobody_is_probed() -> None:
    health = Java5Health()
    health.learn(A, AttemptOutcome.NO_ANSWER, 1, 0)
    assert health.due_probes(10_000) == []


def test_java4_bars_a_failed_broker_for_ten_minutes_and_frees_it_by_a_quick_send() -> None:
    health = Java4Health()
    health.learn(A, AttemptOutcome.NO_ANSWER, 1, 0)
    assert health.standing(A, 599_999) is BAD
    assert health.standing(A, 600_000) is GOOD
    health.learn(A, AttemptOutcome.STORED, 3, 1_000)
    assert health.standing(A, 1_000) is GOOD


def test_java4_goes_round_the_better_half_when_all_are_barred() -> None:
    health = Java4Health()
    for took_ms, broker in enumerate((A, B, C, "broker-d")):
        health.learn(broker, AttemptOutcome.NO_ANSWER, took_ms, 0)
    picks = [health.last_resort((A, B, C, "broker-d"), 10) for _ in range(4)]
    assert sorted(filter(None, picks)) == [A, A, B, B]


def test_java4_forgets_a_broker_that_the_topic_does_not_have() -> None:
    health = Java4Health()
    assert health.last_resort((A,), 0) is None
    health.learn(A, AttemptOutcome.NO_ANSWER, 5, 0)
    health.learn(B, AttemptOutcome.NO_ANSWER, 1, 0)
    assert health.last_resort((A,), 10) is None
    assert health.last_resort((A,), 10) == A
