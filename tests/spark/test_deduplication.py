from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from orbitmq.errors import InvalidColumn
from orbitmq.spark.deduplication import drop_duplicates
from orbitmq.spark.schema import read_schema
from orbitmq.spark.stable_ids import ORBIT_ID

COLUMNS = ("topic", "value", "timestamp", "message_id", "properties")
NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


Row = tuple[str, bytes, datetime, str, dict[str, str]]


def row(
    value: bytes, message_id: str, row_id: str | None, *, topic: str = "orders", minute: int = 0
) -> Row:
    properties = {} if row_id is None else {ORBIT_ID: row_id}
    return topic, value, NOON + timedelta(minutes=minute), message_id, properties


ROWS = [
    row(b"written", "m1", "a"),
    row(b"written", "m2", "a", minute=1),
    row(b"elsewhere", "m3", "a", topic="bills"),
    row(b"equal", "m4", "b"),
    row(b"equal", "m5", "c"),
    row(b"not ours", "m6", None),
    row(b"not ours", "m7", None),
    row(b"sent again by its producer", "m8", None),
    row(b"sent again by its producer", "m8", None, minute=1),
    row(b"id like a message's", "m9", "m6"),
]
COPIES = (1, 8)
ONCE = [value for number, (_, value, *_) in enumerate(ROWS) if number not in COPIES]


def frame(spark: SparkSession, rows: list[Row]) -> DataFrame:
    return spark.createDataFrame(rows, read_schema(COLUMNS))


def values(df: DataFrame) -> list[bytes]:
    return sorted(bytes(one.value) for one in df.collect())


def test_copies_of_a_batch_go_and_all_else_stays(spark: SparkSession) -> None:
    given = frame(spark, ROWS)
    once = drop_duplicates(given)
    assert once.schema == given.schema
    assert values(once) == sorted(ONCE)


def test_what_tells_messages_apart_may_be_their_place(spark: SparkSession) -> None:
    rows = [(b"1", "a", 0, offset, dict[str, str]()) for offset in (1, 2, 1)]
    columns = ("value", "broker", "queue_id", "queue_offset", "properties")
    given = spark.createDataFrame(rows, read_schema(columns))
    assert values(drop_duplicates(given)) == [b"1", b"1"]


def test_what_it_needs_it_names(spark: SparkSession) -> None:
    given = frame(spark, [])
    with pytest.raises(InvalidColumn, match="needs the column properties: it holds the ids"):
        drop_duplicates(given.drop("properties"))
    with pytest.raises(InvalidColumn, match="read message_id or offset_message_id or broker"):
        drop_duplicates(given.drop("message_id"))


def test_copies_of_a_stream_go_for_as_long_as_they_are_remembered(
    spark: SparkSession, tmp_path: Path
) -> None:
    files = str(tmp_path / "files")
    batches = (
        [*ROWS, row(b"copy", "m10", "d")],
        [row(b"copy", "m11", "d", minute=30)],
        [row(b"hours pass", "m12", "e", minute=200)],
        [row(b"and the watermark with them", "m13", "f", minute=201)],
        [row(b"forgotten", "m14", "a", minute=202)],
    )
    for rows in batches:
        frame(spark, rows).coalesce(1).write.mode("append").parquet(files)
    stream = (
        spark.readStream.schema(read_schema(COLUMNS))
        .option("maxFilesPerTrigger", 1)
        .option("latestFirst", False)
        .parquet(files)
    )
    with pytest.raises(InvalidColumn, match="needs the column timestamp"):
        drop_duplicates(stream.drop("timestamp"))
    query = (
        drop_duplicates(stream, within="1 hour")
        .writeStream.format("memory")
        .queryName("once")
        .outputMode("append")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(90)
    later = [b"copy", b"hours pass", b"and the watermark with them", b"forgotten"]
    assert values(spark.table("once")) == sorted([*ONCE, *later])
