"""Sizes of topics, and progress and lag of groups: queues compared with offsets.

Reports over all queues of a topic take long, and let other requests be served meanwhile: their
entries are not from exactly the same moment.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from orbitmq.broker.clients.members import Members
from orbitmq.broker.reports.long_walk import LongWalk
from orbitmq.broker.settings import LiveSettings
from orbitmq.broker.tables.offsets import ConsumerOffsets
from orbitmq.clock import Clock
from orbitmq.message.model import MessageQueue
from orbitmq.store.message_store import MessageStore
from orbitmq.wire.bodies.stats import OffsetWrapper, QueueTimeSpan, TopicOffset
from orbitmq.wire.bodies.topic import TopicConfig
from orbitmq.wire.json.queue_map import QueueMap

__all__ = ["Lag"]

_NO_TIME: Final = -1


@dataclass(kw_only=True, slots=True, eq=False, repr=False)
class Lag:
    """Reports about queues and the groups that read them."""

    store: MessageStore
    offsets: ConsumerOffsets
    members: Members
    settings: LiveSettings
    clock: Clock

    def still_read(self, group: str, topics: Iterable[str]) -> list[str]:
        """Return the topics among these that a group reads, sorted: all if it is not connected."""
        consumers = self.members.consumers(group)
        if consumers is None or not consumers.subscriptions:
            return sorted(topics)
        return sorted(topic for topic in topics if topic in consumers.subscriptions)

    async def extents(self, topic: TopicConfig) -> QueueMap[TopicOffset]:
        """Return begin, end and last store time of each queue of a topic."""
        count = max(topic.write_queue_nums, topic.read_queue_nums)
        walk, extents = LongWalk(), {}
        for queue in self._queues(topic.topic_name, count):
            extents[queue] = self._extent(queue)
            await walk.step()
        return QueueMap(extents)

    async def of_group(
        self, group: str, topic: TopicConfig, walk: LongWalk
    ) -> dict[MessageQueue, OffsetWrapper]:
        """Return the offsets of a group in each queue of a topic, and where the queue ends."""
        progress = {}
        for queue in self._queues(topic.topic_name, topic.read_queue_nums):
            progress[queue] = self._of_queue(group, queue)
            await walk.step()
        return progress

    async def time_spans(self, group: str, topic: TopicConfig) -> tuple[QueueTimeSpan, ...]:
        """Return the time span of each queue's messages, and how far a group is behind."""
        walk, spans = LongWalk(), []
        for queue in self._queues(topic.topic_name, topic.write_queue_nums):
            spans.append(self._time_span(group, queue))
            await walk.step()
        return tuple(spans)

    def _queues(self, topic: str, count: int) -> Iterable[MessageQueue]:
        name = self.settings.broker.broker_name
        return (MessageQueue(topic, name, queue_id) for queue_id in range(count))

    # One queue

    def _extent(self, queue: MessageQueue) -> TopicOffset:
        topic, queue_id = queue.topic, queue.queue_id
        end = self.store.lookup.max_offset(topic, queue_id)
        return TopicOffset(
            min_offset=self.store.lookup.min_offset(topic, queue_id),
            max_offset=end,
            last_update_timestamp=self._stored_ms(queue, end - 1) if end else 0,
        )

    def _of_queue(self, group: str, queue: MessageQueue) -> OffsetWrapper:
        topic, queue_id = queue.topic, queue.queue_id
        consumed = max(self.offsets.query(group, topic, queue_id), 0)
        return OffsetWrapper(
            broker_offset=self.store.lookup.max_offset(topic, queue_id),
            consumer_offset=consumed,
            pull_offset=max(consumed, self.offsets.query_pull(group, topic, queue_id)),
            last_timestamp=max(self._stored_ms(queue, consumed - 1), 0) if consumed else 0,
        )

    def _time_span(self, group: str, queue: MessageQueue) -> QueueTimeSpan:
        topic, queue_id = queue.topic, queue.queue_id
        begin = self.store.lookup.min_offset(topic, queue_id)
        end = self.store.lookup.max_offset(topic, queue_id)
        first_ms = self._stored_ms(queue, begin)
        consumed = self.offsets.query(group, topic, queue_id)
        # A group without a commit, or behind the first message, continues at the first message.
        following = max(consumed, begin)
        late_ms = 0
        if following < end:
            late_ms = self.clock.now_ms() - self._stored_ms(queue, following)
        return QueueTimeSpan(
            message_queue=queue,
            min_time_stamp=first_ms,
            max_time_stamp=self._stored_ms(queue, end - 1),
            consume_time_stamp=self._stored_ms(queue, consumed - 1) if consumed > 0 else first_ms,
            delay_time=late_ms,
        )

    def _stored_ms(self, queue: MessageQueue, offset: int) -> int:
        """Return when a message was stored; -1, as in Java, if it does not exist any more."""
        stored_ms = self.store.lookup.store_time_ms(queue.topic, queue.queue_id, offset)
        return _NO_TIME if stored_ms is None else stored_ms
