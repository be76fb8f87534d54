"""Stored messages sent once more, for operators: to one consumer, or to a topic.

A copy has the body, the flag, the keys, the tag, the sharding key, and the properties of the user
and of requests. Properties that brokers and clients set along the way are left out: delays, timers,
retries, transactions and checksums of the first copy don't apply to the next.
"""

import asyncio
from collections.abc import Mapping
from typing import Final

import msgspec

from orbitmq.client.admin.consumers import ConsumerAdmin
from orbitmq.client.admin.messages import MessageAdmin
from orbitmq.client.producer.sending.receipts import read_receipt
from orbitmq.errors import NoRoute, NotFound
from orbitmq.message import names, properties
from orbitmq.message.buffer import Buffer
from orbitmq.message.compression import CompressionType, compress
from orbitmq.message.model import MessageQueue, SendReceipt, StoredMessage
from orbitmq.wire.bodies.running import CMResult, ConsumeMessageDirectlyResult
from orbitmq.wire.codes import ResponseCode
from orbitmq.wire.headers.heartbeat import ConsumeMessageDirectly
from orbitmq.wire.headers.send import SendMessageV2

__all__ = ["DirectConsumption", "ResendAdmin"]

_GROUP: Final = "CLIENT_INNER_PRODUCER"
"""The producer group of Java's clients for messages of their own (MixAll)."""
_RELAY_TIMEOUT_MS: Final = 12_000
"""A broker waits 10 s for the client that it asks (AdminBrokerProcessor.callConsumer in Java)."""
_COMPRESS_OVER: Final = 4_096
"""Java's producers compress larger bodies (compressMsgBodyOverHowmuch)."""
_KEPT: Final = frozenset(
    {
        properties.KEYS,
        properties.TAGS,
        properties.SHARDING_KEY,
        properties.PRIORITY,
        properties.INSTANCE_ID,
        properties.CORRELATION_ID,
        properties.REPLY_TO_CLIENT,
        properties.TIME_TO_LIVE,
        properties.MESSAGE_TYPE,
    }
)


class DirectConsumption(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of ``resend_message``.

    Attributes:
        client_id: the consumer that got the message.
        result: what its listener returned; None if it said nothing that is known.
        cost_ms: how long the listener took.
        remark: the stack trace of a listener that failed.
        is_ordered: whether the consumer consumes in order.
        auto_commit: of an ordered listener, whether it commits by itself.
    """

    client_id: str
    result: CMResult | None
    cost_ms: int
    remark: str | None
    is_ordered: bool
    auto_commit: bool

    @property
    def is_consumed(self) -> bool:
        """Whether the listener succeeded."""
        return self.result in (CMResult.CR_SUCCESS, CMResult.CR_COMMIT)


class ResendAdmin(MessageAdmin, ConsumerAdmin):
    """What an `Admin` does to have a message consumed once more."""

    async def resend_message(
        self, topic: str, message_id: str, *, group: str, client_id: str | None = None
    ) -> DirectConsumption:
        """Have one consumer consume a stored message now; return what its listener returned.

        Offsets and retries are not affected: a failure is only reported. Java's
        ``consumeMessageDirectly``.

        Args:
            topic: the topic of the message.
            message_id: its unique id or its offset id.
            group: the group of the consumer.
            client_id: the consumer, from ``consumer_connections``; the first one if None.

        Raises:
            NotFound: there is no such message.
            ConsumerNotOnline: no consumer of the group is connected.
            BrokerError: the consumer did not answer; code 207 means in time.
            OrbitError: the brokers can't be reached.
        """
        message = await self.view_message(topic, message_id)
        if client_id is None:
            client_id = (await self.consumer_connections(group)).clients[0].client_id
        address = self._core.routes.where.address(str(message.store_host))
        if address is None:
            raise NotFound(ResponseCode.NO_MESSAGE, f"{message.store_host} is not a broker")
        header = ConsumeMessageDirectly(
            consumer_group=self._wrapped(group, "group"),
            client_id=client_id,
            msg_id=message.offset_message_id,
            topic=self._wrapped(topic),
        )
        answer = await self._ask(address, header, timeout_ms=_RELAY_TIMEOUT_MS)
        found = await self._body(answer, ConsumeMessageDirectlyResult)
        return DirectConsumption(
            client_id=client_id,
            result=found.consume_result,
            cost_ms=found.spent_time_mills,
            remark=found.remark,
            is_ordered=found.order,
            auto_commit=found.auto_commit,
        )

    async def republish_message(
        self, topic: str, message_id: str, *, to: str | None = None
    ) -> SendReceipt:
        """Send a copy of a stored message, for all groups of a topic.

        The copy has a new unique id. Body, keys, tag and the user's properties stay.

        Args:
            topic: the topic of the message.
            message_id: its unique id or its offset id.
            to: the topic to send to; its own if None.

        Raises:
            NotFound: there is no such message.
            NoRoute: a topic is unknown, or has no queue to write to.
            OrbitError: the brokers can't be reached, or refuse.
        """
        message = await self.view_message(topic, message_id)
        queue = await self._target(topic if to is None else to, message)
        unique_id = self._core.machine.unique_ids().next()
        return await self._publish(message, queue, unique_id)

    async def _target(self, topic: str, message: StoredMessage) -> MessageQueue:
        """Return a queue to write a copy to; on the broker of the message, if it has one."""
        wrapped = self._wrapped(topic)
        names.check_sendable(wrapped)
        await self._core.routes.route(wrapped)
        route = await self._core.routes.publish_route(wrapped, None)
        queues = [one for one in route.queues if route.address_of(one) is not None]
        near = [one for one in queues if one.broker_name == message.broker_name]
        if not queues:
            raise NoRoute(
                f"no broker of topic {topic} can be written to; check that its brokers run",
                topic=topic,
                is_missing=False,
                answers={},
            )
        chosen = near or queues
        queue = chosen[message.queue_offset % len(chosen)]
        return msgspec.structs.replace(queue, topic=topic)

    async def _publish(
        self,
        message: StoredMessage,
        queue: MessageQueue,
        unique_id: str,
        marks: Mapping[str, str] | None = None,
    ) -> SendReceipt:
        """Send a copy of a message with a unique id, and further properties."""
        kept = {
            name: value
            for name, value in message.properties.items()
            if name in _KEPT or not properties.is_reserved(name)
        }
        kept |= {properties.UNIQUE_KEY: unique_id, properties.WAIT: "true", **(marks or {})}
        body, sys_flag = await self._compressed(message.body)
        header = SendMessageV2(
            producer_group=_GROUP,
            topic=self._wrapped(queue.topic),
            default_topic=names.AUTO_CREATE_TOPIC,
            default_topic_queue_nums=1,
            queue_id=queue.queue_id,
            sys_flag=sys_flag,
            born_timestamp=message.born_timestamp_ms,
            flag=message.flag,
            properties=properties.encode(kept).decode(),
            reconsume_times=0,
            unit_mode=self._core.settings.unit_mode,
            batch=False,
            broker_name=queue.broker_name,
        )
        address = await self._master_of(queue)
        answer = await self._request(address, header, body)
        return read_receipt(answer, unique_id, queue, str(address))

    async def _compressed(self, body: bytes) -> tuple[Buffer, int]:
        """Return the body to send, and its flag; a compressed body was stored compressed before."""
        if len(body) < _COMPRESS_OVER:
            return body, 0
        work = self._core.workers.submit(compress, body, CompressionType.ZLIB)
        smaller = await asyncio.wrap_future(work)
        return (smaller, CompressionType.ZLIB.sys_flag) if len(smaller) < len(body) else (body, 0)
