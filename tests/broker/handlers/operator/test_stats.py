from collections.abc import Mapping
from unittest.mock import Mock

from orbitmq.broker.clients.members import Members
from orbitmq.broker.figures.stats import BrokerStats
from orbitmq.broker.handlers.operator.stats import StatsHandlers
from orbitmq.broker.reports.lag import Lag
from orbitmq.broker.reports.runtime_info import RuntimeInfo
from orbitmq.net.connection import Handler
from orbitmq.wire.bodies.cluster import KVTable
from orbitmq.wire.bodies.stats import BrokerStatsData, TopicStatsTable
from orbitmq.wire.bodies.topic import TopicConfig
from orbitmq.wire.codes import RequestCode, ResponseCode
from orbitmq.wire.fields import NoFields
from orbitmq.wire.headers.query import GetTopicStatsInfo, ViewBrokerStatsData
from tests.broker.world import World, ask
from tests.store.logs import NOW


class Scene(World):
    """A topic that got thirty messages in ten seconds."""

    def __init__(self) -> None:
        super().__init__()
        self.stats = BrokerStats("DefaultCluster", NOW)
        self.topics.update(
            [TopicConfig(topic_name="orders", read_queue_nums=2, write_queue_nums=2)]
        )
        self.put("orders", 1, 30)
        self.stats.stored("orders", 1, count=30, size=3_000, elapsed_ms=1)
        self.stats.sample(NOW + 10_000)

    def table(self) -> Mapping[int, Handler]:
        runtime = Mock(RuntimeInfo)
        runtime.figures.return_value = {"brokerActive": "true"}
        lag = Lag(
            store=self.store,
            offsets=self.offsets,
            members=Members(),
            settings=self.settings,
            clock=self.clock,
        )
        return StatsHandlers(runtime=runtime, lag=lag, topics=self.topics, stats=self.stats).table()


def test_runtime_information_is_a_table_of_texts() -> None:
    answer = ask(Scene().table(), NoFields(), code=RequestCode.GET_BROKER_RUNTIME_INFO)
    assert KVTable.from_json(answer.body).table == {"brokerActive": "true"}


def test_a_topic_is_reported_by_queue_with_its_put_rate() -> None:
    answer = ask(Scene().table(), GetTopicStatsInfo(topic="orders"))
    found = TopicStatsTable.from_json(answer.body)
    assert {queue.queue_id: one.max_offset for queue, one in found.offset_table.items()} == {
        0: 0,
        1: 30,
    }
    assert found.topic_put_tps == 3.0


def test_a_topic_that_does_not_exist_is_refused() -> None:
    answer = ask(Scene().table(), GetTopicStatsInfo(topic="nothing"))
    assert answer.code == ResponseCode.TOPIC_NOT_EXIST
    assert answer.remark == "topic[nothing] not exist"


def test_a_counter_is_found_by_name_and_key() -> None:
    asked = ViewBrokerStatsData(stats_name="TOPIC_PUT_NUMS", stats_key="orders")
    found = BrokerStatsData.from_json(ask(Scene().table(), asked).body)
    assert found.stats_minute is not None
    assert (found.stats_minute.sum, found.stats_minute.tps) == (30, 3.0)


def test_a_counter_that_does_not_exist_is_refused() -> None:
    for name, key in (("TOPIC_PUT_NUMS", "bills"), ("NO_SUCH", "orders")):
        answer = ask(Scene().table(), ViewBrokerStatsData(stats_name=name, stats_key=key))
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert answer.remark == f"The stats <{name}> <{key}> not exist"
