"""States in memory: what is special about them."""

from orbitmq.client.consumer.deduplication.memory import MemoryClaims
from tests.store.stores import HandClock


def test_it_holds_nothing_whose_time_has_ended() -> None:
    clock = HandClock()
    claims = MemoryClaims(clock, window_ms=10, lease_ms=10, entries_max=100)
    for number in range(50):
        claims.claim([f"claimed {number}"])
        claims.finish([f"done {number}"])
        clock.now += 5
    assert repr(claims) == "<MemoryClaims 2 claimed, 2 done>"
