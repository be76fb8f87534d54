"""Which offsets a queue has: asked of its broker."""

from typing import Final, TypeVar

from orbitmq.client.core.client_core import ClientCore
from orbitmq.client.core.queue_broker import queue_broker
from orbitmq.errors import BrokerError
from orbitmq.message.model import MessageQueue
from orbitmq.wire.codes import ResponseCode
from orbitmq.wire.fields import Header
from orbitmq.wire.headers.offset import (
    GetMaxOffset,
    GetMaxOffsetAnswer,
    GetMinOffset,
    GetMinOffsetAnswer,
    SearchOffset,
    SearchOffsetAnswer,
)

__all__ = ["QueueOffsets"]

_TIMEOUT_MS: Final = 6_000  # of Java's MQAdminImpl

H = TypeVar("H", bound=Header)


class QueueOffsets:
    """Asks brokers for offsets; each call raises OrbitError if the broker can't be asked."""

    def __init__(self, core: ClientCore) -> None:
        self._core = core

    async def begin(self, queue: MessageQueue) -> int:
        """Return the offset of the oldest message."""
        header = GetMinOffset(
            topic=queue.topic, queue_id=queue.queue_id, target_broker=queue.broker_name
        )
        return (await self._ask(queue, header, GetMinOffsetAnswer)).offset

    async def end(self, queue: MessageQueue) -> int:
        """Return the offset after the newest message."""
        header = GetMaxOffset(
            topic=queue.topic, queue_id=queue.queue_id, target_broker=queue.broker_name
        )
        return (await self._ask(queue, header, GetMaxOffsetAnswer)).offset

    async def at_time(self, queue: MessageQueue, time_ms: int) -> int:
        """Return the offset of the first message stored at or after a time."""
        header = SearchOffset(
            topic=queue.topic,
            queue_id=queue.queue_id,
            timestamp=time_ms,
            target_broker=queue.broker_name,
        )
        return (await self._ask(queue, header, SearchOffsetAnswer)).offset

    async def _ask(self, queue: MessageQueue, header: Header, kind: type[H]) -> H:
        broker = await queue_broker(self._core, queue)
        answer = await self._core.request(broker.address, header, timeout_ms=_TIMEOUT_MS)
        if answer.code != ResponseCode.SUCCESS:
            raise BrokerError.of(answer.code, answer.remark, address=str(broker.address))
        return answer.read(kind)
