"""The connection of a replica: it is kept up, and follows where the master goes."""

import asyncio
import logging

import pytest

from orbitmq.errors import LogsDiverged
from orbitmq.net.address import Address
from orbitmq.net.transport.network import TlsMode
from orbitmq.store.settings import FlushMode
from orbitmq.testing.links import MemoryNetwork
from tests.replication.test_primary import HERE, Scene, play
from tests.replication.worlds import a_store, fill, filled, log_bytes


@pytest.mark.parametrize("mode", FlushMode)
def test_it_comes_back_after_cuts_and_silence(mode: FlushMode) -> None:
    async def scene(world: Scene) -> None:
        store = a_store(replica=True, mode=mode)
        replica = world.replica(store)
        task = asyncio.create_task(replica.run())
        for number in range(4):
            await world.go_on(2)
            fill(world.store, 10, first=30 + number * 10)
            await world.clock.sleep(0.0015)
            if number % 2:
                world.network.cut()
            else:
                world.network.carries = False
                await world.go_on(30)
                world.network.carries = True
        await world.go_on(10)
        assert log_bytes(store) == log_bytes(world.store)
        assert replica.failure is None
        assert world.acks.reached == world.store.log.end
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    play(scene, filled())


def test_it_is_noted_at_once_when_nothing_listens_any_more_and_soon_when_something_does() -> None:
    async def scene(world: Scene) -> None:
        replica = world.replica(a_store(replica=True))
        refused: list[Address] = []
        replica.on_refused = refused.append
        task = asyncio.create_task(replica.run())
        await world.go_on(2)
        await world.primary.close()
        await world.clock.sleep(0.1)
        assert refused == [HERE]
        await world.clock.sleep(1)
        assert len(refused) > 4
        await world.primary.start(HERE)
        await world.clock.sleep(0.25)
        assert len(list(world.primary.links)) == 1
        world.network.carries = False
        count = len(refused)
        await world.go_on(30)
        assert len(refused) == count  # silence is no refusal
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    play(scene, filled())


def test_a_port_that_ends_each_connection_is_tried_three_times_a_second_and_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Closing(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            tries.append(transport)
            transport.close()

    tries: list[asyncio.BaseTransport] = []

    async def scene(world: Scene) -> None:
        await world.primary.close()
        port = await world.network.listen(
            Closing, HERE, tls=None, mode=TlsMode.DISABLED, handshake_timeout_ms=1_000
        )
        task = asyncio.create_task(world.replica(a_store(replica=True)).run())
        await world.clock.sleep(10)
        assert 28 <= len(tries) <= 31
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await port.close()

    with caplog.at_level(logging.INFO, logger="orbitmq.replication"):
        play(scene, filled())
    (line,) = caplog.messages
    assert f"the primary {HERE} is not followed: it ended the connection before" in line
    assert "haListenPort" in line


def test_a_port_that_says_nothing_is_logged_once_and_followed_once_it_speaks(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scene(world: Scene) -> None:
        await world.primary.close()
        port = await world.network.listen(
            asyncio.Protocol, HERE, tls=None, mode=TlsMode.DISABLED, handshake_timeout_ms=1_000
        )
        task = asyncio.create_task(world.replica(a_store(replica=True)).run())
        await world.clock.sleep(120)
        await port.close()
        await world.primary.start(HERE)
        await world.go_on(60)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    with caplog.at_level(logging.INFO, logger="orbitmq.replication"):
        play(scene, filled())
    silent, *others = [line for line in caplog.messages if line.count("primary")]
    assert f"the primary {HERE} is not followed: it is silent" in silent
    assert [line for line in others if "silent" in line] == []
    assert [line for line in others if "following the primary" in line] == [
        f"following the primary {HERE} from offset 0 on"
    ]


def test_an_address_that_was_set_stays() -> None:
    async def scene(world: Scene) -> None:
        replica = world.replica(a_store(replica=True))
        replica.follow(Address("127.0.0.1", 1))
        assert replica.address == HERE

    play(scene, filled())


def test_after_a_divergence_the_error_stays_and_so_does_the_log() -> None:
    async def scene(world: Scene) -> None:
        store = a_store(replica=True)
        replica = world.replica(store)
        task = asyncio.create_task(replica.run())
        await world.go_on(2)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        other = Scene(world.clock, filled(35, first=500))
        other.network = MemoryNetwork(delay_s=0.001)
        other.primary._network = other.network
        await other.primary.start(HERE)
        replica = other.replica(store)
        task = asyncio.create_task(replica.run())
        before = log_bytes(store)
        await other.go_on(30)
        assert isinstance(replica.failure, LogsDiverged)
        assert log_bytes(store) == before
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await other.primary.close()

    play(scene, filled())
