"""The offsets of a group whose members share the messages: kept by the brokers of the queues.

Java: RemoteBrokerOffsetStore. Progress is noted in memory, and sent to the master of the queue's
broker, or to a slave if there is no master.
"""

import asyncio
import logging
from collections.abc import Iterable
from typing import Final

from orbitmq.client.consumer.offsets.offsets import NotedOffsets
from orbitmq.client.core.client_core import ClientCore
from orbitmq.client.core.queue_broker import queue_broker
from orbitmq.errors import BrokerError, OrbitError
from orbitmq.message.model import MessageQueue
from orbitmq.wire.codes import ResponseCode
from orbitmq.wire.headers.offset import (
    QueryConsumerOffset,
    QueryConsumerOffsetAnswer,
    UpdateConsumerOffset,
)

__all__ = ["RemoteOffsets"]

log = logging.getLogger("orbitmq.client")

_TIMEOUT_MS: Final = 5_000  # as in Java


class RemoteOffsets(NotedOffsets):
    """The offsets of one group at its brokers."""

    def __init__(self, core: ClientCore, group: str) -> None:
        super().__init__()
        self._core = core
        self._group = group

    def __repr__(self) -> str:
        return f"<RemoteOffsets of {self._group}, {len(self.noted)} queues>"

    async def load(self) -> None:
        """Do nothing: brokers are asked queue by queue."""

    async def stored(self, queue: MessageQueue) -> int | None:
        """Return the offset that the queue's broker has; None if it has none.

        Raise NetworkError or NoRoute if it can't be reached, and BrokerError if it refuses.
        """
        broker = await queue_broker(self._core, queue)
        header = QueryConsumerOffset(
            consumer_group=self._group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            target_broker=queue.broker_name,
        )
        answer = await self._core.request(broker.address, header, timeout_ms=_TIMEOUT_MS)
        if answer.code == ResponseCode.QUERY_NOT_FOUND:
            return None
        if answer.code != ResponseCode.SUCCESS:
            raise BrokerError.of(answer.code, answer.remark, address=str(broker.address))
        offset = answer.read(QueryConsumerOffsetAnswer).offset
        return offset if offset >= 0 else None

    async def persist(
        self, queues: Iterable[MessageQueue] | None = None, *, confirm: bool = False
    ) -> None:
        """Send the noted offsets of these queues, or of all, to their brokers.

        A failure is logged, and the next call tries again. With ``confirm`` it waits for answers.
        """
        chosen = self._chosen(queues).items()
        await asyncio.gather(*(self._try(queue, offset, confirm) for queue, offset in chosen))

    async def commit(self, queues: Iterable[MessageQueue] | None = None) -> None:
        """Store the noted offsets of these queues, or of all; raise OrbitError if one fails."""
        chosen = self._chosen(queues).items()
        sends = [self._send(queue, offset, True) for queue, offset in chosen]
        for result in await asyncio.gather(*sends, return_exceptions=True):
            if result is not None:
                raise result

    def _chosen(self, queues: Iterable[MessageQueue] | None) -> dict[MessageQueue, int]:
        chosen = list(self.noted if queues is None else queues)
        return {queue: at for queue in chosen if (at := self.get(queue)) is not None}

    async def _try(self, queue: MessageQueue, offset: int, confirm: bool) -> None:
        try:
            await self._send(queue, offset, confirm)
        except OrbitError as error:
            log.warning(
                "offset %d of group %s in %s, %s queue %d is not stored: %s",
                *(offset, self._group, queue.topic, queue.broker_name, queue.queue_id, error),
            )

    async def _send(self, queue: MessageQueue, offset: int, confirm: bool) -> None:
        header = UpdateConsumerOffset(
            consumer_group=self._group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            commit_offset=offset,
            target_broker=queue.broker_name,
        )
        broker = await queue_broker(self._core, queue)
        if not confirm:
            await self._core.oneway(broker.address, header)
            return
        answer = await self._core.request(broker.address, header, timeout_ms=_TIMEOUT_MS)
        if answer.code != ResponseCode.SUCCESS:
            raise BrokerError.of(answer.code, answer.remark, address=str(broker.address))
