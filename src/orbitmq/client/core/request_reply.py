"""Request and reply: the consumer of a message replies to the client that sent it.

::

    requester ── message with CORRELATION_ID, REPLY_TO_CLIENT, TTL ──▶ topic ──▶ consumer
        ▲                                                                           │ reply
        └── PUSH_REPLY_MESSAGE_TO_CLIENT ── broker ◀── SEND_REPLY_MESSAGE ──────────┘

The broker pushes a reply to the client with the given id, so it must know the client: it gets a
heartbeat before the first request to a topic. Replies are not stored unless the broker is set to
store them: one without a waiting requester is dropped.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from reprlib import repr as elided
from typing import Final

from orbitmq.clock import Clock
from orbitmq.errors import InvalidInput, NoReply, OrbitError, SendTimeout, TooManyRequests
from orbitmq.message import flags, names, properties
from orbitmq.message.compression import CompressionType, decompress
from orbitmq.message.host import Host
from orbitmq.message.model import Message, SendReceipt, StoredMessage
from orbitmq.randomness import Randomness
from orbitmq.wire.codes import ResponseCode
from orbitmq.wire.frame import Frame
from orbitmq.wire.headers.send import ReplyMessage
from orbitmq.wire.session import Response

__all__ = ["Requests", "SendRequest", "reply_marks", "reply_to"]

log = logging.getLogger("orbitmq.client")

WAITING_MAX: Final = 65_535
"""The most requests waiting for a reply: the in-flight limit of Java's client."""

_REPLY: Final = "reply"  # the value of MSG_TYPE (MixAll.REPLY_MESSAGE_FLAG)
_NOWHERE: Final = Host(bytes(4), 0)


SendRequest = Callable[[Mapping[str, str], int], Coroutine[object, object, SendReceipt]]
"""Sends the request, given properties that only RocketMQ itself may set, and the timeout in ms."""


@dataclass(kw_only=True, eq=False, repr=False)
class Requests:
    """The requests of one client that wait for replies.

    ``announce`` is called before each request: it sends heartbeats to the brokers of a topic that
    don't know this client yet. ``late`` counts the replies that came too late.
    """

    client_id: str
    clock: Clock
    randomness: Randomness
    announce: Callable[[str], Awaitable[None]]
    waiting_max: int = WAITING_MAX
    late: int = field(default=0, init=False)
    _waiting: dict[str, asyncio.Future[StoredMessage]] = field(default_factory=dict, init=False)

    def __repr__(self) -> str:
        return f"<Requests of {self.client_id}, {len(self._waiting)} waiting, {self.late} late>"

    @property
    def waiting(self) -> int:
        """How many requests are waiting for a reply."""
        return len(self._waiting)

    async def request(self, topic: str, send: SendRequest, *, timeout_ms: int) -> StoredMessage:
        """Send a request and return the reply; the timeout covers both.

        A reply that comes before the broker's receipt is returned at once. Raise NoReply if none
        comes in time, and TooManyRequests if ``waiting_max`` requests are waiting.
        """
        if len(self._waiting) >= self.waiting_max:
            raise TooManyRequests(
                f"{len(self._waiting)} requests are waiting for replies, the limit; wait for some "
                "before you send more"
            )
        began_ms = self.clock.monotonic_ms()
        try:
            # A broker that doesn't answer must not use up the time of a request to another one.
            async with asyncio.timeout(timeout_ms / 1000 / 2):
                await self.announce(topic)
        except TimeoutError:
            log.info("a request to %s is sent before all its brokers know this client", topic)
        correlation_id = self.randomness.uuid4()
        marks = {
            properties.CORRELATION_ID: correlation_id,
            properties.REPLY_TO_CLIENT: self.client_id,
            properties.TIME_TO_LIVE: str(timeout_ms),
        }
        reply: asyncio.Future[StoredMessage] = asyncio.get_running_loop().create_future()
        self._waiting[correlation_id] = reply
        left_ms = max(1, timeout_ms - (self.clock.monotonic_ms() - began_ms))
        sending = asyncio.create_task(send(marks, left_ms))
        try:
            async with asyncio.timeout(left_ms / 1000):
                await asyncio.wait((sending, reply), return_when=asyncio.FIRST_COMPLETED)
                if not reply.done():
                    sending.result()  # raises, if the request was not sent
                return await reply
        except SendTimeout:
            raise  # the send's error says whether the request may be stored
        except TimeoutError:
            raise self._no_reply(topic, correlation_id, sending, timeout_ms) from None
        finally:
            self._waiting.pop(correlation_id, None)
            await _cancel(sending)

    def take_reply(self, request: Frame) -> Response:
        """Serve PUSH_REPLY_MESSAGE_TO_CLIENT: pass the reply to the request that waits for it."""
        try:
            message = read_reply(request, self.clock.now_ms())
        except OrbitError as error:
            log.warning("a reply can't be read: %s", error)
            return Response(ResponseCode.SYSTEM_ERROR, remark="process reply message fail")
        correlation_id = message.properties.get(properties.CORRELATION_ID, "")
        waiter = self._waiting.pop(correlation_id, None)
        if waiter is None or waiter.done():
            self.late += 1
            log.info("dropped a late reply to %s from %s", correlation_id, message.born_host)
        else:
            waiter.set_result(message)
        return Response(ResponseCode.SUCCESS)

    def close(self, reason: Exception) -> None:
        """Fail all waiting requests."""
        for waiter in self._waiting.values():
            if not waiter.done():
                waiter.set_exception(reason)
        self._waiting.clear()

    def _no_reply(
        self,
        topic: str,
        correlation_id: str,
        sending: asyncio.Future[SendReceipt],
        timeout_ms: int,
    ) -> NoReply:
        sent = sending.done() and not sending.cancelled() and sending.exception() is None
        what = "was stored" if sent else "may have been stored"
        return NoReply(
            f"request {correlation_id} to {topic} {what}, but no reply came within {timeout_ms} "
            "ms; check that a consumer is running that replies",
            topic=topic,
            send_id=sending.result().message_id if sent else correlation_id,
            timeout_ms=timeout_ms,
        )


