"""Writes as Spark runs them: tasks in processes of their own, retries, streams, replays."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.readwriter import DataStreamWriter

from orbitmq.embedded import RunningCluster
from orbitmq.spark.writing.stable_ids import ORBIT_ID
from tests.spark.shown import last_line
from tests.spark.stored import stored

# PySpark warns wherever it takes Arrow batches, although no pandas is used here.
pytestmark = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas")


BATCH_ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"


def orders(spark: SparkSession, count: int, partitions: int = 2) -> DataFrame:
    return spark.range(0, count, 1, partitions).select(
        f.encode(f.format_string("order-%d", "id"), "UTF-8").alias("value"),
        f.format_string("o-%d", "id").alias("key"),
        f.format_string("customer-%d", f.col("id") % 3).alias("sharding_key"),
    )


def append(df: DataFrame, cluster: RunningCluster, topic: str, **options: str) -> None:
    writer = df.write.format("rocketmq").mode("append")
    writer.options(nameserver=cluster.nameserver, topic=topic, **options).save()


def test_a_data_frame_becomes_messages(spark: SparkSession, shared_cluster: RunningCluster) -> None:
    append(orders(spark, 1_000), shared_cluster, "orders")
    found = stored(shared_cluster, "orders")
    assert {one.body: one.keys for one in found} == {
        b"order-%d" % number: (f"o-{number}",) for number in range(1_000)
    }
    assert len({one.properties[ORBIT_ID] for one in found}) == len(found) == 1_000
    for customer in range(3):
        mine = [one for one in found if one.sharding_key == f"customer-{customer}"]
        assert len({(one.broker_name, one.queue_id) for one in mine}) == 1


@pytest.fixture
def small_batches(spark: SparkSession) -> Iterator[None]:
    """Arrow batches of forty rows."""
    spark.conf.set(BATCH_ROWS, 40)
    yield
    spark.conf.unset(BATCH_ROWS)


@pytest.mark.usefixtures("small_batches")
def test_a_retried_task_sends_the_same_ids_in_spark(
    spark: SparkSession, shared_cluster: RunningCluster, tmp_path: Path
) -> None:
    failed = tmp_path / "failed"

    def spoilt_once(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = pa.Table.from_batches(list(batches))
        if failed.exists():  # now the other way round: ids don't depend on the order of rows
            yield from rows.take(list(range(rows.num_rows))[::-1]).to_batches()
            return
        failed.touch()
        last = rows.slice(rows.num_rows - 1).set_column(0, "value", pa.array([None], pa.binary()))
        yield from pa.concat_tables([rows.slice(0, rows.num_rows - 1), last]).to_batches()

    given = orders(spark, 100, partitions=1)
    append(given.mapInArrow(spoilt_once, given.schema), shared_cluster, "retried")
    found = stored(shared_cluster, "retried")
    assert len(found) == 80 + 100  # two batches went before the third was refused
    assert len({(one.body, one.properties[ORBIT_ID]) for one in found}) == 100


def test_our_message_is_the_last_line_of_the_error(
    spark: SparkSession, shared_cluster: RunningCluster
) -> None:
    with pytest.raises(PySparkException) as caught:
        append(spark.range(3).withColumnRenamed("id", "value"), shared_cluster, "wrong")
    assert last_line(caught.value).startswith(
        "orbitmq.errors.InvalidColumn: column value is bigint; it must be binary"
    )
    with pytest.raises(PySparkException) as caught:
        orders(spark, 1).write.format("rocketmq").mode("overwrite").options(
            nameserver=shared_cluster.nameserver, topic="wrong"
        ).save()
    assert last_line(caught.value) == (
        "orbitmq.errors.InvalidInput: a topic can't be overwritten; write with mode('append')"
    )
    rejected = orders(spark, 3, 1).withColumn("value", f.lit(None).cast("binary"))
    with pytest.raises(PySparkException) as caught:
        append(rejected, shared_cluster, "wrong")
    shown = str(caught.value)
    assert "\norbitmq.errors.RowsRejected: partition 0: 3 rows can't be messages: row 0" in shown
    assert last_line(caught.value).startswith(
        "partition 0: 0 messages of this task are stored, and 0 more may be."
    )
    assert stored(shared_cluster, "wrong") == []


def test_a_topic_is_copied_with_its_properties(
    spark: SparkSession, shared_cluster: RunningCluster
) -> None:
    said = orders(spark, 20).withColumn("tags", f.lit("paid"))
    said = said.withColumn("properties", f.create_map(f.lit("colour"), f.col("key")))
    append(said, shared_cluster, "copied")
    read = spark.read.format("rocketmq").options(nameserver=shared_cluster.nameserver)
    copied = read.load(subscribe="copied", columns="value,properties")
    append(copied, shared_cluster, "copy")

    def told(topic: str) -> list[tuple[object, ...]]:
        return sorted(
            (
                *(one.body, one.keys, one.tags, one.sharding_key),
                *(one.properties["colour"], one.properties[ORBIT_ID]),
            )
            for one in stored(shared_cluster, topic)
        )

    assert told("copy") == told("copied")
    assert len(told("copy")) == 20


def test_invalid_text_goes_to_the_dead_letters(
    spark: SparkSession, shared_cluster: RunningCluster
) -> None:
    spoilt = f.when(f.col("key") == "o-1", f.expr("cast(X'ff41' as string)")).otherwise(
        f.col("key")
    )
    append(orders(spark, 3).withColumn("key", spoilt), shared_cluster, "texts", onReject="no-texts")
    assert sorted(one.keys for one in stored(shared_cluster, "texts")) == [("o-0",), ("o-2",)]
    assert [one.body for one in stored(shared_cluster, "no-texts")] == [b"order-1"]


def test_our_message_is_the_last_line_for_a_streaming_write_too(
    spark: SparkSession, shared_cluster: RunningCluster, tmp_path: Path
) -> None:
    wrong = spark.readStream.format("rate").load()
    with pytest.raises(StreamingQueryException) as caught:
        streamed(wrong, shared_cluster, "wrong", tmp_path).start().awaitTermination()
    assert last_line(caught.value).startswith("orbitmq.errors.InvalidColumn: column")


def streamed(
    df: DataFrame, cluster: RunningCluster, topic: str, checkpoint: Path
) -> DataStreamWriter:
    return (
        df.writeStream.format("rocketmq")
        .options(nameserver=cluster.nameserver, topic=topic)
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
    )


def test_a_stream_is_written_and_a_replayed_batch_has_the_same_ids(
    spark: SparkSession, shared_cluster: RunningCluster, tmp_path: Path
) -> None:
    files, checkpoint = tmp_path / "files", tmp_path / "checkpoint"
    for part in range(2):
        orders(spark, 50, 1).withColumn("tags", f.lit(f"part-{part}")).write.mode("append").parquet(
            str(files)
        )
    schema = orders(spark, 1).withColumn("tags", f.lit("")).schema
    source = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)

    def run() -> None:
        query = streamed(source.parquet(str(files)), shared_cluster, "streamed", checkpoint).start()
        assert query.awaitTermination(60)

    run()
    first = stored(shared_cluster, "streamed")
    assert len(first) == len({one.properties[ORBIT_ID] for one in first}) == 100
    # As if the driver died after all rows of a batch were stored and before it was committed.
    (checkpoint / "commits" / "1").unlink()
    (checkpoint / "commits" / ".1.crc").unlink(missing_ok=True)
    run()
    again = stored(shared_cluster, "streamed")
    assert len(again) == 150
    assert {one.properties[ORBIT_ID] for one in again} == {
        one.properties[ORBIT_ID] for one in first
    }
