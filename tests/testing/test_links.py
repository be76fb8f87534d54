import asyncio
import ssl

import pytest

from orbitmq.errors import ConnectFailed, ConnectionClosed, RequestTimeout
from orbitmq.net.address import Address
from orbitmq.net.dialer import Dialer
from orbitmq.net.listener import Listener
from orbitmq.net.transport.network import TlsMode
from orbitmq.randomness import SeededRandomness
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


def test_a_partition_loses_bytes_silently() -> None:
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


def test_a_cut_notifies_both_ends() -> None:
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
        with pytest.raises(ValueError, match="does not support TLS"):
            await network.connect(asyncio.Protocol(), BROKER, tls=tls)
        with pytest.raises(ValueError, match="does not support TLS"):
            await network.listen(
                asyncio.Protocol, BROKER, tls=tls, mode=TlsMode.PERMISSIVE, handshake_timeout_ms=1
            )

    run_virtual(scenario)


def test_bytes_that_come_after_an_end_whose_word_was_lost_are_answered_with_a_reset() -> None:
    async def scenario(clock: VirtualClock) -> None:
        network = MemoryNetwork(delay_s=0.01)
        async with Listener(BROKER, echo, network=network) as listener:
            async with Dialer(network=network) as dialer:
                connection = await dialer.connection(BROKER)
                (server_side,) = listener.connections
                network.carries = False
                await server_side.close()
                network.carries = True
                assert connection.is_open
                with pytest.raises(ConnectionClosed, match="was reset"):
                    await connection.request(ASK)

    run_virtual(scenario)


def test_a_host_that_crashes_takes_its_ports_and_connections_with_it() -> None:
    async def scenario(clock: VirtualClock) -> None:
        network = MemoryNetwork(delay_s=0.01)
        host = network.host("broker-a")
        async with Listener(BROKER, echo, network=host) as listener:
            async with Dialer(network=network) as dialer:
                connection = await dialer.connection(BROKER)
                host.crash()
                await clock.sleep(0.1)
                assert "was reset" in connection.close_reason
                assert len(listener.connections) == 1  # its protocols were not notified
                with pytest.raises(ConnectFailed, match="no listener"):
                    await dialer.connection(BROKER)

    run_virtual(scenario)


def test_a_host_that_loses_its_power_says_nothing() -> None:
    async def scenario(clock: VirtualClock) -> None:
        network = MemoryNetwork()
        host = network.host("broker-a")
        async with Listener(BROKER, echo, network=host), Dialer(network=network) as dialer:
            connection = await dialer.connection(BROKER)
            host.crash(silent=True)
            with pytest.raises(RequestTimeout):
                await connection.request(ASK, timeout_ms=100)
            assert connection.is_open
            assert network.lost == 2  # the host, and the request

    run_virtual(scenario)


def test_a_host_that_is_cut_off_leaves_the_others_alone() -> None:
    async def scenario(clock: VirtualClock) -> None:
        network = MemoryNetwork()
        near, far = network.host("near"), network.host("far")
        async with Listener(BROKER, echo, network=network):
            async with Dialer(network=near) as first, Dialer(network=far) as second:
                await first.connection(BROKER)
                await second.connection(BROKER)
                far.carries = False
                assert (await first.request(BROKER, ASK, b"here")).body == b"here"
                with pytest.raises(RequestTimeout):
                    await second.request(BROKER, ASK, timeout_ms=100)

    run_virtual(scenario)


def test_a_random_loss_also_loses_everything_after_it() -> None:
    async def scenario(clock: VirtualClock) -> None:
        network = MemoryNetwork(chance=SeededRandomness(1))
        async with Listener(BROKER, echo, network=network), Dialer(network=network) as dialer:
            connection = await dialer.connection(BROKER)
            network.loss = 1  # every write
            with pytest.raises(RequestTimeout):
                await connection.request(ASK, timeout_ms=100)
            network.loss = 0
            with pytest.raises(RequestTimeout):
                await connection.request(ASK, timeout_ms=100)
            connection.abort("it went silent")
            assert (await dialer.request(BROKER, ASK, b"anew")).body == b"anew"

    run_virtual(scenario)


def test_a_watch_sees_what_is_written_lost_or_not() -> None:
    async def scenario(clock: VirtualClock) -> None:
        network = MemoryNetwork()
        seen: list[tuple[str, bool]] = []
        network.watch = lambda whence, _whither, data: seen.append((whence.host, b"hello" in data))
        async with Listener(BROKER, echo, network=network):
            async with Dialer(network=network.host("client")) as dialer:
                await dialer.request(BROKER, ASK, b"hello")
        assert seen[:2] == [("client", True), ("broker-a", True)]

    run_virtual(scenario)


def test_two_hosts_are_parted_alone_and_what_was_broken_is_reset_in_time() -> None:
    async def scenario(clock: VirtualClock) -> None:
        network = MemoryNetwork(gives_up_s=5)
        server, near, far = network.host("server"), network.host("near"), network.host("far")
        async with (
            Listener(BROKER, echo, network=server),
            Dialer(network=near) as cut_off,
            Dialer(network=far) as other,
        ):
            connection = await cut_off.connection(BROKER)
            network.part(near, server)
            with pytest.raises(RequestTimeout):
                await connection.request(ASK, timeout_ms=100)
            assert (await other.request(BROKER, ASK, b"heard")).body == b"heard"
            network.join(near, server)
            with pytest.raises(RequestTimeout):  # what follows a gap never arrives
                await connection.request(ASK, timeout_ms=100)
            with pytest.raises(ConnectionClosed, match="reset"):
                await connection.request(ASK, timeout_ms=9_000)
            assert clock.monotonic_ms() == 5_000
            assert (await cut_off.request(BROKER, ASK, b"again")).body == b"again"

    run_virtual(scenario)


def test_a_firewall_between_two_hosts_resets_and_refuses_until_it_is_open_again() -> None:
    async def scenario(_clock: VirtualClock) -> None:
        network = MemoryNetwork()
        server, near, far = network.host("server"), network.host("near"), network.host("far")
        async with (
            Listener(BROKER, echo, network=server),
            Dialer(network=near) as rejected,
            Dialer(network=far) as other,
        ):
            connection = await rejected.connection(BROKER)
            network.reject(server, near)
            with pytest.raises(ConnectionClosed, match="reset"):
                await connection.request(ASK, timeout_ms=100)
            with pytest.raises(ConnectFailed, match="rejects"):
                await rejected.request(BROKER, ASK, b"again")
            assert (await other.request(BROKER, ASK, b"heard")).body == b"heard"
            network.join(server, near)
            assert (await rejected.request(BROKER, ASK, b"again")).body == b"again"

    run_virtual(scenario)


def test_one_direction_is_parted_or_slow() -> None:
    async def scenario(clock: VirtualClock) -> None:
        network = MemoryNetwork()
        server, client = network.host("server"), network.host("client")
        async with Listener(BROKER, echo, network=server), Dialer(network=client) as dialer:
            await dialer.connection(BROKER)
            network.slow_down(client, server, 0.5)
            await dialer.request(BROKER, ASK)
            assert clock.monotonic_ms() == 1_000
            network.join(client, server)
            network.part(server, client, one_way=True)
            lost = network.lost
            with pytest.raises(RequestTimeout):
                await dialer.request(BROKER, ASK, timeout_ms=100)
            assert network.lost == lost + 1  # the answer, not the request
            network.join(server, client)
            network.cut(server, client)
            await clock.sleep(0.1)
            assert (await dialer.request(BROKER, ASK, b"again")).body == b"again"

    run_virtual(scenario)