async def _cancel(sending: asyncio.Future[SendReceipt]) -> None:
    """End a send that is no longer needed: its reply is here, or its timeout has passed."""
    if not sending.done():
        sending.cancel()
    await asyncio.wait((sending,))
    if not sending.cancelled():
        sending.exception()  # raised already, or irrelevant since there is a reply


def read_reply(request: Frame, arrived_ms: int) -> StoredMessage:
    """Return the reply that a broker pushes, decompressed."""
    header = request.read(ReplyMessage)
    body = bytes(request.body)
    sys_flag = header.sys_flag
    if sys_flag & flags.COMPRESSED and body:
        body = decompress(body, CompressionType.of(sys_flag))
        sys_flag &= ~flags.COMPRESSED
    decoded = properties.decode((header.properties or "").encode())
    decoded[properties.ARRIVE_TIME] = str(arrived_ms)
    return StoredMessage(
        topic=header.topic,
        body=body,
        properties=decoded,
        queue_id=header.queue_id,
        queue_offset=0,
        commit_log_offset=0,
        flag=header.flag,
        sys_flag=sys_flag,
        born_timestamp_ms=header.born_timestamp,
        born_host=_host(header.born_host),
        store_timestamp_ms=header.store_timestamp,
        store_host=_host(header.store_host),
        reconsume_times=header.reconsume_times or 0,
        prepared_transaction_offset=0,
        body_crc=0,
        store_size=0,
    )


def _host(text: str) -> Host:
    try:
        return Host.parse(text)
    except InvalidInput:  # such as a host name; the address of a replier is not needed
        return _NOWHERE


def reply_to(request: StoredMessage, body: bytes) -> Message:
    """Return the reply to a request; send it with ``reply_marks(request)``.

    Raise InvalidInput if the message is not a request, or its broker did not name its cluster.
    """
    reply_marks(request)
    cluster = request.properties.get(properties.CLUSTER)
    if not cluster:
        raise InvalidInput(
            f"message {elided(request.message_id)} can't be answered: the broker did not set its "
            f"property {properties.CLUSTER}, which the name of the reply topic is made of",
            field="request",
        )
    return Message(names.reply_topic(cluster), body)


def reply_marks(request: StoredMessage) -> Mapping[str, str]:
    """Return the properties of a reply that only RocketMQ itself may set."""
    if not isinstance(request, Message | StoredMessage):
        raise InvalidInput(
            f"request is a {type(request).__name__}; it must be the consumed message",
            field="request",
        )
    given = request.properties
    missing = [
        name
        for name in (properties.CORRELATION_ID, properties.REPLY_TO_CLIENT)
        if not given.get(name)
    ]
    if missing:
        raise InvalidInput(
            f"message {elided(request.message_id)} is not a request: it has no property "
            f"{' and '.join(missing)}",
            field="request",
        )
    marks = {
        properties.MESSAGE_TYPE: _REPLY,
        properties.CORRELATION_ID: given[properties.CORRELATION_ID],
        properties.REPLY_TO_CLIENT: given[properties.REPLY_TO_CLIENT],
    }
    if ttl := given.get(properties.TIME_TO_LIVE):
        marks[properties.TIME_TO_LIVE] = ttl
    return marks
