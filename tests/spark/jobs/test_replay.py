"""A replay sends each message once, as it was, and the messages of a queue in order."""

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from pyspark.sql import DataFrame, SparkSession

from orbitmq import Message, embedded
from orbitmq.blocking import Admin, Producer
from orbitmq.embedded import RunningCluster
from orbitmq.errors import InvalidInput, LocationInUse
from orbitmq.message.properties import RESERVED
from orbitmq.spark.jobs.archive import archive
from orbitmq.spark.jobs.replay import Archive, Rate, replay, replay_counts
from orbitmq.spark.jobs.sources import Span, Store, Topics, rows
from orbitmq.spark.locations.location import Location
from orbitmq.spark.locations.lock import locked
from orbitmq.spark.writing.stable_ids import ORBIT_ID

KEPT = ("value", "key", "tags", "flag", "body_crc")
Content = tuple[object, ...]


def send(nameserver: str, topic: str, first: int, count: int) -> None:
    with Producer("shop", nameserver=nameserver) as producer:
        for number in range(first, first + count):
            producer.send(
                Message(
                    topic,
                    b"%d" % number * (1 + number % 7),
                    keys=[f"o-{number}", "all"] if number % 5 else [],
                    tags="paid" if number % 2 else None,
                    properties={"colour": "blue", "name": "é"},
                    flag=number,
                    sharding_key=f"s{number % 3}",
                )
            )


@pytest.fixture(scope="module")
def cluster() -> Iterator[RunningCluster]:
    with embedded.start() as running:
        with Admin(nameserver=running.nameserver) as admin:
            admin.create_topic("orders", queues=3)
        send(running.nameserver, "orders", 0, 90)
        yield running


@pytest.fixture
def orders(cluster: RunningCluster) -> Topics:
    return Topics(cluster.nameserver, ("orders",))


@pytest.fixture
def copy(cluster: RunningCluster, request: pytest.FixtureRequest) -> Topics:
    """A topic that isn't there yet."""
    return Topics(cluster.nameserver, (request.node.name,))


def by_queue(frame: DataFrame) -> dict[int, list[Content]]:
    """Return what a copy keeps, by queue, in the order of offsets."""
    found: dict[int, list[Content]] = defaultdict(list)
    for row in frame.orderBy("broker", "queue_id", "queue_offset").collect():
        own = {
            name: text
            for name, text in row.properties.items()
            if name not in RESERVED and name != ORBIT_ID
        }
        own["sharding"] = row.properties.get("__SHARDINGKEY")
        found[row.queue_id].append((*(row[name] for name in KEPT), own))
    return dict(found)


COLUMNS = (*KEPT, "broker", "queue_id", "queue_offset", "properties")


def test_archived_replayed_and_archived_again(
    spark: SparkSession, orders: Topics, copy: Topics, tmp_path: Path
) -> None:
    one, two, ledger = (str(tmp_path / name) for name in ("one", "two", "ledger"))
    archive(spark, orders, one)
    assert replay_counts(spark, Archive(one), ledger).messages == 90
    done = replay(spark, Archive(one), copy, ledger)
    assert done.messages == sum(queue.messages for queue in done.queues) == 90
    assert replay(spark, Archive(one), copy, ledger).messages == 0
    assert replay_counts(spark, Archive(one), ledger).messages == 0
    archive(spark, copy, two)
    first, second = spark.read.parquet(one), spark.read.parquet(two)
    assert by_queue(first) == by_queue(second)
    for row in second.collect():
        place = f"orders:broker-a:{row.queue_id}:{row.queue_offset}"
        assert row.properties[ORBIT_ID] == place


def test_topics_with_a_condition_and_a_rate(
    spark: SparkSession, orders: Topics, copy: Topics, tmp_path: Path
) -> None:
    where, rate = "tags = 'paid' AND queue_id < 2", Rate(messages=1_000, bytes=1e6)
    planned = replay_counts(spark, orders, where=where)
    done = replay(spark, orders, copy, str(tmp_path), where=where, rate=rate)
    source = rows(spark, orders, [*COLUMNS], Span()).where(where)
    assert planned.messages == done.messages == source.count() > 0
    assert by_queue(rows(spark, copy, COLUMNS)) == by_queue(source)


def test_what_is_new_later(
    spark: SparkSession, cluster: RunningCluster, copy: Topics, tmp_path: Path
) -> None:
    topic = f"{copy.names[0]}-source"
    with Admin(nameserver=cluster.nameserver) as admin:
        admin.create_topic(topic, queues=1)
    source = Topics(cluster.nameserver, (topic,))
    send(cluster.nameserver, topic, 0, 10)
    assert replay(spark, source, copy, str(tmp_path)).messages == 10
    send(cluster.nameserver, topic, 10, 5)
    assert replay_counts(spark, source, str(tmp_path)).messages == 5
    assert replay(spark, source, copy, str(tmp_path)).messages == 5
    assert by_queue(rows(spark, copy, COLUMNS)) == by_queue(rows(spark, source, COLUMNS))


def test_a_store(spark: SparkSession, copy: Topics, tmp_path: Path) -> None:
    with embedded.start(str(tmp_path / "data")) as other:
        send(other.nameserver, "elsewhere", 0, 40)
        source = Topics(other.nameserver, ("elsewhere",))
        expected = by_queue(rows(spark, source, COLUMNS))
    store = Store(str(tmp_path / "data" / "broker-a"), ("elsewhere",))
    assert replay(spark, store, copy, str(tmp_path / "ledger")).messages == 40
    found = rows(spark, copy, COLUMNS)
    assert sorted(by_queue(found).values()) == sorted(expected.values())
    assert {row.properties[ORBIT_ID].split(":")[1] for row in found.collect()} == {"store"}


def test_arguments(spark: SparkSession, orders: Topics, tmp_path: Path) -> None:
    ledger = str(tmp_path)
    with pytest.raises(InvalidInput, match="into itself"):
        replay(spark, orders, orders, ledger)
    with pytest.raises(InvalidInput, match="not an archive"):
        replay(spark, Archive(ledger), Topics(orders.nameserver, ("copy",)), ledger)
    with pytest.raises(InvalidInput, match="one target"):
        replay(spark, orders, Topics(orders.nameserver, ("a", "b")), ledger)
    with locked(Location(ledger), ""), pytest.raises(LocationInUse):
        replay(spark, orders, Topics(orders.nameserver, ("copy",)), ledger)
    speculating = SimpleNamespace(conf={"spark.speculation": "true"})
    with pytest.raises(InvalidInput, match="speculation"):
        replay(
            *(cast("SparkSession", speculating), orders, Topics("127.0.0.1:1", ("copy",)), ledger)
        )
