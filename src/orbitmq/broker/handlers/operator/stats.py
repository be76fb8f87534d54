"""Statistics: GET_BROKER_RUNTIME_INFO, GET_TOPIC_STATS_INFO, VIEW_BROKER_STATS_DATA."""

from collections.abc import Mapping
from dataclasses import dataclass

from orbitmq.broker.figures.stats import BrokerStats
from orbitmq.broker.reports.lag import Lag
from orbitmq.broker.reports.runtime_info import RuntimeInfo
from orbitmq.broker.tables.topics import Topics
from orbitmq.net.connection import Connection, Handler
from orbitmq.net.refusal import Refusal
from orbitmq.wire.bodies.cluster import KVTable
from orbitmq.wire.bodies.stats import TopicStatsTable
from orbitmq.wire.codes import RequestCode, ResponseCode
from orbitmq.wire.frame import Frame
from orbitmq.wire.headers.query import GetTopicStatsInfo, ViewBrokerStatsData
from orbitmq.wire.session import Response

__all__ = ["StatsHandlers"]


@dataclass(kw_only=True, slots=True, eq=False, repr=False)
class StatsHandlers:
    """Serves statistics."""

    runtime: RuntimeInfo
    lag: Lag
    topics: Topics
    stats: BrokerStats

    def table(self) -> Mapping[int, Handler]:
        """Return the handlers by request code."""
        return {
            RequestCode.GET_BROKER_RUNTIME_INFO: self._runtime_info,
            RequestCode.GET_TOPIC_STATS_INFO: self._of_topic,
            RequestCode.VIEW_BROKER_STATS_DATA: self._counter,
        }

    def _runtime_info(self, _connection: Connection, _request: Frame) -> Response:
        return Response(body=KVTable(table=self.runtime.figures()).to_json())

    async def _of_topic(self, _connection: Connection, request: Frame) -> Response:
        name = request.read(GetTopicStatsInfo).topic
        topic = self.topics.get(name)
        if topic is None:
            raise Refusal(ResponseCode.TOPIC_NOT_EXIST, f"topic[{name[:256]}] not exist")
        body = TopicStatsTable(
            offset_table=await self.lag.extents(topic),
            topic_put_tps=self.stats.topic_put_tps(name),
        )
        return Response(body=body.to_json())

    def _counter(self, _connection: Connection, request: Frame) -> Response:
        asked = request.read(ViewBrokerStatsData)
        found = self.stats.item(asked.stats_name, asked.stats_key)
        if found is None:
            raise Refusal(
                ResponseCode.SYSTEM_ERROR,
                f"The stats <{asked.stats_name[:256]}> <{asked.stats_key[:256]}> not exist",
            )
        return Response(body=found.to_json())
