"""Request and reply: a message that whoever consumes it answers, to the very client that sent it.

::

    requester ── message with CORRELATION_ID, REPLY_TO_CLIENT, TTL ──▶ topic ──▶ consumer
        ▲                                                                           │ reply
        └── PUSH_REPLY_MESSAGE_TO_CLIENT ── broker ◀── SEND_REPLY_MESSAGE ──────────┘

A reply is pushed to the client by its id, so the broker must know the client: it hears from it
before the first request about a topic. Replies are not stored unless the broker is set to: one that
finds nobody waiting is gone.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from reprlib import repr as elided
from typing import Final, Protocol

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

__all__ = ["Requests", "Sender", "reply_marks", "reply_to"]

log = logging.getLogger("orbitmq.client")

WAITING_MAX: Final = 65_535
"""Requests that may wait for a reply; as many as Java's client may have in flight."""

_REPLY: Final = "reply"  # the value of MSG_TYPE (MixAll.REPLY_MESSAGE_FLAG)
_NOWHERE: Final = Host(bytes(4), 0)


class Sender(Protocol):
    """Sends the message at hand, by plan, to a queue, or by a selector: the caller has chosen."""

    def __call__(self, marks: Mapping[str, str], timeout_ms: int) -> Awaitable[SendReceipt]:
        """Send it with properties that only RocketMQ itself may set, within the time given."""
        ...


class Requests:
    """The requests of one client that wait for their replies.

    Args:
        client_id: the id by which brokers find this client.
        clock: tells when a reply came.
        randomness: makes correlation ids.
        introduce: has the brokers of a topic hear from this client; called before each request, so
            it does nothing when they have.
        waiting_max: how many requests may wait.

    Attributes:
        late: replies that nobody waited for any more.

    """

    def __init__(
        self,
        *,
        client_id: str,
        clock: Clock,
        randomness: Randomness,
        introduce: Callable[[str], Awaitable[None]],
        waiting_max: int = WAITING_MAX,
    ) -> None:
        self._client_id = client_id
        self._clock = clock
        self._randomness = randomness
        self._introduce = introduce
        self._waiting_max = waiting_max
        self._waiting: dict[str, asyncio.Future[StoredMessage]] = {}
        self.late = 0

    def __repr__(self) -> str:
        return f"<Requests of {self._client_id}, {len(self._waiting)} waiting, {self.late} late>"

    @property
    def waiting(self) -> int:
        """How many requests wait for a reply."""
        return len(self._waiting)

    async def request(self, topic: str, send: Sender, *, timeout_ms: int) -> StoredMessage:
        """Send a request and return the reply; the time is for both together.

        A reply that comes before the broker's receipt is returned at once.

        Raises:
            NoReply: the request was sent, and no reply came in time.
            TooManyRequests: as many requests as allowed wait for replies.
            OrbitError: the request could not be sent; see ``Producer.send``.

        """
        if len(self._waiting) >= self._waiting_max:
            raise TooManyRequests(
                f"{len(self._waiting)} requests wait for replies, as many as allowed"
            )
        began_ms = self._clock.monotonic_ms()
        try:
            # One broker that doesn't answer must not take the time of a request to the others.
            async with asyncio.timeout(timeout_ms / 1000 / 2):
                await self._introduce(topic)
        except TimeoutError:
            log.info("a request to %s leaves although not all its brokers know us", topic)
        correlation_id = self._randomness.uuid4()
        marks = {
            properties.CORRELATION_ID: correlation_id,
            properties.REPLY_TO_CLIENT: self._client_id,
            properties.TIME_TO_LIVE: str(timeout_ms),
        }
        reply: asyncio.Future[StoredMessage] = asyncio.get_running_loop().create_future()
        self._waiting[correlation_id] = reply
        left_ms = max(1, timeout_ms - (self._clock.monotonic_ms() - began_ms))
        sending = asyncio.ensure_future(send(marks, left_ms))
        try:
            async with asyncio.timeout(left_ms / 1000):
                await asyncio.wait((sending, reply), return_when=asyncio.FIRST_COMPLETED)
                if not reply.done():
                    sending.result()  # raises, if the request was not sent
                return await reply
        except SendTimeout:
            raise  # the send's own, which says whether it may be stored
        except TimeoutError:
            raise self._no_reply(topic, correlation_id, sending, timeout_ms) from None
        finally:
            self._waiting.pop(correlation_id, None)
            await _give_up(sending)

    def take_reply(self, request: Frame) -> Response:
        """Serve PUSH_REPLY_MESSAGE_TO_CLIENT: hand the reply to whoever waits for it."""
        try:
            message = read_reply(request, self._clock.now_ms())
        except OrbitError as error:
            log.warning("a reply can't be read: %s", error)
            return Response(ResponseCode.SYSTEM_ERROR, remark="process reply message fail")
        correlation_id = message.properties.get(properties.CORRELATION_ID, "")
        waiter = self._waiting.pop(correlation_id, None)
        if waiter is None or waiter.done():
            self.late += 1
            log.info("a reply to %s came too late, from %s", correlation_id, message.born_host)
        else:
            waiter.set_result(message)
        return Response(ResponseCode.SUCCESS)

    def close(self, reason: Exception) -> None:
        """Fail all that wait."""
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
            f"request {correlation_id} to {topic} {what}, and no reply came within {timeout_ms} "
            "ms; is a consumer running that replies?",
            topic=topic,
            send_id=sending.result().message_id if sent else correlation_id,
            timeout_ms=timeout_ms,
        )


