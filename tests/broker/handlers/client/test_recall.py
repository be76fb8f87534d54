from typing import Any

import pytest
from msgspec.structs import replace

from orbitmq.message.ids import recall_handle
from orbitmq.message.names import TIMER_TOPIC
from orbitmq.wire.codes import ResponseCode
from orbitmq.wire.frame import Frame
from orbitmq.wire.headers.send import RecallMessage, SendMessageAnswer
from tests.broker.send_world import SMALL, SendWorld, header
from tests.broker.world import ask
from tests.store.logs import NOW

REGION = {"MSG_REGION": "DefaultRegion"}


def a_world(**settings: Any) -> SendWorld:
    world = SendWorld(**{"recall_message_enable": True, **settings})
    world.create("orders")
    return world


def recall(world: SendWorld, handle: str, topic: str = "orders", group: str = "g") -> Frame:
    wanted = RecallMessage(topic=topic, producer_group=group, recall_handle=handle)
    return ask(world.recall_handlers.table(), wanted)


def handle_of(world: SendWorld, **given: str) -> str:
    answer = world.send(header(properties={"UNIQ_KEY": "U1", "TIMER_DELAY_MS": "5500", **given}))
    assert answer.code == ResponseCode.SUCCESS
    handle = answer.read(SendMessageAnswer).recall_handle
    assert handle is not None
    return handle


def test_a_recalled_message_is_not_delivered() -> None:
    world = a_world()
    answer = recall(world, handle_of(world))
    assert answer.code == ResponseCode.SUCCESS
    assert answer.texts() == {"msgId": "U1", **REGION}
    message, recalling = world.stored(TIMER_TOPIC)
    assert message.properties["TIMER_OUT_MS"] == recalling.properties["TIMER_OUT_MS"]
    assert (
        recalling.properties.items()
        >= {
            "TIMER_DEL_UNIQKEY": "U1",
            "UNIQ_KEY": "U1",
            "TAGS": "_RECALL_TAG_",
            "PGROUP": "g",
            "BORN_TIMESTAMP": str(NOW),
            "REAL_TOPIC": "orders",
        }.items()
    )
    assert recalling.body == b"0"
    for _ in range(100):
        world.clock.now += 100
        world.timers.tick(world.clock.now)
        world.take_turns()
    assert not world.stored("orders")


def test_a_repeated_send_gets_the_handle_of_the_first() -> None:
    world = a_world(send_deduplication_enable=True)
    first = handle_of(world)
    world.clock.now += 3_000  # a delay of the repeat would end later
    assert handle_of(world) == first
    assert len(world.stored(TIMER_TOPIC)) == 1


def test_brokers_before_5_4_want_the_topic_in_the_key() -> None:
    world = SendWorld(replace(SMALL, timer_delete_key_with_topic=True), recall_message_enable=True)
    world.create("orders")
    recall(world, handle_of(world))
    assert world.stored(TIMER_TOPIC)[1].properties["TIMER_DEL_UNIQKEY"] == "orders+U1"


@pytest.mark.parametrize(
    ("settings", "code", "remark"),
    [
        ({"recall_message_enable": False}, ResponseCode.NO_PERMISSION, "operation is forbidden"),
        (
            {"start_accept_send_request_time_stamp": NOW + 1},
            ResponseCode.SERVICE_NOT_AVAILABLE,
            "broker service not available",
        ),
        (
            {"broker_permission": 4, "allow_recall_when_broker_not_writeable": False},
            ResponseCode.SERVICE_NOT_AVAILABLE,
            "broker service not available",
        ),
    ],
)
def test_a_broker_may_not_serve_recalls(
    settings: dict[str, Any], code: ResponseCode, remark: str
) -> None:
    world = a_world(**settings)
    answer = recall(world, recall_handle("orders", "broker-a", NOW + 5_001, "U1"))
    assert (answer.code, answer.texts()) == (code, REGION)
    assert str(answer.remark).startswith(f"recall failed, {remark}")
    assert not world.stored(TIMER_TOPIC)


def test_a_broker_that_may_not_be_written_to_serves_recalls_by_default() -> None:
    world = a_world(broker_permission=4)
    handle = recall_handle("orders", "broker-a", NOW + 5_001, "U1")
    assert recall(world, handle).code == ResponseCode.SUCCESS


@pytest.mark.parametrize(
    ("handle", "code", "remark"),
    [
        ("", ResponseCode.ILLEGAL_OPERATION, "recall handle is invalid"),
        ("no handle", ResponseCode.ILLEGAL_OPERATION, "recall handle is invalid"),
        (
            recall_handle("others", "broker-a", NOW + 5_001, "U1"),
            ResponseCode.ILLEGAL_OPERATION,
            "recall failed, topic not match",
        ),
        (
            recall_handle("orders", "broker-b", NOW + 5_001, "U1"),
            ResponseCode.ILLEGAL_OPERATION,
            "recall failed, broker service not available",
        ),
        (
            recall_handle("orders", "broker-a", NOW, "U1"),
            ResponseCode.ILLEGAL_OPERATION,
            "recall failed, timestamp invalid",
        ),
        (
            recall_handle("orders", "broker-a", NOW + 3 * 86_400_000, "U1"),
            ResponseCode.ILLEGAL_OPERATION,
            "recall failed, timestamp invalid",
        ),
        (
            recall_handle("orders", "broker-a", 2**63 - 1, "U1"),
            ResponseCode.ILLEGAL_OPERATION,
            "recall failed, timestamp invalid",
        ),
    ],
)
def test_handles_that_java_refuses(handle: str, code: ResponseCode, remark: str) -> None:
    world = a_world()
    answer = recall(world, handle)
    assert (answer.code, answer.texts()) == (code, REGION)
    assert str(answer.remark).startswith(remark)


def test_an_unknown_topic_is_refused() -> None:
    answer = recall(a_world(), "x", topic="unknown")
    assert answer.code == ResponseCode.TOPIC_NOT_EXIST
    assert answer.remark == "recall failed, the topic[unknown] not exist"


def test_a_group_can_t_smuggle_properties_in() -> None:
    world = a_world()
    answer = recall(world, handle_of(world), group="g\x02TIMER_OUT_MS\x011")
    assert answer.code == ResponseCode.ILLEGAL_OPERATION
    assert len(world.stored(TIMER_TOPIC)) == 1


def test_a_store_that_takes_no_writes_is_an_answer() -> None:
    world = a_world()
    handle = handle_of(world)
    world.store.close()
    answer = recall(world, handle)
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert str(answer.remark).startswith("recall failed, execute error")
