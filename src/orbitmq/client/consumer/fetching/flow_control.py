"""How many messages may be between the pull and the end of consumption. Pure.

Limits are exceeded by more than them, as in Java's ``pullMessage``; a queue whose limit is exceeded
is not pulled. So one answer may go beyond a limit.

A topic's limit divided by the number of queues that this client owns, of all topics, replaces the
limit of a queue (``RebalancePushImpl.messageQueueChanged``).
"""

from collections.abc import Collection
from typing import Self

import msgspec

from orbitmq.client.consumer.fetching.inbox import Inbox
from orbitmq.client.consumer.settings import UNLIMITED, ConsumerSettings, PullConsumerSettings

__all__ = ["FlowLimits"]


class FlowLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of a consumer; -1: no limit.

    ``span_max`` is for the distance between the first and last offset of a queue, which grows while
    one message takes long and the others don't.
    """

    queue_messages_max: int
    queue_bytes_max: int
    topic_messages_max: int = UNLIMITED
    topic_bytes_max: int = UNLIMITED
    total_messages_max: int = UNLIMITED
    total_bytes_max: int = UNLIMITED
    span_max: int = UNLIMITED

    @classmethod
    def of(cls, settings: ConsumerSettings | PullConsumerSettings) -> Self:
        """Return the limits in a consumer's settings; the span of ordered queues has none."""
        if isinstance(settings, PullConsumerSettings):
            return cls(
                queue_messages_max=settings.queue_messages_max,
                queue_bytes_max=settings.queue_bytes_max,
                total_messages_max=settings.all_messages_max,
                span_max=settings.span_max,
            )
        return cls(
            queue_messages_max=settings.queue_messages_max,
            queue_bytes_max=settings.queue_bytes_max,
            topic_messages_max=settings.topic_messages_max,
            topic_bytes_max=settings.topic_bytes_max,
            total_messages_max=settings.total_messages_max,
            total_bytes_max=settings.total_bytes_max,
            span_max=UNLIMITED if settings.ordered else settings.span_max,
        )

    def full_queue(self, inbox: Inbox, owned: int) -> str | None:
        """Return the name of the limit that a queue exceeds; None if it may be pulled.

        ``owned`` is the number of queues that this client owns.

        >>> from orbitmq.message.model import MessageQueue
        >>> limits = FlowLimits(queue_messages_max=1_000, queue_bytes_max=1_000_000)
        >>> limits.full_queue(Inbox(MessageQueue("orders", "broker-a", 0)), owned=4) is None
        True
        """
        messages_max, bytes_max = self.queue_messages_max, self.queue_bytes_max
        if self.topic_messages_max != UNLIMITED:
            messages_max = max(1, self.topic_messages_max // max(1, owned))
        if self.topic_bytes_max != UNLIMITED:
            bytes_max = max(1, self.topic_bytes_max // max(1, owned))
        if inbox.count > messages_max:
            return "queue_messages_max" if self.topic_messages_max < 0 else "topic_messages_max"
        if inbox.bytes > bytes_max:
            return "queue_bytes_max" if self.topic_bytes_max < 0 else "topic_bytes_max"
        if self.span_max != UNLIMITED and inbox.span > self.span_max:
            return "span_max"
        return None

    def full_in_total(self, inboxes: Collection[Inbox]) -> str | None:
        """Return the name of the limit that all queues together exceed; None if there is none."""
        messages_max, bytes_max = self.total_messages_max, self.total_bytes_max
        if messages_max != UNLIMITED and sum(one.count for one in inboxes) > messages_max:
            return "total_messages_max"
        if bytes_max != UNLIMITED and sum(one.bytes for one in inboxes) > bytes_max:
            return "total_bytes_max"
        return None