async def _give_up(sending: asyncio.Future[SendReceipt]) -> None:
    """End a send that nobody needs any more: its reply is here, or its time is over."""
    if not sending.done():
        sending.cancel()
    await asyncio.wait((sending,))
    if not sending.cancelled():
        sending.exception()  # raised before, or of no interest beside a reply


def read_reply(request: Frame, arrived_ms: int) -> StoredMessage:
    """Return the reply that a broker pushes, its body opened.

    Raises:
        InvalidHeader: the header can't be read.
        CompressionFailed, MissingExtra: the body can't be opened.

    """
    header = request.read(ReplyMessage)
    body = bytes(request.body)
    sys_flag = header.sys_flag
    if sys_flag & flags.COMPRESSED and body:
        body = decompress(body, CompressionType.of(sys_flag))
        sys_flag &= ~flags.COMPRESSED
    told = properties.decode((header.properties or "").encode())
    told[properties.ARRIVE_TIME] = str(arrived_ms)
    return StoredMessage(
        topic=header.topic,
        body=body,
        properties=told,
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
    except InvalidInput:  # a name, say; who replied is of no consequence
        return _NOWHERE


def reply_to(request: StoredMessage, body: bytes) -> Message:
    """Return the message that answers a request; send it with ``reply_marks(request)``.

    Raises:
        InvalidInput: the message was not sent as a request, or came from a broker that does not
            name its cluster.

    """
    reply_marks(request)
    cluster = request.properties.get(properties.CLUSTER)
    if not cluster:
        raise InvalidInput(
            f"message {elided(request.message_id)} can't be replied to: the broker did not set "
            f"its property {properties.CLUSTER}, which names the topic of replies",
            field="request",
        )
    return Message(names.reply_topic(cluster), body)


def reply_marks(request: StoredMessage) -> Mapping[str, str]:
    """Return the properties of a reply to ``request``, which only RocketMQ itself may set.

    Raises:
        InvalidInput: the message was not sent as a request.

    """
    if not isinstance(request, Message | StoredMessage):
        raise InvalidInput(
            f"a {type(request).__name__} is no request; give the message that was received",
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
            f"message {elided(request.message_id)} is no request: it lacks {' and '.join(missing)}",
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
