"""Recalls: a delayed message is cancelled before its delivery time.

Brokers of 5.0 and later return a recall handle in the receipt of a message with ``delay`` or
``deliver_at``.
"""

from collections.abc import Awaitable, Callable

from orbitmq.client.field_types import shown
from orbitmq.errors import BrokerError, InvalidInput
from orbitmq.message import names
from orbitmq.message.ids import RecallHandle, parse_recall_handle
from orbitmq.net.connection import Connection
from orbitmq.wire.codes import ResponseCode
from orbitmq.wire.headers.send import RecallMessage, RecallMessageAnswer

__all__ = ["recall"]


async def recall(
    topic: str,
    handle: str,
    *,
    group: str,
    connect: Callable[[RecallHandle], Awaitable[Connection]],
    timeout_ms: int,
    namespace_v2: str = "",
) -> str:
    """Recall a delayed message before its delivery, and return its id.

    Topic and group are the names on the wire, with any namespace. ``connect`` returns a connection
    to the primary of the broker that the handle names. Raise InvalidInput if the handle can't be
    read or no broker recalls from the topic (retry and dead letter topics), and BrokerError if
    recalls are switched off or the message is delivered.
    """
    if names.is_retry_topic(topic) or names.is_dead_letter_topic(topic):
        raise InvalidInput(
            f"topic {topic!r} is a retry or dead letter topic; messages of these can't be recalled",
            field="topic",
        )
    if not isinstance(handle, str):
        raise InvalidInput(
            f"handle is {shown(handle)}; it must be the recall_handle of a receipt, which only "
            "brokers that support recalls return, and only for a message with delay or deliver_at",
            field="handle",
        )
    parsed = parse_recall_handle(handle)
    connection = await connect(parsed)
    header = RecallMessage(
        producer_group=group,
        topic=topic,
        recall_handle=handle,
        target_broker=parsed.broker_name,
        namespace=namespace_v2 or None,
        namespaced=True if namespace_v2 else None,
    )
    answer = await connection.start_request(header, timeout_ms=timeout_ms)
    if answer.code != ResponseCode.SUCCESS:
        raise BrokerError.of(answer.code, answer.remark, address=connection.peer)
    return answer.read(RecallMessageAnswer).msg_id
