"""Ordered delivery: one batch of a queue at a time, queues beside each other.

::

    handler returns ──▶ finished ──▶ the next batch of the queue
    handler raises ───▶ the queue waits for suspend_ms ──▶ the same messages again
                          └─ tried max_reconsume_times: to the retry topic, where the broker makes
                             it a dead letter; the queue goes on
"""

import logging
from collections.abc import Coroutine
from typing import Any, Final

from orbitmq.client.consumer.delivery.delivery import Batch, DeliveryParts, counted
from orbitmq.client.consumer.delivery.handled import HandledDelivery
from orbitmq.client.consumer.delivery.handler import Handler, RetryLater
from orbitmq.errors import OrbitError
from orbitmq.message.model import StoredMessage

__all__ = ["OrderedDelivery"]

log = logging.getLogger("orbitmq.client")

_SUSPEND_MIN_MS: Final = 10
_SUSPEND_MAX_MS: Final = 30_000


class OrderedDelivery(HandledDelivery):
    """Gives messages to a handler in the order of their queue, ``concurrency`` queues at once."""

    def __init__(self, handler: Handler, parts: DeliveryParts) -> None:
        super().__init__(handler, parts, one_at_a_time=True)
        self._times_max = parts.settings.max_reconsume_times

    def _after(self, batch: Batch) -> None:
        self._in_hand.next_of(batch.inbox)

    def _failed_of(self, batch: Batch, error: BaseException) -> list[StoredMessage]:
        failed = super()._failed_of(batch, error)
        if not failed:
            return failed
        return batch.messages[batch.messages.index(failed[0]) :]

    def _retry(
        self, batch: Batch, failed: list[StoredMessage], error: BaseException
    ) -> Coroutine[Any, Any, None] | None:
        suspend_ms = error.suspend_ms if isinstance(error, RetryLater) else None
        if any(self._is_given_up(one) for one in failed):
            return self._give_up(batch, failed, suspend_ms)
        self._suspend(batch, failed, suspend_ms)
        return None

    def _is_given_up(self, message: StoredMessage) -> bool:
        return 0 <= self._times_max <= message.reconsume_times

    def _suspend(self, batch: Batch, messages: list[StoredMessage], suspend_ms: int | None) -> None:
        """Deliver messages again after a while, before the others of their queue."""
        if suspend_ms is None:
            suspend_ms = self._parts.settings.suspend_ms
        self._in_hand.give_back(batch.inbox, [counted(one) for one in messages])
        self._in_hand.next_of_later(
            batch.inbox, min(max(suspend_ms, _SUSPEND_MIN_MS), _SUSPEND_MAX_MS)
        )

    async def _give_up(
        self, batch: Batch, failed: list[StoredMessage], suspend_ms: int | None
    ) -> None:
        """Send those that were tried too often to the retry topic; suspend for the others."""
        left = list(failed)
        try:
            for message in failed:
                if self._is_given_up(message) and not batch.inbox.is_dropped:
                    try:
                        await self._parts.retries.republish(message)
                    except OrbitError as error:
                        log.warning(
                            "%r can't be given up, and is tried again: %s", *(message, error)
                        )
                    else:
                        left.remove(message)
                        self._in_hand.finish_unconsumed(batch.inbox, [message])
        except BaseException:
            self._in_hand.give_back(batch.inbox, left)
            raise
        if left:
            self._suspend(batch, left, suspend_ms)
        else:
            self._after(batch)
