"""Our replica follows Java masters that a controller elected, and cuts its log as Java's does."""

import asyncio
from pathlib import Path

from orbitmq.clock import SystemClock
from orbitmq.net.address import Address
from orbitmq.replication.epoch_follower import EpochFollower
from orbitmq.replication.epochs import EpochFile
from orbitmq.replication.replica import Replica
from orbitmq.replication.settings import ReplicationSettings
from orbitmq.store.disk.disk import RealDisk
from orbitmq.store.reader.reader import StoreReader
from orbitmq.store.reader.verify import verify
from tests.interop import counterparts
from tests.interop.conftest import decline
from tests.interop.epoch_scenario import Scenario, epochs_of, log_of
from tests.interop.java_cluster import JavaBroker
from tests.interop.java_elected import ha_address
from tests.replication.worlds import log_bytes
from tests.store.stores import bodies, opened

LEARNER = ReplicationSettings(is_learner=True)  # the controller knows nothing of it
OWN_ID = 99


class OurReplica:
    """Our store, which follows a master until it has the master's log."""

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


def test_our_replica_follows_java_masters_and_cuts_its_log_where_they_part(
    tmp_path: Path,
) -> None:
    if (why := counterparts.missing_for("5.4.0")) is not None:
        decline(why)
    ours, scenario = OurReplica(tmp_path / "ours"), Scenario(tmp_path / "java")
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
