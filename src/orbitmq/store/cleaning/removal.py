"""Deletion of topics, and of queues whose records are all gone.

A deleted topic loses its queues and its offsets at once. Its records stay in the log until their
files go, and a recovery that reads them again may bring queues of it back, as in Java; the broker
then deletes what its topics don't name.
"""

from collections.abc import Callable, Collection

from orbitmq.message.names import is_lmq, is_system_topic
from orbitmq.store.checkpoint.queue_ends import QueueEnds
from orbitmq.store.disk.disk import Disk
from orbitmq.store.disk.durable import remove_tree
from orbitmq.store.layout import (
    BATCH_CONSUME_QUEUE,
    CONSUME_QUEUE_EXT,
    is_directory_name,
    path_join,
)
from orbitmq.store.log.commit_log import CommitLog
from orbitmq.store.queues.consume_queues import ConsumeQueues

__all__ = ["Removal"]


class Removal:
    """Deletes topics and queues of a store. The owner of the store calls it.

    Args:
        disk: where the store is.
        directory: its root.
        commit_log: forgets the offsets of deleted queues.
        queues: the queues.
        ends: the list that a queue leaves before it is deleted.
        log_start: returns where the log begins; files before it are gone for good.

    """

    def __init__(
        self,
        disk: Disk,
        directory: str,
        commit_log: CommitLog,
        queues: ConsumeQueues,
        ends: QueueEnds,
        log_start: Callable[[], int],
    ) -> None:
        self._disk = disk
        self._directory = directory
        self._log = commit_log
        self._queues = queues
        self._ends = ends
        self._log_start = log_start

    def delete_topic(self, topic: str) -> None:
        """Remove the queues of a topic, and those of Java's that only it can read."""
        self._delete_topics([topic])

    def _delete_topics(self, topics: Collection[str]) -> None:
        self._ends.forget(
            [(topic, queue.queue_id) for topic in topics for queue in self._queues.queues_of(topic)]
        )
        for topic in topics:
            self._delete_topic(topic)

    def _delete_topic(self, topic: str) -> None:
        if not is_directory_name(topic):
            return  # there is none, and the path would lead elsewhere
        try:
            self._queues.delete_topic(topic)
        finally:
            self._log.forget_queues(topic)  # of queues that stay it finds the end again
        for part in (CONSUME_QUEUE_EXT, BATCH_CONSUME_QUEUE):
            remove_tree(self._disk, path_join(self._directory, part, topic))

    def delete_unused_topics(self, kept: Collection[str]) -> list[str]:
        """Delete all topics but ``kept``, system topics and light queues; return their names."""
        unused = [
            topic
            for topic in self._queues.topics()
            if topic not in kept and not is_system_topic(topic) and not is_lmq(topic)
        ]
        self._delete_topics(unused)
        return unused

    def delete_expired_queues(self) -> list[tuple[str, int]]:
        """Delete the queues whose records are all gone; return their topics and ids.

        Their offsets begin at 0 again, as in Java (``ConsumeQueueStore.cleanExpired``).
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
