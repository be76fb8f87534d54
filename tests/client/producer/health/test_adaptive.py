"""When a broker rests, when it is probed, and how it comes back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbitmq.client.producer.health.adaptive import AdaptiveHealth
from orbitmq.client.producer.health.health import AttemptOutcome, Health, Standing

A, B, C = "broker-a", "broker-b", "broker-c"
GOOD, PROBE, BAD = Standing.GOOD, Standing.PROBE, Standing.BAD


def well(health: Health, *brokers: str, took_ms: int = 3, sends: int = 10) -> None:
    for _ in range(sends):
        for broker in brokers:
            health.learn(broker, AttemptOutcome.STORED, took_ms, 0)


def sends_elsewhere(health: Health, now_ms: int, count: int = 20) -> None:
    for _ in range(count):
        health.sent(B, now_ms)
        health.learn(B, AttemptOutcome.STORED, 0, now_ms)


@pytest.mark.parametrize("outcome", [AttemptOutcome.UNHEALTHY, AttemptOutcome.NO_ANSWER])
def test_a_failure_rests_a_broker_and_a_probe_follows(outcome: AttemptOutcome) -> None:
    health = AdaptiveHealth()
    assert not health.sent(A, 999)
    health.learn(A, outcome, 1, 1_000)
    sends_elsewhere(health, 1_001)
    assert health.standing(A, 1_249) is BAD
    assert health.standing(A, 1_250) is PROBE
    assert health.sent(A, 1_250)
    sends_elsewhere(health, 1_251)
    assert health.standing(A, 1_251) is BAD, "there is one probe"


def test_the_rest_doubles_with_each_probe_that_fails_up_to_two_seconds() -> None:
    health = AdaptiveHealth()
    now_ms, rests = 1_000, []
    health.learn(A, AttemptOutcome.NO_ANSWER, 1, now_ms)
    for _ in range(6):
        sends_elsewhere(health, now_ms)
        began_ms = now_ms
        while health.standing(A, now_ms) is not PROBE:
            now_ms += 1
        rests.append(now_ms - began_ms)
        health.sent(A, now_ms)
        health.learn(A, AttemptOutcome.NO_ANSWER, 0, now_ms)
    assert rests == [250, 500, 1_000, 2_000, 2_000, 2_000]


def test_good_probes_bring_a_broker_back_within_seconds() -> None:
    health = AdaptiveHealth()
    now_ms = 0
    for _ in range(10):
        now_ms += 10_000
        sends_elsewhere(health, now_ms)
        health.sent(A, now_ms)
        health.learn(A, AttemptOutcome.NO_ANSWER, 0, now_ms)
    healed_ms = now_ms
    sends_elsewhere(health, now_ms)
    while health.standing(A, now_ms) is not GOOD:
        now_ms += 1
        if health.standing(A, now_ms) is PROBE:
            health.sent(A, now_ms)
            health.learn(A, AttemptOutcome.STORED, 0, now_ms)
    assert now_ms - healed_ms < 3_000


def test_tries_that_left_before_the_turn_are_old_news() -> None:
    health = AdaptiveHealth()
    for _ in range(100):
        health.learn(A, AttemptOutcome.NO_ANSWER, 50, 1_000)
    health.learn(A, AttemptOutcome.STORED, 60, 1_005)
    sends_elsewhere(health, 1_001)
    assert health.standing(A, 1_249) is BAD
    assert health.standing(A, 1_250) is PROBE, "a hundred failures at once count as one"


def test_few_sends_are_not_mostly_probes() -> None:
    health = AdaptiveHealth()
    health.learn(A, AttemptOutcome.NO_ANSWER, 1, 1_000)
    sends_elsewhere(health, 20_000, count=15)
    assert health.standing(A, 20_000) is BAD
    sends_elsewhere(health, 20_000, count=1)
    assert health.standing(A, 20_000) is PROBE


def test_who_falls_ill_again_soon_rests_longer_from_the_start() -> None:
    def first_rest_ms(health: AdaptiveHealth, now_ms: int) -> int:
        health.learn(A, AttemptOutcome.NO_ANSWER, 0, now_ms)
        sends_elsewhere(health, now_ms)
        rest_ms = next(ms for ms in range(10_000) if health.standing(A, now_ms + ms) is PROBE)
        while health.standing(A, now_ms) is not GOOD:
            now_ms += 1
            health.sent(A, now_ms)
            health.learn(A, AttemptOutcome.STORED, 0, now_ms)
        return rest_ms

    health = AdaptiveHealth()
    assert [first_rest_ms(health, now_ms) for now_ms in (1_000, 3_000, 5_000)] == [250, 500, 1_000]
    assert first_rest_ms(health, 60_000) == 250


def test_an_error_about_the_request_says_nothing_of_the_broker() -> None:
    health = AdaptiveHealth()
    for outcome in (AttemptOutcome.REFUSED, AttemptOutcome.UNKNOWN):
        health.learn(A, outcome, 1, 1_000)
        assert health.standing(A, 1_001) is GOOD


@pytest.mark.parametrize("usual_ms", [0, 3])
def test_one_slow_answer_is_forgiven_and_three_are_not(usual_ms: int) -> None:
    health = AdaptiveHealth()
    well(health, A, B, took_ms=usual_ms)
    health.learn(A, AttemptOutcome.STORED, 400, 1_000)
    assert health.standing(A, 1_001) is GOOD
    for now_ms in (1_010, 1_020):
        health.learn(A, AttemptOutcome.STORED, 400, now_ms)
    assert health.standing(A, 1_021) is BAD


def test_slow_is_what_its_peers_are_not() -> None:
    health = AdaptiveHealth()
    well(health, A, B, took_ms=400, sends=50)
    assert {health.standing(broker, 1_001) for broker in (A, B)} == {GOOD}
    well(health, C, took_ms=3_000, sends=50)
    assert health.standing(C, 1) is not GOOD


@given(st.lists(st.tuples(st.sampled_from([A, B, C]), st.integers(0, 5_000)), max_size=60))
def test_slowness_alone_never_rests_all(answers: list[tuple[str, int]]) -> None:
    health = AdaptiveHealth()
    for now_ms, (broker, took_ms) in enumerate(answers, start=10_000):
        health.learn(broker, AttemptOutcome.STORED, took_ms, now_ms)
        assert GOOD in {health.standing(each, now_ms) for each in (A, B, C)}


def test_silence_shows_long_before_the_first_timeout() -> None:
    health = AdaptiveHealth()
    health.sent(A, 1_000)
    assert health.standing(A, 1_500) is GOOD
    assert health.standing(A, 1_501) is PROBE
    assert health.sent(A, 1_501)
    assert health.standing(A, 1_502) is BAD
    health.learn(A, AttemptOutcome.REFUSED, 600, 1_600)
    assert health.standing(A, 1_601) is GOOD


def test_silence_is_measured_by_what_is_usual_there() -> None:
    health = AdaptiveHealth()
    well(health, A, took_ms=200, sends=100)
    health.sent(A, 1_000)
    assert health.standing(A, 2_500) is GOOD
    assert health.standing(A, 2_700) is PROBE


def test_a_broker_that_was_forgotten_is_good() -> None:
    health = AdaptiveHealth()
    health.learn(A, AttemptOutcome.NO_ANSWER, 1, 1_000)
    health.forget(A)
    assert health.standing(A, 1_001) is GOOD
