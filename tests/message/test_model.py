import copy
import enum
import pickle
from datetime import UTC, datetime, timedelta, timezone
from types import MappingProxyType

import pytest
from msgspec.structs import replace

from orbitmq.errors import (
    InvalidInput,
    InvalidKeys,
    InvalidProperty,
    InvalidTags,
    InvalidTopic,
)
from orbitmq.message.model import (
    Host,
    Message,
    MessageQueue,
    SendReceipt,
    SendStatus,
    StoredMessage,
)

FULL = Message(
    "orders",
    b"paid",
    tags="paid",
    keys=["o-42", "c-7"],
    properties={"colour": "blue"},
    flag=-1,
    sharding_key="customer 7",
    deliver_at=datetime(2024, 1, 1, tzinfo=UTC),
    priority=3,
    wait_stored=False,
    check_immunity_s=10,
    message_id="7F00000104D218B4AAC21F8B8F9A0001",
)

STORED = StoredMessage(
    topic="orders",
    body=b"paid",
    properties={
        "TAGS": "paid",
        "KEYS": "o-42  c-7",
        "UNIQ_KEY": "7F00000104D218B4AAC21F8B8F9A0001",
        "DELAY": "3",
        "__SHARDINGKEY": "c-7",
        "__RMQ.TRANSIENT.x": "1",
        "colour": "blue",
    },
    queue_id=3,
    queue_offset=77,
    commit_log_offset=8888,
    flag=0,
    sys_flag=0,
    born_timestamp_ms=1_700_000_000_000,
    born_host=Host.parse("127.0.0.1:50001"),
    store_timestamp_ms=1_700_000_000_005,
    store_host=Host.parse("10.1.2.3:10911"),
    reconsume_times=0,
    prepared_transaction_offset=0,
    body_crc=0,
    store_size=105,
)


def test_the_least_message() -> None:
    message = Message("orders", b"paid")
    assert message.wire_properties() == {"WAIT": "true"}
    assert repr(message) == "Message(topic='orders', body=<4 bytes>)"


def test_all_properties_as_they_travel() -> None:
    assert FULL.wire_properties() == {
        "KEYS": "o-42 c-7",
        "TAGS": "paid",
        "WAIT": "false",
        "UNIQ_KEY": "7F00000104D218B4AAC21F8B8F9A0001",
        "TIMER_DELIVER_MS": "1704067200000",
        "__SHARDINGKEY": "customer 7",
        "_SYS_MSG_PRIORITY_": "3",
        "CHECK_IMMUNITY_TIME_IN_SECONDS": "10",
        "colour": "blue",
    }


@pytest.mark.parametrize(
    ("delay", "milliseconds"),
    [
        (timedelta(), "0"),
        (timedelta(microseconds=1), "1"),
        (timedelta(milliseconds=1), "1"),
        (timedelta(days=3), "259200000"),
    ],
)
def test_a_delay_is_rounded_up(delay: timedelta, milliseconds: str) -> None:
    assert Message("t", b"x", delay=delay).wire_properties()["TIMER_DELAY_MS"] == milliseconds


def test_a_time_of_delivery_in_another_zone() -> None:
    at = datetime(2024, 1, 1, 8, microsecond=1, tzinfo=timezone(timedelta(hours=8)))
    sent = Message("t", b"x", deliver_at=at).wire_properties()
    assert sent["TIMER_DELIVER_MS"] == "1704067200001"


def test_a_delay_level() -> None:
    assert Message("t", b"x", delay_level=3).wire_properties()["DELAY"] == "3"


def test_priority_and_immunity_of_zero_travel() -> None:
    sent = Message("t", b"x", priority=0, check_immunity_s=0).wire_properties()
    assert sent["_SYS_MSG_PRIORITY_"] == "0"
    assert sent["CHECK_IMMUNITY_TIME_IN_SECONDS"] == "0"


def test_bytes_are_kept_and_other_buffers_copied() -> None:
    body = b"paid"
    assert Message("t", body).body is body
    for buffer in (bytearray(body), memoryview(bytearray(body)), memoryview(body)):
        kept = Message("t", buffer).body  # type: ignore[arg-type]
        assert type(kept) is bytes
        assert kept == body
    changing = bytearray(body)
    message = Message("t", changing)  # type: ignore[arg-type]
    changing[:] = b"late"
    assert message.body == b"paid"


