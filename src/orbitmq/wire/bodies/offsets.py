"""How far groups have read: tables of offsets, and the order to begin elsewhere."""

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
    ``group_topic_map``, which says nothing new.
    """

    data_version: DataVersion | None = None
    group_topic_map: dict[str, tuple[str, ...]] | None = None
    offset_table: dict[str, dict[Int32, Int64]] = field(default_factory=dict)


class DelayOffsetTable(Body, frozen=True, kw_only=True):
    """How far each delay level is delivered; Java: DelayOffsetSerializeWrapper.

    A slave gets it from its master: the answer to GET_ALL_DELAY_OFFSET.
    """

    data_version: DataVersion | None = None
    offset_table: dict[Int32, Int64] = field(default_factory=dict)


class LocalOffsetTable(Body, frozen=True, kw_only=True):
    """The offsets a broadcasting consumer keeps on its own disk; Java: OffsetSerializeWrapper."""

    offset_table: QueueMap[Int64] = QueueMap()


class OffsetReset(Body, frozen=True, kw_only=True):
    """A broker tells consumers where to begin anew; Java: ResetOffsetBody.

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
    """The list form of `OffsetReset`, when the operator's request says language CPP."""

    offset_table: tuple[QueueOffset, ...] = ()


class ConsumerStatus(Body, frozen=True, kw_only=True):
    """How far consumers have come; Java: GetConsumerStatusBody.

    A consumer answers a broker with ``message_queue_table``; the broker gathers these by client id
    in ``consumer_table`` for the admin tool.
    """

    consumer_table: dict[str, QueueMap[Int64]] = field(default_factory=dict)
    message_queue_table: QueueMap[Int64] = QueueMap()


class CorrectionOffsets(Body, frozen=True, kw_only=True):
    """By queue id, the least offset of other groups; Java: QueryCorrectionOffsetBody."""

    correction_offsets: dict[Int32, Int64] = field(default_factory=dict)


class OffsetMovedEvent(Body, frozen=True, kw_only=True):
    """A broker's note, as a message of topic OFFSET_MOVED_EVENT, that it moved a consumer."""

    consumer_group: str = ""
    message_queue: MessageQueue | None = None
    offset_new: Int64 = 0
    offset_request: Int64 = 0


class RollbackStats(Body, frozen=True, kw_only=True):
    """What a reset by time did to one queue, in the tables of admin tools."""

    broker_name: str = ""
    broker_offset: Int64 = 0
    consumer_offset: Int64 = 0
    queue_id: Int64 = 0
    rollback_offset: Int64 = 0
    timestamp_offset: Int64 = 0
