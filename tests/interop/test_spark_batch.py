"""Spark's batch reads from brokers that are processes of their own: Java's, and three of ours."""

import contextlib
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.datasource import EqualTo, Filter, GreaterThan, LessThan

from orbitmq.spark.options.options import read_options
from orbitmq.spark.reading.batch_reader import FilteringBatchReader
from tests.interop.java_cluster import JavaCluster
from tests.interop.our_servers import a_broker, a_nameserver
from tests.spark.traffic import Traffic, create_topic, taken

pytestmark = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas")

COUNT = 120
COMPRESSED = 6_000
"""Bytes of a body that the producer makes smaller."""


@pytest.fixture
def java(java_cluster_540: JavaCluster) -> Iterator[Traffic]:
    """A topic with eight queues on Java's broker."""
    topic = java_cluster_540.create_topic("spark-read", queues=8)
    nameserver = str(java_cluster_540.nameserver.address)
    with Traffic(nameserver, topic, queues=0, body_bytes=COMPRESSED) as traffic:
        traffic.send(COUNT)
        yield traffic


@pytest.fixture
def ours(tmp_path: Path) -> Iterator[Traffic]:
    """A topic with eight queues on each of three brokers of ours."""
    with contextlib.ExitStack() as running:
        nameserver = str(running.enter_context(a_nameserver(tmp_path)).address)
        for letter in "abc":
            broker = a_broker(tmp_path / letter, nameservers=nameserver, name=f"broker-{letter}")
            running.enter_context(broker)
        create_topic(nameserver, "orders", queues=8)
        with Traffic(nameserver, "orders", queues=0, body_bytes=COMPRESSED) as traffic:
            traffic.send(COUNT)
            yield traffic


@pytest.fixture(params=["java", "ours"])
def traffic(request: pytest.FixtureRequest) -> Traffic:
    found: Traffic = request.getfixturevalue(request.param)
    return found


def test_what_was_sent_is_read(spark: SparkSession, traffic: Traffic) -> None:
    told = {"nameserver": traffic.nameserver, "subscribe": traffic.topic}
    frame = spark.read.format("rocketmq").options(**told).load()

    rows = frame.select("value", "tags", "key", "broker", "queue_id", "queue_offset").collect()

    assert len(rows) == COUNT
    for row in rows:
        number = int(row.value)
        queue, offset = traffic.places[number]
        assert len(row.value) == COMPRESSED
        assert (row.tags, row.key) == (f"t{number % 3}", f"k{number}")
        assert (row.broker, row.queue_id) == (queue.broker_name, queue.queue_id)
        assert row.queue_offset == offset
    check_options(numbers_read(traffic), traffic)


def numbers_read(traffic: Traffic) -> Callable[..., list[int]]:
    """Return a function that reads a topic without Spark, by filters and options."""

    def read(*filters: Filter, **options: str) -> list[int]:
        told = {"nameserver": traffic.nameserver, "columns": "value", **options}
        if "assign" not in options:
            told["subscribe"] = traffic.topic
        reader = FilteringBatchReader(read_options(told, streaming=False))
        reader.pushFilters(list(filters))
        return sorted(int(row["value"]) for row in taken(reader))

    return read


def check_options(read: Callable[..., list[int]], traffic: Traffic) -> None:
    every = list(range(COUNT))
    first, offset = traffic.places[0]
    in_first = [number for number, (queue, _) in traffic.places.items() if queue == first]
    long_ago = datetime(2020, 1, 1, tzinfo=UTC)
    name = f"{first.broker_name}:{first.queue_id}"

    assert read(tags="t1") == every[1::3]
    assert read(EqualTo(("tags",), "t2"), tags="t1 || t2") == every[2::3]
    assert read(maxRecordsPerPartition="2", pullCount="1") == every
    assert read(EqualTo(("key",), "k7")) == [7]
    assert read(assign=f'{{"{traffic.topic}": ["{name}"]}}') == in_first
    assert read(EqualTo(("broker",), first.broker_name), EqualTo(("queue_id",), first.queue_id))
    assert read(GreaterThan(("timestamp",), long_ago)) == every
    assert read(LessThan(("timestamp",), long_ago)) == []
    assert read(startingTimestamp="1500000000000", endingTimestamp="1600000000000") == []
    assert 0 in read(LessThan(("queue_offset",), offset + 1))
