"""A whole cluster on virtual time: seeds that keep all laws, and the same seed twice.

``ORBITMQ_SOAK=1`` runs ten thousand seeds in place of a hundred. For one seed alone, type
``make simulate FIRST=n SEEDS=1``.
"""

import os
import subprocess
import sys

import pytest

from orbitmq.store.settings import FlushMode
from orbitmq.testing.simulation.__main__ import line, main
from orbitmq.testing.simulation.many import Coverage, judge_all
from orbitmq.testing.simulation.plan import Plan, Replication
from orbitmq.testing.simulation.run import simulate

IS_SOAK = os.environ.get("ORBITMQ_SOAK") == "1"
SEEDS, STEP = (10_000, 200) if IS_SOAK else (100, 10)
PROCESSES = (os.cpu_count() or 1) if IS_SOAK else 1

# With losses, a slave, both groups, and six failures each of servers and network.
EVENTFUL = 177
# The same with three brokers that elect their master.
EVENTFUL_ELECTIONS = 552

PRINT_DIGEST = """
import sys
from orbitmq.testing.simulation.run import simulate
print(simulate(int(sys.argv[1])).digest)
"""


@pytest.mark.parametrize("first", range(0, SEEDS, STEP))
def test_no_seed_breaks_a_law(first: int) -> None:
    verdicts = list(judge_all(range(first, first + STEP), processes=PROCESSES))
    assert [line(verdict) for verdict in verdicts if verdict.broken_laws] == []
    assert all(verdict.coverage.acknowledged for verdict in verdicts)
    assert sum(verdict.coverage.delivered for verdict in verdicts)


@pytest.mark.parametrize("seed", [EVENTFUL, EVENTFUL_ELECTIONS])
def test_the_same_seed_gives_the_same_history_whatever_the_hashes(seed: int) -> None:
    digests = {hash_seed: digest_of(seed, hash_seed) for hash_seed in ("1", "2")}
    assert digests["1"] == digests["2"] == simulate(seed).digest
    assert digests["1"] != simulate(seed + 1).digest


def test_the_seeds_are_of_every_kind() -> None:
    plans = [Plan.from_seed(seed) for seed in range(100)]
    assert {plan.replication for plan in plans} == set(Replication)
    assert {plan.flush_mode for plan in plans} == set(FlushMode)
    assert {plan.queues for plan in plans} == {1, 2, 3, 4}
    assert {bool(plan.loss) for plan in plans} == {True, False}
    assert {tuple(group.name for group in plan.groups) for plan in plans} == {
        (),
        ("any-order",),
        ("in-order",),
        ("any-order", "in-order"),
    }
    elected = [plan for plan in plans if plan.replication is Replication.ELECTED]
    assert {(plan.brokers, plan.flush_mode) for plan in elected} == {
        (brokers, mode) for brokers in (2, 3) for mode in FlushMode
    }
    assert {plan.min_in_sync for plan in elected} == {1, 2}
    assert len(elected) < 30  # of the other kinds there are enough, too
    assert {plan.troubles for plan in plans} == set(range(7))
    for seed in (EVENTFUL, EVENTFUL_ELECTIONS):
        assert Plan.from_seed(seed).troubles == 6
        assert len(Plan.from_seed(seed).groups) == 2
    assert Plan.from_seed(EVENTFUL).replication is Replication.SYNC
    assert Plan.from_seed(EVENTFUL_ELECTIONS).replication is Replication.ELECTED


def test_the_command_tells_what_was_covered(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--first", "3", "--seeds", "2", "--processes", "1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("2 runs: ")
    assert lines[1].endswith(" masters elected")
    assert lines[-1] == "no law was broken"
    assert main(["--first", "3", "--seeds", "1"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("Plan(seed=3, ")
    assert str(Coverage.of(simulate(3))) in out


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
