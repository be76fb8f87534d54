"""Messages that user code has had in hand for too long: sent back, while it may still run.

As in Java's ``ProcessQueue.cleanExpiredMsg``: looked for at intervals of ``consume_timeout_ms``,
about 16 messages of a queue at a time, sent back with delay level 3. What the handler does with
them afterwards no longer counts.
"""

import logging
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final

from orbitmq.client.consumer.delivery.delivery import Batch, DeliveryParts, counted
from orbitmq.client.consumer.delivery.in_hand import InHand
from orbitmq.client.consumer.fetching.inbox import Inbox
from orbitmq.errors import OrbitError

__all__ = ["Timeouts"]

log = logging.getLogger("orbitmq.client")

_LEVEL: Final = 3
_AT_A_TIME: Final = 16
_AGAIN_MS: Final = 5_000


class Timeouts:
    """Sends back what is in hand for too long; ``running`` returns the batches in hand."""

    def __init__(
        self, parts: DeliveryParts, in_hand: InHand, running: Callable[[], Iterable[Batch]]
    ) -> None:
        self._parts = parts
        self._in_hand = in_hand
        self._running = running

    def __repr__(self) -> str:
        return f"<Timeouts after {self._parts.settings.consume_timeout_ms} ms>"

    async def check(self) -> None:
        """Send back what is overdue now."""
        since_ms = self._parts.clock.monotonic_ms() - self._parts.settings.consume_timeout_ms
        counts: Counter[Inbox] = Counter()
        for batch in list(self._running()):
            inbox = batch.inbox
            is_late = batch.began_ms <= since_ms and counts[inbox] < _AT_A_TIME
            if is_late and not (batch.is_over or batch.is_settled or inbox.is_dropped):
                counts[inbox] += len(batch.messages)
                await self._send_back(batch)

    async def _send_back(self, batch: Batch) -> None:
        batch.is_over = True
        inbox = batch.inbox
        log.warning(
            "%r: the handler has it for longer than consume_timeout_ms, %d; it is sent back",
            *(batch, self._parts.settings.consume_timeout_ms),
        )
        left = list(batch.messages)
        try:
            while left:
                await self._parts.retries.send_back(left[0], inbox.queue, delay_level=_LEVEL)
                self._in_hand.finish_unconsumed(inbox, [left.pop(0)])
        except OrbitError as error:
            log.warning("%r can't be sent back: %s", left[0], error)
        if not left:
            return
        if batch.is_settled:  # the handler has ended meanwhile, and its outcome is lost
            self._in_hand.give_back_later(inbox, [counted(one) for one in left], _AGAIN_MS)
        else:
            batch.messages, batch.is_over = left, False
