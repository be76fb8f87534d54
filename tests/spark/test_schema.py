import pytest
from pyspark.sql.types import (
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestampType,
)

from orbitmq.errors import InvalidColumn, InvalidOption
from orbitmq.spark.schema import (
    WRITE_COLUMNS,
    check_read_columns,
    check_write_schema,
    read_schema,
)

TYPES: dict[str, DataType] = {
    "string": StringType(),
    "binary": BinaryType(),
    "int": IntegerType(),
    "bigint": LongType(),
    "timestamp": TimestampType(),
    "map<string,string>": MapType(StringType(), StringType()),
    "map<string,int>": MapType(StringType(), IntegerType()),
}


def schema(text: str) -> StructType:
    """Return the schema that a text declares; Spark's own reader of these needs a running Spark."""
    found = StructType()
    for column in text.split(", "):
        name, _, kind = column.partition(" ")
        found.add(name, TYPES[kind])
    return found


def test_the_columns_of_a_read_are_those_of_the_contract() -> None:
    assert read_schema() == schema(
        "key string, value binary, topic string, broker string, queue_id int, queue_offset bigint, "
        "timestamp timestamp, born_timestamp timestamp, tags string, message_id string, "
        "offset_message_id string, properties map<string,string>, flag int, reconsume_times int, "
        "body_crc int"
    )


def test_columns_are_picked_by_name() -> None:
    assert check_read_columns(["tags", "value"]) == ("tags", "value")
    with pytest.raises(InvalidOption, match="there is no column 'xyz'; there are key, value"):
        check_read_columns(["xyz"])
    with pytest.raises(InvalidOption, match="value is given twice"):
        check_read_columns(["value", "value"])


@pytest.mark.parametrize(
    "text",
    [
        "value binary, topic string",
        "value string, topic string, key string, tags string, properties map<string,string>",
        "value string, topic string, sharding_key string, delay_level int, deliver_at timestamp",
        "value binary, topic string, queue_id bigint, delay_level bigint",
        "value binary, topic string, queue_id int",
    ],
)
def test_valid_columns_pass(text: str) -> None:
    check_write_schema(schema(text))


def test_the_columns_of_a_write_are_those_of_the_contract() -> None:
    assert set(WRITE_COLUMNS) == {
        *("topic", "value", "key", "tags", "properties"),
        *("queue_id", "sharding_key", "delay_level", "deliver_at"),
    }


@pytest.mark.parametrize(
    ("text", "column", "what"),
    [
        ("value int, topic string", "value", "column value is int; it must be binary or string"),
        ("value binary, topic binary", "topic", "it must be string"),
        ("value binary, queue_id string", "queue_id", "must be int or bigint"),
        ("value binary, deliver_at string", "deliver_at", "must be timestamp"),
        ("value binary, properties map<string,int>", "properties", "be map<string,string>"),
        ("value binary, properties string", "properties", "be map<string,string>"),
        ("value binary, tag string", "tag", "can't be written; did you mean tags?"),
        ("VALUE binary", "VALUE", "can't be written; did you mean value?"),
        ("value binary, xyz string", "xyz", "there are topic, value, .*deliver_at. Drop it"),
        (
            "value binary, value string",
            "value",
            "'value' is there twice; drop or rename one",
        ),
        ("topic string", "value", "there is no column value"),
        ("value binary", "topic", "no topic is given"),
    ],
)
def test_invalid_columns_are_named(text: str, column: str, what: str) -> None:
    with pytest.raises(InvalidColumn, match=what) as caught:
        check_write_schema(schema(text))
    assert caught.value.field == column


def test_a_default_topic_replaces_the_column() -> None:
    check_write_schema(schema("value binary"), topic="orders")


def test_a_column_of_ids_is_there_once() -> None:
    twice = schema("value binary, order_no string, order_no string")
    with pytest.raises(InvalidColumn, match="'order_no' is there twice"):
        check_write_schema(twice, topic="t", id_column="order_no")


def test_the_column_of_ids_may_have_any_name() -> None:
    check_write_schema(schema("value binary, order_no string"), topic="t", id_column="order_no")
    with pytest.raises(InvalidColumn, match="idColumn is 'order_no', but there is no such"):
        check_write_schema(schema("value binary"), topic="t", id_column="order_no")
    # Not that the column which was meant is none to be written.
    with pytest.raises(InvalidColumn, match="idColumn is 'orderNo', .* are value, order_no"):
        check_write_schema(schema("value binary, order_no string"), topic="t", id_column="orderNo")
    with pytest.raises(InvalidColumn, match="idColumn order_no is int; it must be string"):
        check_write_schema(schema("value binary, order_no int"), topic="t", id_column="order_no")
