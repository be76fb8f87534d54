import json
import tarfile

import pytest
from msgspec.structs import replace

from orbitmq.broker.settings import BrokerRole
from orbitmq.broker.tables import topics as module
from orbitmq.broker.tables.topics import QUEUES_MAX
from orbitmq.errors import InvalidBody, InvalidInput
from orbitmq.wire.bodies.registration import BrokerRegistration
from orbitmq.wire.bodies.topic import TopicConfig, TopicConfigTable, TopicFilterType
from orbitmq.wire.codes import INHERIT, READ, WRITE
from orbitmq.wire.frame import FrameReader
from tests.broker.world import World
from tests.golden_files import GOLDEN, golden

ORDERS = TopicConfig(topic_name="orders", read_queue_nums=4, write_queue_nums=4)
OF_JAVAS_ROCKSDB = {"RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC", "RMQ_SYS_ROCKSDB_TRANS_OP_HALF_TOPIC"}


def config_file(store: str, name: str) -> str:
    """Return a file that Java's broker left in its config directory."""
    with tarfile.open(GOLDEN / "store" / f"{store}.tar.gz") as archive:
        (member,) = [one for one in archive.getmembers() if one.name.endswith(f"config/{name}")]
        file = archive.extractfile(member)
        assert file is not None
        return file.read().decode()


# At the start


def test_a_broker_starts_with_the_topics_that_java_registers_first() -> None:
    first = golden("session_json")["frames"][0]
    assert first["request_name"] == "REGISTER_BROKER"
    (frame,) = FrameReader().feed(bytes.fromhex(first["hex"]))
    java = BrokerRegistration.from_json(frame.body).topics.topic_config_table
    world = World(trace_topic_enable="RMQ_SYS_TRACE_TOPIC" in java)
    assert world.topics.table == {
        name: topic for name, topic in java.items() if name not in OF_JAVAS_ROCKSDB
    }


def test_each_light_queue_is_a_topic_while_there_are_such() -> None:
    world = World()
    assert world.topics.get("%LMQ%alice") is None
    world.settings.store = replace(
        world.settings.store, lmq_enabled=True, multi_dispatch_enabled=True
    )
    alice = world.topics.get("%LMQ%alice")
    assert alice is not None
    assert (alice.read_queue_nums, alice.write_queue_nums, alice.perm) == (1, 1, READ | WRITE)
    assert "%LMQ%alice" not in world.topics.table
    assert world.topics.get("alice") is None


def test_settings_take_topics_away_or_close_them() -> None:
    topics = World(
        auto_create_topic_enable=False, cluster_topic_enable=False, broker_topic_enable=False
    ).topics
    assert topics.get("TBW102") is None
    for name in ("DefaultCluster", "broker-a"):
        topic = topics.get(name)
        assert topic is not None
        assert topic.perm == INHERIT


def test_the_trace_topic_has_the_name_that_is_set() -> None:
    topics = World(trace_topic_enable=True, msg_trace_topic_name="traces").topics
    assert topics.get("traces") is not None
    assert topics.is_system("traces")


@pytest.mark.parametrize(
    ("name", "is_system"),
    [("TBW102", True), ("broker-a", True), ("rmq_sys_any", True), ("orders", False)],
)
def test_names_that_rocketmq_keeps_are_known(name: str, is_system: bool) -> None:
    assert World().topics.is_system(name) is is_system


# Created by a send


def test_a_send_creates_a_topic_with_the_lesser_number_of_queues() -> None:
    world = World()
    created = world.topics.for_send("orders", "TBW102", 4, sys_flag=1)
    assert created == replace(ORDERS, topic_sys_flag=1)
    assert world.topics.get("orders") is created
    assert world.changes == [["orders"]]
    assert world.topics.data_version.counter == 1
    wide = world.topics.for_send("wide", "TBW102", 64, 0)
    assert wide is not None
    assert (wide.read_queue_nums, wide.write_queue_nums) == (8, 8)
    none = world.topics.for_send("none", "TBW102", -3, 0)
    assert none is not None
    assert none.write_queue_nums == 0


def test_a_topic_that_exists_is_returned_as_it_is() -> None:
    world = World()
    world.topics.update([ORDERS])
    assert world.topics.for_send("orders", "NoSuchTopic", 99, 5) == ORDERS
    assert world.topics.data_version.counter == 1


def test_a_new_topic_takes_permission_and_filter_from_its_model() -> None:
    world = World()
    model = TopicConfig(
        topic_name="model",
        perm=WRITE | INHERIT,
        write_queue_nums=2,
        topic_filter_type=TopicFilterType.MULTI_TAG,
    )
    world.topics.update([model])
    created = world.topics.for_send("orders", "model", 4, 0)
    assert created is not None
    assert (created.perm, created.write_queue_nums) == (WRITE, 2)
    assert created.topic_filter_type is TopicFilterType.MULTI_TAG


def test_nothing_is_created_without_a_model_that_lets_others_inherit() -> None:
    world = World()
    world.topics.update([replace(ORDERS, topic_name="closed", perm=READ | WRITE)])
    assert world.topics.for_send("orders", "NoSuchTopic", 4, 0) is None
    assert world.topics.for_send("orders", "closed", 4, 0) is None
    assert world.topics.get("orders") is None


