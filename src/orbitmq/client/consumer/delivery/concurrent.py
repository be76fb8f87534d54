"""Concurrent delivery: many messages at once, in no order.

::

    handler returns ──▶ finished
    handler raises ───▶ sent back to the broker ──▶ finished
                          └─ no broker takes it ──▶ delivered again here after 5 s
    in hand longer than consume_timeout_ms ──▶ sent back, as if it had failed
    broadcasting: what fails is logged and dropped
"""

import asyncio
import logging
from collections import deque
from collections.abc import Coroutine
from typing import Any, Final

from orbitmq.client.consumer.delivery.delivery import Batch, DeliveryParts, counted
from orbitmq.client.consumer.delivery.handled import HandledDelivery
from orbitmq.client.consumer.delivery.handler import Handler, RetryLater
from orbitmq.client.consumer.delivery.timeouts import Timeouts
from orbitmq.client.core.periodic import cancel_all, run_periodically
from orbitmq.errors import OrbitError
from orbitmq.message.model import StoredMessage

__all__ = ["ConcurrentDelivery"]

log = logging.getLogger("orbitmq.client")

_AGAIN_MS: Final = 5_000


class ConcurrentDelivery(HandledDelivery):
    """Gives messages to a handler, up to ``concurrency`` batches at once."""

    def __init__(self, handler: Handler, parts: DeliveryParts) -> None:
        super().__init__(handler, parts, one_at_a_time=False)
        self._timing: asyncio.Task[None] | None = None
        if not parts.settings.broadcasting:
            timeouts = Timeouts(parts, self._in_hand, self._runner.running)
            self._timing = asyncio.create_task(
                run_periodically(
                    parts.settings.consume_timeout_ms,
                    timeouts.check,
                    "messages in hand for too long can't be sent back",
                ),
                name=f"consume timeouts of {parts.settings.group}",
            )

    async def close(self, timeout_ms: int) -> None:
        """Take no more, wait up to that long for what is in hand, and give back the rest."""
        if self._timing is not None:
            await cancel_all([self._timing])
        await super().close(timeout_ms)

    def _after(self, batch: Batch) -> None:
        """Do nothing: the next batch of the queue did not wait for this one."""

    def _retry(
        self, batch: Batch, failed: list[StoredMessage], error: BaseException
    ) -> Coroutine[Any, Any, None] | None:
        if self._parts.settings.broadcasting:
            ids = ", ".join(one.message_id for one in failed[:3])
            log.error(
                "%r: %d messages are dropped, as %s: broadcasts have no retries",
                *(batch, len(failed), ids),
            )
            self._in_hand.finish_unconsumed(batch.inbox, failed)
            return None
        return self._send_back(batch, failed, error)

    async def _send_back(
        self, batch: Batch, failed: list[StoredMessage], error: BaseException
    ) -> None:
        level = error.delay_level if isinstance(error, RetryLater) else 0
        inbox, left, again = batch.inbox, deque(failed), []
        try:
            while left and not inbox.is_dropped:
                try:
                    await self._parts.retries.send_back(left[0], inbox.queue, delay_level=level)
                except OrbitError as refusal:
                    log.warning(
                        "%r can't be sent back, and is tried again here: %s", *(left[0], refusal)
                    )
                    again.append(counted(left.popleft()))
                else:
                    self._in_hand.finish_unconsumed(inbox, [left.popleft()])
        finally:
            if left:
                self._in_hand.give_back(inbox, left)
            if again:
                self._in_hand.give_back_later(inbox, again, _AGAIN_MS)
