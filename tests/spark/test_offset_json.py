import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbitmq.errors import InvalidOffsets
from orbitmq.message.model import MessageQueue
from orbitmq.spark.offset_json import parse_offsets, parse_queues, queue_name

A0, A1 = MessageQueue("orders", "broker-a", 0), MessageQueue("orders", "broker-a", 1)


def offsets(text: str) -> dict[MessageQueue, int]:
    return parse_offsets(text, field="startingOffsets")


def test_offsets_are_parsed_in_both_forms() -> None:
    assert offsets('{"orders": {"broker-a:0": 12, "broker-a:1": -2}}') == {A0: 12, A1: -2}
    assert offsets('{"orders": {"broker-a": {"0": 12, "1": -2}}}') == {A0: 12, A1: -2}


def test_the_name_of_a_broker_may_hold_a_colon() -> None:
    assert list(offsets('{"t": {"a:b:7": 0}}')) == [MessageQueue("t", "a:b", 7)]


@pytest.mark.parametrize(
    ("text", "what", "position"),
    [
        ('{"orders": {"broker-a:0": 12}', "expecting ',' delimiter", 29),
        ("{orders: 1}", "expecting property name", 1),
        ("[]", "it should be like", 0),
        ("{}", "it should be like", 0),
        ('{"orders": 12}', "'orders' has no offsets by queue", 1),
        ('{"orders": {"broker-a": 12}}', "'broker-a' is not a queue", 12),
        ('{"orders": {"broker-a:x": 12}}', "'broker-a:x' is not a queue", 12),
        ('{"orders": {":0": 12}}', "':0' is not a queue", 12),
        ('{"orders": {"broker-a:4294967296": 12}}', "is not a queue", 12),
        ('{"orders": {"broker-a:0": "12"}}', "'12' is not an offset", 12),
        ('{"orders": {"broker-a:0": true}}', "true is not an offset", 12),
        ('{"orders": {"broker-a:0": 1.5}}', "1.5 is not an offset", 12),
        ('{"orders": {"broker-a:0": -3}}', "offset -3 is out of range", 12),
        ('{"orders": {"broker-a:0": 9223372036854775808}}', "is out of range", 12),
        ('{"orders": {"broker-a:0": 1%s}}' % ("0" * 400), "offset 1000.*… is out of range", 12),
        ('{"orders": {"broker-a:0": 1%s}}' % ("0" * 5_000), "a number of 5001 digits", 26),
        ('{"orders": {"broker-a:0": 1, "broker-a:0": 2}}', "is there twice", 29),
        ('{"orders": {"broker-a:0": 1, "broker\\u002da:0": 2}}', "is there twice", 12),
        ('{"orders": {"bröker:0": 1, "bröker:0": 2}}', "is there twice", 27),
        ('{"orders": {"broker-a:0": 1, "broker-a": {"0": 2}}}', "is there twice", 42),
        ('{"b": {"broker-a:0": 1}, "orders": {"broker-a:0": -9}}', "offset -9", 36),
    ],
)
def test_an_error_has_the_position(text: str, what: str, position: int) -> None:
    with pytest.raises(InvalidOffsets, match=what) as caught:
        offsets(text)
    assert (caught.value.position, caught.value.field) == (position, "startingOffsets")
    assert str(caught.value).endswith(f"(at character {position})")


def test_endless_nesting_is_an_error() -> None:
    with pytest.raises(InvalidOffsets):
        offsets('{"a":' * 100_000)


def test_a_long_value_is_shortened() -> None:
    with pytest.raises(InvalidOffsets) as caught:
        offsets('{"orders": {"broker-a:0": "%s"}}' % ("x" * 10_000))
    assert len(str(caught.value)) < 200


@given(st.text())
def test_any_text_gives_offsets_or_the_one_error(text: str) -> None:
    try:
        found = offsets(text)
    except InvalidOffsets as error:
        position = error.position or 0
        where = 0 <= position <= len(text)
    else:
        where = bool(found)
    assert where


def test_queues_are_read_and_sorted() -> None:
    text = '{"orders": ["broker-a:1", "broker-a:0"]}'
    assert parse_queues(text, field="assign") == (A0, A1)
    assert [queue_name(queue) for queue in (A0, A1)] == ["broker-a:0", "broker-a:1"]


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ('{"orders": {"broker-a:0": 1}}', "'orders' has no list of queues"),
        ('{"orders": []}', "'orders' has no list of queues"),
        ('{"orders": [0]}', "0 is not a queue"),
        ('{"orders": ["broker-a:0", "broker-a:0"]}', "is there twice"),
    ],
)
def test_an_invalid_list_of_queues_is_refused(text: str, what: str) -> None:
    with pytest.raises(InvalidOffsets, match=what):
        parse_queues(text, field="assign")
