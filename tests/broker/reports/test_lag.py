import asyncio

import pytest

from orbitmq.broker.clients.members import Members
from orbitmq.broker.reports.lag import Lag
from orbitmq.broker.reports.long_walk import LongWalk
from orbitmq.message.model import MessageQueue
from orbitmq.wire.bodies.stats import OffsetWrapper, QueueTimeSpan, TopicOffset
from orbitmq.wire.bodies.topic import TopicConfig
from tests.broker.fake_clients import joined
from tests.broker.world import World
from tests.store.logs import NOW

ORDERS = TopicConfig(topic_name="orders", read_queue_nums=2, write_queue_nums=3)
FULL, EMPTY, UNREAD = (MessageQueue("orders", "broker-a", queue_id) for queue_id in range(3))


class Scene(World):
    """A topic whose first queue has three messages and, a second later, two more."""

    def __init__(self) -> None:
        super().__init__()
        self.members = Members()
        self.put("orders", 0, 3)
        self.clock.now += 1_000
        self.put("orders", 0, 2)
        self.clock.now += 1_000
        self.lag = Lag(
            store=self.store,
            offsets=self.offsets,
            members=self.members,
            settings=self.settings,
            clock=self.clock,
        )

    def of_group(self) -> dict[MessageQueue, OffsetWrapper]:
        return asyncio.run(self.lag.of_group("billing", ORDERS, LongWalk()))

    def time_span(self) -> QueueTimeSpan:
        return asyncio.run(self.lag.time_spans("billing", ORDERS))[0]


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_a_topic_extends_over_all_its_queues_read_or_written(scene: Scene) -> None:
    extents = asyncio.run(scene.lag.extents(ORDERS))
    full = TopicOffset(min_offset=0, max_offset=5, last_update_timestamp=NOW + 1_000)
    assert dict(extents) == {FULL: full, EMPTY: TopicOffset(), UNREAD: TopicOffset()}


def test_a_group_that_has_not_begun_has_all_before_it(scene: Scene) -> None:
    assert scene.of_group() == {FULL: OffsetWrapper(broker_offset=5), EMPTY: OffsetWrapper()}


def test_a_group_is_where_it_has_committed_and_pulled(scene: Scene) -> None:
    scene.offsets.commit("billing", "orders", 0, 3)
    scene.offsets.commit_pull("billing", "orders", 0, 5)
    assert scene.of_group()[FULL] == OffsetWrapper(
        broker_offset=5, consumer_offset=3, pull_offset=5, last_timestamp=NOW
    )


def test_a_pull_from_further_back_takes_nothing_from_what_was_committed(scene: Scene) -> None:
    scene.offsets.commit("billing", "orders", 0, 4)
    scene.offsets.commit_pull("billing", "orders", 0, 1)
    assert scene.of_group()[FULL].pull_offset == 4


def test_a_message_that_is_gone_has_no_time(scene: Scene) -> None:
    scene.offsets.commit("billing", "orders", 0, 2)
    queue = scene.store.queues.queue("orders", 0)
    assert queue is not None
    queue.min_offset = 3
    assert scene.of_group()[FULL].last_timestamp == 0


@pytest.mark.parametrize(
    ("consumed", "consume_ms", "late_ms"),
    [
        (-1, NOW, 2_000),  # not begun: as late as the first message is old
        (2, NOW, 2_000),
        (3, NOW, 1_000),
        (4, NOW + 1_000, 1_000),
        (5, NOW + 1_000, 0),
    ],
)
def test_how_late_a_group_is(scene: Scene, consumed: int, consume_ms: int, late_ms: int) -> None:
    if consumed >= 0:
        scene.offsets.commit("billing", "orders", 0, consumed)
    assert scene.time_span() == QueueTimeSpan(
        message_queue=FULL,
        min_time_stamp=NOW,
        max_time_stamp=NOW + 1_000,
        consume_time_stamp=consume_ms,
        delay_time=late_ms,
    )


def test_a_group_behind_what_is_kept_has_the_first_of_it_before_it(scene: Scene) -> None:
    scene.offsets.commit("billing", "orders", 0, 1)
    queue = scene.store.queues.queue("orders", 0)
    assert queue is not None
    queue.min_offset = 3
    assert scene.time_span().delay_time == 1_000


def test_an_empty_queue_has_java_s_word_for_no_time(scene: Scene) -> None:
    spans = asyncio.run(scene.lag.time_spans("billing", ORDERS))
    assert [span.message_queue for span in spans] == [FULL, EMPTY, UNREAD]
    assert (spans[1].min_time_stamp, spans[1].max_time_stamp, spans[1].delay_time) == (-1, -1, 0)


def test_what_a_connected_group_does_not_subscribe_to_it_does_not_read(scene: Scene) -> None:
    topics = {"orders", "bills"}
    assert scene.lag.still_read("billing", topics) == ["bills", "orders"]
    joined(scene.members, "billing", "orders", "other")
    assert scene.lag.still_read("billing", topics) == ["orders"]
    joined(scene.members, "audit")
    assert scene.lag.still_read("audit", topics) == ["bills", "orders"]
