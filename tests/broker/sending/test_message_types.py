from typing import Any

import pytest

from orbitmq.broker.sending.message_types import by_priority, check_type, message_type
from orbitmq.message import properties
from orbitmq.net.refusal import Refusal
from orbitmq.wire.bodies.topic import TopicConfig
from orbitmq.wire.codes import ResponseCode
from tests.broker.send_world import header

TYPES = {
    "TRANSACTION": {"TRAN_MSG": "TRUE", "DELAY": "3"},
    "DELAY": {"TIMER_DELIVER_MS": "3", "TRAN_MSG": "false", "__SHARDINGKEY": "alice"},
    "FIFO": {"__SHARDINGKEY": "alice", "_SYS_MSG_PRIORITY_": "1"},
    "PRIORITY": {"_SYS_MSG_PRIORITY_": "1"},
    "NORMAL": {"TAGS": "paid"},
}


def text_of(found: dict[str, str]) -> str:
    return properties.join(found).decode()


def topic(message_type: str | None = None, name: str = "orders") -> TopicConfig:
    attributes = {} if message_type is None else {"message.type": message_type}
    return TopicConfig(topic_name=name, attributes=attributes)


@pytest.mark.parametrize("name", TYPES)
def test_a_type_is_known_by_properties(name: str) -> None:
    assert message_type(TYPES[name]) == name
    check_type(topic(name), text_of(TYPES[name]))
    check_type(topic("MIXED"), text_of(TYPES[name]))
    check_type(topic("UNSPECIFIED", name="%RETRY%billing"), text_of(TYPES[name]))
    check_type(topic("UNSPECIFIED", name="%DLQ%billing"), text_of(TYPES[name]))
    with pytest.raises(Refusal, match=f"the expected type is UNSPECIFIED, .*is {name};") as refusal:
        check_type(topic("UNSPECIFIED"), text_of(TYPES[name]))
    assert refusal.value.code == ResponseCode.MESSAGE_ILLEGAL


def test_a_topic_without_a_type_is_normal() -> None:
    check_type(topic(), None)
    with pytest.raises(Refusal, match="expected type is NORMAL"):
        check_type(topic(), text_of(TYPES["FIFO"]))
    check_type(topic(), text_of(TYPES["FIFO"] | {"TRANSFER_FLAG": "true"}))


@pytest.mark.parametrize(
    ("priority", "queue_id"),
    [("0", 0), ("5", 5), ("2147483647", 15), ("2147483648", 1), ("9" * 5_000, 1), ("five", 1)],
)
def test_the_queue_of_a_priority(priority: str, queue_id: int) -> None:
    given = header("orders", properties={"_SYS_MSG_PRIORITY_": priority})
    assert by_priority(given, topic(), 1) == (given, queue_id)


def test_a_topic_without_queues_to_write_keeps_the_first() -> None:
    given: Any = header("orders", properties={"_SYS_MSG_PRIORITY_": "3"})
    closed = TopicConfig(topic_name="orders", write_queue_nums=0)
    assert by_priority(given, closed, 0) == (given, 0)
