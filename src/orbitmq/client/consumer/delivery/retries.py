"""Messages that user code failed on, sent back to a broker, which delivers them again later.

::

    send_back ──▶ CONSUMER_SEND_MSG_BACK to the message's broker, which has the message
        │  fails, or the queue has no broker of its own
        ▼
    republish ──▶ a copy to %RETRY%group, on any broker

    failure      1    2    3   4   5   6   7   8   9   10  11   12   13   14  15  16   17
    delay level  3    4    5   6   7   8   9   10  11  12  13   14   15   16  17  18   dead letter
    it waits     10s  30s  1m  2m  3m  4m  5m  6m  7m  8m  9m   10m  20m  30m 1h  2h

The broker counts, chooses the level unless a handler did, and makes the dead letter.
"""

import logging
from typing import Final

from orbitmq.client.core.client_core import ClientCore
from orbitmq.client.core.heartbeats import INNER_GROUP
from orbitmq.client.core.publish_route import LOGIC_PREFIX
from orbitmq.client.core.queue_broker import queue_broker
from orbitmq.client.observe.hooks import Hooks
from orbitmq.client.producer.sending.sender import Sender, SendOptions
from orbitmq.client.settings import ProducerSettings
from orbitmq.errors import BrokerError, OrbitError
from orbitmq.message import properties
from orbitmq.message.model import Message, MessageQueue, StoredMessage
from orbitmq.message.names import retry_topic, wrap_namespace
from orbitmq.wire.codes import ResponseCode
from orbitmq.wire.headers.send import ConsumerSendMsgBack

__all__ = ["Retries"]

log = logging.getLogger("orbitmq.client")

_TIMEOUT_MS: Final = 5_000
_FIRST_LEVEL: Final = 3
_TIMES_MAX: Final = 16
_UNLIMITED: Final = 2**31 - 1
_CLOSE_MS: Final = 1_000
_NOT_COPIED: Final = frozenset({properties.TRANSACTION_PREPARED, properties.UNIQUE_KEY})


class Retries:
    """Sends back the messages of one consumer.

    ``group`` is the name on the wire. ``max_reconsume_times`` is -1 for Java's default: 16, and no
    limit for an ordered consumer.
    """

    def __init__(
        self, core: ClientCore, group: str, *, max_reconsume_times: int, ordered: bool = False
    ) -> None:
        self._core = core
        self._group = group
        default = _UNLIMITED if ordered else _TIMES_MAX
        self._times_max = default if max_reconsume_times < 0 else max_reconsume_times
        self._sender: Sender | None = None

    def __repr__(self) -> str:
        return f"<Retries of {self._group}, {self._times_max} times>"

    async def send_back(
        self, message: StoredMessage, queue: MessageQueue, *, delay_level: int = 0
    ) -> None:
        """Have a message delivered to the group again; raise OrbitError if no broker takes it.

        ``queue`` is the one that it was pulled from. Level 0: the broker chooses; below 0: the
        message becomes a dead letter.
        """
        if not queue.broker_name.startswith(LOGIC_PREFIX):
            try:
                await self._ask(message, queue, delay_level)
            except OrbitError as error:
                log.warning(
                    "%s does not take back %r; a copy is sent to the retry topic: %s",
                    *(queue.broker_name, message, error),
                )
            else:
                return
        await self.republish(message, delay_level=delay_level)

    async def republish(self, message: StoredMessage, *, delay_level: int = 0) -> None:
        """Send a copy of a message to the retry topic; raise OrbitError if it can't be stored."""
        if self._sender is None:
            settings = ProducerSettings(INNER_GROUP)
            self._sender = Sender(self._core, settings, Hooks())
        copied = message.properties
        # The broker makes a dead letter of one that was delivered more often than the limit.
        limit = message.reconsume_times if delay_level < 0 else self._times_max
        marks = {name: text for name, text in copied.items() if name not in _NOT_COPIED} | {
            properties.ORIGIN_MESSAGE_ID: copied.get(properties.ORIGIN_MESSAGE_ID)
            or message.message_id,
            properties.RETRY_TOPIC: copied.get(properties.RETRY_TOPIC) or message.topic,
            properties.RECONSUME_TIME: str(message.reconsume_times + 1),
            properties.MAX_RECONSUME_TIMES: str(limit),
            properties.DELAY: str(
                delay_level if delay_level > 0 else _FIRST_LEVEL + message.reconsume_times
            ),
        }
        again = Message(
            retry_topic(self._group),
            message.body,
            flag=message.flag,
            message_id=copied.get(properties.UNIQUE_KEY),
        )
        await self._sender.send(again, SendOptions(marks=marks))

    async def close(self) -> None:
        """Wait shortly for copies in flight."""
        if self._sender is not None:
            await self._sender.close(_CLOSE_MS)

    async def _ask(self, message: StoredMessage, queue: MessageQueue, delay_level: int) -> None:
        broker = await queue_broker(self._core, queue)
        origin = message.properties.get(properties.RETRY_TOPIC) or message.topic
        header = ConsumerSendMsgBack(
            offset=message.commit_log_offset,
            group=self._group,
            delay_level=delay_level,
            origin_msg_id=message.message_id,
            origin_topic=wrap_namespace(self._core.settings.namespace, origin),
            max_reconsume_times=self._times_max,
            target_broker=queue.broker_name,
        )
        answer = await self._core.request(broker.address, header, timeout_ms=_TIMEOUT_MS)
        if answer.code != ResponseCode.SUCCESS:
            raise BrokerError.of(answer.code, answer.remark, address=str(broker.address))
