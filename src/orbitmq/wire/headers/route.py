"""Routes and registration: requests of brokers and clients to a nameserver."""

import msgspec

from orbitmq.wire.codes import RequestCode
from orbitmq.wire.fields import Header, Int32, Int64, TopicHeader, declares, without_fields

__all__ = [
    "AddWritePermOfBroker",
    "AddWritePermOfBrokerAnswer",
    "BrokerHeartbeat",
    "DeleteKVConfig",
    "DeleteTopicFromNamesrv",
    "GetBrokerMemberGroup",
    "GetKVConfig",
    "GetKVConfigAnswer",
    "GetKVListByNamespace",
    "GetRouteInfo",
    "GetTopicsByCluster",
    "NotifyMinBrokerIdChange",
    "PutKVConfig",
    "QueryDataVersion",
    "QueryDataVersionAnswer",
    "RegisterBroker",
    "RegisterBrokerAnswer",
    "RegisterTopic",
    "UnregisterBroker",
    "WipeWritePermOfBroker",
    "WipeWritePermOfBrokerAnswer",
]


@declares(RequestCode.GET_ROUTEINFO_BY_TOPIC)
class GetRouteInfo(TopicHeader):
    """Ask which brokers hold the queues of a topic."""

    topic: str
    accept_standard_json_only: bool | None = None
    zone: str | None = msgspec.field(default=None, name="__ZONE_NAME")
    zone_mode: bool | None = msgspec.field(default=None, name="__ZONE_MODE")
    """If the mode is on, only brokers of the zone. Set by hooks of Java's client."""


class RegisterBrokerAnswer(Header):
    """The answer to RegisterBroker."""

    ha_server_addr: str | None = None
    master_addr: str | None = None


@declares(RequestCode.REGISTER_BROKER, answer=RegisterBrokerAnswer)
class RegisterBroker(Header):
    """Register a broker and its topics; the body is the topic table."""

    broker_name: str
    broker_addr: str
    cluster_name: str
    ha_server_addr: str
    broker_id: Int64
    heartbeat_timeout_millis: Int64 | None = None
    enable_acting_master: bool | None = None
    compressed: bool = False
    body_crc32: Int32 = 0
    """CRC-32 of the body as sent, with the sign bit cleared; 0 if it must not be checked."""
    zone: str | None = msgspec.field(default=None, name="__ZONE_NAME")


@declares(RequestCode.UNREGISTER_BROKER)
class UnregisterBroker(Header):
    """Remove a broker from all routes."""

    broker_name: str
    broker_addr: str
    cluster_name: str
    broker_id: Int64


@declares(RequestCode.BROKER_HEARTBEAT)
class BrokerHeartbeat(Header):
    """Report that a broker is alive, without its topic table."""

    cluster_name: str
    broker_addr: str
    broker_name: str
    broker_id: Int64 | None = None
    epoch: Int32 | None = None
    max_offset: Int64 | None = None
    confirm_offset: Int64 | None = None
    heartbeat_timeout_mills: Int64 | None = None
    election_priority: Int32 | None = None


class QueryDataVersionAnswer(Header):
    """The answer to QueryDataVersion."""

    changed: bool


@declares(RequestCode.QUERY_DATA_VERSION, answer=QueryDataVersionAnswer)
class QueryDataVersion(Header):
    """Ask whether a topic table has changed since it was registered."""

    broker_name: str
    broker_addr: str
    cluster_name: str
    broker_id: Int64


@declares(RequestCode.GET_BROKER_MEMBER_GROUP)
class GetBrokerMemberGroup(Header):
    """Ask for the live members, master and slaves, behind a broker name."""

    cluster_name: str
    broker_name: str


@declares(RequestCode.NOTIFY_MIN_BROKER_ID_CHANGE)
class NotifyMinBrokerIdChange(Header):
    """Notify the brokers of a group which member now has the lowest id."""

    min_broker_id: Int64 | None = None
    broker_name: str | None = None
    min_broker_addr: str | None = None
    offline_broker_addr: str | None = None
    ha_broker_addr: str | None = None


@declares(RequestCode.PUT_KV_CONFIG)
class PutKVConfig(Header):
    """Set a key of the nameserver, such as the order of an ordered topic."""

    namespace: str
    key: str
    value: str


class GetKVConfigAnswer(Header):
    """The answer to GetKVConfig."""

    value: str | None = None


@declares(RequestCode.GET_KV_CONFIG, answer=GetKVConfigAnswer)
class GetKVConfig(Header):
    """Ask for a key of the nameserver."""

    namespace: str
    key: str


@declares(RequestCode.DELETE_KV_CONFIG)
class DeleteKVConfig(Header):
    """Delete a key of the nameserver."""

    namespace: str
    key: str


@declares(RequestCode.GET_KVLIST_BY_NAMESPACE)
class GetKVListByNamespace(Header):
    """Ask for all keys of a namespace."""

    namespace: str


class WipeWritePermOfBrokerAnswer(Header):
    """The answer to WipeWritePermOfBroker."""

    wipe_topic_count: Int32


@declares(RequestCode.WIPE_WRITE_PERM_OF_BROKER, answer=WipeWritePermOfBrokerAnswer)
class WipeWritePermOfBroker(Header):
    """Stop writes to a broker in all routes."""

    broker_name: str


class AddWritePermOfBrokerAnswer(Header):
    """The answer to AddWritePermOfBroker."""

    add_topic_count: Int32


@declares(RequestCode.ADD_WRITE_PERM_OF_BROKER, answer=AddWritePermOfBrokerAnswer)
class AddWritePermOfBroker(Header):
    """Allow writes to a broker again."""

    broker_name: str


@declares(RequestCode.DELETE_TOPIC_IN_NAMESRV)
class DeleteTopicFromNamesrv(TopicHeader):
    """Delete the route of a topic."""

    topic: str
    cluster_name: str | None = None


@declares(RequestCode.REGISTER_TOPIC_IN_NAMESRV)
class RegisterTopic(TopicHeader):
    """Register the route of a topic that no broker registers."""

    topic: str


@declares(RequestCode.GET_TOPICS_BY_CLUSTER)
class GetTopicsByCluster(Header):
    """Ask for the topics of a cluster."""

    cluster: str


# These have no fields; some have a body.
without_fields(
    RequestCode.GET_BROKER_CLUSTER_INFO,
    RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER,
    RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS,
    RequestCode.GET_UNIT_TOPIC_LIST,
    RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST,
    RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST,
    RequestCode.UPDATE_NAMESRV_CONFIG,
    RequestCode.GET_NAMESRV_CONFIG,
)
