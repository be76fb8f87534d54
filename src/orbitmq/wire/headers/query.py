"""Queries: single messages by id or key, and statistics of the store."""

import msgspec

from orbitmq.wire.codes import RequestCode
from orbitmq.wire.fields import Header, Int32, Int64, RpcHeader, TopicHeader, declares

__all__ = [
    "GetConsumeStats",
    "GetConsumeStatsInBroker",
    "GetTopicStatsInfo",
    "QueryConsumeQueue",
    "QueryMessage",
    "QueryMessageAnswer",
    "QuerySubscriptionByConsumer",
    "QueryTopicConsumeByWho",
    "QueryTopicsByConsumer",
    "ViewBrokerStatsData",
    "ViewMessage",
]


class QueryMessageAnswer(Header):
    """The answer to QueryMessage."""

    index_last_update_timestamp: Int64
    index_last_update_phyoffset: Int64


@declares(RequestCode.QUERY_MESSAGE, answer=QueryMessageAnswer)
class QueryMessage(TopicHeader):
    """Find messages by key or unique id through the index."""

    topic: str
    key: str
    max_num: Int32
    begin_timestamp: Int64
    end_timestamp: Int64
    index_type: str | None = None
    last_key: str | None = None
    unique_key: bool | None = msgspec.field(default=None, name="_UNIQUE_KEY_QUERY")
    """True: ``key`` is a unique id. It is not in Java's header class, but its client sets it."""


@declares(RequestCode.VIEW_MESSAGE_BY_ID)
class ViewMessage(Header):
    """Read one message by its commit log offset."""

    topic: str | None = None
    offset: Int64


@declares(RequestCode.QUERY_CONSUME_QUEUE)
class QueryConsumeQueue(TopicHeader):
    """Read entries of a consume queue, with their filter data."""

    topic: str | None = None
    queue_id: Int32 = 0
    index: Int64 = 0
    count: Int32 = 0
    consumer_group: str | None = None


@declares(RequestCode.GET_TOPIC_STATS_INFO)
class GetTopicStatsInfo(TopicHeader):
    """Ask for the offsets and last update of all queues of a topic."""

    topic: str


@declares(RequestCode.GET_CONSUME_STATS)
class GetConsumeStats(TopicHeader):
    """Ask for a group's progress in all queues of its topics."""

    consumer_group: str
    topic: str | None = None
    topic_list: str | None = None


@declares(RequestCode.GET_BROKER_CONSUME_STATS)
class GetConsumeStatsInBroker(Header):
    """Ask for all groups' progress on a broker."""

    is_order: bool = False


@declares(RequestCode.QUERY_TOPIC_CONSUME_BY_WHO)
class QueryTopicConsumeByWho(TopicHeader):
    """Ask which groups consume a topic."""

    topic: str


@declares(RequestCode.QUERY_TOPICS_BY_CONSUMER)
class QueryTopicsByConsumer(RpcHeader):
    """Ask for the topics in which a group has offsets."""

    group: str


@declares(RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER)
class QuerySubscriptionByConsumer(TopicHeader):
    """Ask for a group's subscription to a topic."""

    group: str
    topic: str | None = None


@declares(RequestCode.VIEW_BROKER_STATS_DATA)
class ViewBrokerStatsData(Header):
    """Ask for one statistic of the broker by name and key."""

    stats_name: str
    stats_key: str
