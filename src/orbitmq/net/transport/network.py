"""The seam between connections and the machine's network.

A connection is an ``asyncio.Protocol``: it is handed a transport and knows nothing below it. What
hands them out is a ``Network``: TCP in ``net/transport/tcp.py``, memory in ``testing/links.py``.
"""

import asyncio
import ssl
from collections.abc import Callable
from enum import Enum
from typing import Protocol

from orbitmq.net.address import Address

__all__ = ["Network", "OpenPort", "TlsMode"]


class TlsMode(Enum):
    """What a listening port makes of a peer's first byte; a TLS handshake begins with 0x16."""

    DISABLED = "disabled"
    """Plain text only."""
    PERMISSIVE = "permissive"
    """TLS and plain text on one port; Java's default."""
    ENFORCING = "enforcing"
    """TLS only."""


class OpenPort(Protocol):
    """A port that is being listened on."""

    @property
    def address(self) -> Address:
        """Where it listens; the port is the real one where 0 was asked for."""
        ...

    async def close(self) -> None:
        """Stop accepting; connections already made are not touched."""
        ...


class Network(Protocol):
    """Gives out transports."""

    async def connect(
        self, protocol: asyncio.Protocol, address: Address, *, tls: ssl.SSLContext | None
    ) -> None:
        """Join ``protocol`` to whoever listens at ``address``; return when it is joined.

        Raises:
            OSError: nobody listens there, or it can't be reached.
            ssl.SSLError: the handshake failed.

        """
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
        """Join each peer that comes to a protocol made by ``accept``.

        Raises:
            OSError: the address can't be listened on.

        """
        ...
