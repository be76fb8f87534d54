"""Deletion of topics, and of queues whose records are all gone.

A deleted topic loses its queues and offsets immediately. Its records stay in the log until their
files expire. A recovery that reads them may restore queues of the topic, as in Java; the broker
then deletes the queues of unknown topics.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass

from orbitmq.message.names import is_lmq, is_system_topic
from orbitmq.store.checkpoint.queue_ends import QueueEnds
from orbitmq.store.disk.disk import Disk
from orbitmq.store.disk.durable import remove_tree
from orbitmq.store.layout import CONSUME_QUEUE_EXT, is_directory_name, path_join
from orbitmq.store.log.commit_log import CommitLog
from orbitmq.store.queues.consume_queues import ConsumeQueues

__all__ = ["Removal"]


@dataclass(slots=True)
class Removal:
    """Deletes topics and queues of a store. Called by the owner of the store."""

    _disk: Disk
    _directory: str
    _log: CommitLog
    _queues: ConsumeQueues
    _ends: QueueEnds
    _log_start: Callable[[], int]
    """Returns where the log begins; older files are gone for good."""

    def delete_topic(self, topic: str) -> None:
        """Remove the queues of a topic, and their extensions, which only Java writes."""
        self._delete_topics([topic])

    def _delete_topics(self, topics: Collection[str]) -> None:
        self._ends.forget(
            [(topic, queue.queue_id) for topic in topics for queue in self._queues.queues_of(topic)]
        )
        for topic in topics:
            self._delete_topic(topic)

    def _delete_topic(self, topic: str) -> None:
        if not is_directory_name(topic):
            return  # there is no such topic, and the path could lead elsewhere
        try:
            self._queues.delete_topic(topic)
        finally:
            self._log.forget_queues(topic)  # it looks up the ends of remaining queues again
        remove_tree(self._disk, path_join(self._directory, CONSUME_QUEUE_EXT, topic))

    def delete_unused_topics(self, kept: Collection[str]) -> list[str]:
        """Delete all topics except ``kept``, system topics and light queues; return their names."""
        unused = [
            topic
            for topic in self._queues.topics()
            if topic not in kept and not is_system_topic(topic) and not is_lmq(topic)
        ]
        self._delete_topics(unused)
        return unused

    def delete_expired_queues(self) -> list[tuple[str, int]]:
        """Delete the queues whose records are all gone; return their topics and ids.

        Their offsets start at 0 again, as in Java (``ConsumeQueueStore.cleanExpired``).
        """
        log_start = self._log_start()
        expired = [
            (queue.topic, queue.queue_id)
            for queue in self._queues
            if 0 <= queue.record_end <= log_start and not is_system_topic(queue.topic)
        ]
        self._ends.forget(expired)
        for topic in {topic for topic, _ in expired}:
            self._queues.delete(topic, [number for name, number in expired if name == topic])
            self._log.forget_queues(topic)
        return expired
