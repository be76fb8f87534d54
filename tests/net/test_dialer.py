import asyncio

import pytest

from orbitmq.errors import ConnectFailed, ConnectionClosed
from orbitmq.net.address import Address
from orbitmq.net.connection import Connection, Handler
from orbitmq.net.dialer import Dialer
from orbitmq.net.listener import Listener
from orbitmq.net.settings import NetSettings
from orbitmq.testing.clocks import VirtualClock, run_virtual
from orbitmq.testing.links import MemoryNetwork
from orbitmq.wire.codes import ResponseCode
from orbitmq.wire.frame import Frame
from orbitmq.wire.headers.route import GetRouteInfo
from orbitmq.wire.session import Response

BROKER = Address("broker-a", 10911)
ASK = GetRouteInfo(topic="orders")


def echo(connection: Connection, request: Frame) -> Response:
    return Response(body=request.body)


def test_all_callers_share_one_connection_and_one_dial() -> None:
    async def scenario(clock: VirtualClock) -> None:
        network = MemoryNetwork(delay_s=0.1)
        async with (
            Listener(BROKER, echo, network=network) as listener,
            Dialer(network=network) as dialer,
        ):
            found = await asyncio.gather(*(dialer.connection(BROKER) for _ in range(10)))
            assert len(set(found)) == 1
            assert await dialer.connection(BROKER) is found[0]
            assert dialer.connections == {BROKER: found[0]}
            assert len(listener.connections) == 1

    run_virtual(scenario)


def test_a_caller_that_gives_up_does_not_take_the_dial_from_others() -> None:
    async def scenario(clock: VirtualClock) -> None:
        network = MemoryNetwork(delay_s=0.1)
        async with Listener(BROKER, echo, network=network), Dialer(network=network) as dialer:
            first = asyncio.create_task(dialer.connection(BROKER))
            second = asyncio.create_task(dialer.connection(BROKER))
            await asyncio.sleep(0)
            first.cancel()
            assert (await second).is_open

    run_virtual(scenario)


def test_the_next_caller_dials_a_lost_connection_again() -> None:
    async def scenario(clock: VirtualClock) -> None:
        network = MemoryNetwork()
        async with Listener(BROKER, echo, network=network), Dialer(network=network) as dialer:
            before = await dialer.connection(BROKER)
            network.cut()
            await clock.sleep(0.1)
            assert dialer.connections == {}
            assert (await dialer.request(BROKER, ASK, b"again")).body == b"again"
            assert await dialer.connection(BROKER) is not before

    run_virtual(scenario)


def sends_away(times: int) -> Handler:
    """Serve as a broker that is about to stop does, so often."""
    left = iter(range(times))

    def serve(connection: Connection, request: Frame) -> Response:
        if next(left, None) is not None:
            return Response(ResponseCode.GO_AWAY, remark="please go away")
        return echo(connection, request)

    return serve


@pytest.mark.parametrize(("times", "code"), [(1, ResponseCode.SUCCESS), (2, ResponseCode.GO_AWAY)])
def test_after_go_away_the_request_is_sent_on_a_new_connection(times: int, code: int) -> None:
    async def scenario(clock: VirtualClock) -> None:
        network = MemoryNetwork()
        async with (
            Listener(BROKER, sends_away(times), network=network) as listener,
            Dialer(network=network) as dialer,
        ):
            before = await dialer.connection(BROKER)
            assert (await dialer.request(BROKER, ASK, b"again")).code == code
            assert not before.is_open
            assert (await dialer.request(BROKER, ASK, b"at last")).body == b"at last"
            await clock.sleep(0.1)
            assert len(listener.connections) == 1

    run_virtual(scenario)


def test_a_connection_that_leaves_is_closed_with_the_dialer() -> None:
    def serve(connection: Connection, request: Frame) -> Response | None:
        return None if request.body else Response(ResponseCode.GO_AWAY)

    async def scenario(clock: VirtualClock) -> None:
        network = MemoryNetwork()
        async with Listener(BROKER, serve, network=network):
            dialer = Dialer(network=network)
            waiter = asyncio.create_task(dialer.request(BROKER, ASK, b"never answered"))
            await asyncio.sleep(0)
            leaving = await dialer.connection(BROKER)
            await dialer.request(BROKER, ASK)
            assert dialer.connections[BROKER] is not leaving
            await dialer.close()
            with pytest.raises(ConnectionClosed, match="the client stops"):
                await waiter
            assert leaving.close_reason == "the client stops"

    run_virtual(scenario)


def test_a_failed_dial_fails_all_waiting_callers_and_the_next_dials_again() -> None:
    async def scenario(clock: VirtualClock) -> None:
        network = MemoryNetwork()
        async with Dialer(network=network) as dialer:
            found = await asyncio.gather(
                *(dialer.connection(BROKER) for _ in range(3)), return_exceptions=True
            )
            assert [type(one) for one in found] == [ConnectFailed] * 3
            assert "no connection to broker-a:10911: no listener" in str(found[0])
            async with Listener(BROKER, echo, network=network):
                assert (await dialer.connection(BROKER)).is_open

    run_virtual(scenario)


def test_a_dial_that_takes_too_long_fails_at_the_connect_timeout() -> None:
    async def scenario(clock: VirtualClock) -> None:
        network = MemoryNetwork()
        network.carries = False
        async with Dialer(network=network, settings=NetSettings(connect_timeout_ms=700)) as dialer:
            with pytest.raises(ConnectFailed, match="within 700 ms") as caught:
                await dialer.connection(BROKER)
            assert caught.value.retriable
            assert caught.value.refresh_route
            assert caught.value.address == "broker-a:10911"
        assert clock.monotonic_ms() == 700

    run_virtual(scenario)


def test_a_closed_dialer_dials_no_more_and_fails_what_waits() -> None:
    async def scenario(clock: VirtualClock) -> None:
        network = MemoryNetwork()
        async with Listener(BROKER, lambda *_: None, network=network):
            dialer = Dialer(network=network)
            waiter = asyncio.create_task(dialer.request(BROKER, ASK))
            await clock.sleep(0.1)
            network.carries = False
            dialling = asyncio.create_task(dialer.connection(Address("broker-b", 1)))
            await clock.sleep(0.1)
            assert repr(dialer) == "<Dialer 1 open, 1 being dialled>"
            await dialer.close()
            with pytest.raises(ConnectionClosed, match="the client stops"):
                await waiter
            for late in (dialling, dialer.connection(BROKER)):
                with pytest.raises(ConnectionClosed, match="the dialer was closed"):
                    await late
            network.carries = True

    run_virtual(scenario)
