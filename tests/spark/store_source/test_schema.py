import pytest
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from orbitmq.errors import InvalidColumn
from orbitmq.spark.schema import READ_COLUMNS, read_schema
from orbitmq.spark.store_source.schema import STORE_COLUMNS, columns_of, store_schema


def test_the_columns_are_those_of_the_other_format_and_three_more() -> None:
    fields = store_schema().fields
    assert fields[: len(READ_COLUMNS)] == read_schema().fields
    assert store_schema(STORE_COLUMNS[len(READ_COLUMNS) :]).simpleString() == (
        "struct<physical_offset:bigint,sys_flag:int,queue_tag_code:bigint>"
    )
    assert store_schema(["corrupt"]).simpleString() == "struct<corrupt:string>"


def test_a_given_schema_picks_columns() -> None:
    given = store_schema(["sys_flag", "topic"])
    assert columns_of(given, STORE_COLUMNS) == ("sys_flag", "topic")


@pytest.mark.parametrize(
    ("fields", "what"),
    [
        ([], "has no columns"),
        ([StructField("corrupt", StringType())], "'corrupt' of the given schema can't be read"),
        ([StructField("queue_id", LongType())], "column queue_id is int and may be null"),
        ([StructField("queue_id", IntegerType(), False)], "column queue_id is int and may be"),
        ([StructField("topic", StringType())] * 2, "column topic is twice"),
    ],
)
def test_another_schema_is_refused(fields: list[StructField], what: str) -> None:
    with pytest.raises(InvalidColumn, match=what):
        columns_of(StructType(fields), STORE_COLUMNS)
