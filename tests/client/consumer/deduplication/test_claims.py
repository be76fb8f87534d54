"""The states of messages, in memory and in a file: one story for both."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from orbitmq.client.consumer.deduplication.claims import Claims, Found
from orbitmq.client.consumer.deduplication.memory import MemoryClaims
from orbitmq.client.consumer.deduplication.sqlite import SqliteClaims
from tests.store.stores import HandClock

NEW, CLAIMED, DONE = Found.NEW, Found.CLAIMED, Found.DONE
WINDOW_MS, LEASE_MS, ENTRIES_MAX = 1_000, 100, 3


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture(params=["memory", "sqlite"])
def claims(request: pytest.FixtureRequest, clock: HandClock, tmp_path: Path) -> Iterator[Claims]:
    limits = {"window_ms": WINDOW_MS, "lease_ms": LEASE_MS, "entries_max": ENTRIES_MAX}
    made: Claims
    if request.param == "memory":
        made = MemoryClaims(clock, **limits)
    else:
        made = SqliteClaims(str(tmp_path / "seen.db"), clock, owner="me", **limits)
    yield made
    made.close()


def test_a_message_goes_from_unknown_over_claimed_to_done(claims: Claims) -> None:
    assert claims.claim(["a", "b"]) == [NEW, NEW]
    assert claims.claim(["a", "b", "c"]) == [CLAIMED, CLAIMED, NEW]
    claims.finish(["a"])
    claims.release(["b"])
    assert claims.claim(["a", "b", "c"]) == [DONE, NEW, CLAIMED]


def test_a_claim_ends_with_its_lease_unless_it_is_renewed(claims: Claims, clock: HandClock) -> None:
    claims.claim(["a", "b"])
    clock.now += LEASE_MS - 1
    claims.renew(["b", "never claimed"])
    assert claims.claim(["a"]) == [CLAIMED]
    clock.now += 1
    assert claims.claim(["a", "b", "never claimed"]) == [NEW, CLAIMED, NEW]


def test_what_is_done_is_remembered_for_the_window(claims: Claims, clock: HandClock) -> None:
    claims.finish(["a"])  # without a claim
    clock.now += WINDOW_MS - 1
    assert claims.claim(["a"]) == [DONE]
    clock.now += 1
    assert claims.claim(["a"]) == [NEW]


def test_a_second_finish_begins_the_window_again(claims: Claims, clock: HandClock) -> None:
    claims.finish(["a"])
    clock.now += WINDOW_MS - 1
    claims.finish(["a"])
    clock.now += 1
    assert claims.claim(["a"]) == [DONE]


def test_the_oldest_are_forgotten_when_there_are_too_many(claims: Claims, clock: HandClock) -> None:
    claims.claim(["busy"])
    for key in "abcde":
        claims.finish([key])
        clock.now += 1
    assert claims.claim([*"abcde", "busy"]) == [NEW, NEW, DONE, DONE, DONE, CLAIMED]


def test_a_release_does_not_touch_what_is_done(claims: Claims) -> None:
    claims.claim(["a"])
    claims.finish(["a"])
    claims.release(["a"])
    assert claims.claim(["a"]) == [DONE]
