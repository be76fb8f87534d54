"""Connections to peers: one per address, shared by all callers, dialled again when lost."""

import asyncio
import ssl
from collections.abc import Mapping
from types import TracebackType
from typing import Self

from orbitmq.errors import ConnectFailed, ConnectionClosed
from orbitmq.net.address import Address
from orbitmq.net.connection import Connection, Handler, Side
from orbitmq.net.fork import check_process, process_token
from orbitmq.net.settings import NetSettings
from orbitmq.net.transport.network import Network
from orbitmq.net.transport.tcp import TcpNetwork
from orbitmq.wire.codes import ResponseCode
from orbitmq.wire.fields import Header
from orbitmq.wire.frame import Buffer, Frame
from orbitmq.wire.session import Identity

__all__ = ["Dialer"]


class Dialer:
    """Opens connections and shares them; an async context manager.

    Callers that need the same address while it is being dialled wait for that dial. If it fails,
    all of them get the error, and the next caller dials again. After a GO_AWAY a new connection
    replaces the old one, which closes when its requests are answered.
    """

    def __init__(
        self,
        *,
        identity: Identity | None = None,
        settings: NetSettings | None = None,
        tls: ssl.SSLContext | None = None,
        handler: Handler | None = None,
        network: Network | None = None,
    ) -> None:
        self._identity = identity
        self._settings = settings or NetSettings()
        self._tls = tls
        self._handler = handler
        self._network = network or TcpNetwork()
        self._open: dict[Address, Connection] = {}
        self._leaving: set[Connection] = set()
        self._dialling: dict[Address, asyncio.Task[Connection]] = {}
        self._closed = False
        self._process = process_token()

    def __repr__(self) -> str:
        return f"<Dialer {len(self._open)} open, {len(self._dialling)} being dialled>"

    @property
    def connections(self) -> Mapping[Address, Connection]:
        """The open connections, by address."""
        return self._open

    async def connection(self, address: Address) -> Connection:
        """Return the open connection to an address, dialled if there is none.

        Raise ConnectFailed if the peer can't be reached in time or the TLS handshake failed, and
        ConnectionClosed if the dialer is closed.
        """
        check_process(self._process, self)
        connection = self._open.get(address)
        if connection is not None and connection.is_open:
            return connection
        if self._closed:
            raise ConnectionClosed("the dialer was closed", address=str(address))
        dial = self._dialling.get(address)
        if dial is None:
            dial = asyncio.create_task(self._dial(address), name=f"dial {address}")
            self._dialling[address] = dial
            dial.add_done_callback(lambda done: self._dialled(address, done))
        try:
            # Cancelling one caller must not cancel the dial of the others.
            return await asyncio.shield(dial)
        except asyncio.CancelledError:
            caller = asyncio.current_task()
            if dial.cancelled() and not (caller is not None and caller.cancelling()):
                raise ConnectionClosed("the dialer was closed", address=str(address)) from None
            raise

    async def request(
        self,
        address: Address,
        header: Header,
        body: Buffer = b"",
        *,
        timeout_ms: int | None = None,
        code: int | None = None,
        fields: Mapping[str, str] | None = None,
    ) -> Frame:
        """Send a request to an address and return the answer, whatever its code.

        The timeout is for the answer; dialling has its own. A peer that answers GO_AWAY has not
        executed the request, so it is sent once more on a new connection, as by Java's
        ``NettyRemotingClient``. A second GO_AWAY is returned. Raise the errors of ``connection``
        and ``Connection.request``.
        """
        if timeout_ms is None:
            timeout_ms = self._settings.request_timeout_ms
        connection = await self.connection(address)
        time = asyncio.get_running_loop().time
        asked = time()
        answer = await connection.request(
            header, body, timeout_ms=timeout_ms, code=code, fields=fields
        )
        if answer.code != ResponseCode.GO_AWAY:
            return answer
        left_ms = max(1, timeout_ms - int(1_000 * (time() - asked)))
        connection = await self.connection(address)
        return await connection.request(header, body, timeout_ms=left_ms, code=code, fields=fields)

    async def close(self) -> None:
        """Close all connections; requests in flight fail with the reason."""
        check_process(self._process, self)
        self._closed = True
        dials = list(self._dialling.values())
        for dial in dials:
            dial.cancel()
        connections = [*self._open.values(), *self._leaving]
        closes = [asyncio.create_task(one.close("the client stops")) for one in connections]
        # If this is cancelled, the tasks still close all connections within the close timeout.
        await asyncio.shield(asyncio.gather(*dials, *closes, return_exceptions=True))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def _dial(self, address: Address) -> Connection:
        connection = Connection(
            side=Side.CLIENT,
            identity=self._identity,
            settings=self._settings,
            handler=self._handler,
        )
        timeout_ms = self._settings.connect_timeout_ms
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await self._network.connect(connection, address, tls=self._tls)
        except TimeoutError:
            raise ConnectFailed(
                f"no connection to {address} within {timeout_ms} ms", address=str(address)
            ) from None
        except (OSError, ValueError, OverflowError) as error:
            # An ssl.SSLError is an OSError; the others mean an invalid host or port.
            hint = "; is TLS enabled on both sides?" if isinstance(error, ssl.SSLError) else ""
            raise ConnectFailed(
                f"no connection to {address}: {str(error) or type(error).__name__}{hint}",
                address=str(address),
            ) from error
        if (before := self._open.get(address)) is not None:
            self._leaving.add(before)
        self._open[address] = connection
        connection.when_closed(lambda closed: self._lost(address, closed))
        return connection

    def _dialled(self, address: Address, dial: asyncio.Task[Connection]) -> None:
        del self._dialling[address]
        if not dial.cancelled():
            dial.exception()  # retrieved, since all callers may have been cancelled

    def _lost(self, address: Address, connection: Connection) -> None:
        self._leaving.discard(connection)
        if self._open.get(address) is connection:
            del self._open[address]
