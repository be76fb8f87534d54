"""What deliveries to a handler share: taking, hooks, success, and the end."""

import logging
from abc import ABC, abstractmethod
from collections.abc import Coroutine
from typing import Any

from orbitmq.client.consumer.delivery.delivery import Batch, DeliveryParts, named_by
from orbitmq.client.consumer.delivery.handler import Handler, RetryLater
from orbitmq.client.consumer.delivery.in_hand import InHand
from orbitmq.client.consumer.delivery.on_loop import LoopRunner
from orbitmq.client.consumer.delivery.on_threads import ThreadRunner
from orbitmq.client.consumer.fetching.inbox import Inbox
from orbitmq.client.observe.consume_hooks import DeliveryStatus
from orbitmq.message.model import StoredMessage

__all__ = ["HandledDelivery"]

log = logging.getLogger("orbitmq.client")


class HandledDelivery(ABC):
    """A delivery to a handler; subclasses say what follows a success and a failure."""

    def __init__(self, handler: Handler, parts: DeliveryParts, *, one_at_a_time: bool) -> None:
        self._parts = parts
        self._hooks = parts.hooks
        self._runner: LoopRunner | ThreadRunner
        runner = LoopRunner if handler.is_async else ThreadRunner
        self._runner = runner(
            handler, self, concurrency=parts.settings.concurrency, clock=parts.clock
        )
        self._in_hand = InHand(parts, one_at_a_time=one_at_a_time, wake=self._runner.wake)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._in_hand!r} {self._runner!r}>"

    def ready(self, inbox: Inbox) -> None:
        """Note that messages were put into an inbox."""
        self._in_hand.ready(inbox)
        self._runner.wake()

    async def drained(self, inbox: Inbox) -> None:
        """Wait until nothing of a dropped inbox is in hand."""
        if isinstance(self._runner, ThreadRunner):
            self._runner.drop(inbox)
        await self._in_hand.drained(inbox)

    async def close(self, timeout_ms: int) -> None:
        """Take no more, wait up to that long for what is in hand, and give back the rest."""
        self._in_hand.close()
        await self._runner.stop(timeout_ms)
        self._in_hand.flush()

    # For the runner

    def take(self) -> Batch | None:
        """Return the next batch; None if there is none."""
        batch = self._in_hand.take()
        if self._hooks.are_set and batch is not None:
            batch.tell_before(self._parts)
        return batch

    def waiting(self, limit: int) -> int:
        """Return how many batches could be taken, as far as ``limit``."""
        return self._in_hand.waiting(limit)

    def settle(
        self, batch: Batch, error: BaseException | None, took_ms: int
    ) -> Coroutine[Any, Any, None] | None:
        """End a batch that the handler returned from, or failed on."""
        batch.is_settled = True
        if batch.context is not None:
            status: DeliveryStatus = "later" if isinstance(error, RetryLater) else "exception"
            batch.tell_after(self._parts, status if error else "success", took_ms, error)
        if batch.is_over:
            return None
        if error is None:
            self._in_hand.finish(batch.inbox, batch.messages, took_ms)
            self._after(batch)
            return None
        failed = self._failed_of(batch, error)
        offsets = {one.queue_offset for one in failed}
        consumed = [one for one in batch.messages if one.queue_offset not in offsets]
        if consumed:
            self._in_hand.finish(batch.inbox, consumed, took_ms)
        if not failed:
            self._after(batch)
            return None
        topic = batch.inbox.queue.topic
        self._parts.statistics.failed(topic, len(failed), None if consumed else took_ms)
        if batch.inbox.is_dropped:
            self._in_hand.give_back(batch.inbox, failed)  # the queue's new owner gets them
            return None
        return self._retry(batch, failed, error)

    def give_back(self, batch: Batch) -> None:
        """End a batch that the handler did not finish."""
        batch.is_over = True
        batch.tell_after(self._parts, "later", 0)
        self._in_hand.give_back(batch.inbox, batch.messages)
        self._in_hand.next_of(batch.inbox)

    # For subclasses

    @abstractmethod
    def _after(self, batch: Batch) -> None:
        """Do what follows a batch of which nothing is to be retried."""

    @abstractmethod
    def _retry(
        self, batch: Batch, failed: list[StoredMessage], error: BaseException
    ) -> Coroutine[Any, Any, None] | None:
        """See that failed messages are delivered again."""

    def _failed_of(self, batch: Batch, error: BaseException) -> list[StoredMessage]:
        """Return the messages of a batch that the handler did not consume, and log why."""
        named = error.messages if isinstance(error, RetryLater) else None
        failed = batch.messages if named is None else named_by(named, batch.messages)
        if failed is None:
            log.warning("%r: RetryLater names messages of another batch; all are retried", batch)
            failed = batch.messages
        if isinstance(error, RetryLater):
            log.info("%r: the handler asks for a retry of %d: %s", batch, len(failed), error)
        else:
            log.warning("%r: the handler failed, a retry follows", batch, exc_info=error)
        return failed
