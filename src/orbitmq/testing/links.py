"""A network in memory: connections without sockets, for tests that control time and failures.

Both ends are on one loop. Bytes arrive in order, after a delay, unless the network is partitioned;
a reader that stops slows the writer down, as with TCP. On a virtual loop every run is the same.

A network has hosts; one of them can crash or be cut off while the others go on. Connections made
through the network itself belong to a host named ``memory``.

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
import contextvars
import itertools
import ssl
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from orbitmq.net.address import Address
from orbitmq.net.transport.network import OpenPort, TlsMode
from orbitmq.randomness import Randomness

__all__ = ["MemoryHost", "MemoryNetwork"]

_HIGH_WATER: Final = 64 * 1024
_LOW_WATER: Final = 16 * 1024
_FIRST_FREE_PORT: Final = 40_000

_EOF: Final = b""

Accept = Callable[[], asyncio.Protocol]


class MemoryNetwork:
    """A network within this object; delays and loss may be changed at any time.

    Bytes travel for ``delay_s``, plus up to ``jitter_s`` at random. One write in ``loss`` is lost
    at random, with everything after it in the same direction, as when TCP retransmits in vain; 0
    for none. ``chance`` is the randomness of both. TCP gives up after ``gives_up_s``: then such a
    connection is reset; 0 for never.

    ``carries`` is False for a partition: everything written is lost silently. ``part`` cuts off two
    hosts from each other alone: what they write meanwhile is lost with everything after it.
    ``reject`` resets what is between two hosts and refuses more, as a firewall may.
    ``slow_down`` delays what they say. ``lost`` counts writes and closes that never arrived.
    ``watch`` is called with source, destination and bytes of every write, lost or not.
    """

    def __init__(
        self,
        *,
        delay_s: float = 0.0,
        jitter_s: float = 0.0,
        loss: int = 0,
        gives_up_s: float = 0.0,
        chance: Randomness | None = None,
    ) -> None:
        self.delay_s = delay_s
        self.jitter_s = jitter_s
        self.gives_up_s = gives_up_s
        self.loss = loss
        self.carries = True
        self.lost = 0
        self.watch: Callable[[Address, Address, bytes], None] = lambda _from, _to, _data: None
        self._chance = chance
        self._listening: dict[Address, _MemoryPort] = {}
        self._ports = itertools.count(_FIRST_FREE_PORT)
        self._ends: dict[_End, None] = {}
        self._parted: set[tuple[str, str]] = set()  # names of source and target
        self._rejecting: set[tuple[str, str]] = set()
        self._slow_s: dict[tuple[str, str], float] = {}
        self._own = self.host("memory")

    def __repr__(self) -> str:
        return f"<MemoryNetwork {len(self._listening)} listening, {len(self._ends)} ends>"

    def host(self, name: str) -> "MemoryHost":
        """Return a new host; servers and clients use it as their network."""
        return MemoryHost(self, name)

    async def connect(
        self, protocol: asyncio.Protocol, address: Address, *, tls: ssl.SSLContext | None
    ) -> None:
        """Connect ``protocol`` to the listener at ``address``; see ``MemoryHost.connect``."""
        await self._own.connect(protocol, address, tls=tls)

    async def listen(
        self,
        accept: Accept,
        address: Address,
        *,
        tls: ssl.SSLContext | None,
        mode: TlsMode,
        handshake_timeout_ms: int,
    ) -> OpenPort:
        """Accept connections with protocols made by ``accept``; see ``MemoryHost.listen``."""
        return await self._own.listen(
            accept, address, tls=tls, mode=mode, handshake_timeout_ms=handshake_timeout_ms
        )

    def cut(self, one: "MemoryHost | None" = None, other: "MemoryHost | None" = None) -> None:
        """Reset all connections, or those between two hosts; new ones can be made."""
        for end in list(self._ends):
            pair = (end.host, end.other.host)
            if one is None or pair in ((one, other), (other, one)):
                end.break_off()

    def part(self, source: "MemoryHost", target: "MemoryHost", *, one_way: bool = False) -> None:
        """Lose everything between two hosts, or what the first says, until ``join``."""
        self._parted.add((source.name, target.name))
        if not one_way:
            self._parted.add((target.name, source.name))

    def reject(self, one: "MemoryHost", other: "MemoryHost") -> None:
        """Reset all connections between two hosts, and refuse new ones, until ``join``."""
        self._rejecting |= {(one.name, other.name), (other.name, one.name)}
        self.cut(one, other)

    def slow_down(self, one: "MemoryHost", other: "MemoryHost", seconds: float) -> None:
        """Let everything between two hosts travel for longer, until ``join``."""
        self._slow_s[one.name, other.name] = self._slow_s[other.name, one.name] = seconds

    def join(self, one: "MemoryHost", other: "MemoryHost") -> None:
        """End what ``part``, ``reject`` and ``slow_down`` have done to two hosts."""
        for pair in ((one.name, other.name), (other.name, one.name)):
            self._parted.discard(pair)
            self._rejecting.discard(pair)
            self._slow_s.pop(pair, None)

    def is_parted(self, source: "MemoryHost", target: "MemoryHost") -> bool:
        """Return whether ``part`` keeps what one host says from another."""
        return (source.name, target.name) in self._parted

    def reaches(self, source: "MemoryHost", target: "MemoryHost") -> bool:
        """Return whether what one host says arrives at another."""
        if not (self.carries and source.carries and target.carries):
            return False
        return not self.is_parted(source, target)

    def travel_s(self, source: "MemoryHost", target: "MemoryHost") -> float:
        """Return how long the next bytes travel."""
        jitter = self._chance.uniform(0, self.jitter_s) if self._chance and self.jitter_s else 0.0
        return self.delay_s + jitter + self._slow_s.get((source.name, target.name), 0.0)

    def loses(self) -> bool:
        """Return whether the next bytes are lost at random."""
        return bool(self.loss and self._chance and self._chance.below(self.loss) == 0)


class MemoryHost:
    """One machine on a network, and the `Network` of the code that runs there.

    ``carries`` is False while it is cut off: nothing arrives there or leaves.
    """

    def __init__(self, network: MemoryNetwork, name: str) -> None:
        self.name = name
        self.carries = True
        self._network = network

    def __repr__(self) -> str:
        return f"<MemoryHost {self.name}>"

    async def connect(
        self, protocol: asyncio.Protocol, address: Address, *, tls: ssl.SSLContext | None
    ) -> None:
        """Connect ``protocol`` to the listener at ``address``; this network has no TLS."""
        _refuse(tls)
        network = self._network
        port = network._listening.get(address)
        there = self if port is None else port.host
        await asyncio.sleep(2 * network.travel_s(self, there))  # there and back
        port = network._listening.get(address)
        there = self if port is None else port.host
        if not (network.reaches(self, there) and network.reaches(there, self)):
            network.lost += 1
            await asyncio.get_running_loop().create_future()  # a lost SYN: wait for the timeout
        if port is None:
            raise ConnectionRefusedError(f"no listener at {address}")
        if (self.name, there.name) in network._rejecting:
            raise ConnectionRefusedError(f"{there.name} rejects what {self.name} says")
        local = Address(self.name, next(network._ports))
        near = _End(self, protocol, local, address, contextvars.copy_context())
        far = _End(port.host, port.context.run(port.accept), address, local, port.context.copy())
        near.other, far.other = far, near
        network._ends |= {near: None, far: None}
        far.begin()
        near.begin()

    async def listen(
        self,
        accept: Accept,
        address: Address,
        *,
        tls: ssl.SSLContext | None,
        mode: TlsMode,  # noqa: ARG002 - there is only plain text here
        handshake_timeout_ms: int,  # noqa: ARG002 - there is no handshake here
    ) -> OpenPort:
        """Accept connections with protocols made by ``accept``; this network has no TLS."""
        _refuse(tls)
        listening = self._network._listening
        if not address.port:
            address = address._replace(port=next(self._network._ports))
        if address in listening:
            raise OSError(f"{address} is in use")
        port = _MemoryPort(self, listening, accept, address)
        listening[address] = port
        return port

    def crash(self, *, silent: bool = False) -> None:
        """End all connections and listeners of the host without notifying its protocols.

        With ``silent`` the peers are not notified either, as in a power loss. Otherwise their
        connections are reset, as when a process ends.
        """
        network = self._network
        for address, port in list(network._listening.items()):
            if port.host is self:
                del network._listening[address]
        for end in [end for end in network._ends if end.host is self]:
            end.vanish(silent=silent)


def _refuse(tls: ssl.SSLContext | None) -> None:
    if tls is not None:
        raise ValueError("MemoryNetwork does not support TLS; use loopback sockets instead")


@dataclass(eq=False)
class _MemoryPort:
    host: MemoryHost
    _listening: "dict[Address, _MemoryPort]"
    accept: Accept
    address: Address
    context: contextvars.Context = field(init=False, default_factory=contextvars.copy_context)

    async def close(self) -> None:
        if self._listening.get(self.address) is self:
            del self._listening[self.address]


class _End(asyncio.Transport):
    """One end of a connection: the transport of its protocol.

    The protocol is called in the context of the code that connected or listened, as on a real loop.
    """

    other: "_End"

    def __init__(
        self,
        host: MemoryHost,
        protocol: asyncio.Protocol,
        local: Address,
        peer: Address,
        context: contextvars.Context,
    ) -> None:
        super().__init__({"peername": (peer.host, peer.port)})
        self.host = host
        self._network = host._network
        self._protocol = protocol
        self._local = local
        self._peer = peer
        self._context = context
        self._loop = asyncio.get_running_loop()
        self._inbox: deque[bytes] = deque()
        self._unread = 0
        self._reading = True
        self._writing_paused = False
        self._broken = False  # nothing written here arrives any more
        self._closing = False
        self._lost = False

    def begin(self) -> None:
        self._context.run(self._protocol.connection_made, self)

    # Out

    def write(self, data: Any) -> None:
        if self._closing or not len(data) or not self._post(bytes(data)):
            return
        if self.other._unread > _HIGH_WATER and not self._writing_paused:
            self._writing_paused = True
            self._protocol.pause_writing()

    def writelines(self, list_of_data: Iterable[Any]) -> None:
        self.write(b"".join(list_of_data))

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Do nothing: what is written arrives."""

    def get_write_buffer_size(self) -> int:
        return self.other._unread

    def close(self) -> None:
        if not self._closing:
            self._closing = True
            self._post(_EOF)
            self._soon(self._lose, None)

    def abort(self) -> None:
        if not self._lost:
            self._closing = True
            if self._carries():
                self._reset_other()
            self._soon(self._lose, None)

    def is_closing(self) -> bool:
        return self._closing

    def _carries(self) -> bool:
        if self._network.reaches(self.host, self.other.host) and not self._broken:
            return True
        self._network.lost += 1
        return False

    def _post(self, data: bytes) -> bool:
        """Send bytes; return whether they will arrive."""
        self._network.watch(self._local, self._peer, data)
        if not self._broken and (
            self._network.is_parted(self.host, self.other.host) or self._network.loses()
        ):
            self._break()
        if not self._carries():
            return False
        other = self.other
        other._inbox.append(data)
        other._unread += len(data)
        # The inbox keeps the order, even if two timers for the same time fire in another order.
        travel_s = self._network.travel_s(self.host, other.host)
        self._loop.call_later(travel_s, other._deliver, context=other._context)
        return True

    # In

    def pause_reading(self) -> None:
        self._reading = False

    def resume_reading(self) -> None:
        self._reading = True
        for _ in range(len(self._inbox)):
            self._soon(self._deliver)

    def is_reading(self) -> bool:
        return self._reading

    def _deliver(self) -> None:
        if self._lost and self._carries():
            self._reset_other()  # this end is gone, and the peer may not know yet
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
        if self._writing_paused and self.other._unread <= _LOW_WATER and not self._lost:
            self._writing_paused = False
            self._context.run(self._protocol.resume_writing)

    # End

    def _break(self) -> None:
        """Lose what is written from now on; both ends hear of it when TCP has given up."""
        if self._network.gives_up_s and not self._broken:
            for end in (self, self.other):
                self._loop.call_later(self._network.gives_up_s, end.break_off, context=end._context)
        self._broken = True

    def break_off(self) -> None:
        """Close with a connection reset."""
        if not self._lost:
            self._closing = True
            self._soon(self._lose, ConnectionResetError("the connection was reset"))

    def vanish(self, *, silent: bool) -> None:
        """Disappear without notifying the protocol of this end."""
        if silent:
            self.other._break()
            self._network.lost += 1
        elif self._carries():
            self._reset_other()
        self._closing = self._lost = True
        self._network._ends.pop(self, None)

    def _reset_other(self) -> None:
        other = self.other
        self._loop.call_later(self._network.delay_s, other.break_off, context=other._context)

    def _lose(self, error: Exception | None) -> None:
        if not self._lost:
            self._lost = True
            self._network._ends.pop(self, None)
            self._protocol.connection_lost(error)

    def _soon(self, call: Callable[..., None], *args: object) -> None:
        self._loop.call_soon(call, *args, context=self._context)
