"""How far a group has consumed: what consumers need of an offset store.

Two stores have this form: ``remote``, of a group whose members share the messages, on its brokers;
and ``local``, of a broadcasting consumer, in a file.
"""

from collections.abc import Iterable
from typing import Protocol

from orbitmq.message.model import MessageQueue

__all__ = ["NotedOffsets", "Offsets"]


class Offsets(Protocol):
    """The offset of the next message to consume, of each queue that this client owns."""

    async def load(self) -> None:
        """Read what has to be in memory before the first queue is taken."""
        ...

    def update(self, queue: MessageQueue, offset: int, *, increase_only: bool = True) -> None:
        """Note progress, in memory; a lower offset is ignored unless ``increase_only`` is False."""
        ...

    def get(self, queue: MessageQueue) -> int | None:
        """Return the noted offset; None if there is none."""
        ...

    async def stored(self, queue: MessageQueue) -> int | None:
        """Return the offset in the store; None if it has none.

        Raise OrbitError if the store can't be read.
        """
        ...

    async def persist(
        self, queues: Iterable[MessageQueue] | None = None, *, confirm: bool = False
    ) -> None:
        """Store the noted offsets of these queues, or of all.

        A failure is logged, and the next call tries again. With ``confirm`` it returns when they
        are stored.
        """
        ...

    def forget(self, queue: MessageQueue) -> None:
        """Drop the noted offset of a queue that this client no longer owns."""
        ...


class NotedOffsets:
    """The part in memory that both stores share."""

    def __init__(self) -> None:
        self.noted: dict[MessageQueue, int] = {}

    def update(self, queue: MessageQueue, offset: int, *, increase_only: bool = True) -> None:
        """Note progress; a lower offset is ignored unless ``increase_only`` is False."""
        if not increase_only or offset > self.noted.get(queue, -1):
            self.noted[queue] = offset

    def get(self, queue: MessageQueue) -> int | None:
        """Return the noted offset; None if there is none."""
        return self.noted.get(queue)

    def forget(self, queue: MessageQueue) -> None:
        """Drop the noted offset of a queue that this client no longer owns."""
        self.noted.pop(queue, None)
