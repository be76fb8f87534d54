"""Masters, slaves and nameservers as processes, with faults: what was promised is there.

``ORBITMQ_SOAK=1`` runs for forty minutes; ``ORBITMQ_SEED`` chooses the order of the faults.
"""

import asyncio
import contextlib
import os
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TypeVar

import pytest

from bench.chaos.history import judged
from bench.chaos.pair import Pair
from bench.chaos.plan import CONFIGURATIONS, ELECTED, Configuration, Fault
from bench.chaos.run import Chaos, inflict
from bench.chaos.summary import broken_promises, summary_of
from orbitmq.clock import SystemClock
from orbitmq.net.address import Address
from orbitmq.randomness import SeededRandomness
from orbitmq.store.reader.reader import StoreReader
from tests.interop.java import Java
from tests.interop.team import Team
from tests.interop.waiting import until
from tests.small_disks import mounting

T = TypeVar("T")
HALF_AN_HOUR_MS = 1_800_000
SEED = int(os.environ.get("ORBITMQ_SEED", "1"))
MINUTES = {
    "async": 5,
    "flushed": 5,
    "replicated": 5,
    "both": 6,
    "small-disk": 4,
    "elected": 5,
    "clocks": 5,
    "elected-clocks": 5,
}
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
BRIEF_CLOCKS = Configuration(
    name="clocks",
    flush="SYNC_FLUSH",
    role="SYNC_MASTER",
    faults=(Fault.CLOCK_AHEAD,),
)
RUNS = (
    [(CONFIGURATIONS[name], 60.0 * minutes) for name, minutes in MINUTES.items()]
    if os.environ.get("ORBITMQ_SOAK") == "1"
    else [(BRIEF, 15.0), (BRIEF_DISK, 1.0), (BRIEF_ELECTION, 8.0), (BRIEF_CLOCKS, 1.0)]
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
    if configuration.has_own_clocks:
        request.getfixturevalue("needs_faketime")
    chance = SeededRandomness(SEED)
    chaos = Chaos(configuration, tmp_path, chance, SystemClock(), lasting_s=2.0)
    with mounting():
        history = asyncio.run(chaos.run(seconds))
    found = judged(history)
    summary = summary_of(configuration, found, seconds)
    assert broken_promises(summary) == [], summary
    assert sum(one.acknowledged for one in found.rounds) > 20
    assert all(one.healed_at for one in history.rounds)
    if configuration.has_own_clocks:  # or nothing was tried
        assert newest_ms(tmp_path / "broker-1" / "store") > SystemClock().now_ms() + HALF_AN_HOUR_MS


def newest_ms(store: Path) -> int:
    """Return the store time of the newest message of a broker that does not run."""
    return max(record.store_timestamp_ms for record in StoreReader(str(store)).records())


JAVA_FAULTS = (Fault.MASTER_KILLED, Fault.CLIENTS_CUT, Fault.NAMESERVERS_KILLED, Fault.DISK_LOST)
SENDS = 50
"""How many sends of Java are acknowledged before each fault, and after the last."""


def test_nothing_that_a_java_producer_was_promised_is_lost_to_a_java_consumer(
    java_540: Java, tmp_path: Path
) -> None:
    def live(nameservers: str, master: Address, faults: Callable[[], None]) -> list[int]:
        """Send and read while faults happen; return what was acknowledged and never came."""
        team = Team(java_540, nameservers, [str(master)])
        topic = team.topic("chaos")
        with team.producer(timeout_ms=3_000) as producer, team.consumer(topic) as consumer:
            producer.start_load(topic)
            producer.until_acknowledged(SENDS)
            faults()
            producer.until_acknowledged(SENDS)
            acknowledged = set(producer.end_load().acknowledged)

            def missing() -> set[int]:
                return acknowledged - {int(body) for body in consumer.bodies()}

            with contextlib.suppress(TimeoutError):
                until(lambda: not missing(), what="all arrives", seconds=90)
            return sorted(missing())

    async def main() -> list[int]:
        loop = asyncio.get_running_loop()
        async with Pair(tmp_path, BRIEF) as pair:

            def wait_for(step: Coroutine[None, None, T]) -> T:
                return asyncio.run_coroutine_threadsafe(step, loop).result(90)

            def happen() -> None:
                for fault in JAVA_FAULTS:
                    until(lambda: wait_for(pair.behind()) is not None, what="the slave follows")
                    wait_for(inflict(fault, pair, 2.0))

            return await asyncio.to_thread(live, pair.names, pair.master.address, happen)

    assert asyncio.run(main()) == []
