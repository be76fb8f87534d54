"""Every network keeps the same promises: TCP on both loops, and the one in memory."""

import asyncio
import inspect
from typing import cast

import pytest

from orbitmq.net.address import Address
from orbitmq.net.transport.network import Network, OpenPort, TlsMode
from orbitmq.net.transport.tcp import TcpNetwork
from orbitmq.testing.clocks import VirtualLoop
from orbitmq.testing.links import MemoryNetwork
from tests.net.loopback import LOOPS

KINDS = {
    "tcp-asyncio": (TcpNetwork, LOOPS["asyncio"]),
    "tcp-uvloop": (TcpNetwork, LOOPS["uvloop"]),
    "memory": (MemoryNetwork, VirtualLoop),
}
each_network = pytest.mark.parametrize("kind", KINDS)


class Recorder(asyncio.Protocol):
    """Notes what its transport tells it."""

    def __init__(self) -> None:
        self.received = b""
        self.transport: asyncio.Transport
        self.lost: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop has classes of its own

    def data_received(self, data: bytes) -> None:
        self.received += data

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.set_result(exc)


async def listening(network: Network, accepted: list[Recorder]) -> OpenPort:
    def accept() -> Recorder:
        accepted.append(Recorder())
        return accepted[-1]

    return await network.listen(
        accept, Address("127.0.0.1", 0), tls=None, mode=TlsMode.DISABLED, handshake_timeout_ms=1000
    )


@each_network
def test_bytes_arrive_in_order_and_then_the_end(kind: str) -> None:
    make, loop_factory = KINDS[kind]

    async def scenario() -> None:
        network: Network = make()
        accepted: list[Recorder] = []
        port = await listening(network, accepted)
        near = Recorder()
        await network.connect(near, port.address, tls=None)
        for i in range(100):
            near.transport.write(b"%02d" % i)
        near.transport.close()
        await near.lost
        (far,) = accepted
        assert await far.lost is None
        assert far.received == b"".join(b"%02d" % i for i in range(100))
        await port.close()

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(scenario())


@each_network
def test_a_closed_port_refuses(kind: str) -> None:
    make, loop_factory = KINDS[kind]

    async def scenario() -> None:
        network: Network = make()
        port = await listening(network, [])
        await port.close()
        await asyncio.sleep(0)
        with pytest.raises(ConnectionRefusedError):
            await network.connect(Recorder(), port.address, tls=None)

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(scenario())


@each_network
def test_an_address_in_use_is_an_os_error(kind: str) -> None:
    make, loop_factory = KINDS[kind]

    async def scenario() -> None:
        network: Network = make()
        port = await listening(network, [])
        with pytest.raises(OSError, match="in use"):
            await network.listen(
                Recorder, port.address, tls=None, mode=TlsMode.DISABLED, handshake_timeout_ms=1000
            )
        await port.close()

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(scenario())


def test_the_networks_have_the_methods_of_the_protocol() -> None:
    for method in ("connect", "listen"):
        wanted = inspect.signature(getattr(Network, method))
        for network in (TcpNetwork, MemoryNetwork):
            assert inspect.signature(getattr(network, method)) == wanted
