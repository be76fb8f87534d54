"""Operators: topics, groups and settings of a broker."""

from orbitmq.wire.codes import RequestCode
from orbitmq.wire.fields import (
    Header,
    Int32,
    Int64,
    RpcHeader,
    TopicHeader,
    declares,
    without_fields,
)

__all__ = [
    "AddBroker",
    "CreateTopic",
    "CreateTopicList",
    "DeleteSubscriptionGroup",
    "DeleteTopic",
    "ExchangeHAInfo",
    "ExchangeHAInfoAnswer",
    "GetAllSubscriptionGroup",
    "GetAllSubscriptionGroupAnswer",
    "GetAllTopicConfig",
    "GetAllTopicConfigAnswer",
    "GetBrokerConfigAnswer",
    "GetSubscriptionGroupConfig",
    "GetTopicConfig",
    "RemoveBroker",
    "ResetMasterFlushOffset",
    "UpdateGroupForbidden",
]


@declares(RequestCode.UPDATE_AND_CREATE_TOPIC, RequestCode.UPDATE_AND_CREATE_STATIC_TOPIC)
class CreateTopic(TopicHeader):
    """Create or change a topic; with the second code, a static topic."""

    topic: str
    default_topic: str
    read_queue_nums: Int32
    write_queue_nums: Int32
    perm: Int32
    topic_filter_type: str
    topic_sys_flag: Int32 | None = None
    order: bool = False
    attributes: str | None = None
    force: bool = False


@declares(RequestCode.UPDATE_AND_CREATE_TOPIC_LIST)
class CreateTopicList(RpcHeader):
    """Create or change several topics; they are in the body."""


@declares(RequestCode.DELETE_TOPIC_IN_BROKER)
class DeleteTopic(TopicHeader):
    """Delete a topic from a broker."""

    topic: str


@declares(RequestCode.GET_TOPIC_CONFIG)
class GetTopicConfig(TopicHeader):
    """Ask for the settings of a topic."""

    topic: str


class GetAllTopicConfigAnswer(Header):
    """The answer to GetAllTopicConfig."""

    total_topic_num: Int32 | None = None
    """Absent in answers of releases before 5.4, which send all topics at once."""


@declares(RequestCode.GET_ALL_TOPIC_CONFIG, answer=GetAllTopicConfigAnswer)
class GetAllTopicConfig(Header):
    """Ask for all topics, in pages if the peer supports them."""

    topic_seq: Int32 | None = None
    """The first topic of the page. Peers before 5.4 send no fields and get all topics."""
    data_version: str | None = None
    max_topic_num: Int32 | None = None


class GetAllSubscriptionGroupAnswer(Header):
    """The answer to GetAllSubscriptionGroup."""

    total_group_num: Int32 | None = None
    """Absent in answers of releases before 5.4, which send all groups at once."""


@declares(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, answer=GetAllSubscriptionGroupAnswer)
class GetAllSubscriptionGroup(Header):
    """Ask for all groups, in pages if the peer supports them."""

    group_seq: Int32 | None = None
    """The first group of the page. Peers before 5.4 send no fields and get all groups."""
    data_version: str | None = None
    max_group_num: Int32 | None = None


@declares(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG)
class GetSubscriptionGroupConfig(RpcHeader):
    """Ask for the settings of a group."""

    group: str


@declares(RequestCode.DELETE_SUBSCRIPTIONGROUP)
class DeleteSubscriptionGroup(RpcHeader):
    """Delete a group, optionally with its offsets."""

    group_name: str
    clean_offset: bool = False


@declares(RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN)
class UpdateGroupForbidden(TopicHeader):
    """Forbid or allow a group to read a topic."""

    group: str
    topic: str
    readable: bool | None = None


@declares(RequestCode.ADD_BROKER)
class AddBroker(Header):
    """Start a broker inside a container process."""

    config_path: str | None = None


@declares(RequestCode.REMOVE_BROKER)
class RemoveBroker(Header):
    """Stop a broker inside a container process."""

    broker_name: str
    broker_cluster_name: str
    broker_id: Int64


class ExchangeHAInfoAnswer(Header):
    """The answer to ExchangeHAInfo."""

    master_ha_address: str | None = None
    master_flush_offset: Int64 | None = None
    master_address: str | None = None


@declares(RequestCode.EXCHANGE_BROKER_HA_INFO, answer=ExchangeHAInfoAnswer)
class ExchangeHAInfo(Header):
    """Exchange replication addresses between members of a group."""

    master_ha_address: str | None = None
    master_flush_offset: Int64 | None = None
    master_address: str | None = None


@declares(RequestCode.RESET_MASTER_FLUSH_OFFSET)
class ResetMasterFlushOffset(Header):
    """Send a slave the flushed offset of its master's log."""

    master_flush_offset: Int64


class GetBrokerConfigAnswer(Header):
    """The version of the settings in the body, as the JSON text of a data version."""

    version: str


without_fields(RequestCode.GET_BROKER_CONFIG, answer=GetBrokerConfigAnswer)

# These have no fields; some have a body.
without_fields(
    RequestCode.UPDATE_BROKER_CONFIG,
    RequestCode.GET_BROKER_RUNTIME_INFO,
    RequestCode.GET_ALL_CONSUMER_OFFSET,
    RequestCode.GET_ALL_DELAY_OFFSET,
    RequestCode.GET_TIMER_CHECK_POINT,
    RequestCode.GET_TIMER_METRICS,
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST,
    RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER,
    RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE,
    RequestCode.CLEAN_UNUSED_TOPIC,
    RequestCode.DELETE_EXPIRED_COMMITLOG,
    RequestCode.SET_MESSAGE_REQUEST_MODE,
    RequestCode.GET_ALL_MESSAGE_REQUEST_MODE,
    RequestCode.GET_BROKER_HA_STATUS,
)