def test_changes_of_what_was_given_do_not_show() -> None:
    keys, given = ["o-42"], {"colour": "blue"}
    message = Message("t", b"x", keys=keys, properties=given)
    keys.append("o-43")
    given["colour"] = "red"
    assert message.keys == ("o-42",)
    assert message.properties == {"colour": "blue"}
    assert isinstance(message.properties, MappingProxyType)


def test_nothing_can_be_set() -> None:
    with pytest.raises(AttributeError):
        FULL.tags = "late"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("changes", "error", "field", "why"),
    [
        ({"topic": "a.b"}, InvalidTopic, "topic", "holds '.'"),
        ({"topic": "SCHEDULE_TOPIC_XXXX"}, InvalidTopic, "topic", "internal to brokers"),
        ({"body": b""}, InvalidInput, "body", "body is empty"),
        ({"body": bytearray()}, InvalidInput, "body", "body is empty"),
        ({"body": "paid"}, InvalidInput, "body", r"encode it first, as in text.encode\(\)"),
        ({"body": None}, InvalidInput, "body", "must be bytes, not NoneType"),
        ({"tags": "a||b"}, InvalidTags, "tags", "a message has one tag"),
        ({"tags": ""}, InvalidTags, "tags", "empty"),
        ({"keys": "o-42"}, InvalidKeys, "keys", r"for a single key write keys=\["),
        ({"keys": 7}, InvalidKeys, "keys", "not one int"),
        ({"keys": [""]}, InvalidKeys, "keys", "empty"),
        ({"keys": ["a b"]}, InvalidKeys, "keys", "holds a blank"),
        ({"keys": ["a", "b\t"]}, InvalidKeys, "keys", "holds a blank"),
        ({"keys": [7]}, InvalidKeys, "keys", "must be a str, not int"),
        ({"keys": ["a\x01"]}, InvalidKeys, "keys", r"U\+0001"),
        ({"properties": {"TAGS": "x"}}, InvalidProperty, "properties", "'TAGS' is reserved"),
        ({"properties": {"a": ""}}, InvalidProperty, "properties", "'a' is empty"),
        ({"flag": 2**31}, InvalidInput, "flag", "from -2147483648 to 2147483647"),
        ({"flag": 1.0}, InvalidInput, "flag", "must be an int, not float"),
        ({"sharding_key": ""}, InvalidInput, "sharding_key", "empty"),
        ({"message_id": "a b"}, InvalidInput, "message_id", "holds a blank"),
        ({"priority": -1}, InvalidInput, "priority", "from 0 to"),
        ({"priority": True}, InvalidInput, "priority", "must be an int, not bool"),
        ({"check_immunity_s": -1}, InvalidInput, "check_immunity_s", "from 0 to"),
        ({"delay_level": -1}, InvalidInput, "delay_level", "from 0 to"),
        ({"delay_level": None}, InvalidInput, "delay_level", "must be an int, not NoneType"),
        ({"delay_level": "3"}, InvalidInput, "delay_level", "must be an int, not str"),
        ({"delay": timedelta(-1)}, InvalidInput, "delay", "zero or more"),
        ({"delay": 5}, InvalidInput, "delay", "must be a timedelta"),
        ({"deliver_at": datetime(2024, 1, 1)}, InvalidInput, "deliver_at", "time zone"),  # noqa: DTZ001
        ({"deliver_at": 1_700_000_000_000}, InvalidInput, "deliver_at", "time zone"),
        (
            {"delay_level": 1, "delay": timedelta(1)},
            InvalidInput,
            "delay_level",
            "at most one of delay_level, delay and deliver_at",
        ),
    ],
)
def test_what_cannot_be_sent_is_refused(
    changes: dict[str, object], error: type[InvalidInput], field: str, why: str
) -> None:
    with pytest.raises(error, match=why) as caught:
        Message("orders", b"paid").replace(**changes)
    assert type(caught.value) is error
    assert caught.value.field == field


@pytest.mark.parametrize("keys", [["a"], ("a",), iter(["a"])])
def test_any_iterable_of_keys_is_kept_as_a_tuple(keys: list[str]) -> None:
    assert Message("t", b"x", keys=keys).keys == ("a",)


def test_replace_checks_and_keeps_the_rest() -> None:
    changed = FULL.replace(tags="late", properties={})
    assert (changed.tags, changed.properties) == ("late", {})
    assert changed.replace(tags="paid", properties={"colour": "blue"}) == FULL
    with pytest.raises(TypeError):
        FULL.replace(colour="red")


