"""The port of a primary, and replicas that connect to it, on a network in memory."""

import asyncio
from collections.abc import Awaitable, Callable

from orbitmq.net.address import Address
from orbitmq.replication.acks import ReplicaAcks
from orbitmq.replication.follower import LogFollower, LogRange
from orbitmq.replication.primary import Primary
from orbitmq.replication.replica import Replica
from orbitmq.replication.settings import ReplicationSettings
from orbitmq.store.message_store import MessageStore
from orbitmq.testing.clocks import VirtualClock, run_virtual
from orbitmq.testing.links import MemoryNetwork
from orbitmq.wire.replica_stream import Chunk, ChunkReader, Heartbeat, report
from tests.replication.worlds import a_store, fill, filled, log_bytes, range_of

HERE = Address("127.0.0.1", 10912)
SETTINGS = ReplicationSettings(master_address=str(HERE))


class Scene:
    """A primary with a store, and what connects to it."""

    def __init__(self, clock: VirtualClock, store: MessageStore) -> None:
        self.clock = clock
        self.store = store
        self.network = MemoryNetwork(delay_s=0.001)
        self.acks = ReplicaAcks(lambda: SETTINGS, lambda: store.log.end)
        self.primary = Primary(
            tail=store.tail,
            acks=self.acks,
            settings=lambda: SETTINGS,
            clock=clock,
            network=self.network,
        )
        store.on_written = self.primary.written

    def replica(self, store: MessageStore) -> Replica:
        async def primary_range() -> LogRange:
            return range_of(self.store)

        return Replica(
            store=store,
            settings=lambda: SETTINGS,
            clock=self.clock,
            follower=LogFollower(store, lambda: SETTINGS, self.clock.monotonic_ms()),
            primary_range=primary_range,
            network=self.network,
        )

    async def go_on(self, seconds: float) -> None:
        for _ in range(int(seconds * 2)):
            await self.clock.sleep(0.5)
            self.primary.tick()


class Raw(asyncio.Protocol):
    """A replica that says what a test tells it to."""

    def __init__(self) -> None:
        self.reader = ChunkReader()
        self.events: list[tuple[int, int]] = []
        self.is_closed = False
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        for event in self.reader.feed(data):
            size = len(event.data) if isinstance(event, Chunk) else 0
            assert isinstance(event, (Chunk, Heartbeat))
            self.events.append((event.offset, size))

    def connection_lost(self, _exc: Exception | None) -> None:
        self.is_closed = True


def play(scene: Callable[[Scene], Awaitable[None]], store: MessageStore) -> None:
    async def main(clock: VirtualClock) -> None:
        world = Scene(clock, store)
        await world.primary.start(HERE)
        await scene(world)
        await world.primary.close()

    run_virtual(main)


def test_several_replicas_get_everything_at_once() -> None:
    async def scene(world: Scene) -> None:
        stores = [a_store(replica=True) for _ in range(2)]
        tasks = [asyncio.create_task(world.replica(store).run()) for store in stores]
        await world.go_on(2)
        fill(world.store, 7, first=30)
        await world.clock.sleep(0.1)
        assert [log_bytes(one) == log_bytes(world.store) for one in stores] == [True, True]
        assert (world.acks.in_sync, world.acks.reached) == (2, world.store.log.end)
        assert len(list(world.primary.links)) == 2
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await world.go_on(1)
        assert list(world.primary.links) == []
        assert world.acks.in_sync == 0

    play(scene, filled())


def test_a_replica_that_reads_slowly_is_not_buffered_for() -> None:
    async def scene(world: Scene) -> None:
        raw = Raw()
        await world.network.connect(raw, HERE, tls=None)
        raw.transport.pause_reading()
        raw.transport.write(report(1))
        await world.go_on(1)
        for number in range(40):
            fill(world.store, 50, first=number * 50)
            await world.clock.sleep(0.01)
        await world.go_on(1)
        [link] = world.primary.links
        assert link.feed.position < world.store.log.end - 100_000
        raw.transport.resume_reading()
        await world.go_on(2)
        assert sum(size for _, size in raw.events) == world.store.log.end - 1
        raw.transport.close()

    play(scene, filled())


def test_silence_and_nonsense_end_a_connection() -> None:
    async def scene(world: Scene) -> None:
        silent, nonsense, ahead = Raw(), Raw(), Raw()
        for one, said in ((silent, report(0)), (nonsense, b"\xff" * 8), (ahead, report(1 << 40))):
            await world.network.connect(one, HERE, tls=None)
            one.transport.write(said)
        await world.go_on(6)
        assert (silent.is_closed, nonsense.is_closed, ahead.is_closed) == (False, True, True)
        assert silent.events[-1] == (world.store.log.end, 0)  # a heartbeat
        await world.go_on(15)
        assert silent.is_closed

    play(scene, filled(3))
