"""The primary's end: a port for replicas, and one connection for each.

::

    the log grows ──▶ next turn of the loop: pieces to each replica ──▶ transport
    reports ──▶ what each replica has ──▶ waiting sends
"""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Final, cast

from orbitmq.clock import Clock
from orbitmq.errors import LogsDiverged, RemoteProtocolError
from orbitmq.message.buffer import Buffer
from orbitmq.net.address import Address
from orbitmq.net.transport.network import Network, OpenPort, TlsMode
from orbitmq.net.transport.tcp import TcpNetwork
from orbitmq.replication.acks import ReplicaAcks
from orbitmq.replication.feed import Feed, ReplicaFeed
from orbitmq.replication.settings import ReplicationSettings
from orbitmq.store.log.tail import LogTail
from orbitmq.wire.epoch_stream import LinkState

__all__ = ["Primary", "ReplicaLink", "ReplicaPort"]

log = logging.getLogger("orbitmq.replication")

_TURN_BYTES: Final = 1024 * 1024
"""What a replica that is behind gets in one turn of the loop, so that requests don't wait."""
_LINKS_MAX: Final = 64
"""More replicas than anybody has; more connections are a fault, or an attack."""


class ReplicaPort(ABC):
    """Sends the log to all replicas that connect; a subclass says by which stream."""

    def __init__(
        self,
        *,
        settings: Callable[[], ReplicationSettings],
        clock: Clock,
        network: Network | None = None,
    ) -> None:
        self.settings = settings
        self.clock = clock
        self._network = network or TcpNetwork()
        self._port: OpenPort | None = None
        self._links: dict[ReplicaLink, None] = {}
        self._is_scheduled = False

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {len(self._links)} replicas>"

    @abstractmethod
    def new_feed(self) -> Feed:
        """Return what a new connection sends."""

    @abstractmethod
    def reported(self, link: "ReplicaLink") -> None:
        """Note that a replica has said what it has."""

    @property
    def address(self) -> Address | None:
        """Where it listens; None if it doesn't."""
        return None if self._port is None else self._port.address

    @property
    def links(self) -> Iterator["ReplicaLink"]:
        """The connected replicas, the oldest first."""
        return iter(self._links)

    async def start(self, address: Address) -> None:
        """Listen for replicas; raise OSError if the address can't be listened on."""
        self._port = await self._network.listen(
            lambda: ReplicaLink(self), address, tls=None, mode=TlsMode.DISABLED,
            handshake_timeout_ms=self.settings().housekeeping_ms,
        )  # fmt: skip

    async def close(self) -> None:
        """Close the port and all connections."""
        if self._port is not None:
            await self._port.close()
            self._port = None
        for link in list(self._links):
            link.end("the broker stops")

    def written(self) -> None:
        """Send what the log has got, in the next turn of the loop."""
        if self._links and not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._send_all)

    def tick(self) -> None:
        """Send heartbeats, close silent connections; call it a few times a second."""
        now_ms = self.clock.monotonic_ms()
        for link in list(self._links):
            link.tick(now_ms)

    def joined(self, link: "ReplicaLink") -> bool:
        """Note a new connection; return whether there is room for it."""
        if len(self._links) >= _LINKS_MAX:
            return False
        self._links[link] = None
        return True

    def left(self, link: "ReplicaLink") -> None:
        """Note that a connection has ended."""
        self._links.pop(link, None)

    def _send_all(self) -> None:
        self._is_scheduled = False
        for link in list(self._links):
            link.send()


