"""Claims for handlers last as long as the handlers."""

import logging
from pathlib import Path

import pytest

from orbitmq.client.consumer.deduplication.claims import Found
from orbitmq.client.consumer.deduplication.in_hand import InHand
from orbitmq.client.consumer.deduplication.memory import MemoryClaims
from orbitmq.client.consumer.deduplication.sqlite import SqliteClaims
from tests.store.stores import HandClock

LIMITS = {"window_ms": 1_000, "lease_ms": 60_000, "entries_max": 9}


def test_a_lease_that_ended_does_not_give_a_message_to_a_second_handler() -> None:
    clock = HandClock()
    in_hand = InHand(MemoryClaims(clock, **LIMITS), lease_ms=60_000)
    assert in_hand.take(["a"]) == [Found.NEW]
    clock.now += 60_000  # the machine slept
    assert in_hand.take(["a", "b"]) == [Found.CLAIMED, Found.NEW]
    in_hand.finish(["a"])
    in_hand.release(["b"])
    assert in_hand.take(["a", "b"]) == [Found.DONE, Found.NEW]


def test_leases_are_renewed_while_handlers_run(tmp_path: Path) -> None:
    clock, path = HandClock(), str(tmp_path / "seen.db")
    mine = SqliteClaims(path, clock, owner="me", **LIMITS)
    yours = SqliteClaims(path, clock, owner="you", **LIMITS)
    in_hand = InHand(mine, lease_ms=60_000)
    in_hand.take(["a"])
    for _ in range(5):
        clock.now += 40_000
        assert in_hand.renew()
    assert yours.claim(["a"]) == [Found.CLAIMED]
    in_hand.finish(["a"])
    assert not in_hand.renew()
    in_hand.close()
    mine.close()
    yours.close()


def test_a_failed_renewal_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    claims = SqliteClaims(str(tmp_path / "seen.db"), HandClock(), owner="me", **LIMITS)
    in_hand = InHand(claims, lease_ms=60_000)
    in_hand.take(["a"])
    claims.close()
    with caplog.at_level(logging.WARNING):
        assert in_hand.renew()
    in_hand.close()
    assert "the leases of 1 messages were not renewed" in caplog.text