def test_creation_that_is_switched_off_stays_off_though_the_file_has_the_model() -> None:
    before = World()
    world = World(auto_create_topic_enable=False)
    world.topics.load_json(before.topics.to_json())
    assert world.topics.get("TBW102") is not None
    assert world.topics.for_send("orders", "TBW102", 4, 0) is None


def test_sends_create_no_more_topics_than_a_registration_can_carry(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World()
    monkeypatch.setattr(module, "TOPICS_MAX", len(world.topics.table) + 1)
    assert world.topics.for_send("first", "TBW102", 4, 0) is not None
    assert world.topics.for_send("second", "TBW102", 4, 0) is None
    with pytest.raises(InvalidInput, match="topics, and the limit is"):
        world.topics.update([ORDERS])
    changed = TopicConfig(topic_name="first", perm=READ)
    assert world.topics.update([changed]) == [changed]


# Created by the broker


def test_a_topic_for_retries_is_made_once_and_its_order_follows() -> None:
    world = World()
    made = world.topics.for_send_back("%RETRY%billing", 2, READ | WRITE, 0)
    assert (made.read_queue_nums, made.perm, made.order) == (2, 6, False)
    assert world.topics.for_send_back("%RETRY%billing", 9, READ, 1) is made
    assert world.topics.data_version.counter == 1
    ordered = world.topics.for_send_back("%RETRY%billing", 2, 6, 0, order=True)
    assert ordered.order
    assert world.topics.get("%RETRY%billing") is ordered
    assert world.changes == [["%RETRY%billing"], []]


# Changed by operators


def test_an_update_returns_only_what_is_different() -> None:
    world = World()
    other = TopicConfig(topic_name="other")
    assert world.topics.update([ORDERS, other]) == [ORDERS, other]
    assert world.topics.update([ORDERS, replace(other, perm=READ)]) == [replace(other, perm=READ)]
    assert world.topics.update([ORDERS]) == []
    assert world.changes == [["orders", "other"], []]
    assert world.topics.data_version.counter == 2


def test_attributes_are_a_change_to_those_before() -> None:
    topics = World().topics
    topics.update([replace(ORDERS, attributes={"+message.type": "FIFO"})])
    topics.update([ORDERS])
    found = topics.get("orders")
    assert found is not None
    assert found.attributes == {"message.type": "FIFO"}


@pytest.mark.parametrize("queues", [-1, QUEUES_MAX + 1])
def test_one_invalid_topic_prevents_all_changes(queues: int) -> None:
    world = World()
    with pytest.raises(InvalidInput, match=f"read_queue_nums of topic bad is {queues}"):
        world.topics.update([ORDERS, TopicConfig(topic_name="bad", read_queue_nums=queues)])
    assert world.topics.get("orders") is None
    assert world.changes == []


def test_a_topic_that_is_deleted_is_gone_and_the_table_has_a_new_version() -> None:
    world = World()
    world.topics.update([ORDERS])
    world.clock.now += 5
    assert world.topics.delete("orders")
    assert world.topics.get("orders") is None
    assert not world.topics.delete("orders")
    assert world.topics.data_version.counter == 2
    assert world.topics.data_version.timestamp == world.clock.now


def test_a_slave_takes_the_masters_table_also_after_a_change_of_its_own_in_the_same_moment() -> (
    None
):
    master, slave = World().topics, World(broker_role=BrokerRole.SLAVE, broker_id=1).topics
    master.update([ORDERS])
    slave.for_send_back("%RETRY%billing", queue_nums=1, perm=READ | WRITE, sys_flag=0)
    slave.take(TopicConfigTable.from_json(master.to_json().encode()))
    assert slave.table["orders"] == ORDERS


def test_topics_of_an_order_configuration_are_marked_once() -> None:
    world = World()
    world.topics.update([ORDERS])
    world.topics.mark_ordered(["orders", "unknown"])
    world.topics.mark_ordered(["orders"])
    assert world.topics.get("orders") == replace(ORDERS, order=True)
    assert world.changes == [["orders"], []]


# topics.json


@pytest.mark.parametrize("store", ["normal", "retry", "delay", "trans", "crash"])
def test_a_table_that_java_wrote_is_kept_whole(store: str) -> None:
    text = config_file(store, "topics.json")
    topics = World(broker_cluster_name="GoldenCluster", broker_name="golden-a").topics
    topics.load_json(text)
    java = TopicConfigTable.from_json(text.encode())
    written = TopicConfigTable.from_json(topics.to_json().encode())
    assert written.topic_config_table.items() >= java.topic_config_table.items()
    assert written.data_version == java.data_version


def test_the_table_is_written_in_the_order_of_names_and_read_back() -> None:
    world = World()
    world.topics.update([ORDERS, TopicConfig(topic_name="a")])
    text = world.topics.to_json()
    names = list(json.loads(text)["topicConfigTable"])
    assert names == sorted(names)
    again = World()
    again.topics.load_json(text)
    assert again.topics.table == world.topics.table
    assert again.topics.data_version == world.topics.data_version
    assert again.changes == []


def test_a_text_that_is_no_table_changes_nothing() -> None:
    topics = World().topics
    before = topics.to_json()
    with pytest.raises(InvalidBody):
        topics.load_json('{"topicConfigTable":{"orders":7}}')
    assert topics.to_json() == before
