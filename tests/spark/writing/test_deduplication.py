from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from orbitmq.errors import InvalidColumn
from orbitmq.spark.schema import read_schema
from orbitmq.spark.writing.deduplication import drop_duplicates
from orbitmq.spark.writing.stable_ids import ORBIT_ID

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


def test_messages_may_be_identified_by_their_position(spark: SparkSession) -> None:
    rows = [(b"1", "a", 0, offset, dict[str, str]()) for offset in (1, 2, 1)]
    columns = ("value", "broker", "queue_id", "queue_offset", "properties")
    given = spark.createDataFrame(rows, read_schema(columns))
    assert values(drop_duplicates(given)) == [b"1", b"1"]


def test_missing_columns_are_named(spark: SparkSession) -> None:
    given = frame(spark, [])
    with pytest.raises(InvalidColumn, match="needs the column properties, which has the ids"):
        drop_duplicates(given.drop("properties"))
    with pytest.raises(InvalidColumn, match="add message_id or offset_message_id or broker"):
        drop_duplicates(given.drop("message_id"))


def file_stream(spark: SparkSession, directory: Path, batches: Iterable[list[Row]]) -> DataFrame:
    """Return a stream that reads each list of rows as a batch."""
    files = str(directory / "files")
    for rows in batches:
        frame(spark, rows).coalesce(1).write.mode("append").parquet(files)
    return (
        spark.readStream.schema(read_schema(COLUMNS))
        .option("maxFilesPerTrigger", 1)
        .option("latestFirst", False)
        .parquet(files)
    )


def run(df: DataFrame, name: str, directory: Path) -> list[bytes]:
    """Return the values that a query of what is there has written."""
    query = (
        df.writeStream.format("memory")
        .queryName(name)
        .outputMode("append")
        .option("checkpointLocation", str(directory / name))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(90)
    return values(df.sparkSession.table(name))


def test_copies_of_a_stream_go_for_as_long_as_they_are_remembered(
    spark: SparkSession, tmp_path: Path
) -> None:
    later = [row(b"%d" % number, f"n{number}", f"later-{number}") for number in range(3)]
    copy = row(b"written", "m14", "a", minute=-30)
    stream = file_stream(spark, tmp_path, (ROWS, *([one] for one in later), [copy]))
    all_once = sorted([*ONCE, b"0", b"1", b"2"])

    once = drop_duplicates(stream, within="1 hour")
    assert once.schema == stream.schema
    assert run(once, "once", tmp_path) == all_once
    # Each batch takes longer than that, and the ids of the first one are forgotten by the last.
    briefly = drop_duplicates(stream.drop("timestamp"), within="1 millisecond")
    assert run(briefly, "briefly", tmp_path) == sorted([*all_once, b"written"])


def test_a_backlog_is_no_copy_of_what_was_stored_today(spark: SparkSession, tmp_path: Path) -> None:
    # As if two queues were read alternately, one to its end and the other from last week on.
    day = 24 * 60
    today = [row(b"today", "m1", "a"), row(b"today", "m2", "a", minute=1)]
    week = [[row(b"%d" % n, f"w{n}", f"w-{n}", minute=-n * day)] for n in range(7, 1, -1)]
    again = [row(b"7", "w7-again", "w-7", minute=-7 * day)]
    stream = file_stream(spark, tmp_path, [today, *week, again])

    found = run(drop_duplicates(stream, within="1 hour"), "backlog", tmp_path)

    assert found == sorted([b"today", *(b"%d" % n for n in range(2, 8))])


def test_a_watermark_of_the_user_is_used(spark: SparkSession, tmp_path: Path) -> None:
    batches = (
        [row(b"copy", "m1", "a")],
        [row(b"copy", "m2", "a", minute=30), row(b"hours pass", "m3", "b", minute=200)],
        [row(b"the next day", "m4", "c", minute=24 * 60)],
        [row(b"too old", "m5", "d", minute=100)],
    )
    stream = file_stream(spark, tmp_path, batches).withWatermark("timestamp", "1 hour")
    once = drop_duplicates(stream).groupBy(f.window("timestamp", "1 hour")).count()

    counts = once.select(f.col("count").cast("string").cast("binary").alias("value"))

    assert run(counts, "windows", tmp_path) == [b"1", b"1"]
