"""A whole cluster on virtual time: one test for each seed, and the same seed twice.

``ORBITMQ_SOAK=1`` runs twenty times the seeds; ``ORBITMQ_SEED=n`` one seed alone.
"""

import multiprocessing
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import NamedTuple

import pytest

from orbitmq.broker.pulling.held_pulls import HeldPull, HeldPulls
from orbitmq.broker.tables.offsets import ConsumerOffsets
from orbitmq.store.settings import FlushMode
from orbitmq.testing.simulation import Plan, broken_laws, simulate

SEEDS = 1000 if os.environ.get("ORBITMQ_SOAK") == "1" else 100
CHOSEN = [int(os.environ["ORBITMQ_SEED"])] if "ORBITMQ_SEED" in os.environ else range(SEEDS)

# With losses, four clients and every kind of trouble among its eleven.
EVENTFUL = 38

PRINT_DIGEST = """
import sys
from orbitmq.testing.simulation import simulate
print(simulate(int(sys.argv[1])).digest)
"""


class Verdict(NamedTuple):
    """What a test wants to know of a run."""

    broken_laws: list[str]
    acknowledged: int


def judge(seed: int) -> Verdict:
    history = simulate(seed)
    acknowledged = sum(attempt.acked_at is not None for attempt in history.attempts)
    return Verdict(broken_laws(history), acknowledged)


@pytest.fixture(scope="module")
def runs() -> Iterator[ProcessPoolExecutor]:
    """Processes for ten runs each: a killed server is never cleaned up, nor is its memory freed."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context, max_tasks_per_child=10) as pool:
        yield pool


@pytest.mark.parametrize("seed", CHOSEN)
def test_no_gap_no_repeat_and_acknowledged_is_readable(
    seed: int, runs: ProcessPoolExecutor
) -> None:
    verdict = runs.submit(judge, seed).result()
    assert verdict.broken_laws == []
    assert verdict.acknowledged


# A broker with one fault each, and a seed that meets it.


def sync_nothing(*_args: object) -> None:
    """Stand for a disk that says it has what it does not have."""


def deliver_anew(*_args: object) -> bool:
    return False


def keep_no_offsets(_offsets: ConsumerOffsets) -> str:
    return '{"offsetTable":{}}'


def hold_for_ever(_held: HeldPulls, _now_ms: int) -> list[HeldPull]:
    return []


@pytest.mark.parametrize(
    ("place", "fault", "seed", "breach"),
    [
        ("orbitmq.store.log.flush._sync", sync_nothing, 11, "lost"),
        ("orbitmq.broker.sending.delays.Delays._is_delivered", deliver_anew, 4, "repeated"),
        ("orbitmq.broker.sending.timers.Timers._is_done", deliver_anew, 1, "repeated"),
        (
            "orbitmq.broker.sending.half_messages.HalfMessages._is_committed",
            deliver_anew,
            4,
            "repeated",
        ),
        (
            "orbitmq.broker.tables.offsets.ConsumerOffsets.to_json",
            keep_no_offsets,
            2,
            "the offset of",
        ),
        ("orbitmq.broker.pulling.held_pulls.HeldPulls.due", hold_for_ever, 2, "no response"),
    ],
)
def test_a_broker_with_a_fault_is_found(
    place: str,
    fault: Callable[..., object],
    seed: int,
    breach: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(place, fault)
    assert any(found.startswith(breach) for found in broken_laws(simulate(seed)))


def test_the_same_seed_gives_the_same_history_whatever_the_hashes() -> None:
    digests = {hash_seed: digest_of(EVENTFUL, hash_seed) for hash_seed in ("1", "2")}
    assert digests["1"] == digests["2"] == simulate(EVENTFUL).digest
    assert digests["1"] != simulate(EVENTFUL + 1).digest


def test_the_seeds_are_of_every_kind() -> None:
    plans = [Plan.from_seed(seed) for seed in range(50)]
    assert {plan.flush_mode for plan in plans} == set(FlushMode)
    assert {plan.queues for plan in plans} == {1, 2, 3, 4}
    assert {bool(plan.loss) for plan in plans} == {True, False}
    assert max(plan.troubles for plan in plans) > 9
    assert min(plan.troubles for plan in plans) == 0


def digest_of(seed: int, hash_seed: str) -> str:
    """Run a seed in a process of its own, with the hashes of ``hash_seed``."""
    run = subprocess.run(
        [sys.executable, "-c", PRINT_DIGEST, str(seed)],
        env=os.environ | {"PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=True,
    )
    return run.stdout.strip()
