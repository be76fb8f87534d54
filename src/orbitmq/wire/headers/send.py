"""Sending: from a producer to a broker, and replies to requests."""

import msgspec

from orbitmq.wire.codes import RequestCode
from orbitmq.wire.fields import Header, Int32, Int64, RpcHeader, TopicHeader, declares

__all__ = [
    "ConsumerSendMsgBack",
    "RecallMessage",
    "RecallMessageAnswer",
    "ReplyMessage",
    "SendMessage",
    "SendMessageAnswer",
    "SendMessageV2",
]


class SendMessageAnswer(Header):
    """The answer to every kind of send: where the message is stored.

    For a batch ``msg_id`` lists the ids, separated by commas, and ``queue_offset`` is the first.
    Region and trace switch are not in Java's header class, but its broker sends them with every
    answer, including errors.
    """

    msg_id: str
    queue_id: Int32
    queue_offset: Int64
    transaction_id: str | None = None
    batch_uniq_id: str | None = None
    recall_handle: str | None = None
    region: str | None = msgspec.field(default=None, name="MSG_REGION")
    trace_on: bool | None = msgspec.field(default=None, name="TRACE_ON")


@declares(RequestCode.SEND_MESSAGE, RequestCode.SEND_REPLY_MESSAGE, answer=SendMessageAnswer)
class SendMessage(TopicHeader):
    """Store one message; the body is the message body. Replies use the second code."""

    producer_group: str
    topic: str
    default_topic: str
    default_topic_queue_nums: Int32
    queue_id: Int32
    sys_flag: Int32
    born_timestamp: Int64
    flag: Int32
    properties: str | None = None
    reconsume_times: Int32 | None = None
    unit_mode: bool | None = None
    batch: bool | None = None
    max_reconsume_times: Int32 | None = None


@declares(
    RequestCode.SEND_MESSAGE_V2,
    RequestCode.SEND_BATCH_MESSAGE,
    RequestCode.SEND_REPLY_MESSAGE_V2,
    answer=SendMessageAnswer,
)
class SendMessageV2(TopicHeader):
    """Store one message or a batch; the same fields as SendMessage under one letter each.

    Java's clients send this form.
    """

    producer_group: str = msgspec.field(name="a")
    topic: str = msgspec.field(name="b")
    default_topic: str = msgspec.field(name="c")
    default_topic_queue_nums: Int32 = msgspec.field(name="d")
    queue_id: Int32 = msgspec.field(name="e")
    sys_flag: Int32 = msgspec.field(name="f")
    born_timestamp: Int64 = msgspec.field(name="g")
    flag: Int32 = msgspec.field(name="h")
    properties: str | None = msgspec.field(default=None, name="i")
    reconsume_times: Int32 | None = msgspec.field(default=None, name="j")
    unit_mode: bool | None = msgspec.field(default=None, name="k")
    max_reconsume_times: Int32 | None = msgspec.field(default=None, name="l")
    batch: bool | None = msgspec.field(default=None, name="m")
    broker_name: str | None = msgspec.field(default=None, name="n")


@declares(RequestCode.CONSUMER_SEND_MSG_BACK)
class ConsumerSendMsgBack(RpcHeader):
    """Return a message that could not be consumed, to be delivered again later."""

    offset: Int64
    group: str
    delay_level: Int32
    origin_msg_id: str | None = None
    origin_topic: str | None = None
    unit_mode: bool = False
    max_reconsume_times: Int32 | None = None


@declares(RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT)
class ReplyMessage(TopicHeader):
    """Pass a reply to the client that sent the request, from the broker it is connected to."""

    producer_group: str
    topic: str
    default_topic: str
    default_topic_queue_nums: Int32
    queue_id: Int32
    sys_flag: Int32
    born_timestamp: Int64
    flag: Int32
    properties: str | None = None
    reconsume_times: Int32 | None = None
    unit_mode: bool = False
    born_host: str
    store_host: str
    store_timestamp: Int64 = 0


class RecallMessageAnswer(Header):
    """The answer to RecallMessage."""

    msg_id: str


@declares(RequestCode.RECALL_MESSAGE, answer=RecallMessageAnswer)
class RecallMessage(TopicHeader):
    """Recall a timed message that is not due yet."""

    producer_group: str | None = None
    topic: str
    recall_handle: str
