"""Notices to brokers: the nameserver dials them, says one thing, and waits for no answer."""

import asyncio
import logging
from typing import Final

from orbitmq.errors import OrbitError
from orbitmq.nameserver.route_table import LeastIdChange
from orbitmq.net.address import Address
from orbitmq.net.dialer import Dialer
from orbitmq.wire.headers.route import NotifyMinBrokerIdChange

__all__ = ["Notices"]

log = logging.getLogger("orbitmq.nameserver")

_ON_THE_WAY_MAX: Final = 1_000
"""A notice takes as long as a dial may; more than these at once means that nobody answers."""


class Notices:
    """Tells the brokers of a name who has the least id among them now.

    A broker that can't be reached is logged, and not told: it asks by itself every second where
    its settings make it need to know (``syncBrokerMemberGroupPeriod`` in Java).
    """

    def __init__(self, dialer: Dialer) -> None:
        self._dialer = dialer
        self._on_the_way: set[asyncio.Task[None]] = set()

    def tell(self, change: LeastIdChange) -> None:
        """Send a notice to each of its addresses."""
        for address in change.addresses:
            if len(self._on_the_way) >= _ON_THE_WAY_MAX:
                log.warning("%s is not told of the least broker id: too many wait", address)
                continue
            task = asyncio.create_task(self._send(address, change.notice))
            self._on_the_way.add(task)
            task.add_done_callback(self._on_the_way.discard)

    async def close(self) -> None:
        """Give up what is on its way, and hang up."""
        tasks = list(self._on_the_way)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._dialer.close()

    async def _send(self, address: str, notice: NotifyMinBrokerIdChange) -> None:
        try:
            connection = await self._dialer.connection(Address.parse(address))
            connection.oneway(notice)
        except OrbitError as error:
            log.warning("%s is not told of the least broker id: %s", address, error)
