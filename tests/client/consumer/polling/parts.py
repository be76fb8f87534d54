"""An offset store in memory, and queues with messages, for the parts of a pull consumer."""

from collections.abc import Iterable

from orbitmq.client.consumer.fetching.inbox import Inbox
from orbitmq.message.model import MessageQueue
from tests.client.stored import a_stored_message

QUEUES = tuple(MessageQueue("orders", "broker-a", number) for number in range(4))


class MemoryOffsets:
    """What the group has committed.

    Attributes:
        noted: what was committed in memory.
        kept: what was persisted.

    """

    def __init__(self, kept: dict[MessageQueue, int] | None = None) -> None:
        self.noted: dict[MessageQueue, int] = {}
        self.kept = dict(kept or {})
        self.confirmed: list[bool] = []

    async def load(self) -> None:
        pass

    def update(self, queue: MessageQueue, offset: int, *, increase_only: bool = True) -> None:
        if not increase_only or offset > self.noted.get(queue, -1):
            self.noted[queue] = offset

    def get(self, queue: MessageQueue) -> int | None:
        return self.noted.get(queue)

    async def stored(self, queue: MessageQueue) -> int | None:
        return self.kept.get(queue)

    async def persist(
        self, queues: Iterable[MessageQueue] | None = None, *, confirm: bool = False
    ) -> None:
        self.confirmed.append(confirm)
        for queue in self.noted if queues is None else queues:
            if queue in self.noted:
                self.kept[queue] = self.noted[queue]

    async def commit(self, queues: Iterable[MessageQueue] | None = None) -> None:
        await self.persist(queues, confirm=True)

    def forget(self, queue: MessageQueue) -> None:
        self.noted.pop(queue, None)


def an_inbox(queue: MessageQueue = QUEUES[0], *offsets: int) -> Inbox:
    """Return an inbox with messages at offsets."""
    inbox = Inbox(queue)
    inbox.put([a_stored_message(queue.topic, b"%d" % at, at=at) for at in offsets])
    return inbox
