"""Reading forgives what Java forgives, and refuses the rest with one kind of error."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbitmq.errors import InvalidBody
from orbitmq.message.model import MessageQueue
from orbitmq.wire.bodies.cluster import ClusterInfo, KVTable
from orbitmq.wire.bodies.heartbeat import ConsumerData, ConsumeType, HeartbeatData, MessageModel
from orbitmq.wire.bodies.offsets import ConsumerOffsetTable, OffsetReset
from orbitmq.wire.bodies.pop import BatchAck
from orbitmq.wire.bodies.route import BrokerData, TopicRouteData
from orbitmq.wire.bodies.running import ConsumerRunningInfo
from orbitmq.wire.bodies.stats import ConsumeStats, OffsetWrapper
from orbitmq.wire.bodies.topic import TopicConfig
from orbitmq.wire.json.body import INLINE_LIMIT, Body, NotStandardJson, is_large
from orbitmq.wire.json.queue_map import QueueMap

SAMPLE_CLASSES = st.sampled_from([HeartbeatData, ConsumerRunningInfo, ClusterInfo, TopicConfig])


@given(SAMPLE_CLASSES, st.binary() | st.text(alphabet='{}[]:,"0a\\n ').map(str.encode))
def test_any_bytes_give_a_body_or_invalid_body(body_class: type[Body], data: bytes) -> None:
    refusal = refusal_of(body_class, data)
    assert refusal is None or 0 <= refusal.position <= len(data)


def refusal_of(body_class: type[Body], data: bytes) -> InvalidBody | None:
    """Return how ``data`` is refused, None if it is read; any other error fails the test."""
    try:
        assert isinstance(body_class.from_json(data), body_class)
    except InvalidBody as error:
        return error
    return None


@given(st.data())
def test_a_damaged_body_gives_a_body_or_invalid_body(data: st.DataObject) -> None:
    whole = (
        b'{"mqTable":{{"brokerName":"a","queueId":0,"topic":"T"}:{"commitOffset":5}},'
        b'"properties":{"k":"v"},"subscriptionSet":[{"codeSet":[1],"topic":"T"}]}'
    )
    start = data.draw(st.integers(0, len(whole)))
    end = data.draw(st.integers(start, len(whole)))
    damaged = whole[:start] + data.draw(st.binary(max_size=3)) + whole[end:]
    refusal = refusal_of(ConsumerRunningInfo, damaged)
    assert refusal is None or 0 <= refusal.position <= len(damaged)


@pytest.mark.parametrize("opening", ["[", "{", '{"a":', "{0:", "{{", '{"table":[', '{"x":['])
@pytest.mark.parametrize("depth", [200, 2_000, 100_000])
def test_deep_nesting_is_refused(opening: str, depth: int) -> None:
    with pytest.raises(InvalidBody):
        KVTable.from_json((opening * depth).encode())
    with pytest.raises(InvalidBody):
        KVTable.from_json(b'{"unknown":' + (opening * depth).encode())


@pytest.mark.parametrize(
    ("data", "position", "words"),
    [
        (b"", 0, "KVTable: Input data was truncated"),
        (b"[]", 0, "KVTable: Expected `object`, got `array`"),
        (b'{"table":{"k":["v"]}}', 0, r"KVTable: Expected `str`, got `array` - at `\$.table"),
        (b'{"table":{"k":"\xff"}}', 0, "KVTable: .*utf-8"),
        (b'{"table":?}', 9, r"KVTable: .*\(byte 9\)"),
        (b'{"table":{0:"a",{"b":1}:"c",2:?}}', 30, r"KVTable: .*\(byte 30\)"),
        (b'{"table":{"$ref":"$.x"}}', 0, r"KVTable: a fastjson \$ref"),
    ],
)
def test_an_error_says_what_is_wrong_and_where(data: bytes, position: int, words: str) -> None:
    with pytest.raises(InvalidBody, match=words) as refusal:
        KVTable.from_json(data)
    assert refusal.value.position == position


def test_an_error_is_short_however_long_the_value() -> None:
    text = json.dumps({"consumerDataSet": [{"consumeType": "x" * 10_000, "groupName": 5}]})
    with pytest.raises(InvalidBody) as refusal:
        HeartbeatData.from_json(text.encode())
    assert len(str(refusal.value)) < 300
    with pytest.raises(NotStandardJson) as not_standard:
        HeartbeatData.from_json_strict(text.encode())
    assert len(str(not_standard.value)) < 300


def test_reading_in_two_steps() -> None:
    data = b'{"brokerAddrs":{0:"10.0.0.7:10911"}}'
    with pytest.raises(NotStandardJson):
        BrokerData.from_json_strict(data)
    read = BrokerData.from_json_tolerant(memoryview(data))
    assert read == BrokerData(broker_addrs={0: "10.0.0.7:10911"})
    assert BrokerData.from_json_strict(memoryview(read.to_json())) == read


def test_size_decides_where_the_tolerant_step_runs() -> None:
    assert not is_large(bytes(INLINE_LIMIT))
    assert is_large(memoryview(bytes(INLINE_LIMIT + 1)))


def test_unknown_keys_are_skipped_and_unknown_names_are_none() -> None:
    read = ConsumerData.from_json(
        b'{"consumeType":"CONSUME_BY_MAGIC","messageModel":"CLUSTERING","isNew":{"a":[1]}}'
    )
    assert read == ConsumerData(consume_type=None, message_model=MessageModel.CLUSTERING)
    assert ConsumerData.from_json(b'{"consumeType":"CONSUME_POP"}').consume_type is (
        ConsumeType.CONSUME_POP
    )


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"readQueueNums":"8"}', TopicConfig(read_queue_nums=8)),
        ('{"order":"true"}', TopicConfig(order=True)),
        ('{"order":1}', TopicConfig(order=True)),
        ('{"attributes":null,"perm":null}', TopicConfig()),
        ('{"attributes":{"a":null,"b":"c"}}', TopicConfig(attributes={"b": "c"})),
    ],
)
def test_values_that_java_forgives(text: str, value: TopicConfig) -> None:
    assert TopicConfig.from_json(text.encode()) == value


def test_nulls_inside_a_map_of_queues() -> None:
    text = (
        b'{"offsetTable":{{"brokerName":"a","queueId":0,"topic":"T"}:{"pullOffset":null},'
        b'{"brokerName":"a","queueId":1,"topic":"T"}:null}}'
    )
    expected = QueueMap({MessageQueue("T", "a", 0): OffsetWrapper()})
    assert ConsumeStats.from_json(text) == ConsumeStats(offset_table=expected)


@pytest.mark.parametrize("number", ["2147483648", "-2147483649", "1e400", "9" * 5_000])
def test_a_number_java_could_not_hold_is_refused(number: str) -> None:
    with pytest.raises(InvalidBody):
        TopicConfig.from_json(f'{{"perm":{number}}}'.encode())


def test_keys_are_quoted_unless_java_keys_are_wanted() -> None:
    table = ConsumerOffsetTable(offset_table={"T@G": {0: 10, 1: 20}})
    assert table.to_json() == b'{"offsetTable":{"T@G":{"0":10,"1":20}}}'
    assert table.to_json(java_keys=True) == b'{"offsetTable":{"T@G":{0:10,1:20}}}'


def test_a_text_that_looks_like_a_number_is_no_number() -> None:
    assert KVTable(table={"0": "a"}).to_json(java_keys=True) == b'{"table":{"0":"a"}}'


def test_none_is_not_written() -> None:
    assert (
        TopicRouteData().to_json() == b'{"brokerDatas":[],"filterServerTable":{},"queueDatas":[]}'
    )
    tricky = KVTable(table={"a": ',"b":null}', "b": '{"c":null,'})
    assert KVTable.from_json(tricky.to_json()) == tricky


def test_bytes_travel_as_base64() -> None:
    assert b'"b":"CQ=="' in BatchAck(bits=b"\x09").to_json()
    assert BatchAck.from_json(b'{"b":"CQ=="}').bits == b"\x09"
    assert b'"b":"CQ=="' in BatchAck(bits=b"\x09").to_json(java_keys=True)


@given(
    st.dictionaries(st.builds(MessageQueue, st.text(), st.text(), st.integers()), st.integers(0))
)
def test_any_map_of_queues_is_read_as_it_was_written(entries: dict[MessageQueue, int]) -> None:
    offsets = {queue: offset % 2**63 for queue, offset in entries.items()}
    body = OffsetReset(offset_table=QueueMap(offsets))
    assert OffsetReset.from_json(body.to_json()) == body
    assert OffsetReset.from_json(body.to_json(java_keys=True)) == body
