"""What a client tells every broker it talks to, again and again: who it is and what it reads."""

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
    """Who asks for messages: the program (actively), its client (passively), or by popping."""

    CONSUME_ACTIVELY = "CONSUME_ACTIVELY"
    CONSUME_PASSIVELY = "CONSUME_PASSIVELY"
    CONSUME_POP = "CONSUME_POP"


class MessageModel(StrEnum):
    """Whether each consumer of a group sees all messages, or they share them."""

    BROADCASTING = "BROADCASTING"
    CLUSTERING = "CLUSTERING"


class ConsumeFromWhere(StrEnum):
    """Where a group without offsets begins; Java reads MIN, MAX and the long one as LAST."""

    CONSUME_FROM_LAST_OFFSET = "CONSUME_FROM_LAST_OFFSET"
    CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST = (
        "CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST"
    )
    CONSUME_FROM_MIN_OFFSET = "CONSUME_FROM_MIN_OFFSET"
    CONSUME_FROM_MAX_OFFSET = "CONSUME_FROM_MAX_OFFSET"
    CONSUME_FROM_FIRST_OFFSET = "CONSUME_FROM_FIRST_OFFSET"
    CONSUME_FROM_TIMESTAMP = "CONSUME_FROM_TIMESTAMP"


class SubscriptionData(Body, frozen=True, kw_only=True):
    """What a consumer wants of one topic; ``code_set`` has the hash codes of ``tags_set``.

    A missing ``sub_version`` is 0 here, and the time of reading in Java. Java reads the source of
    a class filter but never writes it; we leave it out both ways.
    """

    class_filter_mode: bool = False
    code_set: tuple[Int32, ...] = ()
    expression_type: str = "TAG"
    sub_string: str = ""
    sub_version: Int64 = 0
    tags_set: tuple[str, ...] = ()
    topic: str = ""


class SimpleSubscriptionData(Body, frozen=True, kw_only=True):
    """A subscription that the settings of a group fix beforehand."""

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

    ``without_sub`` goes with a fingerprint the broker has answered before: the subscriptions are
    left out, and hold as they are.

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
    """A consumer asks whether a broker can run its filter; Java: CheckClientRequestBody."""

    client_id: str = ""
    group: str = ""
    namespace: str | None = None
    subscription_data: SubscriptionData | None = None
