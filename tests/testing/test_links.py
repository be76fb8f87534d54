import asyncio
import ssl

import pytest

from orbitmq.errors import ConnectionClosed, RequestTimeout
from orbitmq.net.address import Address
from orbitmq.net.dialer import Dialer
from orbitmq.net.listener import Listener
from orbitmq.net.network import TlsMode
from orbitmq.testing.clocks import VirtualClock, run_virtual
from orbitmq.testing.links import MemoryNetwork
from tests.net.loopback import ASK, echo

BROKER = Address("broker-a", 10911)


def test_a_request_takes_a_round_trip_and_a_dial_another() -> None:
    async def scenario(clock: VirtualClock) -> None:
        network = MemoryNetwork(delay_s=0.05)
        async with Listener(BROKER, echo, network=network), Dialer(network=network) as dialer:
            await dialer.connection(BROKER)
            assert clock.monotonic_ms() == 100
            await dialer.request(BROKER, ASK)
            assert clock.monotonic_ms() == 200

    run_virtual(scenario)


def test_order_holds_even_if_the_delay_shrinks_on_the_way() -> None:
    async def scenario(clock: VirtualClock) -> None:
        network = MemoryNetwork(delay_s=1)
        async with Listener(BROKER, echo, network=network), Dialer(network=network) as dialer:
            connection = await dialer.connection(BROKER)
            slow = connection.start_request(ASK, b"first", timeout_ms=9000)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            network.delay_s = 0.1
            quick = connection.start_request(ASK, b"second", timeout_ms=9000)
            done, _ = await asyncio.wait([slow, quick], return_when=asyncio.FIRST_COMPLETED)
            assert slow in done

    run_virtual(scenario)


def test_a_partition_loses_bytes_and_tells_nobody() -> None:
    async def scenario(clock: VirtualClock) -> None:
        network = MemoryNetwork()
        async with Listener(BROKER, echo, network=network), Dialer(network=network) as dialer:
            connection = await dialer.connection(BROKER)
            network.carries = False
            with pytest.raises(RequestTimeout):
                await connection.request(ASK, timeout_ms=100)
            assert connection.is_open
            network.carries = True
            assert (await connection.request(ASK, b"again")).body == b"again"

    run_virtual(scenario)


def test_a_cut_is_told_to_both_ends() -> None:
    async def scenario(clock: VirtualClock) -> None:
        network = MemoryNetwork()
        async with Listener(BROKER, echo, network=network) as listener:
            async with Dialer(network=network) as dialer:
                connection = await dialer.connection(BROKER)
                (server_side,) = listener.connections
                network.cut()
                await clock.sleep(0.1)
                assert "was reset" in connection.close_reason
                assert "was reset" in server_side.close_reason
                with pytest.raises(ConnectionClosed):
                    await connection.request(ASK)
        assert repr(network) == "<MemoryNetwork 0 listening, 0 ends>"

    run_virtual(scenario)


def test_tls_is_refused_since_there_is_none() -> None:
    async def scenario(clock: VirtualClock) -> None:
        network = MemoryNetwork()
        tls = ssl.create_default_context()
        with pytest.raises(ValueError, match="no TLS"):
            await network.connect(asyncio.Protocol(), BROKER, tls=tls)
        with pytest.raises(ValueError, match="no TLS"):
            await network.listen(
                asyncio.Protocol, BROKER, tls=tls, mode=TlsMode.PERMISSIVE, handshake_timeout_ms=1
            )

    run_virtual(scenario)
