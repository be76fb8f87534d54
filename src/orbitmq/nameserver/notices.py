"""One-way notices to brokers when the lowest broker id of their name changes."""

import asyncio
import logging
from typing import Final

from orbitmq.errors import OrbitError
from orbitmq.nameserver.route_table import MinBrokerIdChange
from orbitmq.net.address import Address
from orbitmq.net.dialer import Dialer
from orbitmq.wire.headers.route import NotifyMinBrokerIdChange

__all__ = ["MinBrokerIdNotices"]

log = logging.getLogger("orbitmq.nameserver")

_IN_FLIGHT_MAX: Final = 1_000
"""A notice takes at most as long as connecting; more than these means that brokers don't answer."""


class MinBrokerIdNotices:
    """Notifies the brokers of a name which of them has the lowest id.

    A failed notice is only logged: brokers that need to know also ask every second
    (``syncBrokerMemberGroupPeriod`` in Java).
    """

    def __init__(self, dialer: Dialer) -> None:
        self._dialer = dialer
        self._in_flight: set[asyncio.Task[None]] = set()

    def notify(self, change: MinBrokerIdChange) -> None:
        """Send a notice to each address of the change."""
        for address in change.addresses:
            if len(self._in_flight) >= _IN_FLIGHT_MAX:
                log.warning(
                    "%s is not notified of the lowest broker id: %d notices are in flight, the "
                    "limit",
                    *(address, len(self._in_flight)),
                )
                continue
            task = asyncio.create_task(self._send(address, change.notice))
            self._in_flight.add(task)
            task.add_done_callback(self._in_flight.discard)

    async def close(self) -> None:
        """Cancel notices in flight, and close connections."""
        tasks = list(self._in_flight)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._dialer.close()

    async def _send(self, address: str, notice: NotifyMinBrokerIdChange) -> None:
        try:
            connection = await self._dialer.connection(Address.parse(address))
            connection.oneway(notice)
        except OrbitError as error:
            log.warning("%s is not notified of the lowest broker id: %s", address, error)
