"""Names of topics and groups: which are allowed, which RocketMQ derives, and size limits.

Lengths are in characters, which are bytes here: an allowed name is ASCII. The rules are those of
Java's ``Validators`` (client), ``TopicValidator`` (broker), ``MixAll``, ``KeyBuilder`` and
``NamespaceUtil``.
"""

import re
from reprlib import repr as elided
from typing import Final

from orbitmq.errors import InvalidGroup, InvalidInput, InvalidTopic, MessageTooLarge

AUTO_CREATE_TOPIC: Final = "TBW102"
SCHEDULE_TOPIC: Final = "SCHEDULE_TOPIC_XXXX"
BENCHMARK_TOPIC: Final = "BenchmarkTest"
HALF_TOPIC: Final = "RMQ_SYS_TRANS_HALF_TOPIC"
OP_HALF_TOPIC: Final = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
CHECKED_TOO_OFTEN_TOPIC: Final = "TRANS_CHECK_MAX_TIME_TOPIC"
TRACE_TOPIC: Final = "RMQ_SYS_TRACE_TOPIC"
SELF_TEST_TOPIC: Final = "SELF_TEST_TOPIC"
OFFSET_MOVED_TOPIC: Final = "OFFSET_MOVED_EVENT"
CHECKPOINT_TOPIC: Final = "CHECKPOINT_TOPIC"
SYSTEM_TOPIC_PREFIX: Final = "rmq_sys_"
TIMER_TOPIC: Final = f"{SYSTEM_TOPIC_PREFIX}wheel_timer"
CLOUD_TRACE_TOPIC_PREFIX: Final = "rmq_sys_TRACE_DATA_"

RETRY_PREFIX: Final = "%RETRY%"
DEAD_LETTER_PREFIX: Final = "%DLQ%"
LMQ_PREFIX: Final = "%LMQ%"
REPLY_TOPIC_SUFFIX: Final = "_REPLY_TOPIC"

DEFAULT_PRODUCER_GROUP: Final = "DEFAULT_PRODUCER"
DEFAULT_CONSUMER_GROUP: Final = "DEFAULT_CONSUMER"
SYSTEM_GROUP_PREFIX: Final = "CID_RMQ_SYS_"
TRANSACTION_GROUP: Final = "CID_RMQ_SYS_TRANS"
# Groups that brokers and tools make for themselves (PREDEFINE_GROUP_SET in Java's MixAll).
SYSTEM_GROUPS: Final = frozenset(
    {DEFAULT_PRODUCER_GROUP, DEFAULT_CONSUMER_GROUP, "CLIENT_INNER_PRODUCER", "TOOLS_CONSUMER"}
    | {"SCHEDULE_CONSUMER", "FILTERSRV_CONSUMER", "__MONITOR_CONSUMER"}
    | {"SELF_TEST_P_GROUP", "SELF_TEST_C_GROUP", "CID_ONS-HTTP-PROXY"}
    | {"CID_ONSAPI_PULL", "CID_ONSAPI_PERMISSION", "CID_ONSAPI_OWNER"}
)

TOPIC_LENGTH_LIMIT: Final = 127  # in a V1 record the length is one signed byte
DERIVED_TOPIC_LENGTH_LIMIT: Final = 255  # a broker's limit for retry and dead letter topics
GROUP_LENGTH_LIMIT: Final = 120  # leaves room for the prefix of a retry topic
BODY_SIZE_LIMIT: Final = 4 * 1024 * 1024
PROPERTIES_SIZE_LIMIT: Final = 32767  # in a record the size is one signed short

# Topics for the internal use of brokers; clients may not send to them.
FORBIDDEN_TO_SEND: Final = frozenset(
    {
        SCHEDULE_TOPIC,
        HALF_TOPIC,
        OP_HALF_TOPIC,
        CHECKED_TOO_OFTEN_TOPIC,
        SELF_TEST_TOPIC,
        OFFSET_MOVED_TOPIC,
        TIMER_TOPIC,  # Java forgets it: its messages name the topic that a broker writes to
    }
)
SYSTEM_TOPICS: Final = FORBIDDEN_TO_SEND | {
    AUTO_CREATE_TOPIC,
    BENCHMARK_TOPIC,
    TRACE_TOPIC,
    CHECKPOINT_TOPIC,
}

_FOREIGN = re.compile(r"[^%|a-zA-Z0-9_-]")


def check_topic(topic: str) -> None:
    """Check a topic name as a client does.

    >>> check_topic("orders")
    >>> check_topic("orders.paid")
    Traceback (most recent call last):
    orbitmq.errors.InvalidTopic: topic 'orders.paid' holds '.' at position 6; allowed are \
letters a-z and A-Z, digits, and % | _ - (length 11)
    """
    _check_name(topic, "topic", TOPIC_LENGTH_LIMIT, InvalidTopic)


