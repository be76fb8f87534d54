"""Our ends of the stream with epochs on live Java brokers, which a controller made master or slave.

Our replica follows Java masters; a Java replica follows our primary, since its master says that
replicas connect there. Each cuts its log where it parts from the other's.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from orbitmq.clock import SystemClock
from orbitmq.net.address import Address
from orbitmq.replication.elected_primary import ElectedPrimary
from orbitmq.replication.epoch_follower import EpochFollower
from orbitmq.replication.epochs import EpochFile
from orbitmq.replication.in_sync import InSyncSet
from orbitmq.replication.replica import Replica
from orbitmq.replication.settings import ReplicationSettings
from orbitmq.store.disk.disk import RealDisk
from orbitmq.store.reader.reader import StoreReader
from orbitmq.store.reader.verify import verify
from orbitmq.wire.epoch_stream import EpochEntry
from tests.interop import counterparts
from tests.interop.conftest import decline
from tests.interop.epoch_scenario import Scenario, epochs_of, log_of
from tests.interop.java_cluster import LOOPBACK, JavaBroker
from tests.interop.java_elected import ha_address, name_ha_port
from tests.interop.waiting import until
from tests.replication.worlds import log_bytes
from tests.store.stores import bodies, opened, put

LEARNER = ReplicationSettings(is_learner=True)  # the controller knows nothing of it
OWN_ID = 99


class OurBroker:
    """Our store, which follows a master until it has the master's log, or is one itself."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.store = opened(RealDisk(), str(directory), segment_bytes=16 * 1024 * 1024)
        self.store.is_replica = True
        self.epochs = EpochFile(RealDisk(), str(directory))

    def follow(self, master: JavaBroker) -> None:
        asyncio.run(self._follow(ha_address(master), log_of(master)))

    async def _follow(self, address: Address, log: bytes) -> None:
        clock, written = SystemClock(), asyncio.Event()
        self.store.on_written = written.set
        follower = EpochFollower(
            self.store, self.epochs, lambda: LEARNER, OWN_ID, clock.monotonic_ms()
        )
        replica = Replica(
            store=self.store, settings=lambda: LEARNER, clock=clock, follower=follower
        )
        replica.follow(address)
        task = asyncio.create_task(replica.run())
        try:
            async with asyncio.timeout(60):
                while log_bytes(self.store) != log:
                    written.clear()
                    await written.wait()
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    @contextlib.asynccontextmanager
    async def leading(self, epoch: int) -> AsyncIterator[ElectedPrimary]:
        """Be the primary of an epoch; whoever is proposed is agreed to."""
        log, clock = self.store.log, SystemClock()
        self.store.is_replica = False
        self.epochs.begin(epoch, log.end)
        in_sync = InSyncSet(
            OWN_ID,
            members={OWN_ID},
            epoch_start=log.end,
            settings=ReplicationSettings,
            log_end=lambda: log.end,
            now_ms=clock.monotonic_ms(),
        )
        in_sync.on_proposed = in_sync.agreed
        primary = ElectedPrimary(
            tail=self.store.tail,
            epochs=self.epochs,
            in_sync=in_sync,
            settings=ReplicationSettings,
            clock=clock,
        )
        self.store.on_written = primary.written
        await primary.start(Address(LOOPBACK, 0))
        try:
            yield primary
        finally:
            await primary.close()


@pytest.fixture
def scenario(tmp_path: Path) -> Scenario:
    if (why := counterparts.missing_for("5.4.0")) is not None:
        decline(why)
    return Scenario(tmp_path / "java")


def test_our_replica_follows_java_masters_and_cuts_its_log_where_they_part(
    scenario: Scenario, tmp_path: Path
) -> None:
    ours = OurBroker(tmp_path / "ours")
    with scenario.two_epochs():
        ours.follow(scenario.a)
        assert ours.epochs.history == epochs_of(scenario.a)
        assert len(ours.epochs.history.entries) == 2
        with scenario.parted():
            ours.follow(scenario.a)
        tail = ours.store.log.end
        common = len(log_of(scenario.b))
        assert tail > common
        scenario.change_masters()
        ours.follow(scenario.b)
        assert ours.epochs.history == epochs_of(scenario.b)
        assert len(ours.epochs.history.entries) == 3
        [saved] = (ours.directory / "cutlog").iterdir()
        assert saved.name.endswith(f"-from-{common:020d}-to-{tail:020d}")
        assert saved.stat().st_size == tail - common
        scenario.come_back()  # Java's replica cuts the same
        assert log_of(scenario.a) == log_of(scenario.b) == log_bytes(ours.store)
    queue = ours.store.queues.queue("orders", 0)
    assert queue is not None
    assert len(bodies(ours.store)) == queue.max_offset > 10
    ours.store.close()
    assert not verify(StoreReader(str(ours.directory))).is_damaged


def test_a_java_replica_follows_our_primary_and_cuts_its_log_where_they_part(
    scenario: Scenario, tmp_path: Path
) -> None:
    ours = OurBroker(tmp_path / "ours")

    async def follow_ours() -> None:
        async with ours.leading(epoch=9) as primary:
            put(ours.store, *(b"%d" % number for number in range(500)))
            assert primary.address is not None
            name_ha_port(scenario.a, primary.address.port)
            await has_log(scenario, ours)
            assert primary.in_sync.members == {OWN_ID, 2}
            put(ours.store, b"more")
            await has_log(scenario, ours)
            assert primary.in_sync.acked(2) == primary.in_sync.confirmed == ours.store.log.end

    with scenario.two_epochs():
        ours.follow(scenario.a)
        common = ours.store.log.end
        scenario.send(scenario.a, 2)
        scenario.b.start()
        until(lambda: log_of(scenario.b) == log_of(scenario.a), what="b follows a")
        assert len(log_of(scenario.b)) > common
        scenario.b.kill()
        asyncio.run(follow_ours())
        assert epochs_of(scenario.b) == ours.epochs.history
        assert ours.epochs.history.entries[-1] == EpochEntry(9, common)


async def has_log(scenario: Scenario, ours: OurBroker) -> None:
    """Return when broker b runs and has our log."""
    wanted = log_bytes(ours.store)
    if not scenario.b.is_running:
        await asyncio.to_thread(scenario.b.start)

    def has_it() -> bool:
        return log_of(scenario.b) == wanted

    await asyncio.to_thread(until, has_it, what="b follows our primary")
