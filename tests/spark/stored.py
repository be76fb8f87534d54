"""What a cluster inside the test's process has stored, read from its files."""

from orbitmq.embedded import RunningCluster
from orbitmq.message.model import StoredMessage
from orbitmq.store.reader.reader import StoreReader


def stored(cluster: RunningCluster, topic: str) -> list[StoredMessage]:
    """Return the messages of a topic, broker by broker, in the order they were stored."""
    return [
        view.message(broker_name=f"broker-{directory[-1]}")
        for directory in cluster.directories
        for view in StoreReader(directory).records()
        if view.topic == topic.encode()
    ]
