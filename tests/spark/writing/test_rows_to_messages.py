from collections.abc import Sequence
from datetime import UTC, datetime

import pyarrow as pa
import pytest

from orbitmq.message.model import MessageQueue
from orbitmq.message.names import BODY_SIZE_LIMIT
from orbitmq.spark.writing.rows_to_messages import (
    REJECT_BODY,
    REJECT_COLUMN,
    REJECT_REASON,
    REJECT_TOPIC,
    MessageBatch,
    RowConverter,
)
from orbitmq.spark.writing.stable_ids import ORBIT_ID, StableIds

AT = datetime(2026, 1, 31, 12, tzinfo=UTC)
TYPES: dict[str, pa.DataType] = {
    "topic": pa.string(),
    "value": pa.binary(),
    "key": pa.string(),
    "tags": pa.string(),
    "properties": pa.map_(pa.string(), pa.string()),
    "queue_id": pa.int32(),
    "sharding_key": pa.string(),
    "delay_level": pa.int32(),
    "deliver_at": pa.timestamp("us", tz="UTC"),
    "order": pa.string(),
}


def batch(**columns: Sequence[object]) -> pa.RecordBatch:
    arrays = [pa.array(values, TYPES[name]) for name, values in columns.items()]
    return pa.record_batch(arrays, names=list(columns))


def queues_of(topic: str) -> list[MessageQueue]:
    return [MessageQueue(topic, name, number) for name in ("a", "b") for number in range(4)]


def outgoing(
    given: pa.RecordBatch,
    *,
    topic: str | None = "orders",
    id_column: str | None = None,
    dead_letters: str | None = None,
) -> MessageBatch:
    rows = RowConverter(
        StableIds(("query", "7"), 0),
        queues_of,
        topic=topic,
        id_column=id_column,
        dead_letters=dead_letters,
    )
    return rows.convert(given)


def test_each_column_sets_its_part() -> None:
    found = outgoing(
        batch(
            topic=["bills"],
            value=[b"paid"],
            key=["o-42 o-43"],
            tags=["late"],
            properties=[{"colour": "blue"}],
            sharding_key=["alice"],
            deliver_at=[AT],
        )
    )
    (message,) = found.messages
    assert (message.topic, message.body, message.tags) == ("bills", b"paid", "late")
    assert (message.keys, message.sharding_key) == (("o-42", "o-43"), "alice")
    assert message.properties["colour"] == "blue"
    assert message.deliver_at == AT
    assert found.queues == [None]


def test_a_row_needs_a_value_and_nothing_else() -> None:
    nothing = [None]
    found = outgoing(
        batch(
            topic=nothing,
            value=[b"paid"],
            key=nothing,
            tags=[""],
            properties=nothing,
            queue_id=nothing,
            sharding_key=[""],
            delay_level=[0],
            deliver_at=nothing,
        )
    )
    (message,) = found.messages
    assert (message.topic, message.tags, message.keys) == ("orders", None, ())
    assert (message.sharding_key, message.delay_level, message.deliver_at) == (None, 0, None)


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.large_binary()])
def test_a_value_may_be_text(kind: pa.DataType) -> None:
    given = pa.record_batch([pa.array(["grün".encode()]).cast(kind)], names=["value"])
    assert outgoing(given).messages[0].body == "grün".encode()


def test_ids_are_the_same_for_the_same_rows_and_are_in_a_property() -> None:
    values = [b"a", b"b", b"a"]
    first = outgoing(batch(value=values, properties=[{"x": "1", "y": "2"}] * 3)).messages
    again = outgoing(batch(value=values[::-1], properties=[[("y", "2"), ("x", "1")]] * 3)).messages
    ids = [(one.body, one.properties[ORBIT_ID]) for one in first]
    assert len(set(ids)) == 3
    assert set(ids) == {(one.body, one.properties[ORBIT_ID]) for one in again}


def test_a_column_or_a_property_may_hold_the_id() -> None:
    found = outgoing(batch(value=[b"paid"], order=["o-42"]), id_column="order")
    assert found.messages[0].properties == {ORBIT_ID: "o-42"}
    found = outgoing(batch(value=[b"paid"], properties=[{ORBIT_ID: "of the first write"}]))
    assert found.messages[0].properties == {ORBIT_ID: "of the first write"}


