"""The progress of groups: tables of offsets, and resets."""

from msgspec import field

from orbitmq.message.model import MessageQueue
from orbitmq.wire.bodies.topic import DataVersion
from orbitmq.wire.fields import Int32, Int64
from orbitmq.wire.json.body import Body
from orbitmq.wire.json.queue_map import QueueMap

__all__ = [
    "ConsumerOffsetTable",
    "ConsumerStatus",
    "CorrectionOffsets",
    "DelayOffsetTable",
    "LmqOffsetTable",
    "LocalOffsetTable",
    "OffsetMovedEvent",
    "OffsetReset",
    "OffsetResetForC",
    "QueueOffset",
    "RollbackStats",
]


class ConsumerOffsetTable(Body, frozen=True, kw_only=True):
    """All offsets of a broker, by ``topic@group``, then queue id.

    Java: ConsumerOffsetSerializeWrapper. A slave gets it from its master
    (GET_ALL_CONSUMER_OFFSET), and a broker keeps it as consumerOffset.json. Java's broker adds
    ``group_topic_map``, which is redundant.
    """

    data_version: DataVersion | None = None
    group_topic_map: dict[str, tuple[str, ...]] | None = None
    offset_table: dict[str, dict[Int32, Int64]] = field(default_factory=dict)


class LmqOffsetTable(Body, frozen=True, kw_only=True):
    """The offsets of a broker with light queues, in lmqConsumerOffset.json.

    Java: LmqConsumerOffsetManager. Groups with the name of a light queue have one offset in each
    topic, in ``lmq_offset_table`` by ``topic@group``; the others are as in `ConsumerOffsetTable`.
    """

    data_version: DataVersion | None = None
    lmq_offset_table: dict[str, Int64] = field(default_factory=dict)
    offset_table: dict[str, dict[Int32, Int64]] = field(default_factory=dict)


class DelayOffsetTable(Body, frozen=True, kw_only=True):
    """The progress of each delay level; Java: DelayOffsetSerializeWrapper.

    A slave gets it from its master: the answer to GET_ALL_DELAY_OFFSET.
    """

    data_version: DataVersion | None = None
    offset_table: dict[Int32, Int64] = field(default_factory=dict)


class LocalOffsetTable(Body, frozen=True, kw_only=True):
    """The offsets in the local file of a broadcasting consumer; Java: OffsetSerializeWrapper."""

    offset_table: QueueMap[Int64] = QueueMap()


class OffsetReset(Body, frozen=True, kw_only=True):
    """New offsets for consumers, from a broker; Java: ResetOffsetBody.

    >>> OffsetReset(offset_table=QueueMap({MessageQueue("orders", "broker-a", 0): 100})).to_json()
    b'{"offsetTable":{{"topic":"orders","brokerName":"broker-a","queueId":0}:100}}'
    """

    offset_table: QueueMap[Int64] = QueueMap()


class QueueOffset(Body, frozen=True, kw_only=True):
    """A queue and its offset in one object; Java: MessageQueueForC."""

    broker_name: str = ""
    offset: Int64 = 0
    queue_id: Int32 = 0
    topic: str = ""


class OffsetResetForC(Body, frozen=True, kw_only=True):
    """The list form of `OffsetReset`, if the language of the operator's request is CPP."""

    offset_table: tuple[QueueOffset, ...] = ()


class ConsumerStatus(Body, frozen=True, kw_only=True):
    """The progress of consumers; Java: GetConsumerStatusBody.

    A consumer answers with ``message_queue_table``; the broker collects these by client id in
    ``consumer_table`` for the admin tool.
    """

    consumer_table: dict[str, QueueMap[Int64]] = field(default_factory=dict)
    message_queue_table: QueueMap[Int64] = QueueMap()


class CorrectionOffsets(Body, frozen=True, kw_only=True):
    """The lowest offset of other groups, by queue id; Java: QueryCorrectionOffsetBody."""

    correction_offsets: dict[Int32, Int64] = field(default_factory=dict)


class OffsetMovedEvent(Body, frozen=True, kw_only=True):
    """A message of topic OFFSET_MOVED_EVENT: a broker has moved a consumer's offset."""

    consumer_group: str = ""
    message_queue: MessageQueue | None = None
    offset_new: Int64 = 0
    offset_request: Int64 = 0


class RollbackStats(Body, frozen=True, kw_only=True):
    """The result of a reset by time for one queue, for admin tools."""

    broker_name: str = ""
    broker_offset: Int64 = 0
    consumer_offset: Int64 = 0
    queue_id: Int64 = 0
    rollback_offset: Int64 = 0
    timestamp_offset: Int64 = 0