class Primary(ReplicaPort):
    """Sends the log by the classic stream; what replicas have releases the sends that wait."""

    def __init__(
        self,
        *,
        tail: LogTail,
        acks: ReplicaAcks,
        settings: Callable[[], ReplicationSettings],
        clock: Clock,
        network: Network | None = None,
    ) -> None:
        super().__init__(settings=settings, clock=clock, network=network)
        self._tail = tail
        self._acks = acks

    def new_feed(self) -> Feed:
        """Return what a new connection sends."""
        return ReplicaFeed(self._tail, self.settings, self.clock.monotonic_ms())

    def reported(self, link: "ReplicaLink") -> None:
        """Note that a replica has said what it has."""
        self._acks.note(link, link.feed.acked)

    def left(self, link: "ReplicaLink") -> None:
        """Note that a connection has ended."""
        super().left(link)
        self._acks.leave(link)

    def tick(self) -> None:
        """Do what is due, and answer the sends that have waited too long."""
        super().tick()
        self._acks.tick(self.clock.monotonic_ms())

    async def close(self) -> None:
        """Close the port and all connections, and answer the sends that wait."""
        await super().close()
        self._acks.close()


class ReplicaLink(asyncio.Protocol):
    """The connection of one replica."""

    def __init__(self, port: ReplicaPort) -> None:
        self._port = port
        self.feed = port.new_feed()
        """What it gets, and has."""
        self.peer = "?"
        """Its address."""
        self._transport: asyncio.Transport | None = None

    def __repr__(self) -> str:
        return f"<ReplicaLink {self.peer} {self.feed!r}>"

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin; asyncio calls it."""
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass
        host, port = (transport.get_extra_info("peername") or ("?", 0))[:2]
        self.peer = str(Address(str(host), int(port)))
        if not self._port.joined(self):
            self.end(f"there are {_LINKS_MAX} replicas already")

    def connection_lost(self, exc: Exception | None) -> None:
        """End; asyncio calls it."""
        if self.feed.state is not LinkState.SHUTDOWN:
            log.warning(
                "the connection of replica %s ended%s", self.peer, f": {exc}" if exc else ""
            )
        self.feed.shut_down()
        self._port.left(self)

    def pause_writing(self) -> None:
        """Wait, since the transport is full; asyncio calls it."""
        self.feed.suspend()

    def resume_writing(self) -> None:
        """Go on; asyncio calls it."""
        self.feed.resume()
        self.send()

    def data_received(self, data: Buffer) -> None:
        """Take reports; asyncio calls it."""
        is_new = self.feed.state is LinkState.HANDSHAKE
        try:
            answer = self.feed.receive(data, self._port.clock.monotonic_ms())
        except LogsDiverged as error:
            log.error("replica %s is not served: %s", self.peer, error)
            self.end(str(error))
            return
        except RemoteProtocolError as error:
            log.warning("replica %s: %s", self.peer, error)
            self.end(str(error))
            return
        if answer and self._transport is not None:
            self._transport.write(answer)
        if self.feed.state is LinkState.HANDSHAKE:
            return
        self._port.reported(self)
        if is_new:
            log.info("replica %s follows from offset %d on", self.peer, self.feed.position)
            self.send()

    def send(self) -> None:
        """Send what there is, up to a limit; the rest follows in later turns."""
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        parts: list[bytes | memoryview] = []
        now_ms, size = self._port.clock.monotonic_ms(), 0
        while size < _TURN_BYTES and (piece := self.feed.next_piece(now_ms)):
            parts += piece
            size += len(piece[1])
        if parts:
            transport.writelines(parts)
        if size >= _TURN_BYTES:
            self._port.written()

    def tick(self, now_ms: int) -> None:
        """Send a heartbeat that is due, or end a connection that is silent."""
        if self.feed.is_silent(now_ms):
            log.warning("replica %s is silent, its connection is closed", self.peer)
            self.end("silence")
        elif self._transport is not None and (beat := self.feed.heartbeat(now_ms)):
            self._transport.write(beat)

    def end(self, reason: str) -> None:
        """Close the connection."""
        self.feed.shut_down()
        self._port.left(self)
        if self._transport is not None:
            log.debug("replica %s: %s", self.peer, reason)
            self._transport.abort()
