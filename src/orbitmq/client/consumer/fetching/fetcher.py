"""Pulls one queue into its inbox, one pull after the other.

::

    paused? ──▶ room? ──▶ pull ──┬── messages ──▶ put, delivery is notified ──▶ again, at once
       ▲                         ├── none ──────▶ the offset counts as consumed ──▶ again
       │                         ├── error ─────▶ again after a pause
       └─────────────────────────┘
                                 └── the queue doesn't have the offset ──▶ ends with another one
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Protocol

from orbitmq.client.consumer.fetching.inbox import Inbox
from orbitmq.client.consumer.fetching.pulls import Pulled, Pulls, PullStatus
from orbitmq.client.consumer.fetching.room import Room
from orbitmq.client.consumer.offsets.offsets import Offsets
from orbitmq.clock import Clock
from orbitmq.errors import BrokerError, OrbitError
from orbitmq.wire.bodies.heartbeat import SubscriptionData
from orbitmq.wire.codes import ResponseCode

__all__ = ["FetchParts", "Fetcher", "Receiver"]

log = logging.getLogger("orbitmq.client")

_ERROR_PAUSE_MS: Final = 1_000
_BUSY_PAUSE_MS: Final = 20
"""Java's pauses after errors, and after FLOW_CONTROL."""
_FORGOTTEN: Final = (ResponseCode.SUBSCRIPTION_NOT_EXIST, ResponseCode.SUBSCRIPTION_NOT_LATEST)


class Receiver(Protocol):
    """What a fetcher needs of a delivery."""

    def ready(self, inbox: Inbox) -> None:
        """Note that messages were put into an inbox."""
        ...

    async def drained(self, inbox: Inbox) -> None:
        """Wait until nothing of a dropped inbox is in hand."""
        ...


def _unnoticed() -> None:
    """Do nothing about a broker that does not know the group."""


def _uncounted(_topic: str, _count: int, _took_ms: int) -> None:
    """Count nothing."""


@dataclass(kw_only=True, frozen=True)
class FetchParts:
    """What the fetchers of a consumer share.

    ``subscription_of`` returns the subscription to a topic, None if there is none now.
    ``commits``: pulls commit offsets, too; not for broadcasting. ``pulled`` counts an answer with
    messages: topic, count, milliseconds. ``forgotten`` is called if a broker does not know the
    group's subscription, as after its restart.
    """

    pulls: Pulls
    offsets: Offsets
    delivery: Receiver
    subscription_of: Callable[[str], SubscriptionData | None]
    clock: Clock
    commits: bool = True
    interval_ms: int = 0
    pulled: Callable[[str, int, int], None] = _uncounted
    forgotten: Callable[[], None] = _unnoticed


@dataclass(kw_only=True, eq=False, repr=False)
class Fetcher:
    """Fills an inbox from ``offset`` on; ``resumed`` is cleared while the queue is paused.

    Pulls commit from a time on: see ``offsets.handover``.
    """

    inbox: Inbox
    offset: int
    room: Room
    resumed: asyncio.Event
    commits_from_ms: int
    parts: FetchParts
    _is_failing: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self.inbox.on_room = partial(self.room.finished, self.inbox)

    def __repr__(self) -> str:
        return f"<Fetcher of {self.inbox!r} at {self.offset}>"

    async def run(self) -> int:
        """Pull until cancelled, or until the queue doesn't have the offset.

        Then return the offset at which the broker says to continue.
        """
        while True:
            if not self.resumed.is_set():
                await self.resumed.wait()
            await self.room.wait(self.inbox)
            try:
                pulled = await self._pull()
            except OrbitError as error:
                await self._pause_after(error)
                continue
            except Exception:
                log.exception("%r: a pull failed, and is tried again", self)
                await asyncio.sleep(_ERROR_PAUSE_MS / 1_000)
                continue
            if pulled is None:
                await asyncio.sleep(_ERROR_PAUSE_MS / 1_000)
            elif self._is_moved(pulled):
                return self._continue_at(pulled)
            else:
                await self._take(pulled)

    async def _pull(self) -> Pulled | None:
        """Return the answer to a pull; None if the topic is not subscribed now."""
        parts, inbox = self.parts, self.inbox
        queue = inbox.queue
        subscription = parts.subscription_of(queue.topic)
        if subscription is None:
            return None
        began_ms = parts.clock.monotonic_ms()
        commits = parts.commits and began_ms >= self.commits_from_ms
        commit = parts.offsets.get(queue) if commits else None
        pulled = await parts.pulls.pull(queue, self.offset, subscription, commit=commit or None)
        inbox.pulled_ms = parts.clock.monotonic_ms()
        if self._is_failing:
            self._is_failing = False
            log.info("%r: pulls succeed again", self)
        if pulled.messages:
            took_ms = parts.clock.monotonic_ms() - began_ms
            parts.pulled(queue.topic, len(pulled.messages), took_ms)
        return pulled

    def _is_moved(self, pulled: Pulled) -> bool:
        """Return whether the queue lacks the offset: expired, reset, or lost by its broker."""
        if pulled.status is not PullStatus.OFFSET_ILLEGAL and pulled.next_offset >= self.offset:
            return False
        log.warning(
            "%r: the queue has offsets from %d to %d, or was reset; it continues at %d",
            *(self, pulled.min_offset, pulled.max_offset, self._continue_at(pulled)),
        )
        return True

    def _continue_at(self, pulled: Pulled) -> int:
        """Return where to continue.

        A queue that ends before the offset is that of a slave, which has the rest not yet, or of a
        broker that lost it. Java goes to its end, past what it has received and not delivered.
        """
        first = self.inbox.first_offset
        if first is None or pulled.max_offset >= self.offset:
            return pulled.next_offset
        return min(first, pulled.next_offset)

    async def _take(self, pulled: Pulled) -> None:
        inbox, parts = self.inbox, self.parts
        is_stuck = pulled.next_offset == self.offset and pulled.status is not PullStatus.NO_NEW
        self.offset = pulled.next_offset
        if pulled.messages:
            inbox.put(pulled.messages)
            parts.delivery.ready(inbox)
        elif not inbox.count:
            parts.offsets.update(inbox.queue, pulled.next_offset)
        if is_stuck:  # such as at a slave that may not be read: don't pull thousands of times
            await asyncio.sleep(_BUSY_PAUSE_MS / 1_000)
        elif parts.interval_ms and pulled.messages:
            await asyncio.sleep(parts.interval_ms / 1_000)

    async def _pause_after(self, error: OrbitError) -> None:
        code = error.code if isinstance(error, BrokerError) else None
        is_busy = code == ResponseCode.FLOW_CONTROL
        if code in _FORGOTTEN:
            self.parts.forgotten()
        if not self._is_failing and not is_busy:
            self._is_failing = True
            log.warning("%r: a pull failed, and is tried again: %s", self, error)
        await asyncio.sleep((_BUSY_PAUSE_MS if is_busy else _ERROR_PAUSE_MS) / 1_000)
