"""Settings and faults: what may be lost by which."""

from itertools import islice

from bench.chaos.plan import CONFIGURATIONS, LOSING, Fault, faults
from orbitmq.randomness import SeededRandomness


def test_a_seed_gives_the_same_faults_and_each_comes_before_any_comes_again() -> None:
    of = CONFIGURATIONS["both"].faults
    first, second = (list(islice(faults(of, SeededRandomness(7)), 2 * len(of))) for _ in range(2))
    assert first == second
    assert set(first[: len(of)]) == set(first[len(of) :]) == set(of)
    assert first[: len(of)] != list(islice(faults(of, SeededRandomness(8)), len(of)))


def test_only_the_loss_of_a_disk_without_a_copy_may_lose_what_was_acknowledged() -> None:
    allowed = {
        (name, fault)
        for name, one in CONFIGURATIONS.items()
        for fault in Fault
        if one.may_lose(fault)
    }
    assert allowed == {(name, fault) for name in ("async", "flushed") for fault in LOSING}


def test_every_fault_meets_a_replicated_pair() -> None:
    met = {fault for one in CONFIGURATIONS.values() if one.is_replicated for fault in one.faults}
    assert met == set(Fault)


def test_processes_have_clocks_of_their_own_only_where_these_are_set() -> None:
    own = {name for name, one in CONFIGURATIONS.items() if one.has_own_clocks}
    assert own == {"clocks", "elected-clocks"}
