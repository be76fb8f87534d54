import asyncio

import pytest

from orbitmq.errors import ConnectionClosed
from orbitmq.net.address import Address
from orbitmq.net.connection import Connection
from orbitmq.net.dialer import Dialer
from orbitmq.net.listener import Listener
from orbitmq.net.settings import NetSettings
from orbitmq.testing.clocks import VirtualClock, run_virtual
from orbitmq.testing.links import MemoryNetwork
from orbitmq.wire.codes import Language, ResponseCode
from orbitmq.wire.frame import Frame
from orbitmq.wire.session import Identity, Response
from tests.net.loopback import ASK, echo

BROKER = Address("broker-a", 10911)


def test_connections_come_and_go() -> None:
    async def scenario(clock: VirtualClock) -> None:
        network = MemoryNetwork()
        async with Listener(BROKER, echo, network=network) as listener:
            dialers = [Dialer(network=network) for _ in range(3)]
            for dialer in dialers:
                await dialer.request(BROKER, ASK)
            assert repr(listener) == "<Listener broker-a:10911, 3 connections>"
            for dialer in dialers:
                await dialer.close()
            await clock.sleep(0.1)
            assert listener.connections == set()

    run_virtual(scenario)


def test_port_zero_picks_a_free_one() -> None:
    async def scenario(clock: VirtualClock) -> None:
        network = MemoryNetwork()
        listener = Listener(Address("broker-a", 0), echo, network=network)
        assert listener.address.port == 0
        async with listener:
            assert listener.address.port != 0

    run_virtual(scenario)


def test_answers_introduce_the_server() -> None:
    async def scenario(clock: VirtualClock) -> None:
        network = MemoryNetwork()
        identity = Identity(language=Language.JAVA, version=407)
        listener = Listener(BROKER, echo, network=network, identity=identity)
        async with listener, Dialer(network=network) as dialer:
            answer = await dialer.request(BROKER, ASK)
            assert (answer.language, answer.version) == (Language.JAVA, 407)

    run_virtual(scenario)


def test_one_connection_too_many_is_closed_and_a_freed_place_is_given_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario(clock: VirtualClock) -> None:
        network = MemoryNetwork()
        listener = Listener(BROKER, echo, network=network, settings=NetSettings(connections_max=1))
        async with listener, Dialer(network=network) as first, Dialer(network=network) as second:
            await first.request(BROKER, ASK)
            refused = await second.connection(BROKER)
            await clock.sleep(0.1)
            assert not refused.is_open
            await first.close()
            await clock.sleep(0.1)
            assert (await second.request(BROKER, ASK)).code == 0

    run_virtual(scenario)
    assert "1 are open, which is the limit (connections_max" in caplog.text


def test_a_stop_answers_what_was_taken_up_and_takes_up_no_more() -> None:
    taken: list[tuple[Connection, Frame]] = []

    async def scenario(clock: VirtualClock) -> None:
        network = MemoryNetwork()
        listener = Listener(BROKER, lambda *request: taken.append(request), network=network)
        await listener.start()
        async with Dialer(network=network) as dialer:
            first = asyncio.create_task(dialer.request(BROKER, ASK))
            await clock.sleep(0.1)
            closing = asyncio.create_task(listener.close())
            await clock.sleep(0.1)
            second = asyncio.create_task(dialer.request(BROKER, ASK))
            await clock.sleep(0.1)
            ((connection, request),) = taken
            connection.respond(request, Response())
            assert (await first).code == ResponseCode.SUCCESS
            with pytest.raises(ConnectionClosed):
                await second
            await closing

    run_virtual(scenario)


def test_a_listener_that_never_started_can_be_closed() -> None:
    async def scenario(clock: VirtualClock) -> None:
        await Listener(BROKER, echo, network=MemoryNetwork()).close()

    run_virtual(scenario)


def test_a_connection_that_never_came_to_stand_can_be_closed() -> None:
    async def scenario(clock: VirtualClock) -> None:
        listener = Listener(BROKER, echo, network=MemoryNetwork())
        connection: Connection = listener._accept()
        assert listener.connections == set()
        await connection.close("the handshake failed")
        assert connection.close_reason == "the handshake failed"

    run_virtual(scenario)