def test_the_column_that_is_named_for_ids_counts_before_a_property() -> None:
    given = batch(value=[b"paid"], order=["o-42"], properties=[{ORBIT_ID: "of the first write"}])
    found = outgoing(given, id_column="order")
    assert found.messages[0].properties == {ORBIT_ID: "o-42"}


def test_rows_of_a_queue_go_to_one_broker_and_queues_spread_over_brokers() -> None:
    found = outgoing(batch(value=[b"x"] * 5, queue_id=[0, 1, 2, None, 1]))
    known_options = [queue and (queue.broker_name, queue.queue_id) for queue in found.queues]
    assert known_options == [("a", 0), ("b", 1), ("a", 2), None, ("b", 1)]


TOO_LARGE = b"x" * (BODY_SIZE_LIMIT + 1)


@pytest.mark.parametrize(
    ("columns", "column", "reason"),
    [
        ({"value": [None]}, "value", "value is null"),
        ({"value": [b""]}, "value", "value is empty"),
        ({"value": [TOO_LARGE]}, "value", "the limit is 4194304"),
        ({"topic": ["no such name!"]}, "topic", "no such name!"),
        ({"topic": ["SCHEDULE_TOPIC_XXXX"]}, "topic", "SCHEDULE_TOPIC_XXXX"),
        ({"key": ["a\x01"]}, "key", "separator"),
        ({"tags": ["a||b"]}, "tags", "a||b"),
        ({"properties": [{"__RMQ.TRANSIENT.x": "1"}]}, "properties", "reserved"),
        ({"properties": [{"colour": None}]}, "properties", "must be a str"),
        ({"properties": [{"colour": "x" * 40_000}]}, "properties", "the limit is 32767"),
        ({"queue_id": [-1]}, "queue_id", "no writable queue -1"),
        ({"queue_id": [4]}, "queue_id", "no writable queue 4; it has 4"),
        ({"delay_level": [19]}, "delay_level", "from 1 to 18"),
        ({"delay_level": [-1]}, "delay_level", "from 1 to 18"),
        ({"delay_level": [1], "deliver_at": [AT]}, "delay_level", "at most one"),
    ],
)
def test_a_row_that_can_not_be_a_message_is_rejected(
    columns: dict[str, Sequence[object]], column: str, reason: str
) -> None:
    plain: dict[str, Sequence[object]] = {"value": [b"secret"], "key": ["o-42"]}
    given = batch(**plain | columns)
    found = outgoing(given)
    (row,) = found.rejected
    assert found.messages == []
    assert (row.number, row.column) == (0, column)
    assert reason in row.reason
    assert row.key.startswith("o-42") or column == "key"
    assert "secret" not in str(row)
    assert len(str(row)) < 1_500

    (letter,) = outgoing(given, dead_letters="rejects").messages
    assert letter.topic == "rejects"
    assert letter.properties[REJECT_COLUMN] == column
    assert reason in letter.properties[REJECT_REASON]
    kept = letter.properties[REJECT_BODY] == "value"
    assert letter.body == (b"secret" if kept else letter.properties[REJECT_REASON].encode())
    assert kept is (column != "value")


def spoilt(texts: Sequence[bytes | None]) -> pa.Array:
    """Return a column of text as Spark may give one: any bytes."""
    whole = pa.array(texts, pa.binary())
    return pa.Array.from_buffers(pa.string(), len(whole), whole.buffers())


def spoilt_maps(texts: Sequence[bytes]) -> pa.Array:
    """Return maps with one pair each, of that value."""
    names = pa.array(["colour"] * len(texts))
    return pa.MapArray.from_arrays(list(range(len(texts) + 1)), names, spoilt(texts))


@pytest.mark.parametrize("name", ["key", "tags", "topic", "sharding_key", "properties", "order"])
def test_invalid_text_rejects_only_its_row(name: str) -> None:
    texts = [b"good", b"bad\xff", b"fine"]
    column = spoilt_maps(texts) if name == "properties" else spoilt(texts)
    given = pa.record_batch([pa.array([b"1", b"2", b"3"]), column], names=["value", name])
    id_column = "order" if name == "order" else None
    found = outgoing(given, id_column=id_column)

    assert [one.body for one in found.messages] == [b"1", b"3"]
    (row,) = found.rejected
    assert (row.number, row.column) == (1, "idColumn" if name == "order" else name)
    assert "is not UTF-8: byte 0xff at position 3" in row.reason

    letter = outgoing(given, id_column=id_column, dead_letters="rejects").messages[1]
    assert (letter.topic, letter.body, letter.properties[REJECT_BODY]) == ("rejects", b"2", "value")
    assert letter.properties[REJECT_COLUMN] == row.column
    if name == "key":
        assert letter.keys == ("bad\\xff",)


