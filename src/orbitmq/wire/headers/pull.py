"""Pulling: from a consumer or a Spark task to a broker."""

from typing import Final

from orbitmq.wire.codes import RequestCode
from orbitmq.wire.fields import Header, Int32, Int64, TopicHeader, declares

__all__ = [
    "CLASS_FILTER",
    "COMMIT_OFFSET",
    "LITE_PULL",
    "SUBSCRIPTION",
    "SUSPEND",
    "PullMessage",
    "PullMessageAnswer",
]

# The bits of a pull's sys flag (PullSysFlag in Java).
COMMIT_OFFSET: Final = 1  # commit ``commit_offset`` for the group
SUSPEND: Final = 2  # hold the request until there is a message
SUBSCRIPTION: Final = 4  # the request has a subscription
CLASS_FILTER: Final = 8  # filter by a class on the broker; obsolete
LITE_PULL: Final = 16  # the client manages its queues itself


class PullMessageAnswer(Header):
    """The answer to PullMessage."""

    suggest_which_broker_id: Int64
    next_begin_offset: Int64
    min_offset: Int64
    max_offset: Int64
    offset_delta: Int64 | None = None
    topic_sys_flag: Int32 | None = None
    group_sys_flag: Int32 | None = None
    forbidden_type: Int32 | None = None


@declares(RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE, answer=PullMessageAnswer)
class PullMessage(TopicHeader):
    """Get messages of one queue from an offset on; the broker may hold it until there are some."""

    consumer_group: str
    topic: str
    queue_id: Int32
    queue_offset: Int64
    max_msg_nums: Int32
    sys_flag: Int32
    commit_offset: Int64
    suspend_timeout_millis: Int64
    subscription: str | None = None
    sub_version: Int64
    expression_type: str | None = None
    max_msg_bytes: Int32 | None = None
    request_source: Int32 | None = None
    proxy_froward_client_id: str | None = None
