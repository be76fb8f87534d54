"""A store is archived by places in its log, with all topics or some."""

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from orbitmq import Message, embedded
from orbitmq.blocking import Producer
from orbitmq.errors import InvalidInput, StoreDamaged
from orbitmq.spark.jobs.archive import archive
from orbitmq.spark.jobs.archiving.directory import ArchiveDirectory
from orbitmq.spark.jobs.archiving.store_feed import by_topic, store_feed
from orbitmq.spark.jobs.sources import Span, Store, rows
from orbitmq.spark.locations.location import Location
from orbitmq.spark.store_source.schema import STORE_COLUMNS
from tests.interop.waiting import until


def wait_for_entries(spark: SparkSession, store: Store) -> None:
    """Wait until queues in files have all messages: the codes of tags come from there."""

    def are_written() -> bool:
        codes = rows(spark, store, ["queue_tag_code"])  # planned anew: a frame stays as it was
        return codes.where("queue_tag_code IS NULL").isEmpty()

    until(are_written, what="queues are written")


def test_a_store_with_a_live_broker(spark: SparkSession, tmp_path: Path) -> None:
    to = str(tmp_path / "archive")
    store = Store(str(tmp_path / "data" / "broker-a"), (), {"broker": "broker-a"})
    with (
        embedded.start(str(tmp_path / "data")) as cluster,
        Producer("shop", nameserver=cluster.nameserver) as producer,
    ):
        for number in range(60):
            topic = ("orders", "refunds", "orders")[number % 3]
            producer.send(Message(topic, b"%d" % number, keys=[f"o-{number}"], tags="paid"))
        wait_for_entries(spark, store)
        first = archive(spark, store, to)
        assert archive(spark, store, to).run is None
        producer.send(Message("orders", b"late"))
        wait_for_entries(spark, store)
        second = archive(spark, store, to)
        some = archive(spark, Store(store.directory, ("refunds",)), str(tmp_path / "some"))
    assert (first.rows, second.rows, some.rows) == (60, 1, 20)
    assert {one.topic for one in first.files} == {"orders", "refunds"}
    assert all(one.rows == one.end - one.start for one in first.ranges)
    (after,) = second.ranges
    before = next(one.end for one in first.ranges if one.queue == after.queue)
    assert (after.start, after.end) == (before, before + 1)
    place = "physical_offset"
    expected = rows(spark, store, STORE_COLUMNS).orderBy(place).collect()
    found = spark.read.parquet(to).select(*STORE_COLUMNS).orderBy(place).collect()
    assert found == expected
    assert len(found) == 61


def test_a_log_that_doesn_t_continue(spark: SparkSession, tmp_path: Path) -> None:
    to = str(tmp_path / "archive")
    directory = str(tmp_path / "data" / "broker-a")
    for count in (5, 3):
        with (
            embedded.start(str(tmp_path / "data")) as cluster,
            Producer("shop", nameserver=cluster.nameserver) as producer,
        ):
            producer.send_many(Message("orders", bytes(100)) for _ in range(count))
        if count == 5:
            assert archive(spark, Store(directory), to).rows == 5
            for file in sorted((tmp_path / "data").rglob("*"), reverse=True):
                file.unlink() if file.is_file() else file.rmdir()
    with pytest.raises(StoreDamaged, match="ends at"):
        archive(spark, Store(directory), to)
    found = archive(spark, Store(directory, (), {"failOnDataLoss": "false"}), to)
    assert [gap.why for gap in found.gaps] == ["recreated"]
    assert found.rows == 3
    last = ArchiveDirectory(Location(to)).last()
    assert last is not None
    assert last.log_end is not None
    assert last.log_end < found.gaps[0].start


def test_rows_by_topic() -> None:
    table = {"topic": ["a", "b", "a", "c", "b"], "n": [1, 2, 3, 4, 5]}
    batch = pa.RecordBatch.from_pydict(table)
    found = [(topic, part.to_pydict()) for topic, part in by_topic(batch)]
    assert found == [("a", {"n": [1, 3]}), ("b", {"n": [2, 5]}), ("c", {"n": [4]})]
    assert [len(part) for _, part in by_topic(batch.slice(0, 1))] == [1]
    assert [*by_topic(batch.slice(0, 0))] == []


@pytest.mark.parametrize(
    "options", [{"columns": "value"}, {"includeProperties": "true"}, {"onCorrupt": "report"}]
)
def test_options_that_an_archive_can_t_use(options: dict[str, str]) -> None:
    with pytest.raises(InvalidInput):
        store_feed(Store("data", (), options), Span())
