"""Operations on handles, carried out by RocketMQ's own classes; the Java host imports this.

4.9 has neither kind of handle, so the classes are looked up when an operation is asked for.
"""

from tests.interop.java_types import java_class
from tests.interop.operations import PopHandle, RecallHandle


def write_pop_handle(handle: PopHandle) -> str:
    """Write the handle of a popped message; the kind of retry follows from its topic."""
    parts = (
        handle.checkpoint_offset,
        handle.pop_time_ms,
        handle.invisible_ms,
        handle.revive_queue_id,
        handle.topic,
        handle.broker_name,
        handle.queue_id,
    )
    offset = () if handle.queue_offset is None else (handle.queue_offset,)
    return str(java_class("ExtraInfoUtil").buildExtraInfo(*parts, *offset))


def read_pop_handle(text: str) -> PopHandle:
    """Take the handle of a popped message apart; the topic is that of a retry, or ``t``."""
    util = java_class("ExtraInfoUtil")
    words = util.split(text)
    return PopHandle(
        checkpoint_offset=int(util.getCkQueueOffset(words)),
        pop_time_ms=int(util.getPopTime(words)),
        invisible_ms=int(util.getInvisibleTime(words)),
        revive_queue_id=int(util.getReviveQid(words)),
        topic=str(util.getRealTopic(words, "t", "g")),
        broker_name=str(util.getBrokerName(words)),
        queue_id=int(util.getQueueId(words)),
        queue_offset=int(util.getQueueOffset(words)),
    )


def write_recall_handle(handle: RecallHandle) -> str:
    """Write the handle of a delayed message."""
    parts = (handle.topic, handle.broker_name, str(handle.timestamp_ms), handle.message_id)
    return str(java_class("RecallMessageHandle$HandleV1").buildHandle(*parts))


def read_recall_handle(text: str) -> RecallHandle:
    """Take the handle of a delayed message apart."""
    read = java_class("RecallMessageHandle").decodeHandle(text)
    return RecallHandle(
        topic=str(read.getTopic()),
        broker_name=str(read.getBrokerName()),
        timestamp_ms=int(str(read.getTimestampStr())),
        message_id=str(read.getMessageId()),
    )
