"""The type of a message, by its properties, and what follows from it.

::

    TRAN_MSG is true                       TRANSACTION
    DELAY or one of TIMER_DELIVER_MS, …    DELAY
    __SHARDINGKEY                          FIFO
    _SYS_MSG_PRIORITY_                     PRIORITY     the queue is the one of its priority
    none of these                          NORMAL

The attribute ``message.type`` says what a topic is for. Java's broker keeps it and checks nothing;
its proxy checks, and so does this broker with ``enableTopicMessageTypeCheck``.
"""

from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from orbitmq.broker.sending import stored_properties
from orbitmq.message import properties
from orbitmq.message.names import is_dead_letter_topic, is_retry_topic
from orbitmq.net.refusal import Refusal
from orbitmq.wire.bodies.topic import TopicConfig
from orbitmq.wire.codes import ResponseCode
from orbitmq.wire.fields import INT32_MAX
from orbitmq.wire.headers.send import SendMessage, SendMessageV2

__all__ = ["by_priority", "check_type", "message_type"]

_NORMAL: Final = "NORMAL"
_MIXED: Final = "MIXED"
_PRIORITY: Final = "PRIORITY"


def message_type(found: Mapping[str, str]) -> str:
    """Return the type of a message, by the names that the attribute has (``TopicMessageType``).

    >>> message_type({"__SHARDINGKEY": "alice", "_SYS_MSG_PRIORITY_": "3"})
    'FIFO'
    """
    if found.get(properties.TRANSACTION_PREPARED, "").lower() == "true":
        return "TRANSACTION"
    if properties.DELAY in found or any(name in found for name in stored_properties.TIMERS):
        return "DELAY"
    if properties.SHARDING_KEY in found:
        return "FIFO"
    return _PRIORITY if properties.PRIORITY in found else _NORMAL


def check_type(topic: TopicConfig, text: str | None) -> None:
    """Refuse a message whose type is not that of its topic; ``text`` are its properties.

    As in Java's proxy, a topic without the attribute is for NORMAL messages, one that is
    UNSPECIFIED for none, and topics for retries and dead letters are not checked.
    """
    name = topic.topic_name
    if is_retry_topic(name) or is_dead_letter_topic(name):
        return
    found = properties.decode((text or "").encode())
    expected = topic.attributes.get("message.type", _NORMAL)
    actual = message_type(found)
    if actual != expected and expected != _MIXED and properties.TRANSFER_FLAG not in found:
        raise Refusal(
            ResponseCode.MESSAGE_ILLEGAL,
            f"TopicMessageType validate failed, the expected type is {expected}, but actual type "
            f"is {actual}; send it to a topic of its type, or change the attribute message.type "
            f"of {name}",
        )


def by_priority(
    header: SendMessage | SendMessageV2, topic: TopicConfig, queue_id: int
) -> tuple[SendMessage | SendMessageV2, int]:
    """Return the header and the queue of a message that has a priority.

    A message of type PRIORITY goes to the queue with its priority as number, or to the last one.
    The priority of any other type is removed.
    """
    found = properties.decode((header.properties or "").encode())
    text = found.get(properties.PRIORITY, "")
    if not (text.isascii() and text.isdecimal() and len(text) <= 10 and int(text) <= INT32_MAX):
        return header, queue_id
    if message_type(found) == _PRIORITY:
        return header, min(int(text), max(topic.write_queue_nums - 1, 0))
    del found[properties.PRIORITY]
    return replace(header, properties=properties.join(found).decode()), queue_id
