"""The state of a running consumer, which a broker requests for admin tools."""

from enum import StrEnum

from msgspec import field

from orbitmq.wire.bodies.heartbeat import SubscriptionData
from orbitmq.wire.fields import Int32, Int64
from orbitmq.wire.json.body import Body
from orbitmq.wire.json.queue_map import QueueMap

__all__ = [
    "CMResult",
    "ConsumeMessageDirectlyResult",
    "ConsumeStatus",
    "ConsumerRunningInfo",
    "PopProcessQueueInfo",
    "ProcessQueueInfo",
]


class ConsumeStatus(Body, frozen=True, kw_only=True):
    """The throughput of one topic: messages per second (TPS), milliseconds per message (RT)."""

    consume_failed_msgs: Int64 = 0
    consume_failed_tps: float = field(default=0.0, name="consumeFailedTPS")
    consume_ok_tps: float = field(default=0.0, name="consumeOKTPS")
    consume_rt: float = field(default=0.0, name="consumeRT")
    pull_rt: float = field(default=0.0, name="pullRT")
    pull_tps: float = field(default=0.0, name="pullTPS")


class ProcessQueueInfo(Body, frozen=True, kw_only=True):
    """The buffered messages of one queue; ``droped`` is the spelling on the wire."""

    cached_msg_count: Int32 = 0
    cached_msg_max_offset: Int64 = 0
    cached_msg_min_offset: Int64 = 0
    cached_msg_size_in_mib: Int32 = field(default=0, name="cachedMsgSizeInMiB")
    commit_offset: Int64 = 0
    dropped: bool = field(default=False, name="droped")
    last_consume_timestamp: Int64 = 0
    last_lock_timestamp: Int64 = 0
    last_pull_timestamp: Int64 = 0
    locked: bool = False
    transaction_msg_count: Int32 = 0
    transaction_msg_max_offset: Int64 = 0
    transaction_msg_min_offset: Int64 = 0
    try_unlock_times: Int64 = 0


class PopProcessQueueInfo(Body, frozen=True, kw_only=True):
    """The popped messages of one queue that are not acknowledged yet."""

    dropped: bool = field(default=False, name="droped")
    last_pop_timestamp: Int64 = 0
    wait_ack_count: Int32 = 0


class ConsumerRunningInfo(Body, frozen=True, kw_only=True):
    """A consumer's answer to GET_CONSUMER_RUNNING_INFO; ``jstack`` if it was requested."""

    jstack: str | None = None
    mq_pop_table: QueueMap[PopProcessQueueInfo] = QueueMap()
    mq_table: QueueMap[ProcessQueueInfo] = QueueMap()
    properties: dict[str, str] = field(default_factory=dict)
    status_table: dict[str, ConsumeStatus] = field(default_factory=dict)
    subscription_set: tuple[SubscriptionData, ...] = ()
    user_consumer_info: dict[str, str] = field(default_factory=dict)


class CMResult(StrEnum):
    """The outcome of consuming a message on demand."""

    CR_SUCCESS = "CR_SUCCESS"
    CR_LATER = "CR_LATER"
    CR_ROLLBACK = "CR_ROLLBACK"
    CR_COMMIT = "CR_COMMIT"
    CR_THROW_EXCEPTION = "CR_THROW_EXCEPTION"
    CR_RETURN_NULL = "CR_RETURN_NULL"


class ConsumeMessageDirectlyResult(Body, frozen=True, kw_only=True):
    """A consumer's answer to CONSUME_MESSAGE_DIRECTLY."""

    auto_commit: bool = True
    consume_result: CMResult | None = None
    order: bool = False
    remark: str | None = None
    spent_time_mills: Int64 = 0
