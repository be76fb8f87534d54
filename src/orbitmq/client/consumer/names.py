"""The names of topics and queues: as users know them, and on the wire, with the namespace."""

from collections.abc import Iterable
from typing import NamedTuple

from msgspec.structs import replace

from orbitmq.client.arguments import check_queue
from orbitmq.message.model import MessageQueue, StoredMessage
from orbitmq.message.names import strip_namespace, wrap_namespace

__all__ = ["Names"]


class Names(NamedTuple):
    """Turns names of users into those on the wire, and back.

    >>> names = Names("shop")
    >>> names.wire("orders"), names.seen("shop%orders")
    ('shop%orders', 'orders')
    """

    namespace: str = ""

    def wire(self, name: str) -> str:
        """Return the name of a topic or group on the wire."""
        return wrap_namespace(self.namespace, name)

    def seen(self, name: str) -> str:
        """Return the name of a topic as users know it."""
        return strip_namespace(name, self.namespace)

    def wire_queue(self, queue: MessageQueue) -> MessageQueue:
        """Return a queue with its name on the wire; InvalidInput if it is none."""
        check_queue(queue)
        return replace(queue, topic=self.wire(queue.topic)) if self.namespace else queue

    def seen_queue(self, queue: MessageQueue) -> MessageQueue:
        """Return a queue as users know it."""
        return replace(queue, topic=self.seen(queue.topic)) if self.namespace else queue

    def seen_queues(self, queues: Iterable[MessageQueue]) -> frozenset[MessageQueue]:
        """Return queues as users know them."""
        return frozenset(map(self.seen_queue, queues))

    def seen_messages(self, messages: list[StoredMessage]) -> list[StoredMessage]:
        """Return messages with topics as users know them."""
        if not self.namespace:
            return messages
        return [replace(one, topic=self.seen(one.topic)) for one in messages]
