"""An archive has each message of its topics once, and grows by what is new."""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pyarrow.dataset as ds
import pytest
from pyspark.sql import DataFrame, Row, SparkSession

from orbitmq import Message
from orbitmq.blocking import Admin, Producer
from orbitmq.embedded import RunningCluster
from orbitmq.errors import DataLost, InvalidInput, LocationInUse
from orbitmq.spark.jobs import archive as job
from orbitmq.spark.jobs.archive import FileOptions, archive, watch
from orbitmq.spark.jobs.archiving.directory import OWN
from orbitmq.spark.jobs.sources import Span, Topics, rows
from orbitmq.spark.locations.location import Location
from orbitmq.spark.locations.lock import locked
from orbitmq.spark.schema import READ_COLUMNS

PLACE = ("broker", "queue_id", "queue_offset")
pytestmark = pytest.mark.usefixtures("spark")


def send(cluster: RunningCluster, topic: str, first: int, count: int) -> None:
    with Producer("shop", nameserver=cluster.nameserver) as producer:
        for number in range(first, first + count):
            producer.send(
                Message(
                    topic,
                    b"%d" % number * (number + 1),
                    keys=[f"o-{number}"],
                    tags="paid" if number % 2 else None,
                    properties={"colour": "blue", f"n{number % 3}": "é"},
                    flag=number,
                )
            )


@pytest.fixture
def orders(shared_cluster: RunningCluster, request: pytest.FixtureRequest) -> Iterator[Topics]:
    topic = request.node.name.replace("[", "-").replace("]", "")
    with Admin(nameserver=shared_cluster.nameserver) as admin:
        admin.create_topic(topic, queues=2)
    send(shared_cluster, topic, 0, 40)
    yield Topics(shared_cluster.nameserver, (topic,))
    with Admin(nameserver=shared_cluster.nameserver) as admin:
        admin.delete_topic(topic)


def collected(frame: DataFrame) -> list[Row]:
    found = frame.select(*READ_COLUMNS).collect()
    return sorted(found, key=lambda row: (row.topic, row.broker, row.queue_id, row.queue_offset))


def test_an_archive_equals_its_topic(
    spark: SparkSession, shared_cluster: RunningCluster, orders: Topics, tmp_path: Path
) -> None:
    first = archive(spark, orders, str(tmp_path))
    assert (first.run, first.rows) == (1, 40)
    assert archive(spark, orders, str(tmp_path)).run is None
    send(shared_cluster, orders.names[0], 40, 10)
    second = archive(spark, orders, str(tmp_path), files=FileOptions(compression="snappy"))
    assert (second.run, second.rows) == (2, 10)
    expected = collected(rows(spark, orders, READ_COLUMNS))
    assert len(expected) == 50
    assert collected(spark.read.parquet(str(tmp_path))) == expected
    found = ds.dataset(tmp_path, partitioning="hive").to_table()
    offsets = zip(*(found[name].to_pylist() for name in PLACE), strict=True)
    assert sorted(offsets) == [(row.broker, row.queue_id, row.queue_offset) for row in expected]
    assert set(found["topic"].to_pylist()) == {*orders.names}


def test_a_range_of_times_and_tags(spark: SparkSession, orders: Topics, tmp_path: Path) -> None:
    assert archive(spark, orders, str(tmp_path), Span(end_ms=1_000)).run is None
    paid = Topics(orders.nameserver, orders.names, {"tags": "paid"})
    assert archive(spark, paid, str(tmp_path)).rows == 20


def test_a_topic_that_was_made_again(
    spark: SparkSession, shared_cluster: RunningCluster, orders: Topics, tmp_path: Path
) -> None:
    archive(spark, orders, str(tmp_path))
    with Admin(nameserver=shared_cluster.nameserver) as admin:
        admin.delete_topic(orders.names[0])
        admin.create_topic(orders.names[0], queues=2)
    send(shared_cluster, orders.names[0], 0, 4)
    with pytest.raises(DataLost, match="created again"):
        archive(spark, orders, str(tmp_path))
    careless = Topics(orders.nameserver, orders.names, {"failOnDataLoss": "false"})
    found = archive(spark, careless, str(tmp_path))
    assert {gap.why for gap in found.gaps} == {"recreated"}
    assert found.rows == 4
    assert spark.read.parquet(str(tmp_path)).count() == 44


def test_two_at_once(spark: SparkSession, orders: Topics, tmp_path: Path) -> None:
    with locked(Location(str(tmp_path)), OWN), pytest.raises(LocationInUse, match="in use by"):
        archive(spark, orders, str(tmp_path))
    assert archive(spark, orders, str(tmp_path)).rows == 40


def test_watching(
    spark: SparkSession,
    orders: Topics,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    pauses: list[int] = []
    monkeypatch.setattr(job, "pause", pauses.append)
    found = [*islice(watch(spark, orders, str(tmp_path), 2.5), 3)]
    assert [one.rows for one in found] == [40, 0, 0]
    assert pauses == [2_500, 2_500]

    def ends(_duration_ms: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(job, "pause", ends)  # a cluster that is down is tried again after it
    with pytest.raises(KeyboardInterrupt):
        next(watch(spark, Topics("127.0.0.1:1", orders.names), str(tmp_path), 1))
    assert "goes on in 1 s" in caplog.text


def test_columns_are_not_chosen(spark: SparkSession, orders: Topics, tmp_path: Path) -> None:
    narrow = Topics(orders.nameserver, orders.names, {"columns": "value"})
    with pytest.raises(InvalidInput, match="all columns"):
        archive(spark, narrow, str(tmp_path))
