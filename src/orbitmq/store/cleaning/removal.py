"""What leaves a store: the oldest files of the log, deleted topics, queues without messages.

Laws:

- Files of the log go from the oldest on, and their names are gone from the disk before queues and
  index follow: no queue lacks an entry of a record that a power loss brings back.
- A deleted topic loses its queues and its offsets at once. Its records stay in the log until their
  files go, and a recovery that reads them again may bring queues of it back, as in Java; the broker
  then deletes what its topics don't name.
"""

import logging
from collections.abc import Callable, Collection
from typing import Final

from orbitmq.clock import local_stamp
from orbitmq.message.names import is_lmq, is_system_topic
from orbitmq.store.checkpoint.queue_ends import QueueEnds
from orbitmq.store.cleaning.retention import AgedFile, Retention
from orbitmq.store.disk.disk import Disk
from orbitmq.store.disk.durable import remove_tree
from orbitmq.store.index.key_index import KeyIndex
from orbitmq.store.layout import (
    BATCH_CONSUME_QUEUE,
    CONSUME_QUEUE_EXT,
    is_directory_name,
    path_join,
)
from orbitmq.store.log.commit_log import CommitLog
from orbitmq.store.log.segments import SegmentChain
from orbitmq.store.queues.consume_queues import ConsumeQueues
from orbitmq.store.settings import StoreSettings

__all__ = ["Removal"]

log = logging.getLogger("orbitmq.store")

_HOUR: Final = slice(8, 10)  # in yyyyMMddHHmmssSSS


class Removal:
    """Removes what a store may part with. The owner of the store calls it.

    Args:
        disk: where the store is.
        directory: its root.
        settings: how long files are kept, and how full the disk may be.
        chain, commit_log, queues, index: the parts of the store.
        ends: the list that a queue leaves before it is deleted.

    """

    def __init__(
        self,
        disk: Disk,
        directory: str,
        settings: StoreSettings,
        chain: SegmentChain,
        commit_log: CommitLog,
        queues: ConsumeQueues,
        index: KeyIndex,
        ends: QueueEnds,
    ) -> None:
        self._disk = disk
        self._directory = directory
        self._retention = Retention(settings)
        self._chain = chain
        self._log = commit_log
        self._queues = queues
        self._index = index
        self._ends = ends
        self.is_disk_full = False
        """Whether so much of the disk is used that nothing may be written."""
        self.settle: Callable[[], None] = lambda: None
        """Called to wait for a sync of queues that is under way, by somebody else."""

    def apply(self, settings: StoreSettings) -> None:
        """Keep files for as long as these settings say."""
        self._retention = Retention(settings)

    def clean(
        self, *, flushed: int, now_ms: int, asked: bool, most: int | None = None
    ) -> list[int]:
        """Remove the oldest files of the log that may go; return where they began.

        Args:
            flushed: how much of the log is on the disk; files with more than that stay.
            now_ms: the time of day.
            asked: whether an operator wants it done now, whatever the hour.
            most: how many files may go in this call; None: as many as may go in a round.

        Raises:
            StoreError: the disk failed.

        """
        used = self._disk.usage(self._directory).ratio
        self._note_use(used)
        files = [
            AgedFile(segment.base, self._disk.modified_ms(segment.path))
            for segment in self._chain.segments
            if segment.end <= flushed or segment is self._chain.last
        ]
        hour = local_stamp(now_ms)[_HOUR]
        count = self._retention.expired(files, now_ms=now_ms, hour=hour, used=used, asked=asked)
        count = count if most is None else min(count, most)
        if count:
            # Else a power loss takes entries whose records are gone, and offsets are used again.
            self.settle()
            self._queues.write()
            self._queues.sync()
        removed = [self._chain.remove_first().base for _ in range(count)]
        if removed:
            self._chain.sync_names()
            start = self._chain.first_offset
            log.info("%d files of the log were removed, up to %d", count, start)
            self._queues.clean(start)
            self._index.clean(start)
        return removed

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
        expired = [
            (queue.topic, queue.queue_id)
            for queue in self._queues
            if 0 <= queue.record_end <= self._chain.first_offset
            and not is_system_topic(queue.topic)
        ]
        self._ends.forget(expired)
        for topic in {topic for topic, _ in expired}:
            self._queues.delete(topic, [number for name, number in expired if name == topic])
            self._log.forget_queues(topic)
        return expired

    def _note_use(self, used: float) -> None:
        if self._retention.is_full(used) is not self.is_disk_full:
            self.is_disk_full = not self.is_disk_full
            goes = "stops" if self.is_disk_full else "goes on"
            log.warning("the disk is %.0f %% full: writing %s", used * 100, goes)
