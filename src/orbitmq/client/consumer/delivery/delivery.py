"""From inboxes to user code: what the three ways of delivery share.

The life of a message::

                      ┌──────────────── given back: the client closes, the queue is dropped,
                      ▼                  or an ordered message is to be tried again
    put ──▶ waiting ── take ──▶ in hand ──▶ finished: consumed
                                   ├──────▶ sent back: finished here, delivered again later
                                   └──────▶ again in 5 s: it failed, and no broker took it back

A message is finished once. The committed offset never passes one that is not finished.
"""

from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from typing import Protocol

import msgspec
from msgspec.structs import replace

from orbitmq.client.consumer.delivery.retries import Retries
from orbitmq.client.consumer.fetching.inbox import Inbox
from orbitmq.client.consumer.offsets.offsets import Offsets
from orbitmq.client.consumer.settings import ConsumerSettings
from orbitmq.client.observe.consume_hooks import ConsumeContext, ConsumeHooks, DeliveryStatus
from orbitmq.client.observe.consume_statistics import ConsumeStatistics
from orbitmq.clock import Clock
from orbitmq.message import properties
from orbitmq.message.model import MessageQueue, StoredMessage
from orbitmq.message.names import is_retry_topic, strip_namespace

__all__ = ["Batch", "BatchSource", "Delivery", "DeliveryParts", "as_seen", "counted", "named_by"]


class Delivery(Protocol):
    """Gives the messages of owned queues to user code."""

    def ready(self, inbox: Inbox) -> None:
        """Note that messages were put into an inbox."""
        ...

    async def drained(self, inbox: Inbox) -> None:
        """Wait until nothing of a dropped inbox is in hand."""
        ...

    async def close(self, timeout_ms: int) -> None:
        """Take no more, wait up to that long for what is in hand, and give back the rest."""
        ...


@dataclass(kw_only=True, slots=True)
class DeliveryParts:
    """What a delivery works with.

    ``namespace`` is stripped from the topics that users see. ``client_id`` is shown to hooks; it is
    known once the group is joined.
    """

    settings: ConsumerSettings
    offsets: Offsets
    retries: Retries
    hooks: ConsumeHooks
    statistics: ConsumeStatistics
    clock: Clock
    namespace: str = ""
    client_id: str = ""


class Batch(msgspec.Struct, eq=False):
    """Messages of one queue that user code gets in one call."""

    inbox: Inbox
    messages: list[StoredMessage]
    """As the inbox has them."""
    seen: list[StoredMessage]
    """As users see them; the same list if there is no difference."""
    began_ms: int = -1
    """When user code got it, by the monotonic clock; -1 before."""
    is_over: bool = False
    """Whether its messages were sent or given back while user code still works on it, so that the
    outcome no longer counts."""
    is_settled: bool = False
    """Whether user code has returned from it, or failed on it."""
    took_ms: int = 0
    result: object = None
    error: BaseException | None = None
    context: ConsumeContext | None = None

    def __repr__(self) -> str:
        queue = self.inbox.queue
        return (
            f"<Batch of {len(self.messages)} from {queue.topic} {queue.broker_name}:"
            f"{queue.queue_id} at {self.messages[0].queue_offset}>"
        )

    def tell_before(self, parts: DeliveryParts) -> None:
        """Call the hooks before a delivery."""
        self.context = ConsumeContext(
            group=parts.settings.group,
            client_id=parts.client_id,
            namespace=parts.namespace,
            queue=self.inbox.queue,
            messages=tuple(self.seen),
            began_ms=parts.clock.now_ms(),
        )
        parts.hooks.before(self.context)

    def tell_after(
        self,
        parts: DeliveryParts,
        status: DeliveryStatus,
        took_ms: int,
        error: BaseException | None = None,
    ) -> None:
        """Call the hooks after a delivery that they saw begin."""
        context, self.context = self.context, None
        if context is None:
            return
        if status == "success" and took_ms >= parts.settings.consume_timeout_ms:
            status = "timeout"
        context.status, context.error, context.took_ms = status, error, took_ms
        context.is_success = error is None and status != "later"
        parts.hooks.after(context)


class BatchSource(Protocol):
    """Where those who run user code get batches, and what they do with the outcome."""

    def take(self) -> Batch | None:
        """Return the next batch; None if there is none."""
        ...

    def waiting(self, limit: int) -> int:
        """Return how many batches could be taken, as far as ``limit``."""
        ...

    def settle(
        self, batch: Batch, error: BaseException | None, took_ms: int
    ) -> Coroutine[object, object, None] | None:
        """End a batch that user code returned from, or failed on; None if nothing is left to do."""
        ...

    def give_back(self, batch: Batch) -> None:
        """End a batch that user code did not finish."""
        ...


def as_seen(
    messages: list[StoredMessage], queue: MessageQueue, namespace: str
) -> list[StoredMessage]:
    """Return messages as users see them: a retry has the topic that it was first sent to."""
    is_retry = is_retry_topic(queue.topic)
    if not is_retry and not namespace:
        return messages
    return [
        replace(
            one,
            topic=strip_namespace(
                (is_retry and one.properties.get(properties.RETRY_TOPIC)) or one.topic, namespace
            ),
        )
        for one in messages
    ]


def counted(message: StoredMessage) -> StoredMessage:
    """Return a message that was delivered once more."""
    return replace(message, reconsume_times=message.reconsume_times + 1)


def named_by(
    wanted: Sequence[StoredMessage], messages: Sequence[StoredMessage]
) -> list[StoredMessage] | None:
    """Return those of a batch's messages that user code named; None if it named a foreign one."""
    offsets = {one.queue_offset for one in wanted}
    found = [one for one in messages if one.queue_offset in offsets]
    return found if len(found) == len(offsets) else None
