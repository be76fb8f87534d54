"""Consumer groups: their settings, their members, and lists of names."""

from enum import StrEnum

from msgspec import field

from orbitmq.wire.bodies.heartbeat import SimpleSubscriptionData
from orbitmq.wire.bodies.topic import DataVersion
from orbitmq.wire.fields import Int32, Int64
from orbitmq.wire.json.body import Body

__all__ = [
    "ConsumerIdList",
    "CustomizedRetryPolicy",
    "ExponentialRetryPolicy",
    "GroupForbidden",
    "GroupList",
    "GroupRetryPolicy",
    "GroupRetryPolicyType",
    "SubscriptionGroupConfig",
    "SubscriptionGroupList",
    "SubscriptionGroupTable",
]

_SECOND_MS, _MINUTE_MS, _HOUR_MS = 1_000, 60_000, 3_600_000


class GroupRetryPolicyType(StrEnum):
    """The kind of retry policy of a group."""

    EXPONENTIAL = "EXPONENTIAL"
    CUSTOMIZED = "CUSTOMIZED"


class ExponentialRetryPolicy(Body, frozen=True, kw_only=True):
    """Each delay is ``multiplier`` times the previous one; ``initial`` and ``max`` in ms."""

    initial: Int64 = 5 * _SECOND_MS
    max_: Int64 = field(default=2 * _HOUR_MS, name="max")
    multiplier: Int64 = 2


class CustomizedRetryPolicy(Body, frozen=True, kw_only=True):
    """A list of delays in ms; the default is Java's, from 1 s to 2 h."""

    next_: tuple[Int64, ...] = field(
        default=(
            *(seconds * _SECOND_MS for seconds in (1, 5, 10, 30)),
            *(minutes * _MINUTE_MS for minutes in (*range(1, 11), 20, 30)),
            *(hours * _HOUR_MS for hours in (1, 2)),
        ),
        name="next",
    )


class GroupRetryPolicy(Body, frozen=True, kw_only=True):
    """How long a message is delayed before it is delivered again."""

    customized_retry_policy: CustomizedRetryPolicy | None = None
    exponential_retry_policy: ExponentialRetryPolicy | None = None
    type_: GroupRetryPolicyType | None = field(default=GroupRetryPolicyType.CUSTOMIZED, name="type")


class SubscriptionGroupConfig(Body, frozen=True, kw_only=True):
    """The settings of a consumer group on a broker; admin tools change them."""

    attributes: dict[str, str] = field(default_factory=dict)
    broker_id: Int64 = 0
    consume_broadcast_enable: bool = True
    consume_enable: bool = True
    consume_from_min_enable: bool = True
    consume_message_orderly: bool = False
    consume_timeout_minute: Int32 = 15
    group_name: str = ""
    group_retry_policy: GroupRetryPolicy = GroupRetryPolicy()
    group_sys_flag: Int32 = 0
    notify_consumer_ids_changed_enable: bool = True
    retry_max_times: Int32 = 16
    retry_queue_nums: Int32 = 1
    subscription_data_set: tuple[SimpleSubscriptionData, ...] | None = None
    which_broker_when_consume_slowly: Int64 = 1


class SubscriptionGroupList(Body, frozen=True, kw_only=True):
    """Several groups to create, from admin tools."""

    group_config_list: tuple[SubscriptionGroupConfig, ...] = ()


class SubscriptionGroupTable(Body, frozen=True, kw_only=True):
    """All groups of a broker, for slaves and tools; Java: SubscriptionGroupWrapper.

    ``forbidden_table`` has, by group and topic, the bits of what the group may not do.
    """

    data_version: DataVersion = DataVersion()
    forbidden_table: dict[str, dict[str, Int32]] = field(default_factory=dict)
    subscription_group_table: dict[str, SubscriptionGroupConfig] = field(default_factory=dict)


class GroupForbidden(Body, frozen=True, kw_only=True):
    """Whether a group may read a topic: a broker's answer to UPDATE_AND_GET_GROUP_FORBIDDEN."""

    group: str = ""
    readable: bool | None = None
    topic: str = ""


class GroupList(Body, frozen=True, kw_only=True):
    """The groups that read a topic, from a broker for admin tools."""

    group_list: tuple[str, ...] = ()


class ConsumerIdList(Body, frozen=True, kw_only=True):
    """The clients of a group; consumers use it to share the queues among them.

    Java: GetConsumerListByGroupResponseBody.
    """

    consumer_id_list: tuple[str, ...] = ()
