"""Delayed messages: the level that stands for a delay, and how one is called back.

Brokers before 5.0 know eighteen delays, by level; later ones also take any time
(``Message.delay``, ``Message.deliver_at``), and give a handle by which a message that waits for its
time can be called back.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Final, Protocol

from orbitmq.client.field_types import shown
from orbitmq.errors import BrokerError, InvalidInput
from orbitmq.message import names
from orbitmq.message.ids import RecallHandle, parse_recall_handle
from orbitmq.wire.codes import ResponseCode
from orbitmq.wire.fields import Header
from orbitmq.wire.frame import Frame
from orbitmq.wire.headers.send import RecallMessage, RecallMessageAnswer

__all__ = ["DELAYS", "delay_level", "recall"]

log = logging.getLogger("orbitmq.client")

_S, _M, _H = 1, 60, 3600
DELAYS: Final = tuple(
    timedelta(seconds=seconds)
    for seconds in (
        *(1 * _S, 5 * _S, 10 * _S, 30 * _S),
        *(minutes * _M for minutes in range(1, 11)),
        *(20 * _M, 30 * _M, 1 * _H, 2 * _H),
    )
)
"""What levels 1 to 18 stand for, unless the broker is set otherwise (``messageDelayLevel``)."""


def delay_level(delay: timedelta) -> int:
    """Return the lowest level that waits at least so long; 0 stands for no delay.

    Raises:
        InvalidInput: negative, or longer than the highest level waits.

    >>> delay_level(timedelta(seconds=5)), delay_level(timedelta(seconds=6))
    (2, 3)

    """
    if not timedelta() <= delay <= DELAYS[-1]:
        raise InvalidInput(
            f"no level waits for {delay}; levels wait from {DELAYS[0]} to {DELAYS[-1]}, and any "
            "other time takes Message.delay and a broker of 5.0 or later",
            field="delay",
        )
    if not delay:
        return 0
    return next(level for level, waits in enumerate(DELAYS, 1) if waits >= delay)


class Link(Protocol):
    """The part of a connection that a recall needs."""

    @property
    def peer(self) -> str:
        """The broker, as ``host:port``."""
        ...

    def start_request(self, header: Header, *, timeout_ms: int) -> asyncio.Future[Frame]:
        """Send a request and return the future of its answer."""
        ...


async def recall(
    topic: str,
    handle: str,
    *,
    group: str,
    connect: Callable[[RecallHandle], Awaitable[Link]],
    timeout_ms: int,
    namespace_v2: str = "",
) -> str:
    """Call a delayed message back before its time, and return its id.

    Args:
        topic: where it was to go, as it travels.
        handle: ``SendReceipt.recall_handle`` of its send.
        group: the producer group, as it travels.
        connect: returns a connection to the primary of the broker that the handle names.
        timeout_ms: how long the broker may take.
        namespace_v2: the client's namespace of the second kind, which travels in headers.

    Raises:
        InvalidInput: the handle can't be read, or the topic is a retry or dead letter one, which
            no broker recalls from.
        BrokerError: the broker refuses: recalls are switched off, or it is too late.
        NetworkError: the broker can't be reached, or doesn't answer.

    """
    if names.is_retry_topic(topic) or names.is_dead_letter_topic(topic):
        raise InvalidInput(
            f"topic {topic!r} is one of retries or dead letters, from which nothing is recalled",
            field="topic",
        )
    if not isinstance(handle, str):
        raise InvalidInput(
            f"handle is {shown(handle)}; it must be the recall_handle of a receipt, which only "
            "brokers that serve recalls give, and only for a delay or a deliver_at",
            field="handle",
        )
    read = parse_recall_handle(handle)
    link = await connect(read)
    header = RecallMessage(
        producer_group=group,
        topic=topic,
        recall_handle=handle,
        target_broker=read.broker_name,
        namespace=namespace_v2 or None,
        namespaced=True if namespace_v2 else None,
    )
    answer = await link.start_request(header, timeout_ms=timeout_ms)
    if answer.code != ResponseCode.SUCCESS:
        raise BrokerError.of(answer.code, answer.remark, address=link.peer)
    return answer.read(RecallMessageAnswer).msg_id