def test_in_a_row_with_two_invalid_texts_the_first_is_reported() -> None:
    column = spoilt([b"\xff"])
    given = pa.record_batch([pa.array([b"1"]), column, column], names=["value", "tags", "key"])
    assert [row.column for row in outgoing(given).rejected] == ["key"]


READ = {
    "KEYS": "o-42 o-43",
    "TAGS": "paid",
    "__SHARDINGKEY": "alice",
    "UNIQ_KEY": "C00002022ACCA58443E54E6940F50005",
    "CLUSTER": "DefaultCluster",
    "MSG_REGION": "DefaultRegion",
    "TRACE_ON": "true",
    "WAIT": "true",
    "DELAY": "3",
    "REAL_TOPIC": "orders",
    "colour": "blue",
    ORBIT_ID: "of the first write",
}
"""The properties of a message that was read."""


def test_properties_that_were_read_can_be_written() -> None:
    (message,) = outgoing(batch(value=[b"paid"], properties=[READ])).messages
    assert message.properties == {"colour": "blue", ORBIT_ID: "of the first write"}
    assert (message.keys, message.tags) == (("o-42", "o-43"), "paid")
    assert (message.sharding_key, message.delay_level) == ("alice", 0)


def test_a_column_counts_before_such_a_property_also_without_a_value() -> None:
    given = batch(
        value=[b"paid"], properties=[READ], key=["o-44"], tags=[None], sharding_key=[None]
    )
    (message,) = outgoing(given).messages
    assert (message.keys, message.tags, message.sharding_key) == (("o-44",), None, None)


def test_a_dead_letter_keeps_what_is_valid() -> None:
    given = batch(
        topic=["orders"],
        value=[b"paid"],
        key=["o-42"],
        tags=["a||b"],
        properties=[{"colour": "blue", REJECT_REASON: "mine"}],
    )
    found = outgoing(given, dead_letters="rejects")
    (letter,) = found.messages
    assert (letter.keys, letter.tags) == (("o-42",), None)
    assert letter.properties["colour"] == "blue"
    assert letter.properties[REJECT_REASON] != "mine"
    assert letter.properties[REJECT_TOPIC] == "orders"
    assert letter.properties[ORBIT_ID] == found.rejected[0].row_id


def test_topics_and_ids_that_are_missing_are_rejected() -> None:
    found = outgoing(batch(value=[b"paid"], topic=[None]), topic=None)
    assert found.rejected[0].column == "topic"
    found = outgoing(batch(value=[b"1", b"2"], order=[None, "o-2"]), id_column="order")
    assert [row.column for row in found.rejected] == ["idColumn"]
    assert [one.body for one in found.messages] == [b"2"]


def test_a_time_beyond_all_calendars_is_rejected() -> None:
    beyond = pa.array([2**62], pa.int64()).cast(pa.timestamp("us", tz="UTC"))
    given = pa.record_batch([pa.array([b"paid"]), beyond], names=["value", "deliver_at"])
    assert [row.column for row in outgoing(given).rejected] == ["deliver_at"]


def test_rows_are_numbered_through_the_task() -> None:
    rows = RowConverter(StableIds(("query", "7"), 0), queues_of, topic="orders")
    rows.convert(batch(value=[b"1", b"2", b"3"]))
    assert [row.number for row in rows.convert(batch(value=[b"4", None])).rejected] == [4]


def test_each_message_knows_its_row() -> None:
    rows = RowConverter(StableIds(("query", "7"), 0), queues_of, topic="orders")
    rows.convert(batch(value=[b"1", b"2"]))
    found = rows.convert(batch(value=[b"3", None, b"5"]))
    assert [(one.body, n) for one, n in zip(found.messages, found.numbers, strict=True)] == [
        (b"3", 2),
        (b"5", 4),
    ]
