"""Statistics of a broker for admin tools: sizes of topics, lag of groups."""

from orbitmq.message.model import MessageQueue
from orbitmq.wire.fields import Int32, Int64
from orbitmq.wire.json.body import Body
from orbitmq.wire.json.queue_map import QueueMap

__all__ = [
    "BrokerStatsData",
    "BrokerStatsItem",
    "ConsumeByWho",
    "ConsumeStats",
    "ConsumeStatsList",
    "ConsumeTimeSpans",
    "OffsetWrapper",
    "QueueTimeSpan",
    "TopicOffset",
    "TopicStatsTable",
]


class OffsetWrapper(Body, frozen=True, kw_only=True):
    """Offsets of a group in one queue: the end of the queue, consumed, and pulled."""

    broker_offset: Int64 = 0
    consumer_offset: Int64 = 0
    last_timestamp: Int64 = 0
    pull_offset: Int64 = 0


class ConsumeStats(Body, frozen=True, kw_only=True):
    """The progress of a group: the answer to GET_CONSUME_STATS."""

    consume_tps: float = 0.0
    offset_table: QueueMap[OffsetWrapper] = QueueMap()


class ConsumeStatsList(Body, frozen=True, kw_only=True):
    """The progress of all groups of a broker: the answer to GET_BROKER_CONSUME_STATS."""

    broker_addr: str | None = None
    consume_stats_list: tuple[dict[str, tuple[ConsumeStats, ...]], ...] = ()
    total_diff: Int64 = 0
    total_inflight_diff: Int64 = 0


class TopicOffset(Body, frozen=True, kw_only=True):
    """The first and the next offset of a queue, and the time of its last message."""

    last_update_timestamp: Int64 = 0
    max_offset: Int64 = 0
    min_offset: Int64 = 0


class TopicStatsTable(Body, frozen=True, kw_only=True):
    """The offsets of a topic's queues: the answer to GET_TOPIC_STATS_INFO."""

    offset_table: QueueMap[TopicOffset] = QueueMap()
    topic_put_tps: float = 0.0


class QueueTimeSpan(Body, frozen=True, kw_only=True):
    """The times of the first, the last and the last consumed message of a queue."""

    consume_time_stamp: Int64 = 0
    delay_time: Int64 = 0
    max_time_stamp: Int64 = 0
    message_queue: MessageQueue | None = None
    min_time_stamp: Int64 = 0


class ConsumeTimeSpans(Body, frozen=True, kw_only=True):
    """All queues of a topic: the answer to QUERY_CONSUME_TIME_SPAN; Java: …TimeSpanBody."""

    consume_time_span_set: tuple[QueueTimeSpan, ...] = ()


class BrokerStatsItem(Body, frozen=True, kw_only=True):
    """A count over a period, and its averages."""

    avgpt: float = 0.0
    sum: Int64 = 0
    tps: float = 0.0


class BrokerStatsData(Body, frozen=True, kw_only=True):
    """One counter over three periods: the answer to VIEW_BROKER_STATS_DATA."""

    stats_day: BrokerStatsItem | None = None
    stats_hour: BrokerStatsItem | None = None
    stats_minute: BrokerStatsItem | None = None


class ConsumeByWho(Body, frozen=True, kw_only=True):
    """The groups that have consumed a message, and those that have not; made by admin tools."""

    consumed_group: tuple[str, ...] = ()
    not_consumed_group: tuple[str, ...] = ()
    offset: Int64 = 0
    queue_id: Int32 = 0
    topic: str = ""
