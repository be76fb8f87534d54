"""Remarks of refusals that are long, or that several handlers use.

Every remark of the broker begins with Java's text for that case, language mistakes included:
clients print it, and people search logs for it. Our advice follows, where Java links its FAQ.
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
    "light_queues_exceeded",
    "local_time",
    "message_illegal",
    "service_not_available",
    "settings_of",
]

_NAME_SHOWN_MAX: Final = 256
"""Characters of a name in a remark. Java shows all, which may be megabytes from a hostile peer."""
_LAST_STAMP_MS: Final = 253_402_128_000_000
"""The end of 9999, a day early: the last time with a year of four digits in all zones."""


# Names (Java's TopicValidator)


def check_topic_name(topic: str) -> None:
    """Refuse an invalid name of a topic, with the reason."""
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
    """Refuse an invalid name of a group, with the reason."""
    try:
        check_group(group)
    except InvalidGroup as error:
        too_long = (
            f"The specified group: {group[:_NAME_SHOWN_MAX]}, is longer than group max length: "
            f"{GROUP_LENGTH_LIMIT}"
        )
        raise _bad_name("group", group, too_long, error) from error


def _bad_name(kind: str, name: str, too_long: str, error: InvalidInput) -> Refusal:
    """Return Java's refusal of a name; it checks the characters before the length."""
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
    """Return the settings of a topic in Java's format.

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
    """Return the remark for an illegal message; ``why`` is the reason in our words."""
    return (
        "the message is illegal, maybe msg body or properties length not matched. msg body length "
        f"limit {body_bytes_max}B, msg properties length limit 32KB. The reason: {why}"
    )


def service_not_available(why: str, disk_used: float) -> str:
    """Return the remark for a message that can't be stored now.

    ``disk_used`` is the used part of the disk, from 0 to 1; -1 if it is unknown, as in Java.
    """
    return (
        "service not available now. It may be caused by one of the following reasons: the broker's "
        f"disk is full [CL: {disk_used:5.2f} CQ: {disk_used:5.2f} INDEX: {disk_used:5.2f}], "
        "messages are put to the slave, message store has been shut down, etc. "
        f"The reason: {why}"
    )


def light_queues_exceeded(why: str) -> str:
    """Return the remark for a message that names one light queue too many."""
    return (
        "[LMQ_CONSUME_QUEUE_NUM_EXCEEDED]broker config enableLmq and enableMultiDispatch, lmq "
        "consumeQueue num exceed maxLmqConsumeQueueNum config num, default limit 2w. "
        f"The reason: {why}"
    )


def local_time(at_ms: int) -> str:
    """Return a time of day in Java's format.

    >>> len(local_time(1_700_000_000_123)), local_time(1_700_000_000_123)[-4:]
    (23, ',123')
    """
    at = local_stamp(min(at_ms, _LAST_STAMP_MS))
    return f"{at[:4]}-{at[4:6]}-{at[6:8]} {at[8:10]}:{at[10:12]}:{at[12:14]},{at[14:]}"
