"""Pop consumption: messages taken for a time and acknowledged one by one."""

from orbitmq.wire.codes import RequestCode
from orbitmq.wire.fields import Header, Int32, Int64, TopicHeader, declares, without_fields

__all__ = [
    "AckMessage",
    "ChangeInvisibleTime",
    "ChangeInvisibleTimeAnswer",
    "Notification",
    "NotificationAnswer",
    "PeekMessage",
    "PollingInfo",
    "PollingInfoAnswer",
    "PopMessage",
    "PopMessageAnswer",
]


class PopMessageAnswer(Header):
    """The answer to PopMessage."""

    pop_time: Int64 = 0
    invisible_time: Int64 = 0
    revive_qid: Int32 = 0
    rest_num: Int64 = 0
    start_offset_info: str | None = None
    msg_offset_info: str | None = None
    order_count_info: str | None = None


@declares(RequestCode.POP_MESSAGE, answer=PopMessageAnswer)
class PopMessage(TopicHeader):
    """Take messages of any queue, invisible to others for a time."""

    consumer_group: str
    topic: str
    queue_id: Int32 = 0
    max_msg_nums: Int32 = 0
    invisible_time: Int64 = 0
    poll_time: Int64 = 0
    born_time: Int64 = 0
    init_mode: Int32 = 0
    exp_type: str | None = None
    exp: str | None = None
    order: bool = False
    attempt_id: str | None = None


@declares(RequestCode.ACK_MESSAGE)
class AckMessage(TopicHeader):
    """Acknowledge one taken message."""

    consumer_group: str
    topic: str
    queue_id: Int32
    extra_info: str
    offset: Int64


class ChangeInvisibleTimeAnswer(Header):
    """The answer to ChangeInvisibleTime."""

    pop_time: Int64 = 0
    invisible_time: Int64 = 0
    revive_qid: Int32 = 0


@declares(RequestCode.CHANGE_MESSAGE_INVISIBLETIME, answer=ChangeInvisibleTimeAnswer)
class ChangeInvisibleTime(TopicHeader):
    """Keep a taken message invisible for longer, or give it back sooner."""

    consumer_group: str
    topic: str
    queue_id: Int32
    extra_info: str
    offset: Int64
    invisible_time: Int64


class NotificationAnswer(Header):
    """The answer to Notification."""

    has_msg: bool = False
    polling_full: bool = False


@declares(RequestCode.NOTIFICATION, answer=NotificationAnswer)
class Notification(TopicHeader):
    """Wait until a queue has something to pop."""

    consumer_group: str
    topic: str
    queue_id: Int32 = 0
    poll_time: Int64 = 0
    born_time: Int64 = 0
    order: bool = False
    attempt_id: str | None = None


class PollingInfoAnswer(Header):
    """The answer to PollingInfo."""

    polling_num: Int32 = 0


@declares(RequestCode.POLLING_INFO, answer=PollingInfoAnswer)
class PollingInfo(TopicHeader):
    """Ask how many pops wait on a queue."""

    consumer_group: str
    topic: str
    queue_id: Int32 = 0


@declares(RequestCode.PEEK_MESSAGE)
class PeekMessage(TopicHeader):
    """Look at the next messages without taking them."""

    topic: str
    queue_id: Int32 = 0
    max_msg_nums: Int32 = 0
    consumer_group: str


# These carry no fields: nothing, or everything in the body.
without_fields(
    RequestCode.BATCH_ACK_MESSAGE,
)
