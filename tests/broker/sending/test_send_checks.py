import pytest
from msgspec.structs import replace

from orbitmq.broker.remarks import local_time
from orbitmq.net.refusal import Refusal
from orbitmq.wire.bodies.topic import TopicConfig
from orbitmq.wire.codes import ResponseCode
from tests.broker.send_world import SendWorld, header

PEER = "10.0.0.7:50000"


def refused(world: SendWorld, topic: str, code: ResponseCode, **fields: object) -> str:
    with pytest.raises(Refusal) as refusal:
        world.checks.topic(header(topic, **fields), PEER)
    assert refusal.value.code == code
    return refusal.value.remark


def test_an_unknown_topic_is_created_with_as_many_queues_as_both_ends_like() -> None:
    world = SendWorld()
    assert world.checks.topic(header("orders"), PEER).write_queue_nums == 4
    many = header("bills", default_topic_queue_nums=99)
    assert world.checks.topic(many, PEER).write_queue_nums == 8
    assert world.topics.get("orders") is not None


def test_where_none_is_created_the_remark_tells_what_to_do() -> None:
    world = SendWorld(auto_create_topic_enable=False)
    remark = refused(world, "orders", ResponseCode.TOPIC_NOT_EXIST)
    assert remark.startswith("topic[orders] not exist, apply first please! Create it")
    assert "autoCreateTopicEnable" in remark


def test_a_retry_topic_is_created_whatever_the_settings() -> None:
    world = SendWorld(auto_create_topic_enable=False)
    assert world.checks.topic(header("%RETRY%billing"), PEER).write_queue_nums == 1


@pytest.mark.parametrize(("topic", "flag"), [("orders", 1), ("%RETRY%billing", 2)])
def test_units_mark_the_topics_they_create(topic: str, flag: int) -> None:
    world = SendWorld()
    assert world.checks.topic(header(topic, unit_mode=True), PEER).topic_sys_flag == flag


def test_each_send_to_a_topic_is_checked_for_its_type_while_that_is_set() -> None:
    world = SendWorld(enable_topic_message_type_check=True)
    world.create("later", attributes={"+message.type": "DELAY"})
    for _ in range(2):
        world.checks.topic(header("later", properties={"DELAY": "1"}), PEER)
        remark = refused(world, "later", ResponseCode.MESSAGE_ILLEGAL)
        assert "the expected type is DELAY, but actual type is NORMAL; send it to" in remark
    world.settings.broker = replace(world.settings.broker, enable_topic_message_type_check=False)
    assert world.checks.topic(header("later"), PEER).topic_name == "later"


@pytest.mark.parametrize("topic", ["", " ", "bad.topic", "t" * 128, "%DLQ%" + "g" * 251])
def test_a_bad_name_is_refused(topic: str) -> None:
    remark = refused(SendWorld(), topic, ResponseCode.INVALID_PARAMETER)
    assert remark.startswith("The specified topic")


def test_the_broker_s_own_topics_are_refused_though_they_exist() -> None:
    world = SendWorld()
    for _ in range(2):  # known or not yet looked at
        remark = refused(world, "SCHEDULE_TOPIC_XXXX", ResponseCode.NO_PERMISSION)
        assert remark == "Sending message to topic[SCHEDULE_TOPIC_XXXX] is forbidden."


def test_a_broker_that_takes_no_writes_refuses_ordered_topics_only() -> None:
    world = SendWorld(broker_permission=4)
    world.create("ordered", order=True)
    world.create("orders")
    remark = refused(world, "ordered", ResponseCode.NO_PERMISSION)
    assert remark == "the broker[10.0.0.7] sending message is forbidden"
    assert world.checks.topic(header("orders"), PEER).topic_name == "orders"


def test_new_settings_are_checked_again() -> None:
    world = SendWorld()
    world.create("ordered", order=True)
    world.checks.topic(header("ordered"), PEER)
    world.settings.broker = replace(world.settings.broker, broker_permission=4)
    refused(world, "ordered", ResponseCode.NO_PERMISSION)


def test_before_its_time_a_broker_takes_nothing() -> None:
    world = SendWorld()
    starts = world.clock.now + 1_000
    world.settings.broker = replace(
        world.settings.broker, start_accept_send_request_time_stamp=starts
    )
    remark = refused(world, "orders", ResponseCode.SYSTEM_ERROR)
    assert remark.startswith(f"broker unable to service, until {local_time(starts)} (")
    assert str(starts) in remark
    world.clock.now = starts
    assert world.checks.topic(header("orders"), PEER).topic_name == "orders"


def test_a_deleted_topic_is_created_again_and_a_changed_one_is_seen() -> None:
    world = SendWorld()
    world.checks.topic(header("orders"), PEER)
    world.topics.delete("orders")
    world.create("orders", queues=2)
    assert world.checks.topic(header("orders"), PEER).write_queue_nums == 2


def test_a_queue_beyond_the_last_is_refused() -> None:
    world = SendWorld()
    topic = TopicConfig(topic_name="orders", write_queue_nums=2, read_queue_nums=4)
    assert world.checks.queue_id(3, topic, PEER) == 3  # more to read than to write: as Java
    with pytest.raises(Refusal) as refusal:
        world.checks.queue_id(4, topic, PEER)
    assert refusal.value.code == ResponseCode.INVALID_PARAMETER
    assert refusal.value.remark == (
        "request queueId[4] is illegal, TopicConfig [topicName=orders, readQueueNums=4, "
        "writeQueueNums=2, perm=RW-, topicFilterType=SINGLE_TAG, topicSysFlag=0, order=false, "
        "attributes={}] Producer: 10.0.0.7:50000. The topic has 2 queues to write and 4 to read"
    )


def test_a_negative_queue_is_the_broker_s_choice() -> None:
    world = SendWorld()
    topic = TopicConfig(topic_name="orders", write_queue_nums=3)
    assert {world.checks.queue_id(-1, topic, PEER) for _ in range(60)} == {0, 1, 2}
    with pytest.raises(Refusal):
        world.checks.queue_id(-1, replace(topic, write_queue_nums=0), PEER)
