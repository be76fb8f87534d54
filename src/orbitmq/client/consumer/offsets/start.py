"""Where the consumption of a queue begins when this client takes it.

Java: RebalancePushImpl.computePullFromWhere::

    stored offset                                     → it
    none:    "last"                                   → the end of the queue; a retry topic: 0
             "first"                                  → 0; the broker corrects it
             a time                                   → the first message stored since then;
                                                        a retry topic: its end
"""

from orbitmq.client.consumer.offsets.offsets import Offsets
from orbitmq.client.consumer.settings import ConsumeFrom
from orbitmq.client.core.client_core import ClientCore
from orbitmq.client.core.queue_offsets import QueueOffsets
from orbitmq.message.model import MessageQueue
from orbitmq.message.names import is_retry_topic

__all__ = ["StartOffsets"]


class StartOffsets:
    """Finds where to begin, by the stored offsets, or ``consume_from`` where there are none."""

    def __init__(self, core: ClientCore, offsets: Offsets, consume_from: ConsumeFrom) -> None:
        self._queue_offsets = QueueOffsets(core)
        self._offsets = offsets
        self._consume_from = consume_from

    def __repr__(self) -> str:
        return f"<StartOffsets {self._consume_from}>"

    async def of(self, queue: MessageQueue) -> int:
        """Return the offset to begin at; raise OrbitError if it can't be read now."""
        stored = await self._offsets.stored(queue)
        if stored is not None:
            return stored
        begins, is_retry = self._consume_from, is_retry_topic(queue.topic)
        if begins == "first" or (begins == "last" and is_retry):
            return 0
        if begins == "last" or is_retry:
            return await self._queue_offsets.end(queue)
        return await self._queue_offsets.at_time(queue, int(begins))
