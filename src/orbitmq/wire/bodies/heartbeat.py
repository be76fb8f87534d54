"""Heartbeats of clients to brokers: the client's id, its groups and subscriptions."""

from enum import StrEnum

from msgspec import field

from orbitmq.wire.fields import Int32, Int64
from orbitmq.wire.json.body import Body

__all__ = [
    "ConsumeFromWhere",
    "ConsumeType",
    "ConsumerData",
    "HeartbeatData",
    "MessageModel",
    "ProducerData",
    "SimpleSubscriptionData",
    "SubscriptionCheck",
    "SubscriptionData",
]


class ConsumeType(StrEnum):
    """How messages are requested: by the program (actively), its client (passively), or by pop."""

    CONSUME_ACTIVELY = "CONSUME_ACTIVELY"
    CONSUME_PASSIVELY = "CONSUME_PASSIVELY"
    CONSUME_POP = "CONSUME_POP"


class MessageModel(StrEnum):
    """Whether each consumer of a group gets all messages, or they share them."""

    BROADCASTING = "BROADCASTING"
    CLUSTERING = "CLUSTERING"


class ConsumeFromWhere(StrEnum):
    """Where a group without offsets begins; Java treats MIN, MAX and the long one as LAST."""

    CONSUME_FROM_LAST_OFFSET = "CONSUME_FROM_LAST_OFFSET"
    CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST = (
        "CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST"
    )
    CONSUME_FROM_MIN_OFFSET = "CONSUME_FROM_MIN_OFFSET"
    CONSUME_FROM_MAX_OFFSET = "CONSUME_FROM_MAX_OFFSET"
    CONSUME_FROM_FIRST_OFFSET = "CONSUME_FROM_FIRST_OFFSET"
    CONSUME_FROM_TIMESTAMP = "CONSUME_FROM_TIMESTAMP"


class SubscriptionData(Body, frozen=True, kw_only=True):
    """A consumer's subscription to one topic; ``code_set`` has the hash codes of ``tags_set``.

    A missing ``sub_version`` is 0; in Java it is the current time. Java reads the source of a class
    filter but never writes it, so it is omitted here.
    """

    class_filter_mode: bool = False
    code_set: tuple[Int32, ...] = ()
    expression_type: str = "TAG"
    sub_string: str = ""
    sub_version: Int64 = 0
    tags_set: tuple[str, ...] = ()
    topic: str = ""


class SimpleSubscriptionData(Body, frozen=True, kw_only=True):
    """A subscription in the settings of a group."""

    expression: str = ""
    expression_type: str = ""
    topic: str = ""
    version: Int64 = 0


class ProducerData(Body, frozen=True, kw_only=True):
    """One producer group of a client."""

    group_name: str = ""


class ConsumerData(Body, frozen=True, kw_only=True):
    """One consumer group of a client."""

    consume_from_where: ConsumeFromWhere | None = None
    consume_type: ConsumeType | None = None
    group_name: str = ""
    message_model: MessageModel | None = None
    subscription_data_set: tuple[SubscriptionData, ...] = ()
    unit_mode: bool = False


class HeartbeatData(Body, frozen=True, kw_only=True):
    """The body of HEART_BEAT, from every client to every broker of its routes.

    ``without_sub`` is for a fingerprint that the broker knows: the subscriptions are omitted, since
    they have not changed.

    >>> orders = ProducerData(group_name="orders")
    >>> HeartbeatData(client_id="10.0.0.7@1", producer_data_set=(orders,)).to_json()
    b'{"clientID":"10.0.0.7@1","consumerDataSet":[],"heartbeatFingerprint":0,\
"producerDataSet":[{"groupName":"orders"}],"withoutSub":false}'
    """

    client_id: str = field(default="", name="clientID")
    consumer_data_set: tuple[ConsumerData, ...] = ()
    heartbeat_fingerprint: Int32 = 0
    producer_data_set: tuple[ProducerData, ...] = ()
    without_sub: bool = False


class SubscriptionCheck(Body, frozen=True, kw_only=True):
    """A consumer's question whether a broker supports its filter; Java: CheckClientRequestBody."""

    client_id: str = ""
    group: str = ""
    namespace: str | None = None
    subscription_data: SubscriptionData | None = None
