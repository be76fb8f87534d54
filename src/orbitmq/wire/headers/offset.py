"""Offsets: the first and last of a queue, and the progress of groups."""

from orbitmq.wire.codes import RequestCode
from orbitmq.wire.fields import Header, Int32, Int64, RpcHeader, TopicHeader, declares

__all__ = [
    "CloneGroupOffset",
    "GetConsumerStatus",
    "GetEarliestMsgStoretime",
    "GetEarliestMsgStoretimeAnswer",
    "GetMaxOffset",
    "GetMaxOffsetAnswer",
    "GetMinOffset",
    "GetMinOffsetAnswer",
    "QueryConsumeTimeSpan",
    "QueryConsumerOffset",
    "QueryConsumerOffsetAnswer",
    "QueryCorrectionOffset",
    "ResetOffset",
    "SearchOffset",
    "SearchOffsetAnswer",
    "UpdateConsumerOffset",
]


class QueryConsumerOffsetAnswer(Header):
    """The answer to QueryConsumerOffset."""

    offset: Int64


@declares(RequestCode.QUERY_CONSUMER_OFFSET, answer=QueryConsumerOffsetAnswer)
class QueryConsumerOffset(TopicHeader):
    """Ask for the committed offset of a group in a queue."""

    consumer_group: str
    topic: str
    queue_id: Int32
    set_zero_if_not_found: bool | None = None


@declares(RequestCode.UPDATE_CONSUMER_OFFSET)
class UpdateConsumerOffset(TopicHeader):
    """Commit the offset of a group in a queue."""

    consumer_group: str
    topic: str
    queue_id: Int32
    commit_offset: Int64


class SearchOffsetAnswer(Header):
    """The answer to SearchOffset."""

    offset: Int64


@declares(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, answer=SearchOffsetAnswer)
class SearchOffset(TopicHeader):
    """Ask for the offset of the first message stored at or after a time."""

    topic: str
    queue_id: Int32
    timestamp: Int64
    boundary_type: str | None = None


class GetMaxOffsetAnswer(Header):
    """The answer to GetMaxOffset."""

    offset: Int64


@declares(RequestCode.GET_MAX_OFFSET, answer=GetMaxOffsetAnswer)
class GetMaxOffset(TopicHeader):
    """Ask for the offset of the next message of a queue."""

    topic: str
    queue_id: Int32
    committed: bool = True


class GetMinOffsetAnswer(Header):
    """The answer to GetMinOffset."""

    offset: Int64


@declares(RequestCode.GET_MIN_OFFSET, answer=GetMinOffsetAnswer)
class GetMinOffset(TopicHeader):
    """Ask for the offset of the oldest message kept in a queue."""

    topic: str
    queue_id: Int32


class GetEarliestMsgStoretimeAnswer(Header):
    """The answer to GetEarliestMsgStoretime."""

    timestamp: Int64


@declares(RequestCode.GET_EARLIEST_MSG_STORETIME, answer=GetEarliestMsgStoretimeAnswer)
class GetEarliestMsgStoretime(TopicHeader):
    """Ask when the oldest message kept in a queue was stored."""

    topic: str
    queue_id: Int32


@declares(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, RequestCode.INVOKE_BROKER_TO_RESET_OFFSET)
class ResetOffset(TopicHeader):
    """Reset a group to a time or an offset; a broker sends clients the new offsets."""

    group: str
    topic: str
    queue_id: Int32 = -1
    offset: Int64 | None = None
    timestamp: Int64 = 0
    is_force: bool = False


@declares(
    RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS
)
class GetConsumerStatus(TopicHeader):
    """Ask the clients of a group for their offsets."""

    topic: str
    group: str
    client_addr: str | None = None


@declares(RequestCode.QUERY_CORRECTION_OFFSET)
class QueryCorrectionOffset(TopicHeader):
    """Ask for the lowest offsets of other groups."""

    filter_groups: str | None = None
    compare_group: str
    topic: str


@declares(RequestCode.CLONE_GROUP_OFFSET)
class CloneGroupOffset(RpcHeader):
    """Copy the offsets of one group to another."""

    src_group: str
    dest_group: str
    topic: str | None = None
    offline: bool = False


@declares(RequestCode.QUERY_CONSUME_TIME_SPAN)
class QueryConsumeTimeSpan(TopicHeader):
    """Ask for the time span that a group has yet to consume."""

    topic: str
    group: str
