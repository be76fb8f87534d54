"""Consumer progress for operators: offsets and lag of groups.

GET_CONSUME_STATS, GET_BROKER_CONSUME_STATS, QUERY_CONSUME_TIME_SPAN.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from orbitmq.broker.figures.stats import BrokerStats
from orbitmq.broker.reports.lag import Lag
from orbitmq.broker.reports.long_walk import LongWalk
from orbitmq.broker.tables.groups import Groups
from orbitmq.broker.tables.offsets import ConsumerOffsets
from orbitmq.broker.tables.topics import Topics
from orbitmq.message.model import MessageQueue
from orbitmq.net.connection import Connection, Handler
from orbitmq.net.refusal import Refusal
from orbitmq.wire.bodies.stats import (
    ConsumeStats,
    ConsumeStatsList,
    ConsumeTimeSpans,
    OffsetWrapper,
)
from orbitmq.wire.bodies.topic import TopicConfig
from orbitmq.wire.codes import RequestCode, ResponseCode
from orbitmq.wire.frame import Frame
from orbitmq.wire.headers.offset import QueryConsumeTimeSpan
from orbitmq.wire.headers.query import GetConsumeStats, GetConsumeStatsInBroker
from orbitmq.wire.json.queue_map import QueueMap
from orbitmq.wire.session import Response

__all__ = ["ProgressHandlers"]


@dataclass(kw_only=True, slots=True, eq=False, repr=False)
class ProgressHandlers:
    """Serves requests about the progress of groups."""

    lag: Lag
    offsets: ConsumerOffsets
    topics: Topics
    groups: Groups
    stats: BrokerStats
    address: Callable[[], str]

    def table(self) -> Mapping[int, Handler]:
        """Return the handlers by request code."""
        return {
            RequestCode.GET_CONSUME_STATS: self._of_group,
            RequestCode.GET_BROKER_CONSUME_STATS: self._of_all,
            RequestCode.QUERY_CONSUME_TIME_SPAN: self._time_spans,
        }

    async def _of_group(self, _connection: Connection, request: Frame) -> Response:
        asked = request.read(GetConsumeStats)
        stats = await self._consumed(asked.consumer_group, self._chosen(asked), LongWalk())
        return Response(body=stats.to_json())

    def _chosen(self, asked: GetConsumeStats) -> list[str]:
        """Return the topics of a request; those of a list whether subscribed to or not."""
        listed = {name for name in (asked.topic_list or "").split(";") if name}
        if listed:
            return sorted(listed)
        if asked.topic and not asked.topic.isspace():
            return self.lag.still_read(asked.consumer_group, [asked.topic])
        topics = self.offsets.topics_of(asked.consumer_group)
        return self.lag.still_read(asked.consumer_group, topics)

    async def _of_all(self, _connection: Connection, request: Frame) -> Response:
        asked = request.read(GetConsumeStatsInBroker)
        walk, topics = LongWalk(), self.offsets.topics_by_group()
        found = {}
        for group in sorted(self.groups.table):
            names = self.lag.still_read(group, topics.get(group, ()))
            found[group] = tuple(
                [
                    await self._consumed(group, [topic.topic_name], walk)
                    for topic in self._known(names)
                    if topic.order or not asked.is_order
                ]
            )
            await walk.step()
        queues = [
            queue
            for stats in found.values()
            for of_topic in stats
            for queue in of_topic.offset_table.values()
        ]
        body = ConsumeStatsList(
            broker_addr=self.address(),
            consume_stats_list=tuple({group: stats} for group, stats in found.items()),
            total_diff=sum(queue.broker_offset - queue.consumer_offset for queue in queues),
            # Java omits the pulled offsets here, and its sum is negative.
            total_inflight_diff=sum(queue.pull_offset - queue.consumer_offset for queue in queues),
        )
        return Response(body=body.to_json())

    async def _time_spans(self, _connection: Connection, request: Frame) -> Response:
        asked = request.read(QueryConsumeTimeSpan)
        topic = self.topics.get(asked.topic)
        if topic is None:
            raise Refusal(ResponseCode.TOPIC_NOT_EXIST, f"topic[{asked.topic[:256]}] not exist")
        spans = await self.lag.time_spans(asked.group, topic)
        return Response(body=ConsumeTimeSpans(consume_time_span_set=spans).to_json())

    async def _consumed(self, group: str, topics: Iterable[str], walk: LongWalk) -> ConsumeStats:
        """Return the offsets of a group in topics that still exist."""
        offsets: dict[MessageQueue, OffsetWrapper] = {}
        tps = 0.0
        for topic in self._known(topics):
            offsets |= await self.lag.of_group(group, topic, walk)
            tps += self.stats.group_get_tps(group, topic.topic_name)
        return ConsumeStats(consume_tps=tps, offset_table=QueueMap(offsets))

    def _known(self, names: Iterable[str]) -> list[TopicConfig]:
        return [topic for name in names if (topic := self.topics.get(name)) is not None]