def check_stored_topic(topic: str) -> None:
    """Check a topic name as a broker does when it creates the topic.

    Names of retry and dead letter topics may have 255 characters, since they contain the name of a
    group and perhaps of a topic.

    >>> check_stored_topic("%RETRY%" + "g" * 120)
    >>> check_stored_topic("%RETRY%" + "g" * 249)
    Traceback (most recent call last):
    orbitmq.errors.InvalidTopic: topic '%RETRY%ggggg...ggggggggggggg' has 256 characters, the \
limit is 255
    """
    _check_name(topic, "topic", stored_topic_limit(topic), InvalidTopic)


def stored_topic_limit(topic: str) -> int:
    """Return how many characters the name of a topic of this kind may have on a broker.

    >>> stored_topic_limit("orders"), stored_topic_limit("%RETRY%billing")
    (127, 255)
    """
    derived = is_retry_topic(topic) or is_dead_letter_topic(topic)
    return DERIVED_TOPIC_LENGTH_LIMIT if derived else TOPIC_LENGTH_LIMIT


def has_foreign_character(name: str) -> bool:
    """Return whether a name holds a character that is not allowed in topics and groups.

    >>> has_foreign_character("orders.paid"), has_foreign_character("%RETRY%billing")
    (True, False)
    """
    return _FOREIGN.search(name) is not None


def check_group(group: str) -> None:
    """Check the name of a producer or consumer group.

    >>> check_group("billing")
    >>> check_group("")
    Traceback (most recent call last):
    orbitmq.errors.InvalidGroup: group is empty or blank; give it a name (length 0)
    """
    _check_name(group, "group", GROUP_LENGTH_LIMIT, InvalidGroup)


def check_sendable(topic: str) -> None:
    """Check that ``topic``, a well-formed name, is not for the internal use of brokers.

    >>> check_sendable("orders")
    >>> check_sendable("SCHEDULE_TOPIC_XXXX")
    Traceback (most recent call last):
    orbitmq.errors.InvalidTopic: topic 'SCHEDULE_TOPIC_XXXX' is internal to brokers; send to \
another topic (length 19)
    """
    if topic in FORBIDDEN_TO_SEND:
        raise InvalidTopic(
            f"topic {topic!r} is internal to brokers; send to another topic",
            field="topic",
            length=len(topic),
        )


def check_body(size: int, limit: int = BODY_SIZE_LIMIT) -> None:
    """Check the size of a body in bytes; as in Java, that is its size before compression.

    >>> check_body(4096)
    >>> check_body(5000, limit=4096)
    Traceback (most recent call last):
    orbitmq.errors.MessageTooLarge: body has 5000 bytes, the limit is 4096
    """
    if size > limit:
        raise MessageTooLarge(
            f"body has {size} bytes, the limit is {limit}", field="body", length=size, limit=limit
        )


def check_properties(size: int) -> None:
    """Check the size in bytes of the encoded properties.

    >>> check_properties(40_000)
    Traceback (most recent call last):
    orbitmq.errors.MessageTooLarge: properties take 40000 bytes together, the limit is 32767
    """
    if size > PROPERTIES_SIZE_LIMIT:
        raise MessageTooLarge(
            f"properties take {size} bytes together, the limit is {PROPERTIES_SIZE_LIMIT}",
            field="properties",
            length=size,
            limit=PROPERTIES_SIZE_LIMIT,
        )


def is_system_topic(topic: str) -> bool:
    """Return whether a topic is reserved by RocketMQ, so that users can't create it.

    >>> is_system_topic("TBW102"), is_system_topic("rmq_sys_x"), is_system_topic("orders")
    (True, True, False)
    """
    return topic in SYSTEM_TOPICS or topic.startswith(SYSTEM_TOPIC_PREFIX)


def is_system_group(group: str) -> bool:
    """Return whether a group is one of RocketMQ itself.

    >>> is_system_group("CID_RMQ_SYS_TRANS"), is_system_group("billing")
    (True, False)
    """
    return group in SYSTEM_GROUPS or group.startswith(SYSTEM_GROUP_PREFIX)


def retry_topic(group: str) -> str:
    """Return the topic of the messages that ``group`` has to retry.

    >>> retry_topic("billing")
    '%RETRY%billing'
    """
    return RETRY_PREFIX + group


def dead_letter_topic(group: str) -> str:
    """Return the topic of the messages that ``group`` failed on too often.

    >>> dead_letter_topic("billing")
    '%DLQ%billing'
    """
    return DEAD_LETTER_PREFIX + group


