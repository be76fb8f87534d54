"""Streams of Spark from Java's broker, and from ours that restart, join, and lose messages."""

import contextlib
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from orbitmq.net.address import Address
from orbitmq.net.blocking import BlockingConnection
from orbitmq.spark.cluster.cluster import Cluster
from orbitmq.spark.options.options import Access
from orbitmq.wire.codes import RequestCode
from orbitmq.wire.fields import NoFields
from tests.interop.java_cluster import JavaCluster
from tests.interop.our_servers import OurServer, a_broker, a_nameserver
from tests.interop.waiting import until
from tests.spark.traffic import Traffic, create_topic

pytestmark = [
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas"),
    pytest.mark.timeout(300),  # several queries, on a machine that may do other things
]

PATIENCE_SECONDS = 120


class Brokers:
    """A nameserver of ours, and the brokers that tests add to it; each is a process."""

    def __init__(self, directory: Path, running: contextlib.ExitStack) -> None:
        self._directory = directory
        self._running = running
        self.nameserver = str(running.enter_context(a_nameserver(directory)).address)

    def add(self, name: str, **settings: str) -> OurServer:
        directory = self._directory / name
        broker = a_broker(directory, nameservers=self.nameserver, name=name, **settings)
        return self._running.enter_context(broker)


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[Brokers]:
    with contextlib.ExitStack() as running:
        yield Brokers(tmp_path, running)


def stream(spark: SparkSession, traffic: Traffic, **options: str) -> DataFrame:
    told = {"nameserver": traffic.nameserver, "subscribe": traffic.topic, "columns": "value"}
    told["startingOffsets"] = "earliest"
    return spark.readStream.format("rocketmq").options(**told, **options).load()


def drained(frame: DataFrame, directory: Path) -> list[int]:
    """Let a stream read all that there is into files; return the numbers in all of them."""
    writer = frame.writeStream.format("parquet").option("path", str(directory / "files"))
    writer = writer.option("checkpointLocation", str(directory / "checkpoint"))
    writer.trigger(availableNow=True).start().awaitTermination()
    rows = frame.sparkSession.read.parquet(str(directory / "files")).collect()
    return sorted(int(row.value) for row in rows)


def test_a_java_broker_is_streamed_and_has_the_committed_offsets(
    spark: SparkSession, java_cluster_540: JavaCluster, tmp_path: Path
) -> None:
    topic = java_cluster_540.create_topic("spark-streamed", queues=8)
    nameserver = str(java_cluster_540.nameserver.address)
    with Traffic(nameserver, topic, queues=0, body_bytes=6_000) as traffic:
        sent = traffic.send(40)
        told = {"groupId": "spark-streamed", "maxOffsetsPerTrigger": "30"}
        assert drained(stream(spark, traffic, **told), tmp_path) == sent
        sent += traffic.send(10)
        assert drained(stream(spark, traffic, **told), tmp_path) == sent

    ends = {queue: 0 for queue, _ in traffic.places.values()}
    for queue, offset in traffic.places.values():
        ends[queue] = max(ends[queue], offset + 1)
    with Cluster(Access(nameserver=nameserver)) as cluster:
        assert cluster.committed("spark-streamed", ends) == ends


@contextlib.contextmanager
def started(writer: DataStreamWriter) -> Iterator[StreamingQuery]:
    """Start a query; at the end it is stopped."""
    query = writer.start()
    try:
        yield query
    finally:
        query.stop()


def test_a_query_continues_while_its_cluster_changes(spark: SparkSession, brokers: Brokers) -> None:
    first = brokers.add("broker-a")
    with contextlib.ExitStack() as running:
        traffic = running.enter_context(Traffic(brokers.nameserver, "orders"))
        writer = stream(spark, traffic).writeStream.format("memory").queryName("changes")
        query = running.enter_context(started(writer))

        def all_are_there() -> bool:
            if (error := query.exception()) is not None:
                raise error
            found = [int(row.value) for row in spark.table("changes").collect()]
            assert len(found) == len(set(found))
            return len(found) == len(traffic.places)

        traffic.send(10)
        until(all_are_there, what="all rows", seconds=PATIENCE_SECONDS)

        first.kill()  # the broker restarts
        first.start()
        traffic.reconnect()
        traffic.send(10)
        until(all_are_there, what="rows after a restart", seconds=PATIENCE_SECONDS)

        brokers.add("broker-b")  # another one joins, and the topic has more queues
        create_topic(brokers.nameserver, "orders", queues=4)
        with Cluster(Access(nameserver=brokers.nameserver)) as cluster:
            until(lambda: len(cluster.queues("orders")) == 8, what="a route to all queues")
        traffic.reconnect()
        numbers = traffic.send(32)
        queues = {traffic.places[number][0] for number in numbers}
        assert {(queue.broker_name, queue.queue_id) for queue in queues} == {
            (broker, number) for broker in ("broker-a", "broker-b") for number in range(4)
        }
        until(all_are_there, what="rows of new queues", seconds=PATIENCE_SECONDS)


