from collections.abc import Mapping

import pytest

from orbitmq.broker.figures.stats import BrokerStats
from orbitmq.broker.handlers.operator.cleaning import CleaningHandlers
from orbitmq.net.connection import Handler
from orbitmq.wire.bodies.topic import TopicConfig
from orbitmq.wire.codes import RequestCode
from orbitmq.wire.fields import NoFields
from orbitmq.wire.frame import Frame
from tests.broker.world import SMALL_STORE, World, ask
from tests.store.logs import NOW, incoming


class Scene(World):
    def __init__(self) -> None:
        super().__init__()
        self.stats = BrokerStats("DefaultCluster", NOW)

    def table(self) -> Mapping[int, Handler]:
        return CleaningHandlers(store=self.store, topics=self.topics, stats=self.stats).table()

    def clean(self, code: RequestCode) -> Frame:
        return ask(self.table(), NoFields(), code=code)

    def fill(self, topic: str, segments: int) -> None:
        """Store so much that so many files of the log are full."""
        end = self.store.log.end + segments * SMALL_STORE.segment_bytes
        while self.store.log.end < end:
            self.store.append([incoming(bytes(10_000), topic=topic)])


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_queues_of_topics_that_are_gone_are_removed(scene: Scene) -> None:
    scene.topics.update([TopicConfig(topic_name="orders")])
    for topic in ("orders", "bills", "SCHEDULE_TOPIC_XXXX"):
        scene.put(topic)
        scene.stats.stored(topic, 0, 1, 100, 0)
    assert scene.clean(RequestCode.CLEAN_UNUSED_TOPIC).code == 0
    kept = {topic for topic in ("orders", "bills", "SCHEDULE_TOPIC_XXXX")
            if scene.store.queues.queue(topic, 0) is not None}  # fmt: skip
    assert kept == {"orders", "SCHEDULE_TOPIC_XXXX"}
    assert scene.stats.item("TOPIC_PUT_NUMS", "bills") is None
    assert scene.stats.item("TOPIC_PUT_NUMS", "orders") is not None


def test_old_files_of_the_log_go_when_an_operator_says_so(scene: Scene) -> None:
    scene.fill("orders", segments=2)
    scene.store.close()
    del scene.store
    assert scene.store.log.first_offset == 0
    scene.clock.now += 4 * 24 * 3_600_000
    assert scene.clean(RequestCode.DELETE_EXPIRED_COMMITLOG).code == 0
    assert scene.store.log.first_offset > 0


def test_a_queue_whose_messages_are_all_gone_is_removed(scene: Scene) -> None:
    scene.put("early")
    scene.fill("orders", segments=2)
    scene.store.close()
    del scene.store
    scene.clock.now += 4 * 24 * 3_600_000
    scene.clean(RequestCode.DELETE_EXPIRED_COMMITLOG)
    assert scene.store.queues.queue("early", 0) is not None
    assert scene.clean(RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE).code == 0
    assert scene.store.queues.queue("early", 0) is None
    assert scene.store.queues.queue("orders", 0) is not None
