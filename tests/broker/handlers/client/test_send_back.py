import pytest
from msgspec.structs import replace

from orbitmq.message.ids import offset_id
from orbitmq.store.log.append import Incoming, PutResult, PutStatus
from orbitmq.store.settings import FlushMode
from orbitmq.wire.bodies.group import SubscriptionGroupConfig
from orbitmq.wire.codes import ResponseCode
from orbitmq.wire.frame import Frame
from orbitmq.wire.headers.send import ConsumerSendMsgBack
from tests.broker.send_world import HERE, SMALL, SendWorld, header
from tests.broker.world import ask

BACK = ConsumerSendMsgBack(offset=0, group="billing", delay_level=0, origin_topic="orders")


@pytest.fixture
def world() -> SendWorld:
    """Return a broker with one message, at the beginning of its log."""
    made = SendWorld()
    made.send(header(properties={"UNIQ_KEY": "U1", "TAGS": "paid"}, flag=5), b"1 pizza")
    return made


def back(world: SendWorld, **fields: object) -> Frame:
    values = {name: getattr(BACK, name) for name in BACK.__struct_fields__}
    given = ConsumerSendMsgBack(**{**values, **fields})
    return ask(world.back_handlers.table(), given)


def test_the_message_waits_for_its_next_try_as_java_stores_it(world: SendWorld) -> None:
    answer = back(world)
    assert answer.code == ResponseCode.SUCCESS
    assert not answer.texts()
    (message,) = world.stored("SCHEDULE_TOPIC_XXXX", 2)
    assert (message.body, message.flag, message.reconsume_times) == (b"1 pizza", 5, 1)
    assert message.properties == {
        "UNIQ_KEY": "U1",
        "TAGS": "paid",
        "WAIT": "false",
        "DELAY": "3",
        "MSG_REGION": "DefaultRegion",
        "TRACE_ON": "true",
        "CLUSTER": "DefaultCluster",
        "RETRY_TOPIC": "orders",
        "ORIGIN_MESSAGE_ID": offset_id(HERE, 0),
        "REAL_TOPIC": "%RETRY%billing",
        "REAL_QID": "0",
    }


def test_the_answer_comes_when_the_next_try_is_on_disk() -> None:
    world = SendWorld(replace(SMALL, flush_mode=FlushMode.SYNC))
    world.send(header(properties={"UNIQ_KEY": "U1"}), b"1 pizza")
    assert back(world).code == ResponseCode.SUCCESS
    assert world.store.flushed == world.store.log.end


def test_a_second_try_keeps_where_it_came_from_and_waits_longer(world: SendWorld) -> None:
    back(world)
    (first,) = world.stored("SCHEDULE_TOPIC_XXXX", 2)
    back(world, offset=first.commit_log_offset)
    (second,) = world.stored("SCHEDULE_TOPIC_XXXX", 3)
    assert second.reconsume_times == 2
    assert second.properties["RETRY_TOPIC"] == "orders"
    assert second.properties["ORIGIN_MESSAGE_ID"] == first.properties["ORIGIN_MESSAGE_ID"]


def test_the_client_may_choose_the_level(world: SendWorld) -> None:
    back(world, delay_level=7)
    assert len(world.stored("SCHEDULE_TOPIC_XXXX", 6)) == 1
    back(world, delay_level=99)
    assert len(world.stored("SCHEDULE_TOPIC_XXXX", 17)) == 1


@pytest.mark.parametrize("fields", [{"delay_level": -1}, {"max_reconsume_times": 0}])
def test_once_too_often_it_is_a_dead_letter(world: SendWorld, fields: dict[str, int]) -> None:
    assert back(world, **fields).code == ResponseCode.SUCCESS
    (dead,) = world.stored("%DLQ%billing")
    assert dead.reconsume_times == 1
    assert dead.properties["DELAY"] == "0"
    assert "REAL_TOPIC" not in dead.properties
    assert world.stats.item("SNDBCK2DLQ_TIMES", "null@orders@billing@SEND_BACK_TO_DLQ")


def test_messages_sent_back_are_counted(world: SendWorld) -> None:
    back(world)
    assert world.stats.item("SNDBCK_PUT_NUMS", "orders@billing") is not None


def test_a_group_without_retries_gets_nothing_again(world: SendWorld) -> None:
    world.groups.update([SubscriptionGroupConfig(group_name="billing", retry_queue_nums=0)])
    before = world.store.log.end
    assert back(world).code == ResponseCode.SUCCESS
    assert world.store.log.end == before


def test_a_message_that_is_not_there(world: SendWorld) -> None:
    answer = back(world, offset=999)
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert answer.remark == "look message by offset failed, 999"


def test_an_unknown_group_is_refused() -> None:
    answer = back(SendWorld(auto_create_subscription_group=False))
    assert answer.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST


def test_a_broker_that_takes_no_writes_refuses() -> None:
    answer = back(SendWorld(broker_permission=4))
    assert answer.code == ResponseCode.NO_PERMISSION
    assert answer.remark == "the broker[10.0.0.7] sending message is forbidden"


def test_a_message_that_can_t_be_stored_is_an_error(world: SendWorld) -> None:
    def refusing(messages: list[Incoming]) -> list[PutResult]:
        return [PutResult(status=PutStatus.SERVICE_NOT_AVAILABLE, remark="full") for _ in messages]

    world.store.append = refusing  # type: ignore[method-assign, assignment]
    answer = back(world)
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert answer.remark == "SERVICE_NOT_AVAILABLE: full"
