"""Names of topics and groups: which are allowed, which RocketMQ derives, and the size limits.

Lengths are in characters, which are bytes here: an allowed name is ASCII. Java's rules live in
``Validators`` (client), ``TopicValidator`` (broker), ``MixAll``, ``KeyBuilder`` and
``NamespaceUtil``; the same names pass and fail here.
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
CLOUD_TRACE_TOPIC_PREFIX: Final = "rmq_sys_TRACE_DATA_"

RETRY_PREFIX: Final = "%RETRY%"
DEAD_LETTER_PREFIX: Final = "%DLQ%"
LMQ_PREFIX: Final = "%LMQ%"
REPLY_TOPIC_SUFFIX: Final = "_REPLY_TOPIC"

DEFAULT_PRODUCER_GROUP: Final = "DEFAULT_PRODUCER"
DEFAULT_CONSUMER_GROUP: Final = "DEFAULT_CONSUMER"
SYSTEM_GROUP_PREFIX: Final = "CID_RMQ_SYS_"

TOPIC_LENGTH_LIMIT: Final = 127  # one signed byte holds the length in a record of version 1
DERIVED_TOPIC_LENGTH_LIMIT: Final = 255  # a broker's limit for retry and dead letter topics
GROUP_LENGTH_LIMIT: Final = 120  # so that the prefix of a retry topic still fits before it
BODY_SIZE_LIMIT: Final = 4 * 1024 * 1024
PROPERTIES_SIZE_LIMIT: Final = 32767  # one signed short holds the size in a record

# Clients may not send there: a broker keeps its own books in these topics.
FORBIDDEN_TO_SEND: Final = frozenset(
    {
        SCHEDULE_TOPIC,
        HALF_TOPIC,
        OP_HALF_TOPIC,
        CHECKED_TOO_OFTEN_TOPIC,
        SELF_TEST_TOPIC,
        OFFSET_MOVED_TOPIC,
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
    """Check a topic name as a client does before it uses it.

    Raises:
        InvalidTopic: empty, over 127 characters, or with a character RocketMQ doesn't allow.

    >>> check_topic("orders")
    >>> check_topic("orders.paid")
    Traceback (most recent call last):
    orbitmq.errors.InvalidTopic: topic 'orders.paid' holds '.' at position 6; allowed are \
letters a-z and A-Z, digits, and % | _ - (length 11)

    """
    _check_name(topic, "topic", TOPIC_LENGTH_LIMIT, InvalidTopic)


def check_stored_topic(topic: str) -> None:
    """Check a topic name as a broker does before it creates the topic.

    Raises:
        InvalidTopic: as for :func:`check_topic`, but names of retry and dead letter topics may
            have 255 characters, since a group and even a topic stand inside them.

    >>> check_stored_topic("%RETRY%" + "g" * 120)
    >>> check_stored_topic("%RETRY%" + "g" * 249)
    Traceback (most recent call last):
    orbitmq.errors.InvalidTopic: topic '%RETRY%ggggg...ggggggggggggg' has 256 characters, the \
