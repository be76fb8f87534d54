"""The format as Spark runs it: found by name, planned once, read by tasks in parallel."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException
from pyspark.sql.datasource import InputPartition

from orbitmq.errors import InvalidColumn, InvalidOption
from orbitmq.spark.store_source.schema import store_schema
from orbitmq.spark.store_source.source import RocketMQStoreSource, StoreBatchReader
from orbitmq.store.message_store import MessageStore
from orbitmq.store.settings import StoreSettings
from orbitmq.testing.clocks import InlineWorkers
from pyspark_rocketmq_store import DefaultSource
from tests.spark.shown import last_line
from tests.spark.store_source.reads import options_of
from tests.store.logs import incoming
from tests.store.unpacked import flip

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MESSAGES = 3_000


@pytest.fixture
def store(tmp_path: Path) -> Iterator[MessageStore]:
    settings = StoreSettings(segment_bytes=1 << 18, queue_file_entries=10_000)
    running = MessageStore(str(tmp_path / "store"), settings, workers=InlineWorkers())
    running.open()
    send(running, range(MESSAGES))
    yield running
    running.close()


def send(store: MessageStore, numbers: range) -> None:
    topics = ["orders", "refunds"]
    store.append(
        [
            incoming(b"%d" % number, topic=topics[number % 2], queue_id=number % 4)
            for number in numbers
        ]
    )


def test_spark_reads_a_live_store_and_a_data_frame_stays_the_same(
    store: MessageStore, tmp_path: Path, spark: "SparkSession"
) -> None:
    directory = str(tmp_path / "store")
    reader = spark.read.format("rocketmq-store")
    frame = reader.option("minPartitions", 3).load(directory)
    assert frame.count() == MESSAGES
    send(store, range(MESSAGES, MESSAGES + 500))
    assert frame.count() == MESSAGES  # as planned by the first use
    found = sorted(int(row.value) for row in frame.select("value").collect())
    assert found == list(range(MESSAGES))
    assert frame.rdd.getNumPartitions() >= 3
    later = reader.option("subscribe", "orders").load(directory)
    by_queue = {row.queue_id: row["count"] for row in later.groupBy("queue_id").count().collect()}
    assert by_queue == {0: (MESSAGES + 500) // 4, 2: (MESSAGES + 500) // 4}


def test_spark_shows_our_errors_and_the_places(
    store: MessageStore, tmp_path: Path, spark: "SparkSession"
) -> None:
    store.close()
    directory = str(tmp_path / "store")
    file = min(Path(directory, "commitlog").iterdir())
    flip(file, 88)  # in the body of the first record
    reader = spark.read.format("rocketmq-store")
    with pytest.raises(PySparkException) as caught:
        reader.load(directory).count()
    assert f"StoreDamaged: {file}: commitlog at byte 0: " in str(caught.value)
    reports = reader.option("onCorrupt", "report").load(directory)
    assert reports.count() == MESSAGES
    (place,) = reports.where("corrupt IS NOT NULL").collect()
    assert (place.physical_offset, place.value) == (0, None)
    with pytest.raises(PySparkException) as caught:
        reader.option("subscribe", "orderz").load(directory).count()
    assert last_line(caught.value).endswith("did you mean orders?")
    with pytest.raises(PySparkException) as caught:
        reader.option("onCorupt", "skip").load(directory)
    assert last_line(caught.value).endswith("did you mean onCorrupt?")


# Without Spark


def test_the_door_has_the_name_of_the_format() -> None:
    assert DefaultSource is RocketMQStoreSource
    assert DefaultSource.name() == "rocketmq-store"


def test_a_given_schema_picks_columns_of_the_options(tmp_path: Path) -> None:
    source = RocketMQStoreSource({"path": str(tmp_path), "columns": "value,topic"})
    assert source.schema() == store_schema(["value", "topic"])
    source.reader(store_schema(["topic"]))
    with pytest.raises(InvalidColumn, match="'queue_id' of the given schema"):
        source.reader(store_schema(["queue_id"]))


def test_a_stream_is_refused_when_it_begins(tmp_path: Path) -> None:
    reader = RocketMQStoreSource({"path": str(tmp_path)}).streamReader(store_schema())
    with pytest.raises(InvalidOption, match="stream from its broker with format"):
        reader.initialOffset()


def test_the_partition_that_spark_adds_to_an_empty_read_has_no_rows(tmp_path: Path) -> None:
    reader = StoreBatchReader(options_of(tmp_path))
    assert list(reader.read(InputPartition(None))) == []
