"""Membership: who is connected, in which group, holding which queues."""

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
    """Whether the next heartbeat may leave the subscriptions out, and whether they changed."""

    supports_v2: bool | None = msgspec.field(default=None, name="IS_SUPPORT_HEART_BEAT_V2")
    subscriptions_changed: bool | None = msgspec.field(default=None, name="IS_SUB_CHANGE")


@declares(RequestCode.HEART_BEAT, answer=HeartbeatAnswer)
class Heartbeat(RpcHeader):
    """Keep producer and consumer groups of a client alive; they are in the body."""


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
    """Tell the clients of a group that a member came or went. One-way."""

    consumer_group: str


@declares(RequestCode.LOCK_BATCH_MQ)
class LockBatchMq(RpcHeader):
    """Lock queues for ordered consumption; the body names them."""


@declares(RequestCode.UNLOCK_BATCH_MQ)
class UnlockBatchMq(RpcHeader):
    """Give locked queues back."""


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
    """Ask a consumer for its inner state, through its broker."""

    consumer_group: str
    client_id: str
    jstack_enable: bool = False


@declares(RequestCode.CONSUME_MESSAGE_DIRECTLY)
class ConsumeMessageDirectly(TopicHeader):
    """Have a client consume one message at once, through its broker."""

    consumer_group: str
    client_id: str | None = None
    msg_id: str | None = None
    broker_name: str | None = None
    topic: str | None = None
    topic_sys_flag: Int32 | None = None
    group_sys_flag: Int32 | None = None


# These carry no fields: nothing, or everything in the body.
without_fields(
    RequestCode.CHECK_CLIENT_CONFIG,
    RequestCode.QUERY_ASSIGNMENT,
)
