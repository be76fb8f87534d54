"""A listening port and its connections."""

import asyncio
import logging
import ssl
from collections.abc import Callable, Set
from types import TracebackType
from typing import Self

from orbitmq.errors import InvalidInput
from orbitmq.net.address import Address
from orbitmq.net.connection import Connection, Handler, Side
from orbitmq.net.settings import NetSettings
from orbitmq.net.transport.network import Network, OpenPort, TlsMode
from orbitmq.net.transport.tcp import TcpNetwork
from orbitmq.wire.frame import TakeLeading
from orbitmq.wire.session import Identity

__all__ = ["Listener"]

log = logging.getLogger("orbitmq.net")


class Listener:
    """Accepts and serves connections; an async context manager, or ``start`` and ``close``.

    Port 0 picks a free one, see ``address`` after the start; if the host has several addresses, the
    first is used. Without ``tls`` the port accepts plain text only; with it ``mode`` is permissive
    by default. ``take_leading`` returns what serves the leading frames of a connection's reads.
    """

    def __init__(
        self,
        address: Address,
        handler: Handler,
        *,
        identity: Identity | None = None,
        settings: NetSettings | None = None,
        tls: ssl.SSLContext | None = None,
        mode: TlsMode | None = None,
        network: Network | None = None,
        take_leading: Callable[[Connection], TakeLeading] | None = None,
    ) -> None:
        self._wanted = address
        self._handler = handler
        self._identity = identity
        self._settings = settings or NetSettings()
        self._tls = tls
        self._mode = mode or (TlsMode.PERMISSIVE if tls else TlsMode.DISABLED)
        if self._mode is TlsMode.ENFORCING and tls is None:
            raise InvalidInput(
                "a port that enforces TLS needs a certificate: give tls", field="tls"
            )
        self._network = network or TcpNetwork()
        self._take_leading = take_leading
        self._port: OpenPort | None = None
        self._closing = False
        self._refused = 0
        self._connections: dict[Connection, None] = {}  # a set in the order of arrival

    def __repr__(self) -> str:
        return f"<Listener {self.address}, {len(self._connections)} connections>"

    @property
    def connections(self) -> Set[Connection]:
        """The open connections, the oldest first."""
        return self._connections.keys()

    @property
    def address(self) -> Address:
        """Where it listens; before the start, the address it was given."""
        return self._wanted if self._port is None else self._port.address

    async def start(self) -> None:
        """Start accepting connections; raise OSError if the address can't be listened on."""
        self._port = await self._network.listen(
            self._accept,
            self._wanted,
            tls=self._tls,
            mode=self._mode,
            handshake_timeout_ms=self._settings.handshake_timeout_ms,
        )

    async def close(self) -> None:
        """Stop accepting, wait up to the close timeout for requests being served, then close."""
        self._closing = True
        # Shielded: if this is cancelled, the close still completes, within its timeouts.
        await asyncio.shield(asyncio.create_task(self._close_all()))

    async def _close_all(self) -> None:
        port, self._port = self._port, None
        if port is not None:
            await port.close()
        connections = list(self._connections)
        drains = [asyncio.create_task(connection.drain()) for connection in connections]
        if drains:
            _, late = await asyncio.wait(drains, timeout=self._settings.close_timeout_ms / 1000)
            for drain in late:
                drain.cancel()
        await asyncio.gather(*(one.close("the server stops") for one in connections))

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    def _accept(self) -> Connection:
        return Connection(
            side=Side.SERVER,
            identity=self._identity,
            settings=self._settings,
            handler=self._handler,
            on_open=self._admit,
        )

    def _admit(self, connection: Connection) -> None:
        """Register an established connection; a failed TLS handshake never gets here."""
        if self._closing:
            connection.abort("the server stops")
            return
        if len(self._connections) < self._settings.connections_max:
            self._connections[connection] = None
            if self._take_leading is not None:
                connection.take_leading = self._take_leading(connection)
            connection.when_closed(self._forget)
            return
        self._refused += 1
        if self._refused & (self._refused - 1) == 0:  # the 1st, 2nd, 4th and so on
            log.warning(
                "%s: closing the connection from %s: %d are open, which is the limit "
                "(connections_max, or half of ulimit -n); %d were closed so far",
                self.address,
                connection.peer,
                len(self._connections),
                self._refused,
            )
        connection.abort("the server has too many connections")

    def _forget(self, connection: Connection) -> None:
        self._connections.pop(connection, None)
