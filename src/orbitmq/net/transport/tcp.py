"""Transports over TCP, plain or TLS, told apart on one port by a peer's first byte.

A RocketMQ frame is under 16 MiB, so its first byte is 0; a TLS handshake record begins with 0x16.
A port that may speak TLS looks at the first byte without taking it, then hands the socket over to
a transport of the right kind.
"""

import asyncio
import contextlib
import logging
import socket
import ssl
from collections.abc import Callable

from orbitmq.net.address import Address
from orbitmq.net.transport.network import OpenPort, TlsMode

__all__ = ["TcpNetwork"]

log = logging.getLogger("orbitmq.net")

_TLS_HANDSHAKE = b"\x16"
_BACKLOG = 1024
"""As Java's servers have it."""
_ADMITTING_MAX = 1024
"""Peers that may be silent, or in the middle of a TLS handshake, at once on one port."""
_TLS_GOODBYE_S = 0.1
"""How long a close waits for the peer's end of TLS. Java never sends it, and frames carry their
length, so nothing is lost without it."""


class TcpNetwork:
    """The machine's own network."""

    async def connect(
        self, protocol: asyncio.Protocol, address: Address, *, tls: ssl.SSLContext | None
    ) -> None:
        """Join ``protocol`` to whoever listens at ``address``.

        Raises:
            OSError: nobody listens there, or it can't be reached.
            ssl.SSLError: the handshake failed.

        """
        transport, _ = await asyncio.get_running_loop().create_connection(
            lambda: protocol,
            address.host,
            address.port,
            ssl=tls,
            server_hostname=address.host if tls else None,
            ssl_shutdown_timeout=_TLS_GOODBYE_S if tls else None,
        )
        _send_at_once(transport.get_extra_info("socket"))

    async def listen(
        self,
        accept: Callable[[], asyncio.Protocol],
        address: Address,
        *,
        tls: ssl.SSLContext | None,
        mode: TlsMode,
        handshake_timeout_ms: int,
    ) -> OpenPort:
        """Join each peer that comes to a protocol made by ``accept``.

        Raises:
            OSError: the address can't be listened on.

        """
        loop = asyncio.get_running_loop()
        infos = await loop.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
        listening = _bind(infos[0][0], infos[0][4])
        if mode is TlsMode.DISABLED:
            server = await loop.create_server(accept, sock=listening, backlog=_BACKLOG)
            return _PlainPort(server, listening)
        return _MixedPort(listening, accept, tls, mode, handshake_timeout_ms / 1000)


class _PlainPort:
    def __init__(self, server: asyncio.Server, listening: socket.socket) -> None:
        self._server = server
        self.address = _address_of(listening)

    async def close(self) -> None:
        self._server.close()


class _MixedPort:
    """Accepts by itself, since the kind of transport is known only after the first byte."""

    def __init__(
        self,
        listening: socket.socket,
        accept: Callable[[], asyncio.Protocol],
        tls: ssl.SSLContext | None,
        mode: TlsMode,
        handshake_timeout: float,
    ) -> None:
        self._listening = listening
        self._accept = accept
        self._tls = tls
        self._mode = mode
        self._handshake_timeout = handshake_timeout
        self._admitting: dict[asyncio.Task[None], socket.socket] = {}
        self.address = _address_of(listening)
        self._loop = asyncio.get_running_loop()
        self._closed = False
        self._begin()

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._loop.remove_reader(self._listening)
        self._listening.close()
        # Not cancelled: a transport that is being made would be left without an owner. An end of
        # the stream lets each of them finish at once.
        for peer in self._admitting.values():
            with contextlib.suppress(OSError):
                peer.shutdown(socket.SHUT_RDWR)
        if self._admitting:
            await asyncio.wait(self._admitting)

    def _begin(self) -> None:
        if not self._closed:
            self._loop.add_reader(self._listening, self._accept_ready)

    def _accept_ready(self) -> None:
        # A callback, not a task in sock_accept(): cancelling that can lose an accepted socket.
        try:
            peer, _ = self._listening.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return
        except OSError as error:  # out of descriptors: wait for some to be free
            log.warning("%s: a connection could not be accepted: %s", self.address, error)
            self._loop.remove_reader(self._listening)
            self._loop.call_later(0.1, self._begin)
            return
        if len(self._admitting) >= _ADMITTING_MAX:
            log.warning("%s: closing a new peer: %d say nothing", self.address, _ADMITTING_MAX)
            peer.close()
            return
        peer.setblocking(False)
        task = self._loop.create_task(self._admit(peer))
        self._admitting[task] = peer
        task.add_done_callback(self._admitting.pop)

    async def _admit(self, peer: socket.socket) -> None:
        """Look at the first byte, then join the socket to a connection, or close it."""
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._handshake_timeout):
                first = await _peek(peer)
            if first == b"" or not self._allows(first):
                peer.close()
                return
            _send_at_once(peer)
            speaks_tls = first == _TLS_HANDSHAKE
            await loop.connect_accepted_socket(
                self._accept,
                peer,
                ssl=self._tls if speaks_tls else None,
                ssl_handshake_timeout=self._handshake_timeout if speaks_tls else None,
                ssl_shutdown_timeout=_TLS_GOODBYE_S if speaks_tls else None,
            )
        except TimeoutError:
            log.info("%s: a peer sent nothing for %g s", self.address, self._handshake_timeout)
            peer.close()
        except OSError as error:  # an ssl.SSLError is one
            log.info("%s: a peer was not admitted: %s", self.address, error)
            peer.close()
        except asyncio.CancelledError:
            peer.close()
            raise

    def _allows(self, first: bytes) -> bool:
        if first == _TLS_HANDSHAKE:
            return self._tls is not None
        return self._mode is not TlsMode.ENFORCING


async def _peek(peer: socket.socket) -> bytes:
    """Return the first byte that a peer sends, leaving it to be read; empty if it closes."""
    loop = asyncio.get_running_loop()
    readable: asyncio.Future[None] = loop.create_future()

    def note() -> None:
        if not readable.done():
            readable.set_result(None)

    loop.add_reader(peer, note)
    try:
        await readable
    finally:
        loop.remove_reader(peer)
    return peer.recv(1, socket.MSG_PEEK)


def _bind(family: int, sockaddr: tuple[object, ...]) -> socket.socket:
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.setblocking(False)
        listening.bind(sockaddr)
        listening.listen(_BACKLOG)
    except BaseException:
        listening.close()
        raise
    return listening


def _address_of(listening: socket.socket) -> Address:
    host, port = listening.getsockname()[:2]
    return Address(host, port)


def _send_at_once(peer: socket.socket | None) -> None:
    """Turn Nagle's delay off: we put small writes together ourselves."""
    if peer is not None:
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