limit is 255

    """
    _check_name(topic, "topic", stored_topic_limit(topic), InvalidTopic)


def stored_topic_limit(topic: str) -> int:
    """Return how many characters a broker lets a topic of this kind have.

    >>> stored_topic_limit("orders"), stored_topic_limit("%RETRY%billing")
    (127, 255)
    """
    derived = is_retry_topic(topic) or is_dead_letter_topic(topic)
    return DERIVED_TOPIC_LENGTH_LIMIT if derived else TOPIC_LENGTH_LIMIT


def has_foreign_character(name: str) -> bool:
    """Return whether a name holds a character that RocketMQ allows in no topic and no group.

    >>> has_foreign_character("orders.paid"), has_foreign_character("%RETRY%billing")
    (True, False)
    """
    return _FOREIGN.search(name) is not None


def check_group(group: str) -> None:
    """Check the name of a producer or consumer group.

    Raises:
        InvalidGroup: empty, over 120 characters, or with a character RocketMQ doesn't allow.

    >>> check_group("billing")
    >>> check_group("")
    Traceback (most recent call last):
    orbitmq.errors.InvalidGroup: group is empty or blank; give it a name (length 0)

    """
    _check_name(group, "group", GROUP_LENGTH_LIMIT, InvalidGroup)


def check_sendable(topic: str) -> None:
    """Check that clients may send to ``topic``, a name already known to be well formed.

    Raises:
        InvalidTopic: one of the topics in which a broker keeps its own books.

    >>> check_sendable("orders")
    >>> check_sendable("SCHEDULE_TOPIC_XXXX")
    Traceback (most recent call last):
    orbitmq.errors.InvalidTopic: topic 'SCHEDULE_TOPIC_XXXX' is the broker's own; send to a \
topic of yours (length 19)

    """
    if topic in FORBIDDEN_TO_SEND:
        raise InvalidTopic(
            f"topic {topic!r} is the broker's own; send to a topic of yours",
            field="topic",
            length=len(topic),
        )


def check_body(size: int, limit: int = BODY_SIZE_LIMIT) -> None:
    """Check the size of a body in bytes, before compression as in Java.

    Raises:
        MessageTooLarge: over ``limit``, 4 MiB unless producer and broker are set otherwise.

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
    """Check the size in bytes of all properties as they travel.

    Raises:
        MessageTooLarge: over 32767 bytes.

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
    """Return whether RocketMQ keeps the topic for itself, so that nobody may create it.

    >>> is_system_topic("TBW102"), is_system_topic("rmq_sys_x"), is_system_topic("orders")
    (True, True, False)
    """
    return topic in SYSTEM_TOPICS or topic.startswith(SYSTEM_TOPIC_PREFIX)


def retry_topic(group: str) -> str:
    """Return the topic of the messages that ``group`` is to try again.

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
    """Return the topic of the popped messages of ``topic`` that ``group`` is to try again.

    Version 2 separates by ``+``, which no topic name may hold, so that both parts can be told
    apart again; with version 1 they can't.

    >>> pop_retry_topic("billing", "orders"), pop_retry_topic("billing", "orders", version=2)
    ('%RETRY%billing_orders', '%RETRY%billing+orders')
    """
    separator = "+" if version == 2 else "_"
    return f"{RETRY_PREFIX}{group}{separator}{topic}"


def reply_topic(cluster: str) -> str:
    """Return the topic through which the cluster carries replies to requests.

    >>> reply_topic("DefaultCluster")
    'DefaultCluster_REPLY_TOPIC'
    """
    return cluster + REPLY_TOPIC_SUFFIX


def is_retry_topic(topic: str) -> bool:
    """Return whether ``topic`` holds messages to be tried again, pulled or popped."""
    return topic.startswith(RETRY_PREFIX)


def is_dead_letter_topic(topic: str) -> bool:
    """Return whether ``topic`` holds messages that a group failed on too often."""
    return topic.startswith(DEAD_LETTER_PREFIX)


def is_lmq(name: str) -> bool:
    """Return whether ``name`` is a light queue, fed by dispatch from other topics."""
    return name.startswith(LMQ_PREFIX)


def vip_address(address: str) -> str:
    """Return the address of a broker's second listener, kept for sends: its port less two.

    Raises:
        InvalidInput: ``address`` has no port, or one too low to take two from.

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
    """Return the name of a topic or group inside ``namespace`` (version 1: part of the name).

    System names, names already inside and empty names come back as they are.

    >>> wrap_namespace("ns", "orders"), wrap_namespace("ns", "%RETRY%billing")
    ('ns%orders', '%RETRY%ns%billing')
    """
    if not namespace or not name or _is_system_name(name) or has_namespace(name, namespace):
        return name
    prefix, bare = _split_prefix(name)
    return f"{prefix}{namespace}%{bare}"


def has_namespace(name: str, namespace: str | None) -> bool:
    """Return whether a topic or group already is inside ``namespace``.

    >>> has_namespace("%RETRY%ns%billing", "ns"), has_namespace("orders", "ns")
    (True, False)
    """
    if not namespace or _is_system_name(name):
        return False
    return _split_prefix(name)[1].startswith(f"{namespace}%")


def strip_namespace(name: str, namespace: str | None) -> str:
    """Return the name as its users know it, if it is inside ``namespace``; else unchanged.

    >>> strip_namespace("ns%orders", "ns"), strip_namespace("ns%orders", "other")
    ('orders', 'ns%orders')
    """
    if not has_namespace(name, namespace):
        return name
    return strip_any_namespace(name)


def strip_any_namespace(name: str) -> str:
    """Return the name without the namespace it is in, whichever that is.

    >>> strip_any_namespace("%DLQ%ns%billing")
    '%DLQ%billing'
    """
    namespace = namespace_of(name)
    if not namespace:
        return name
    prefix, bare = _split_prefix(name)
    return prefix + bare[len(namespace) + 1 :]


def namespace_of(name: str) -> str:
    """Return the namespace a topic or group is in, empty if none.

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