def test_a_message_can_be_pickled_and_copied() -> None:
    for twin in (pickle.loads(pickle.dumps(FULL)), copy.deepcopy(FULL)):
        assert twin == FULL
        assert isinstance(twin.properties, MappingProxyType)


def test_repr_shows_what_is_set() -> None:
    shown = repr(Message("orders", b"x", tags="paid", properties={"a": "1"}, wait_stored=False))
    assert shown == (
        "Message(topic='orders', body=<1 byte>, tags='paid', properties={'a': '1'}, "
        "wait_stored=False)"
    )


def test_repr_shows_no_body() -> None:
    shown = repr(Message("orders", b"a" * 1000 + b"z" * 1000))
    assert shown == "Message(topic='orders', body=<2000 bytes>)"


def test_repr_of_many_long_properties_stays_short() -> None:
    many = {f"name-{n}": "v" * 1000 for n in range(30)}
    assert len(repr(Message("orders", b"x", properties=many))) < 1500


def test_what_a_consumer_reads() -> None:
    assert STORED.tags == "paid"
    assert STORED.keys == ("o-42", "c-7")
    assert STORED.message_id == "7F00000104D218B4AAC21F8B8F9A0001"
    assert STORED.offset_message_id == "0A01020300002A9F00000000000022B8"
    assert STORED.user_properties == {"colour": "blue"}
    assert STORED.delay_level == 3
    assert STORED.sharding_key == "c-7"


def test_what_a_consumer_reads_without_properties() -> None:
    bare = pickle.loads(pickle.dumps(replace(STORED, properties={})))
    assert (bare.tags, bare.keys, bare.sharding_key, bare.delay_level) == (None, (), None, 0)
    assert bare.message_id == bare.offset_message_id


@pytest.mark.parametrize("level", ["x", "-1", "²", ""])
def test_a_delay_level_that_is_no_number_is_none(level: str) -> None:
    odd = replace(STORED, properties={"DELAY": level})
    assert odd.delay_level == 0


def test_repr_of_a_stored_message() -> None:
    assert repr(STORED) == (
        "StoredMessage(topic='orders', body=<4 bytes>, queue_id=3, queue_offset=77, "
        "message_id='7F00000104D218B4AAC21F8B8F9A0001', tags='paid', keys=('o-42', 'c-7'), "
        "user_properties={'colour': 'blue'})"
    )


def test_every_status_of_java_is_there() -> None:
    assert [status.name for status in SendStatus] == [
        "SEND_OK",
        "FLUSH_DISK_TIMEOUT",
        "FLUSH_SLAVE_TIMEOUT",
        "SLAVE_NOT_AVAILABLE",
    ]


def test_a_receipt_has_the_defaults_of_a_broker_that_says_nothing() -> None:
    receipt = SendReceipt(
        status=SendStatus.SEND_OK,
        message_id="A",
        offset_message_id="B",
        queue=MessageQueue("orders", "broker-a", 0),
        queue_offset=5,
    )
    assert (receipt.region, receipt.trace_on) == ("DefaultRegion", True)
    assert (receipt.transaction_id, receipt.recall_handle) == (None, None)


def test_queues_sort_by_topic_then_broker_then_id() -> None:
    queues = [
        MessageQueue("b", "a", 0),
        MessageQueue("a", "c", 0),
        MessageQueue("a", "b", 10),
        MessageQueue("a", "b", 2),
    ]
    assert sorted(queues) == queues[::-1]


class Text(str):
    __slots__ = ()


class Topic(str, enum.Enum):  # noqa: UP042 - whose str() is not its value
    ORDERS = "orders"


@pytest.mark.parametrize("odd", [Text("orders"), Topic.ORDERS])
def test_texts_of_other_types_are_taken_as_plain_ones(odd: str) -> None:
    message = Message(
        odd, b"x", tags=odd, keys=[odd], sharding_key=odd, message_id=odd, properties={odd: odd}
    )
    plain = "orders"
    texts = (message.topic, message.tags, message.sharding_key, message.message_id, *message.keys)
    texts += (*message.properties, *message.properties.values())
    assert texts == (plain,) * 7
    assert {type(text) for text in texts} == {str}


def test_a_text_of_another_type_is_checked_as_any_other() -> None:
    with pytest.raises(InvalidTopic, match="internal to brokers"):
        Message(Text("SCHEDULE_TOPIC_XXXX"), b"x")
