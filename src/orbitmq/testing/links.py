"""A network in memory: connections without sockets, for tests that own time and failure.

Both ends live on one loop. Bytes arrive in order, after a delay, as long as the network carries
them; a reader that stops is felt by the writer, as over TCP. On a virtual loop a run is the same
every time.

>>> import asyncio
>>> from orbitmq.net.address import Address
>>> from orbitmq.net.dialer import Dialer
>>> from orbitmq.net.listener import Listener
>>> from orbitmq.testing.clocks import run_virtual
>>> from orbitmq.wire.headers.route import GetRouteInfo
>>> from orbitmq.wire.session import Response
>>> async def main(clock):
...     network = MemoryNetwork(delay_s=0.25)
...     address = Address("broker-a", 10911)
...     async with Listener(address, lambda _, request: Response(0), network=network):
...         async with Dialer(network=network) as dialer:
...             await dialer.request(address, GetRouteInfo(topic="orders"))
...             return clock.monotonic_ms()
>>> run_virtual(main)
1000
"""

import asyncio
import itertools
import ssl
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Final

from orbitmq.net.address import Address
from orbitmq.net.network import OpenPort, TlsMode

__all__ = ["MemoryNetwork"]

_HIGH_WATER: Final = 64 * 1024
_LOW_WATER: Final = 16 * 1024
_FIRST_FREE_PORT: Final = 40_000

_EOF: Final = b""


class MemoryNetwork:
    """A network that exists in this object alone.

    Attributes:
        delay_s: how long bytes travel.
        carries: False: what is written from now on is lost, and nobody is told (a partition).

    """

    def __init__(self, *, delay_s: float = 0.0) -> None:
        self.delay_s = delay_s
        self.carries = True
        self._listening: dict[Address, Callable[[], asyncio.Protocol]] = {}
        self._ports = itertools.count(_FIRST_FREE_PORT)
        self._ends: list[_End] = []

    def __repr__(self) -> str:
        return f"<MemoryNetwork {len(self._listening)} listening, {len(self._ends)} ends>"

    async def connect(
        self, protocol: asyncio.Protocol, address: Address, *, tls: ssl.SSLContext | None
    ) -> None:
        """Join ``protocol`` to whoever listens at ``address``.

        Raises:
            ConnectionRefusedError: nobody listens there.
            ValueError: TLS was asked for; this network has none.

        """
        _refuse(tls)
        await asyncio.sleep(2 * self.delay_s)  # there and back
        if not self.carries:
            await asyncio.get_running_loop().create_future()  # as a lost SYN: until the timeout
        accept = self._listening.get(address)
        if accept is None:
            raise ConnectionRefusedError(f"nobody listens at {address}")
        local = Address("memory", next(self._ports))
        near, far = _End(self, protocol, peer=address), _End(self, accept(), peer=local)
        near.other, far.other = far, near
        self._ends += (near, far)
        far.begin()
        near.begin()

    async def listen(
        self,
        accept: Callable[[], asyncio.Protocol],
        address: Address,
        *,
        tls: ssl.SSLContext | None,
        mode: TlsMode,  # noqa: ARG002 - every peer speaks plain text here
        handshake_timeout_ms: int,  # noqa: ARG002 - nobody is slow to begin here
    ) -> OpenPort:
        """Join each peer that comes to a protocol made by ``accept``.

        Raises:
            OSError: somebody listens there already.
            ValueError: TLS was asked for; this network has none.

        """
        _refuse(tls)
        if not address.port:
            address = address._replace(port=next(self._ports))
        if address in self._listening:
            raise OSError(f"{address} is in use")
        self._listening[address] = accept
        return _MemoryPort(self._listening, address)

    def cut(self) -> None:
        """Break every connection there is; new ones can be made."""
        for end in list(self._ends):
            end.break_off()

    def forget(self, end: "_End") -> None:
        """Drop an end that has closed."""
        if end in self._ends:
            self._ends.remove(end)


def _refuse(tls: ssl.SSLContext | None) -> None:
    if tls is not None:
        raise ValueError("a MemoryNetwork has no TLS; test it over loopback")


class _MemoryPort:
    def __init__(
        self, listening: dict[Address, Callable[[], asyncio.Protocol]], address: Address
    ) -> None:
        self._listening = listening
        self.address = address

    async def close(self) -> None:
        self._listening.pop(self.address, None)


class _End(asyncio.Transport):
    """One end of a connection: a transport to the protocol on it."""

    other: "_End"

    def __init__(self, network: MemoryNetwork, protocol: asyncio.Protocol, peer: Address) -> None:
        super().__init__({"peername": (peer.host, peer.port)})
        self._network = network
        self._protocol = protocol
        self._loop = asyncio.get_running_loop()
        self._inbox: deque[bytes] = deque()
        self._unread = 0
        self._reading = True
        self._writing_paused = False
        self._closing = False
        self._lost = False

    def begin(self) -> None:
        self._protocol.connection_made(self)

    # Out

    def write(self, data: Any) -> None:
        if not self._closing and self._network.carries and len(data):
            self._post(bytes(data))
            if self.other._unread > _HIGH_WATER and not self._writing_paused:
                self._writing_paused = True
                self._protocol.pause_writing()

    def writelines(self, list_of_data: Iterable[Any]) -> None:
        self.write(b"".join(list_of_data))

    def get_write_buffer_size(self) -> int:
        return self.other._unread

    def close(self) -> None:
        if not self._closing:
            self._closing = True
            if self._network.carries:
                self._post(_EOF)
            self._loop.call_soon(self._lose, None)

    def abort(self) -> None:
        if not self._lost:
            self._closing = True
            if self._network.carries:
                self._loop.call_later(self._network.delay_s, self.other.break_off)
            self._loop.call_soon(self._lose, None)

    def is_closing(self) -> bool:
        return self._closing

    def _post(self, data: bytes) -> None:
        other = self.other
        other._inbox.append(data)
        other._unread += len(data)
        # The inbox keeps the order, whichever of two timers for one moment fires first.
        self._loop.call_later(self._network.delay_s, other._deliver)

    # In

    def pause_reading(self) -> None:
        self._reading = False

    def resume_reading(self) -> None:
        self._reading = True
        for _ in range(len(self._inbox)):
            self._loop.call_soon(self._deliver)

    def is_reading(self) -> bool:
        return self._reading

    def _deliver(self) -> None:
        if not self._reading or self._lost or not self._inbox:
            return
        data = self._inbox.popleft()
        self._unread -= len(data)
        self.other._peer_read()
        if data == _EOF:
            self._closing = True
            self._lose(None)
        else:
            self._protocol.data_received(data)

    def _peer_read(self) -> None:
        if self._writing_paused and self.other._unread <= _LOW_WATER:
            self._writing_paused = False
            self._protocol.resume_writing()

    # End

    def break_off(self) -> None:
        """Close as a connection does that was reset."""
        if not self._lost:
            self._closing = True
            self._loop.call_soon(self._lose, ConnectionResetError("the connection was reset"))

    def _lose(self, error: Exception | None) -> None:
        if not self._lost:
            self._lost = True
            self._network.forget(self)
            self._protocol.connection_lost(error)
