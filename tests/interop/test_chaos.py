"""Masters, slaves and nameservers as processes, with faults: what was promised is there.

``ORBITMQ_SOAK=1`` runs for half an hour; ``ORBITMQ_SEED`` chooses the order of the faults.
"""

import asyncio
import os
from pathlib import Path

import pytest

from bench.chaos.history import judged
from bench.chaos.plan import CONFIGURATIONS, ELECTED, Configuration, Fault
from bench.chaos.run import Chaos
from bench.chaos.summary import broken_promises, summary_of
from orbitmq.clock import SystemClock
from orbitmq.randomness import SeededRandomness
from tests.small_disks import mounting

SEED = int(os.environ.get("ORBITMQ_SEED", "1"))
MINUTES = {"async": 5, "flushed": 5, "replicated": 5, "both": 6, "small-disk": 4, "elected": 5}
# The suite has no time for all: a kill, a pause, a cut, and the disk lost while it is cut.
BRIEF = Configuration(
    name="both",
    flush="SYNC_FLUSH",
    role="SYNC_MASTER",
    faults=(
        Fault.MASTER_KILLED,
        Fault.MASTER_PAUSED,
        Fault.CLIENTS_CUT,
        Fault.NAMESERVERS_KILLED,
        Fault.DISK_LOST_WHILE_CUT,
    ),
)
BRIEF_DISK = Configuration(
    name="small-disk",
    flush="SYNC_FLUSH",
    role="SYNC_MASTER",
    faults=(Fault.MASTER_DISK_FULL,),
    has_small_disks=True,
)
BRIEF_ELECTION = Configuration(
    name="elected",
    flush="ASYNC_FLUSH",
    role=ELECTED,
    faults=(Fault.LEADER_PAUSED, Fault.LEADER_LOST),
)
RUNS = (
    [(CONFIGURATIONS[name], 60.0 * minutes) for name, minutes in MINUTES.items()]
    if os.environ.get("ORBITMQ_SOAK") == "1"
    else [(BRIEF, 15.0), (BRIEF_DISK, 1.0), (BRIEF_ELECTION, 8.0)]
)


@pytest.mark.timeout(1_200)
@pytest.mark.parametrize(("configuration", "seconds"), RUNS)
def test_nothing_that_was_promised_is_lost(
    configuration: Configuration,
    seconds: float,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    if configuration.is_elected:
        request.getfixturevalue("needs_etcd")
    chance = SeededRandomness(SEED)
    chaos = Chaos(configuration, tmp_path, chance, SystemClock(), lasting_s=2.0)
    with mounting():
        history = asyncio.run(chaos.run(seconds))
    found = judged(history)
    summary = summary_of(configuration, found, seconds)
    assert broken_promises(summary) == [], summary
    assert sum(one.acknowledged for one in found.rounds) > 20
    assert all(one.healed_at for one in history.rounds)
