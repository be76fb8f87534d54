"""Topics on a cluster of ours, filled with messages."""

from collections.abc import Iterable

from orbitmq import blocking, embedded
from orbitmq.message.model import Message, MessageQueue, SendReceipt


def create(cluster: embedded.RunningCluster, topic: str, queues: int = 2) -> str:
    """Make a topic on all brokers, and return its name."""
    with blocking.Admin(nameserver=cluster.nameserver) as admin:
        admin.create_topic(topic, queues=queues)
    return topic


def fill(
    cluster: embedded.RunningCluster,
    queue: MessageQueue,
    bodies: Iterable[bytes],
    *,
    keys: Iterable[str] = (),
) -> list[SendReceipt]:
    """Send messages to one queue, and return their receipts."""
    with blocking.Producer("fillers", nameserver=cluster.nameserver) as producer:
        return [
            producer.send(Message(queue.topic, body, keys=tuple(keys)), queue=queue)
            for body in bodies
        ]
