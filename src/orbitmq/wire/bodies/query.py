"""Entries of a consume queue, and single subscriptions, for admin tools."""

from orbitmq.wire.bodies.heartbeat import SubscriptionData
from orbitmq.wire.fields import Int32, Int64
from orbitmq.wire.json.body import Body

__all__ = ["ConsumeQueueData", "ConsumeQueueEntries", "SubscriptionAnswer"]


class ConsumeQueueData(Body, frozen=True, kw_only=True):
    """One entry: the position of its message, and whether the group's filter matches (``eval``)."""

    bit_map: str | None = None
    eval: bool = False
    extend_data_json: str | None = None
    msg: str | None = None
    physic_offset: Int64 = 0
    physic_size: Int32 = 0
    tags_code: Int64 = 0


class ConsumeQueueEntries(Body, frozen=True, kw_only=True):
    """A broker's answer to QUERY_CONSUME_QUEUE; Java: QueryConsumeQueueResponseBody."""

    filter_data: str | None = None
    max_queue_index: Int64 = 0
    min_queue_index: Int64 = 0
    queue_data: tuple[ConsumeQueueData, ...] = ()
    subscription_data: SubscriptionData | None = None


class SubscriptionAnswer(Body, frozen=True, kw_only=True):
    """A broker's answer to QUERY_SUBSCRIPTION_BY_CONSUMER; Java: QuerySubscriptionResponseBody."""

    group: str = ""
    subscription_data: SubscriptionData | None = None
    topic: str = ""
