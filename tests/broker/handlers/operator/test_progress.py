from collections.abc import Mapping
from typing import Any

import pytest

from orbitmq.broker.clients.members import Members
from orbitmq.broker.figures.stats import BrokerStats
from orbitmq.broker.handlers.operator.progress import ProgressHandlers
from orbitmq.broker.reports.lag import Lag
from orbitmq.net.connection import Handler
from orbitmq.wire.bodies.stats import ConsumeStats, ConsumeStatsList, ConsumeTimeSpans
from orbitmq.wire.bodies.topic import TopicConfig
from orbitmq.wire.codes import ResponseCode
from orbitmq.wire.headers.offset import QueryConsumeTimeSpan
from orbitmq.wire.headers.query import GetConsumeStats, GetConsumeStatsInBroker
from tests.broker.fake_clients import joined
from tests.broker.world import World, ask
from tests.store.logs import NOW


class Scene(World):
    """A group that has read some of two topics, one of them ordered, and of one that is gone."""

    def __init__(self) -> None:
        super().__init__()
        self.members = Members()
        self.stats = BrokerStats("DefaultCluster", NOW)
        self.topics.update(
            [
                TopicConfig(topic_name="orders", read_queue_nums=1),
                TopicConfig(topic_name="bills", read_queue_nums=2, order=True),
            ]
        )
        self.groups.get("billing")
        self.put("orders", 0, 5)
        self.put("bills", 1, 3)
        for topic, offset in (("orders", 4), ("bills", 0), ("gone", 7)):
            self.offsets.commit("billing", topic, 0, offset)
        self.offsets.commit_pull("billing", "orders", 0, 5)

    def table(self) -> Mapping[int, Handler]:
        lag = Lag(
            store=self.store,
            offsets=self.offsets,
            members=self.members,
            settings=self.settings,
            clock=self.clock,
        )
        return ProgressHandlers(
            lag=lag,
            offsets=self.offsets,
            topics=self.topics,
            groups=self.groups,
            stats=self.stats,
            address=lambda: "10.0.0.1:10911",
        ).table()

    def stats_of(self, **fields: Any) -> ConsumeStats:
        answer = ask(self.table(), GetConsumeStats(consumer_group="billing", **fields))
        return ConsumeStats.from_json(answer.body)


def queues(stats: ConsumeStats) -> set[tuple[str, int]]:
    return {(queue.topic, queue.queue_id) for queue in stats.offset_table}


def test_a_group_is_reported_in_all_existing_topics() -> None:
    stats = Scene().stats_of()
    assert queues(stats) == {("orders", 0), ("bills", 0), ("bills", 1)}
    (orders,) = (one for queue, one in stats.offset_table.items() if queue.topic == "orders")
    assert (orders.broker_offset, orders.consumer_offset, orders.pull_offset) == (5, 4, 5)


def test_a_topic_or_a_list_of_them_can_be_asked_for() -> None:
    scene = Scene()
    assert queues(scene.stats_of(topic="orders")) == {("orders", 0)}
    assert queues(scene.stats_of(topic=" ")) == queues(scene.stats_of())
    assert queues(scene.stats_of(topic="bills", topic_list="orders;gone;")) == {("orders", 0)}


def test_a_topic_that_a_connected_group_does_not_read_is_reported_only_if_listed() -> None:
    scene = Scene()
    joined(scene.members, "billing", "orders")
    assert queues(scene.stats_of()) == {("orders", 0)}
    assert queues(scene.stats_of(topic="bills")) == set()
    assert queues(scene.stats_of(topic_list="bills")) == {("bills", 0), ("bills", 1)}


def test_the_speed_of_a_group_is_that_in_all_topics() -> None:
    scene = Scene()
    for topic in ("orders", "bills"):
        scene.stats.fetched("billing", topic, 0, count=50, size=5_000)
    scene.stats.sample(NOW + 10_000)
    assert scene.stats_of().consume_tps == 10.0


@pytest.mark.parametrize(
    ("ordered", "topics", "behind", "in_flight"), [(False, 2, 4, 1), (True, 1, 3, 0)]
)
def test_all_groups_are_reported_with_their_lag(
    ordered: bool, topics: int, behind: int, in_flight: int
) -> None:
    scene = Scene()
    answer = ask(scene.table(), GetConsumeStatsInBroker(is_order=ordered))
    found = ConsumeStatsList.from_json(answer.body)
    assert (found.broker_addr, found.total_diff) == ("10.0.0.1:10911", behind)
    assert found.total_inflight_diff == in_flight
    by_group = {group: stats for one in found.consume_stats_list for group, stats in one.items()}
    assert by_group.keys() == scene.groups.table.keys()
    assert len(by_group["billing"]) == topics
    assert by_group["TOOLS_CONSUMER"] == ()


def test_time_spans_of_every_queue_are_reported() -> None:
    answer = ask(Scene().table(), QueryConsumeTimeSpan(topic="orders", group="billing"))
    spans = ConsumeTimeSpans.from_json(answer.body).consume_time_span_set
    assert [span.min_time_stamp for span in spans] == [NOW, *[-1] * (len(spans) - 1)]


def test_a_topic_that_does_not_exist_has_no_time_spans() -> None:
    answer = ask(Scene().table(), QueryConsumeTimeSpan(topic="nothing", group="billing"))
    assert answer.code == ResponseCode.TOPIC_NOT_EXIST
    assert answer.remark == "topic[nothing] not exist"
