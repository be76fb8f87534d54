"""Numbered messages to one topic, and where each of them is."""

from types import TracebackType
from typing import Any, Self

from pyspark.sql.datasource import DataSourceReader

from orbitmq.blocking import Admin, Producer
from orbitmq.client.settings import ClientSettings
from orbitmq.message.model import Message, MessageQueue


def create_topic(nameserver: str, topic: str, *, queues: int) -> None:
    """Create a topic, or change how many queues it has on each broker."""
    with Admin(nameserver=nameserver) as admin:
        admin.create_topic(topic, queues=queues)


class Traffic:
    """Sends messages whose bodies are 0, 1, 2 and so on; for a ``with`` statement.

    Args:
        nameserver: of the cluster.
        topic: made if it is not there.
        queues: how many it has on each broker; 0 for a topic that is there.
        body_bytes: bodies are filled up with blanks to this length.

    """

    def __init__(
        self, nameserver: str, topic: str, *, queues: int = 2, body_bytes: int = 0
    ) -> None:
        if queues:
            create_topic(nameserver, topic, queues=queues)
        self.nameserver = nameserver
        self.topic = topic
        self.places: dict[int, tuple[MessageQueue, int]] = {}
        self._body_bytes = body_bytes
        # No linger, so that a new producer has a new route as well.
        self._settings = ClientSettings(nameserver=nameserver, keep_open_ms=0)
        self._producer = Producer("traffic", client=self._settings)

    def __enter__(self) -> Self:
        self._producer.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._producer.close()

    def reconnect(self) -> None:
        """Reconnect, since a producer finds new queues only within half a minute."""
        self._producer.close()
        self._producer = Producer("traffic", client=self._settings)
        self._producer.start()

    def send(self, count: int) -> list[int]:
        """Send some messages; return their numbers."""
        first = len(self.places)
        for number in range(first, first + count):
            body = str(number).encode().ljust(self._body_bytes)
            message = Message(self.topic, body, tags=f"t{number % 3}", keys=[f"k{number}"])
            receipt = self._producer.send(message)
            self.places[number] = receipt.queue, receipt.queue_offset
        return list(range(first, first + count))

    def from_offsets(self, start: dict[str, int]) -> list[int]:
        """Return the numbers of all messages at or behind offsets, by queues such as a:0."""
        return [
            number
            for number, (queue, offset) in self.places.items()
            if offset >= start.get(f"{queue.broker_name}:{queue.queue_id}", 0)
        ]


def taken(reader: DataSourceReader) -> list[dict[str, Any]]:
    """Return all rows of a reader, as Spark would have them."""
    return [
        row
        for partition in reader.partitions()
        for batch in reader.read(partition)
        for row in batch.to_pylist()  # type: ignore[union-attr]  # ours gives no tuples
    ]