def pop_retry_topic(group: str, topic: str, *, version: int = 1) -> str:
    """Return the topic of the popped messages of ``topic`` that ``group`` has to retry.

    Version 2 separates the two by ``+``, which neither may hold, so that the name can be split
    again; a version 1 name can't.

    >>> pop_retry_topic("billing", "orders"), pop_retry_topic("billing", "orders", version=2)
    ('%RETRY%billing_orders', '%RETRY%billing+orders')
    """
    separator = "+" if version == 2 else "_"
    return f"{RETRY_PREFIX}{group}{separator}{topic}"


def reply_topic(cluster: str) -> str:
    """Return the topic of a cluster for replies to requests.

    >>> reply_topic("DefaultCluster")
    'DefaultCluster_REPLY_TOPIC'
    """
    return cluster + REPLY_TOPIC_SUFFIX


def is_retry_topic(topic: str) -> bool:
    """Return whether ``topic`` is a retry topic, for pulled or popped messages."""
    return topic.startswith(RETRY_PREFIX)


def is_dead_letter_topic(topic: str) -> bool:
    """Return whether ``topic`` holds the dead letters of a group."""
    return topic.startswith(DEAD_LETTER_PREFIX)


def is_lmq(name: str) -> bool:
    """Return whether ``name`` is a light queue (LMQ), which gets messages of other topics."""
    return name.startswith(LMQ_PREFIX)


def vip_address(address: str) -> str:
    """Return the address of a broker's second listener, which is for sends: its port minus 2.

    >>> vip_address("127.0.0.1:10911")
    '127.0.0.1:10909'
    """
    host, _, port = address.rpartition(":")
    if not (
        host and port.isascii() and port.isdecimal() and len(port) <= 5 and 2 < int(port) <= 0xFFFF
    ):
        raise InvalidInput(
            f"broker address {elided(address)} must be host:port with a port from 3 to 65535",
            field="address",
            length=len(address),
        )
    return f"{host}:{int(port) - 2}"


def wrap_namespace(namespace: str | None, name: str) -> str:
    """Return the name of a topic or group with a namespace (version 1: part of the name).

    System names, empty names and names in that namespace are returned unchanged.

    >>> wrap_namespace("ns", "orders"), wrap_namespace("ns", "%RETRY%billing")
    ('ns%orders', '%RETRY%ns%billing')
    """
    if not namespace or not name or _is_system_name(name) or has_namespace(name, namespace):
        return name
    prefix, bare = _split_prefix(name)
    return f"{prefix}{namespace}%{bare}"


def has_namespace(name: str, namespace: str | None) -> bool:
    """Return whether a topic or group is in ``namespace``.

    >>> has_namespace("%RETRY%ns%billing", "ns"), has_namespace("orders", "ns")
    (True, False)
    """
    if not namespace or _is_system_name(name):
        return False
    return _split_prefix(name)[1].startswith(f"{namespace}%")


def strip_namespace(name: str, namespace: str | None) -> str:
    """Return the name without ``namespace``; unchanged if it is not in it.

    >>> strip_namespace("ns%orders", "ns"), strip_namespace("ns%orders", "other")
    ('orders', 'ns%orders')
    """
    if not has_namespace(name, namespace):
        return name
    return strip_any_namespace(name)


def strip_any_namespace(name: str) -> str:
    """Return the name without its namespace, if it has one.

    >>> strip_any_namespace("%DLQ%ns%billing")
    '%DLQ%billing'
    """
    namespace = namespace_of(name)
    if not namespace:
        return name
    prefix, bare = _split_prefix(name)
    return prefix + bare[len(namespace) + 1 :]


def namespace_of(name: str) -> str:
    """Return the namespace of a topic or group; empty if it has none.

    >>> namespace_of("ns%orders"), namespace_of("orders")
    ('ns', '')
    """
    if _is_system_name(name):
        return ""
    namespace, separator, _ = _split_prefix(name)[1].partition("%")
    return namespace if separator else ""


def _is_system_name(name: str) -> bool:
    return is_system_topic(name) or name.startswith(SYSTEM_GROUP_PREFIX)


def _split_prefix(name: str) -> tuple[str, str]:
    for prefix in (RETRY_PREFIX, DEAD_LETTER_PREFIX):
        if name.startswith(prefix):
            return prefix, name[len(prefix) :]
    return "", name


def _check_name(name: object, field: str, limit: int, error: type[InvalidInput]) -> None:
    if not isinstance(name, str):
        raise error(f"{field} must be a str, not {type(name).__name__}", field=field)
    if len(name) > limit:
        raise error(
            f"{field} {elided(name)} has {len(name)} characters, the limit is {limit}",
            field=field,
            length=len(name),
            limit=limit,
        )
    if not name or name.isspace():
        raise error(f"{field} is empty or blank; give it a name", field=field, length=len(name))
    if foreign := _FOREIGN.search(name):
        raise error(
            f"{field} {elided(name)} holds {foreign[0]!r} at position {foreign.start()}; "
            "allowed are letters a-z and A-Z, digits, and % | _ -",
            field=field,
            length=len(name),
        )
