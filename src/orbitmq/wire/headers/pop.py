"""Pop consumption: messages become invisible for a time, and are acknowledged one by one."""

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
    """Get messages of any queue, and make them invisible to others for a time."""

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
    """Acknowledge one popped message."""

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
    """Change how long a popped message stays invisible."""

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
    """Wait until there is a message to pop."""

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
    """Ask how many pops are waiting for a queue."""

    consumer_group: str
    topic: str
    queue_id: Int32 = 0


@declares(RequestCode.PEEK_MESSAGE)
class PeekMessage(TopicHeader):
    """Get the next messages without making them invisible."""

    topic: str
    queue_id: Int32 = 0
    max_msg_nums: Int32 = 0
    consumer_group: str


# These have no fields; some have a body.
without_fields(
    RequestCode.BATCH_ACK_MESSAGE,
)
