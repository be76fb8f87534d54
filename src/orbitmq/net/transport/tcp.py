"""Transports over TCP, plain or TLS; one port accepts both.

A RocketMQ frame is under 16 MiB, so its first byte is 0; a TLS handshake begins with 0x16. A port
that accepts TLS peeks at the first byte, then makes a transport of the right kind.
"""

import asyncio
import contextlib
import logging
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass

from orbitmq.net.address import Address
from orbitmq.net.transport.network import OpenPort, TlsMode

__all__ = ["TcpNetwork"]

log = logging.getLogger("orbitmq.net")

_TLS_HANDSHAKE = b"\x16"
_BACKLOG = 1024
"""As in Java's servers."""
_ADMITTING_MAX = 1024
"""Peers of one port that may be silent or in a TLS handshake at a time."""
_TLS_GOODBYE_S = 0.1
"""How long a close waits for the peer's TLS close_notify. Java never sends it, and it is not needed
to detect truncation, since frames have lengths."""


class TcpNetwork:
    """The network of this machine."""

    async def connect(
        self, protocol: asyncio.Protocol, address: Address, *, tls: ssl.SSLContext | None
    ) -> None:
        """Connect ``protocol`` to the server at ``address``."""
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
        """Listen at ``address``, and connect each peer to a protocol made by ``accept``."""
        loop = asyncio.get_running_loop()
        infos = await loop.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
        listening = _bind(infos[0][0], infos[0][4])
        if mode is TlsMode.DISABLED:
            server = await loop.create_server(accept, sock=listening, backlog=_BACKLOG)
            return _PlainPort(server, _address_of(listening))
        return _MixedPort(listening, accept, tls, mode, handshake_timeout_ms / 1000)


@dataclass(frozen=True)
class _PlainPort:
    server: asyncio.Server
    address: Address

    async def close(self) -> None:
        self.server.close()


class _MixedPort:
    """A port for TLS, perhaps beside plain text; the first byte of a peer decides."""

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
        # Not cancelled: that would leak a transport that is being made. Shutting the sockets down
        # lets the tasks finish immediately.
        for peer in self._admitting.values():
            with contextlib.suppress(OSError):
                peer.shutdown(socket.SHUT_RDWR)
        if self._admitting:
            await asyncio.wait(self._admitting)

    def _begin(self) -> None:
        if not self._closed:
            self._loop.add_reader(self._listening, self._accept_ready)

    def _accept_ready(self) -> None:
        # A callback, not a task in sock_accept(): cancelling that can leak an accepted socket.
        try:
            peer, _ = self._listening.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return
        except OSError as error:  # out of file descriptors: try again later
            log.warning("%s: a connection could not be accepted: %s", self.address, error)
            self._loop.remove_reader(self._listening)
            self._loop.call_later(0.1, self._begin)
            return
        if len(self._admitting) >= _ADMITTING_MAX:
            log.warning(
                "%s: closing a new peer: %d have not finished connecting",
                self.address,
                _ADMITTING_MAX,
            )
            peer.close()
            return
        peer.setblocking(False)
        task = self._loop.create_task(self._admit(peer))
        self._admitting[task] = peer
        task.add_done_callback(self._admitting.pop)

    async def _admit(self, peer: socket.socket) -> None:
        """Look at the first byte, then make a connection of the socket, or close it."""
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
            log.info("%s: a peer could not connect: %s", self.address, error)
            peer.close()
        except asyncio.CancelledError:
            peer.close()
            raise

    def _allows(self, first: bytes) -> bool:
        if first == _TLS_HANDSHAKE:
            return self._tls is not None
        return self._mode is not TlsMode.ENFORCING


async def _peek(peer: socket.socket) -> bytes:
    """Return the first byte that a peer sends without consuming it; empty if it closes."""
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
    """Turn Nagle's algorithm off: connections combine small writes themselves."""
    if peer is not None:
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
