"""Requests of simulated clients: each is answered in time, unless the network lost something."""

import errno
import os
from collections.abc import Callable
from typing import Final

from orbitmq.errors import NetworkError, RequestTimeout
from orbitmq.net.address import Address
from orbitmq.net.connection import Connection, Handler, Outcome
from orbitmq.net.dialer import Dialer
from orbitmq.net.refusal import not_supported
from orbitmq.net.transport.network import Network
from orbitmq.testing.clocks import VirtualClock
from orbitmq.testing.simulation.histories import History
from orbitmq.wire.codes import ResponseCode, name_of_request
from orbitmq.wire.fields import Header
from orbitmq.wire.frame import Frame

__all__ = ["ANSWER_MS", "DISK_TROUBLES", "TRY_AGAIN", "Caller"]

ANSWER_MS: Final = 3_000
# Codes of a broker that starts, stops or is busy, or that does not reach what it promises.
TRY_AGAIN: Final = (
    ResponseCode.SYSTEM_BUSY,
    ResponseCode.SERVICE_NOT_AVAILABLE,
    ResponseCode.FLUSH_DISK_TIMEOUT,
    ResponseCode.FLUSH_SLAVE_TIMEOUT,
    ResponseCode.SLAVE_NOT_AVAILABLE,
)
DISK_TROUBLES: Final = tuple(map(os.strerror, (errno.ENOSPC, errno.EIO)))
"""What a broker says, and logs, when its disk fails."""


class Caller:
    """Sends requests, and records a fault if a response is missing for no reason.

    ``troubles`` returns how much was lost so far: while it does not change, nothing was lost.
    """

    def __init__(
        self, network: Network, clock: VirtualClock, history: History, troubles: Callable[[], int]
    ) -> None:
        self.clock = clock
        self.history = history
        self.handler: Handler = lambda _connection, request: not_supported(request)
        self.is_closed = False
        self._troubles = troubles
        self._dialer = Dialer(network=network, handler=self._serve)

    def _serve(self, connection: Connection, request: Frame) -> Outcome:
        return self.handler(connection, request)

    async def ask(
        self, address: Address, header: Header, body: bytes = b"", timeout_ms: int = ANSWER_MS
    ) -> Frame | None:
        """Return the response; None after a timeout, which closes the connection, or an error."""
        before = self._troubles()
        try:
            return await self._dialer.request(address, header, body, timeout_ms=timeout_ms)
        except RequestTimeout as error:
            if self._troubles() == before:
                self.history.faults.append(
                    f"no answer: nothing was lost, and there was none: {error}"
                )
            connection = self._dialer.connections.get(address)
            if connection is not None:
                connection.abort("it does not respond")
        except NetworkError:
            pass  # refused, reset or closed: the caller tries again
        return None

    def note_odd(self, answer: Frame, header: Header) -> None:
        """Record an unexpected response code as a fault, unless the disk is to blame."""
        if any(trouble in (answer.remark or "") for trouble in DISK_TROUBLES):
            return
        request = name_of_request(header.code)
        self.history.faults.append(
            f"odd answer: {request} was answered {answer.code}: {answer.remark}"
        )

    async def close(self) -> None:
        """Close all connections."""
        self.is_closed = True
        await self._dialer.close()
