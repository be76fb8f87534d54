"""Spark's writes on Java's broker; what was written is read by Java's consumers."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as f

from orbitmq.spark.writing.rows_to_messages import REJECT_REASON, REJECT_TOPIC
from orbitmq.spark.writing.stable_ids import ORBIT_ID
from tests.interop import counterparts
from tests.interop.conftest import decline
from tests.interop.java import Java
from tests.interop.java_cluster import JavaCluster
from tests.interop.java_server import Settings
from tests.interop.team import Team


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaCluster]:
    """A Java nameserver and broker that keeps messages until any time."""
    why = counterparts.missing_for("5.4.0")
    if why is not None:
        decline(why)
    timers: Settings = {"timerWheelEnable": "true", "timerPrecisionMs": 100}
    directory = tmp_path_factory.mktemp("timers")
    with JavaCluster("5.4.0", directory, broker_settings=timers) as running:
        yield running


@pytest.fixture
def team(java_540: Java, cluster: JavaCluster) -> Team:
    """Java's clients, of the version of the cluster."""
    return Team(java_540, str(cluster.nameserver.address), [str(cluster.broker.address)])


def append(df: DataFrame, team: Team, topic: str, **options: str) -> None:
    writer = df.write.format("rocketmq").mode("append")
    writer.options(nameserver=team.nameserver, topic=topic, **options).save()


def test_rows_arrive_whole_and_once(spark: SparkSession, team: Team, cluster: JavaCluster) -> None:
    topic = cluster.create_topic("spark-written")
    rows = spark.range(0, 500, 1, 2).select(
        f.format_string("order %d è", "id").alias("value"),
        f.format_string("o-%d all", "id").alias("key"),
        f.format_string("t%d", f.col("id") % 2).alias("tags"),
        f.create_map(f.lit("colour"), f.lit("blau è")).alias("properties"),
        f.format_string("customer-%d", f.col("id") % 5).alias("sharding_key"),
    )
    append(rows, team, topic, batchBytes="20000")
    with team.consumer(topic, "t1") as consumer:
        received = consumer.wait_for(250)
    assert {one.body.decode() for one in received} == {f"order {n} è" for n in range(1, 500, 2)}
    assert len({one.properties[ORBIT_ID] for one in received}) == 250
    for one in received:
        number = one.body.decode().split()[1]
        assert one.properties["KEYS"] == f"o-{number} all"
        assert one.properties["colour"] == "blau è"
        assert len(one.message_id) == 32
    for customer in range(5):
        mine = [
            one for one in received if one.properties["__SHARDINGKEY"] == f"customer-{customer}"
        ]
        assert len({one.queue_id for one in mine}) == 1
        mine.sort(key=lambda one: one.queue_offset)
        numbers = [int(one.body.decode().split()[1]) for one in mine]
        for task in (range(250), range(250, 500)):  # each keeps the order of a key
            own = [number for number in numbers if number in task]
            assert own == sorted(own)


def test_queues_delays_and_dead_letters(
    spark: SparkSession, team: Team, cluster: JavaCluster
) -> None:
    topic = cluster.create_topic("spark-places")
    rejects = cluster.create_topic("spark-rejects")
    soon = datetime.now(UTC) + timedelta(seconds=3)
    rows = spark.createDataFrame(
        [
            Row(value=b"second", queue_id=2, delay_level=None, deliver_at=None),
            Row(value=b"by level", queue_id=None, delay_level=1, deliver_at=None),
            Row(value=b"by time", queue_id=None, delay_level=None, deliver_at=soon),
            Row(value=b"nowhere", queue_id=99, delay_level=None, deliver_at=None),
            Row(value=None, queue_id=None, delay_level=None, deliver_at=None),
            Row(value=b"x" * 100_000, queue_id=None, delay_level=2, deliver_at=None),
        ],
        "value binary, queue_id int, delay_level int, deliver_at timestamp",
    )
    append(rows.coalesce(1), team, topic, onReject=rejects)
    with team.consumer(topic) as consumer:
        received = {one.body[:8]: one for one in consumer.wait_for(4)}
    assert set(received) == {b"second", b"by level", b"by time", b"x" * 8}
    assert received[b"second"].queue_id == 2
    assert received[b"by time"].stored_ms >= soon.timestamp() * 1000 - 1_000
    with team.consumer(rejects) as consumer:
        letters = {one.properties[REJECT_REASON].split(",")[0]: one for one in consumer.wait_for(2)}
    assert letters["value is null"].properties[REJECT_TOPIC] == topic
    (other,) = (one for reason, one in letters.items() if reason != "value is null")
    assert other.body == b"nowhere"
    assert "has no writable queue 99" in other.properties[REJECT_REASON]
