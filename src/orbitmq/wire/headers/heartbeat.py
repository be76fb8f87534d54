"""Membership: connected clients, their groups, and locked queues."""

import msgspec

from orbitmq.wire.codes import RequestCode
from orbitmq.wire.fields import Header, Int32, RpcHeader, TopicHeader, declares, without_fields

__all__ = [
    "ConsumeMessageDirectly",
    "GetAllProducerInfo",
    "GetConsumerConnectionList",
    "GetConsumerListByGroup",
    "GetConsumerRunningInfo",
    "GetProducerConnectionList",
    "Heartbeat",
    "HeartbeatAnswer",
    "LockBatchMq",
    "NotifyConsumerIdsChanged",
    "UnlockBatchMq",
    "UnregisterClient",
]


class HeartbeatAnswer(Header):
    """Whether the next heartbeat may omit the subscriptions, and whether they changed."""

    supports_v2: bool | None = msgspec.field(default=None, name="IS_SUPPORT_HEART_BEAT_V2")
    subscriptions_changed: bool | None = msgspec.field(default=None, name="IS_SUB_CHANGE")


@declares(RequestCode.HEART_BEAT, answer=HeartbeatAnswer)
class Heartbeat(RpcHeader):
    """Register or keep the groups of a client, which are in the body."""


@declares(RequestCode.UNREGISTER_CLIENT)
class UnregisterClient(RpcHeader):
    """Leave a group."""

    client_id: str = msgspec.field(name="clientID")
    producer_group: str | None = None
    consumer_group: str | None = None


@declares(RequestCode.GET_CONSUMER_LIST_BY_GROUP)
class GetConsumerListByGroup(RpcHeader):
    """Ask for the client ids of a consumer group."""

    consumer_group: str


@declares(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED)
class NotifyConsumerIdsChanged(RpcHeader):
    """Notify the clients of a group that a member joined or left. One-way."""

    consumer_group: str


@declares(RequestCode.LOCK_BATCH_MQ)
class LockBatchMq(RpcHeader):
    """Lock queues for ordered consumption; they are in the body."""


@declares(RequestCode.UNLOCK_BATCH_MQ)
class UnlockBatchMq(RpcHeader):
    """Unlock queues; they are in the body."""


@declares(RequestCode.GET_CONSUMER_CONNECTION_LIST)
class GetConsumerConnectionList(RpcHeader):
    """Ask for the connections of a consumer group."""

    consumer_group: str


@declares(RequestCode.GET_PRODUCER_CONNECTION_LIST)
class GetProducerConnectionList(RpcHeader):
    """Ask for the connections of a producer group."""

    producer_group: str


@declares(RequestCode.GET_ALL_PRODUCER_INFO)
class GetAllProducerInfo(Header):
    """Ask for the connections of all producer groups."""


@declares(RequestCode.GET_CONSUMER_RUNNING_INFO)
class GetConsumerRunningInfo(RpcHeader):
    """Ask a consumer for its internal state, through its broker."""

    consumer_group: str
    client_id: str
    jstack_enable: bool = False


@declares(RequestCode.CONSUME_MESSAGE_DIRECTLY)
class ConsumeMessageDirectly(TopicHeader):
    """Make a client consume one message immediately, through its broker."""

    consumer_group: str
    client_id: str | None = None
    msg_id: str | None = None
    broker_name: str | None = None
    topic: str | None = None
    topic_sys_flag: Int32 | None = None
    group_sys_flag: Int32 | None = None


# These have no fields; some have a body.
without_fields(
    RequestCode.CHECK_CLIENT_CONFIG,
    RequestCode.QUERY_ASSIGNMENT,
)