def test_messages_that_retention_removed_fail_or_are_skipped(
    spark: SparkSession, brokers: Brokers, tmp_path: Path
) -> None:
    small = {"mappedFileSizeCommitLog": str(64 * 1024), "maxMessageSize": "8192"}
    broker = brokers.add("broker-a", **small)
    with Traffic(brokers.nameserver, "orders", queues=1, body_bytes=2_000) as traffic:
        sent = traffic.send(5)
        assert drained(stream(spark, traffic), tmp_path) == sent
        traffic.send(100)
    for file in (tmp_path / "broker-a" / "commitlog").iterdir():
        os.utime(file, (0, 0))  # as if the messages were old
    left = first_offset_after_removal(broker.address, traffic)
    assert 5 < left < 105

    wanted = rf"queue broker-a:0: offset 5 is lost: the queue has {left} up to 105"
    with pytest.raises(StreamingQueryException, match=wanted):
        drained(stream(spark, traffic), tmp_path)

    lenient = stream(spark, traffic, failOnDataLoss="false")
    assert drained(lenient, tmp_path) == sent + list(range(left, 105))


class Gate:
    """Takes the batches of a query, and holds each until it is opened."""

    def __init__(self) -> None:
        self.numbers: list[int] = []
        self.has_come, self.is_open = threading.Event(), threading.Event()

    def take(self, batch: DataFrame, _batch_id: int) -> None:
        self.numbers += [int(row.value) for row in batch.collect()]
        if self.numbers:
            self.has_come.set()
            assert self.is_open.wait(PATIENCE_SECONDS)


def test_retention_passes_the_start_of_a_queue_under_running_queries(
    spark: SparkSession, brokers: Brokers, tmp_path: Path
) -> None:
    small = {"mappedFileSizeCommitLog": str(64 * 1024), "maxMessageSize": "8192"}
    broker = brokers.add("broker-a", **small)
    strict, lenient = Gate(), Gate()
    with contextlib.ExitStack() as running:
        traffic = running.enter_context(
            Traffic(brokers.nameserver, "orders", queues=1, body_bytes=2_000)
        )
        sent = traffic.send(5)
        failing, going_on = (
            running.enter_context(
                started(
                    stream(spark, traffic, failOnDataLoss=fails).writeStream.foreachBatch(gate.take)
                )
            )
            for gate, fails in ((strict, "true"), (lenient, "false"))
        )
        assert strict.has_come.wait(PATIENCE_SECONDS)
        assert lenient.has_come.wait(PATIENCE_SECONDS)
        traffic.send(100)
        for file in (tmp_path / "broker-a" / "commitlog").iterdir():
            os.utime(file, (0, 0))  # as if the messages were old
        left = first_offset_after_removal(broker.address, traffic)
        assert 5 < left < 105
        strict.is_open.set()
        lenient.is_open.set()

        wanted = rf"queue broker-a:0: offset 5 is lost: the queue has {left} up to 105"
        with pytest.raises(StreamingQueryException, match=wanted):
            failing.awaitTermination(PATIENCE_SECONDS)
        assert strict.numbers == sent
        expected = sent + list(range(left, 105))
        until(
            lambda: len(lenient.numbers) >= len(expected),
            what="what is left",
            seconds=PATIENCE_SECONDS,
        )
        assert lenient.numbers == expected
        assert going_on.isActive


def first_offset_after_removal(broker: Address, traffic: Traffic) -> int:
    """Have a broker remove the files of its log that are old; return where the queue begins."""
    queue, _ = traffic.places[0]

    def begins() -> int:
        with BlockingConnection(broker) as connection:
            connection.request(NoFields(), code=RequestCode.DELETE_EXPIRED_COMMITLOG)
        with Cluster(Access(nameserver=traffic.nameserver)) as cluster:
            return cluster.bounds([queue])[queue].min

    return until(begins, what="the removal of files")
