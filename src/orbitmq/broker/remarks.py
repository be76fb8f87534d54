"""What refusals of a broker say, where the words are long or several conversations need them.

Every remark of a refusal, here and where else one is made, begins with what Java's broker says in
that place, mistakes of language and all: clients print it, and people look for it in logs. That is
kept for compatibility. What to do about it follows in our own words, where Java names its FAQ.
"""

from typing import Final

from orbitmq.clock import local_stamp
from orbitmq.errors import InvalidGroup, InvalidInput, InvalidTopic
from orbitmq.message.names import (
    GROUP_LENGTH_LIMIT,
    TOPIC_LENGTH_LIMIT,
    check_group,
    check_stored_topic,
    has_foreign_character,
    stored_topic_limit,
)
from orbitmq.net.refusal import Refusal
from orbitmq.wire.bodies.topic import TopicConfig
from orbitmq.wire.codes import INHERIT, READ, WRITE, ResponseCode

__all__ = [
    "check_group_name",
    "check_topic_name",
    "local_time",
    "message_illegal",
    "service_not_available",
    "settings_of",
]

_NAME_SHOWN_MAX: Final = 256
"""Characters of a name in a remark. Java shows all, which may be megabytes of a hostile peer's."""
_LAST_STAMP_MS: Final = 253_402_128_000_000
"""The end of 9999, a day early: no year of four digits follows in any zone."""


# Names (Java's TopicValidator)


def check_topic_name(topic: str) -> None:
    """Check the name of a topic that a peer asks for.

    Raises:
        Refusal: it can't be one; the remark tells why.

    """
    try:
        check_stored_topic(topic)
    except InvalidTopic as error:
        shown, limit = topic[:_NAME_SHOWN_MAX], stored_topic_limit(topic)
        too_long = f"The specified topic: {shown}, is longer than topic max length: {limit}"
        if limit > TOPIC_LENGTH_LIMIT:
            too_long = (
                f"The specified topic is DLQ or Retry topic: {shown}, and it's longer than topic "
                f"max length: {limit}"
            )
        raise _bad_name("topic", topic, too_long, error) from error


def check_group_name(group: str) -> None:
    """Check the name of a group that a peer asks for.

    Raises:
        Refusal: it can't be one; the remark tells why.

    """
    try:
        check_group(group)
    except InvalidGroup as error:
        too_long = (
            f"The specified group: {group[:_NAME_SHOWN_MAX]}, is longer than group max length: "
            f"{GROUP_LENGTH_LIMIT}"
        )
        raise _bad_name("group", group, too_long, error) from error


def _bad_name(kind: str, name: str, too_long: str, error: InvalidInput) -> Refusal:
    """Return what Java says of a name; it looks at the characters before the length."""
    if not name.strip():
        remark = f"The specified {kind} is blank. Give it a name"
    elif has_foreign_character(name):
        remark = (
            f"The specified {kind}: {name[:_NAME_SHOWN_MAX]}, contains illegal characters, "
            f"allowing only ^[%|a-zA-Z0-9_-]+$; {error}"
        )
    else:
        remark = f"{too_long}; {error}"
    return Refusal(ResponseCode.INVALID_PARAMETER, remark)


# Sends (Java's SendMessageProcessor)


def settings_of(topic: TopicConfig) -> str:
    """Return a topic as Java shows it.

    >>> settings_of(TopicConfig(topic_name="orders", attributes={"message.type": "FIFO"}))
    'TopicConfig [topicName=orders, readQueueNums=16, writeQueueNums=16, perm=RW-, \
topicFilterType=SINGLE_TAG, topicSysFlag=0, order=false, attributes={message.type=FIFO}]'
    """
    letters = ((READ, "R"), (WRITE, "W"), (INHERIT, "X"))
    perm = "".join(letter if topic.perm & bit else "-" for bit, letter in letters)
    attributes = ", ".join(f"{name}={value}" for name, value in topic.attributes.items())
    return (
        f"TopicConfig [topicName={topic.topic_name}, readQueueNums={topic.read_queue_nums}, "
        f"writeQueueNums={topic.write_queue_nums}, perm={perm}, "
        f"topicFilterType={topic.topic_filter_type or 'null'}, "
        f"topicSysFlag={topic.topic_sys_flag}, order={str(topic.order).lower()}, "
        f"attributes={{{attributes}}}]"
    )


def message_illegal(why: str, body_bytes_max: int) -> str:
    """Return the remark on a message that no store could take; ``why`` is ours to tell."""
    return (
        "the message is illegal, maybe msg body or properties length not matched. msg body length "
        f"limit {body_bytes_max}B, msg properties length limit 32KB. Here it is: {why}"
    )


def service_not_available(why: str, disk_used: float) -> str:
    """Return the remark on a message that the store can't take now.

    Args:
        why: which of the reasons that Java lists it is.
        disk_used: how much of the disk is used, from 0 to 1; -1 if it can't be told, as in Java.

    """
    return (
        "service not available now. It may be caused by one of the following reasons: the broker's "
        f"disk is full [CL: {disk_used:5.2f} CQ: {disk_used:5.2f} INDEX: {disk_used:5.2f}], "
        "messages are put to the slave, message store has been shut down, etc. "
        f"Here it is: {why}"
    )


def local_time(at_ms: int) -> str:
    """Return a moment as Java shows it to people.

    >>> len(local_time(1_700_000_000_123)), local_time(1_700_000_000_123)[-4:]
    (23, ',123')
    """
    at = local_stamp(min(at_ms, _LAST_STAMP_MS))
    return f"{at[:4]}-{at[4:6]}-{at[6:8]} {at[8:10]}:{at[10:12]}:{at[12:14]},{at[14:]}"
