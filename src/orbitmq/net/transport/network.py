"""The interface between connections and the network, so that tests can replace it.

A connection is an ``asyncio.Protocol``: it gets a transport and knows nothing below that. A
``Network`` makes transports: by TCP in ``net/transport/tcp.py``, in memory in ``testing/links.py``.
"""

import asyncio
import ssl
from collections.abc import Callable
from enum import Enum
from typing import Protocol

from orbitmq.net.address import Address

__all__ = ["Network", "OpenPort", "TlsMode"]


class TlsMode(Enum):
    """Which peers a listening port accepts; the first byte of a TLS handshake is 0x16."""

    DISABLED = "disabled"
    """Plain text only."""
    PERMISSIVE = "permissive"
    """TLS and plain text on one port; Java's default."""
    ENFORCING = "enforcing"
    """TLS only."""


class OpenPort(Protocol):
    """A listening port."""

    @property
    def address(self) -> Address:
        """Where it listens; the actual port if 0 was requested."""
        ...

    async def close(self) -> None:
        """Stop accepting; established connections stay open."""
        ...


class Network(Protocol):
    """Makes transports."""

    async def connect(
        self, protocol: asyncio.Protocol, address: Address, *, tls: ssl.SSLContext | None
    ) -> None:
        """Connect ``protocol`` to the server at ``address``; raise OSError if that fails."""
        ...

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
        ...
