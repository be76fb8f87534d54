"""Pulls that wait until consumption has made room; Java looks again every 50 ms."""

import asyncio
import logging
from collections.abc import Mapping

from orbitmq.client.consumer.fetching.flow_control import FlowLimits
from orbitmq.client.consumer.fetching.inbox import Inbox
from orbitmq.message.model import MessageQueue

__all__ = ["Room"]

log = logging.getLogger("orbitmq.client")


class Room:
    """The room for more messages; ``inboxes`` are those of the owned queues."""

    def __init__(self, limits: FlowLimits, inboxes: Mapping[MessageQueue, Inbox]) -> None:
        self._limits = limits
        self._inboxes = inboxes
        self._queues: dict[MessageQueue, asyncio.Future[None]] = {}  # held by their own limit
        self._others: list[asyncio.Future[None]] = []  # held by a limit on all queues

    def __repr__(self) -> str:
        return f"<Room, {len(self._queues) + len(self._others)} queues wait for it>"

    async def wait(self, inbox: Inbox) -> None:
        """Return when a queue may be pulled."""
        while True:
            waiter: asyncio.Future[None]
            if full := self._limits.full_queue(inbox, len(self._inboxes)):
                waiter = self._queues[inbox.queue] = asyncio.get_running_loop().create_future()
            elif full := self._limits.full_in_total(self._inboxes.values()):
                waiter = asyncio.get_running_loop().create_future()
                self._others.append(waiter)
            else:
                return
            log.debug("%r is not pulled: it has more than %s allows", inbox, full)
            try:
                await waiter
            finally:
                self._queues.pop(inbox.queue, None)

    def finished(self, inbox: Inbox) -> None:
        """Wake the pulls that have room since messages of an inbox were finished."""
        waiter = self._queues.get(inbox.queue)
        if waiter is not None and self._limits.full_queue(inbox, len(self._inboxes)) is None:
            _wake(waiter)
        if self._others and self._limits.full_in_total(self._inboxes.values()) is None:
            self._wake_others()

    def changed(self) -> None:
        """Have all waiting pulls look again: this client owns more or fewer queues."""
        for waiter in self._queues.values():
            _wake(waiter)
        self._wake_others()

    def _wake_others(self) -> None:
        others, self._others = self._others, []
        for waiter in others:
            _wake(waiter)


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
