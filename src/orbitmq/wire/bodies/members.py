"""The clients connected to a broker, for admin tools."""

from msgspec import field

from orbitmq.wire.bodies.heartbeat import (
    ConsumeFromWhere,
    ConsumeType,
    MessageModel,
    SubscriptionData,
)
from orbitmq.wire.fields import Int32, Int64
from orbitmq.wire.json.body import Body

__all__ = [
    "Connection",
    "ConsumerConnection",
    "ProducerConnection",
    "ProducerInfo",
    "ProducerTableInfo",
]


class Connection(Body, frozen=True, kw_only=True):
    """One client; ``language`` is a text, so that unknown languages keep their name."""

    client_addr: str = ""
    client_id: str = ""
    language: str | None = None
    version: Int32 = 0


class ConsumerConnection(Body, frozen=True, kw_only=True):
    """The clients of a consumer group: the answer to GET_CONSUMER_CONNECTION_LIST."""

    connection_set: tuple[Connection, ...] = ()
    consume_from_where: ConsumeFromWhere | None = None
    consume_type: ConsumeType | None = None
    message_model: MessageModel | None = None
    subscription_table: dict[str, SubscriptionData] = field(default_factory=dict)


class ProducerConnection(Body, frozen=True, kw_only=True):
    """The clients of a producer group: the answer to GET_PRODUCER_CONNECTION_LIST."""

    connection_set: tuple[Connection, ...] = ()


class ProducerInfo(Body, frozen=True, kw_only=True):
    """One client of a producer group, with the time of its last heartbeat."""

    client_id: str = ""
    language: str | None = None
    last_update_timestamp: Int64 = 0
    remote_ip: str = field(default="", name="remoteIP")
    version: Int32 = 0


class ProducerTableInfo(Body, frozen=True, kw_only=True):
    """All producers of a broker by group: the answer to GET_ALL_PRODUCER_INFO."""

    data: dict[str, tuple[ProducerInfo, ...]] = field(default_factory=dict)
