"""Streaming reads from two brokers of ours: one in Spark, the rest as Spark would ask."""

import itertools
import json
import pickle
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from orbitmq.embedded import RunningCluster
from orbitmq.errors import DataLost
from orbitmq.spark.cluster.cluster import Cluster
from orbitmq.spark.offsets import SparkOffsets, from_spark
from orbitmq.spark.options.options import Access, read_options
from orbitmq.spark.streaming.stream_reader import StreamReader
from tests.interop.waiting import until
from tests.spark.shown import last_line
from tests.spark.stored import stored
from tests.spark.traffic import Traffic, create_topic

pytestmark = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas")

_topics = itertools.count(1)


@pytest.fixture
def traffic(shared_cluster: RunningCluster) -> Iterator[Traffic]:
    topic = f"streamed-{next(_topics)}"
    with Traffic(shared_cluster.nameserver, topic) as running:
        yield running


class Stream:
    """A reader, asked as Spark asks it; it keeps the checkpoint."""

    def __init__(self, cluster: RunningCluster, traffic: Traffic, **options: str) -> None:
        told = {"nameserver": cluster.nameserver, "subscribe": traffic.topic, **options}
        if "startingTimestamp" not in told:
            told.setdefault("startingOffsets", "earliest")
        self._options = read_options(told, streaming=True)
        self.end: SparkOffsets | None = None
        self.start()

    def start(self) -> None:
        self.reader = StreamReader(self._options)

    def batch(self, limit: ReadLimit | None = None) -> list[int]:
        """Run one batch, and return the numbers it reads."""
        begin = self.end or self.reader.initialOffset()
        end = self.reader.latestOffset(begin, limit or self.reader.getDefaultReadLimit())
        rows = []
        for partition in self.reader.partitions(begin, end):
            for batch in self.reader.read(partition):
                rows += [int(row["value"]) for row in batch.to_pylist()]
        self.end = end
        return sorted(rows)

    def all(self, limit: ReadLimit | None = None) -> list[int]:
        """Run batches until one is empty, but for the first; return the numbers they read."""
        found = self.batch(limit) if self.end is None else []
        while more := self.batch(limit):
            found += more
        return sorted(found)


def test_a_stream_reads_each_message_once(shared_cluster: RunningCluster, traffic: Traffic) -> None:
    sent = traffic.send(20)
    stream = Stream(shared_cluster, traffic)
    assert stream.all() == sent

    more = traffic.send(5)
    stream.start()  # again, from its checkpoint
    assert stream.all() == more


def test_offsets_are_written_as_topic_broker_and_queue(
    shared_cluster: RunningCluster, traffic: Traffic
) -> None:
    traffic.send(8)
    stream = Stream(shared_cluster, traffic)
    stream.all()

    names = ["broker-a:0", "broker-a:1", "broker-b:0", "broker-b:1"]
    assert {topic: list(offsets) for topic, offsets in (stream.end or {}).items()} == {
        traffic.topic: names
    }
    assert stream.reader.reportLatestOffset() == stream.end


def test_limits_of_options_are_passed_to_spark(
    shared_cluster: RunningCluster, traffic: Traffic
) -> None:
    def limit(**options: str) -> ReadLimit:
        return Stream(shared_cluster, traffic, **options).reader.getDefaultReadLimit()

    assert limit() == ReadAllAvailable()
    assert limit(maxOffsetsPerTrigger="7") == ReadMaxRows(7)
    assert limit(minOffsetsPerTrigger="5") == ReadMinRows(5)
    assert limit(minOffsetsPerTrigger="5", maxOffsetsPerTrigger="7") == ReadMaxRows(7)


def test_a_batch_has_no_more_than_it_may(shared_cluster: RunningCluster, traffic: Traffic) -> None:
    traffic.send(20)
    stream = Stream(shared_cluster, traffic, maxOffsetsPerTrigger="6")

    sizes = [len(stream.batch()) for _ in range(6)]

    assert sizes == [0, 6, 6, 6, 2, 0]


def test_a_batch_has_everything_if_spark_wants_it(
    shared_cluster: RunningCluster, traffic: Traffic
) -> None:
    sent = traffic.send(20)
    stream = Stream(shared_cluster, traffic, maxOffsetsPerTrigger="6", minOffsetsPerTrigger="3")
    assert stream.batch(ReadAllAvailable()) == []

    assert stream.batch(ReadAllAvailable()) == sent


def test_a_batch_has_no_less_than_it_should(
    shared_cluster: RunningCluster, traffic: Traffic
) -> None:
    options = {"minOffsetsPerTrigger": "5", "maxOffsetsPerTrigger": "100"}
    stream = Stream(shared_cluster, traffic, **options)
    stream.all()
    sent = traffic.send(4)
    assert stream.all() == []

    sent += traffic.send(1)
    assert until(stream.all, what="a batch, since queues are not asked all the time") == sent


def test_available_now_ends_with_what_was_there(
    shared_cluster: RunningCluster, traffic: Traffic
) -> None:
    sent = traffic.send(10)
    stream = Stream(shared_cluster, traffic, maxOffsetsPerTrigger="4")
    assert isinstance(stream.reader, SupportsTriggerAvailableNow)
    stream.reader.prepareForTriggerAvailableNow()
    traffic.send(10)

    assert stream.all() == sent


def test_closed_queues_with_unread_messages_are_reported(
    shared_cluster: RunningCluster, traffic: Traffic
) -> None:
    traffic.send(8)
    stream = Stream(shared_cluster, traffic)
    stream.all()
    sent = traffic.send(8)
    create_topic(shared_cluster.nameserver, traffic.topic, queues=1)
    stream.start()  # again, or it would notice in five seconds
    with pytest.raises(DataLost, match="fewer queues now.* Raise readQueueNums to at least 2"):
        stream.all()
    stream.start()
    stream.reader.prepareForTriggerAvailableNow()
    with pytest.raises(DataLost, match="fewer queues now"):
        stream.all()
    create_topic(shared_cluster.nameserver, traffic.topic, queues=2)
    stream.start()

    assert stream.all() == sent


def test_a_stream_may_begin_at_a_time_and_read_some_tags(
    shared_cluster: RunningCluster, traffic: Traffic
) -> None:
    traffic.send(30)
    found = stored(shared_cluster, traffic.topic)
    moment = sorted(one.store_timestamp_ms for one in found)[15]
    begin = {"startingTimestamp": str(moment), "tags": "t1 || t2"}
    stream = Stream(shared_cluster, traffic, **begin)
    late = [int(one.body) for one in found if one.store_timestamp_ms >= moment]

    assert stream.all() == sorted(number for number in late if number % 3)
    assert 0 < len(late) < 30


def test_the_group_commits_what_the_stream_has_read(
    shared_cluster: RunningCluster, traffic: Traffic
) -> None:
    traffic.send(9)
    stream = Stream(shared_cluster, traffic, groupId="billing")
    stream.all()
    end = from_spark(stream.end or {})

    with Cluster(Access(nameserver=shared_cluster.nameserver)) as cluster:
        assert cluster.committed("billing", sorted(end)) == end


def test_batches_that_spark_commits_are_committed_to_brokers(
    shared_cluster: RunningCluster, traffic: Traffic
) -> None:
    traffic.send(9)
    stream = Stream(shared_cluster, traffic, groupId="archive")
    stream.batch()
    stream.batch()
    assert stream.end is not None
    stream.reader.commit(stream.end)

    with Cluster(Access(nameserver=shared_cluster.nameserver)) as cluster:
        end = from_spark(stream.end)
        assert cluster.committed("archive", sorted(end)) == end


def test_a_reader_pickles_without_the_state_of_the_driver(
    shared_cluster: RunningCluster, traffic: Traffic
) -> None:
    sent = traffic.send(5)
    stream = Stream(shared_cluster, traffic)
    stream.batch()
    assert stream.end is not None
    end = stream.reader.latestOffset(stream.end, ReadAllAvailable())
    there, partitions = pickle.loads(
        pickle.dumps((stream.reader, stream.reader.partitions(stream.end, end)))
    )

    rows = [row for one in partitions for batch in there.read(one) for row in batch["value"]]

    assert sorted(int(row.as_py()) for row in rows) == sent


# In Spark


def test_a_query_reads_everything_and_shows_its_lag(
    spark: SparkSession, shared_cluster: RunningCluster, traffic: Traffic, tmp_path: Path
) -> None:
    sent = traffic.send(30)
    stream = spark.readStream.format("rocketmq").options(
        nameserver=shared_cluster.nameserver,
        subscribe=traffic.topic,
        startingOffsets="earliest",
        maxOffsetsPerTrigger="20",
        columns="value",
    )
    files = str(tmp_path / "files")
    writer = stream.load().writeStream.format("parquet").option("path", files)
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()

    rows = spark.read.parquet(files).collect()
    assert sorted(int(row.value) for row in rows) == sent
    counts = [progress["numInputRows"] for progress in query.recentProgress]
    assert [count for count in counts if count] == [20, 10]
    (source,) = query.recentProgress[-1]["sources"]
    assert source["latestOffset"] == source["endOffset"]
    assert sum(json.loads(source["endOffset"])[traffic.topic].values()) == 30


def test_a_pattern_finds_new_topics_and_a_query_may_select_tags(
    spark: SparkSession, shared_cluster: RunningCluster, traffic: Traffic, tmp_path: Path
) -> None:
    stream = spark.readStream.format("rocketmq").options(
        nameserver=shared_cluster.nameserver,
        subscribePattern=f"{traffic.topic}(-new)?",
        startingTimestamp="2026-01-31T12:00:00Z",  # all is younger than that
        tags="t1",
        columns="topic,value,tags",
    )
    files = str(tmp_path / "files")
    writer = stream.load().writeStream.format("parquet").option("path", files)
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))

    def read() -> list[tuple[str, int]]:
        writer.trigger(availableNow=True).start().awaitTermination()
        rows = spark.read.parquet(files).collect()
        assert {row.tags for row in rows} == {"t1"}
        return sorted((row.topic, int(row.value)) for row in rows)

    def tagged(topic: str, numbers: list[int]) -> list[tuple[str, int]]:
        return [(topic, number) for number in numbers if number % 3 == 1]

    old = tagged(traffic.topic, traffic.send(9))
    assert read() == sorted(old)
    with Traffic(shared_cluster.nameserver, f"{traffic.topic}-new") as newcomer:
        new = tagged(newcomer.topic, newcomer.send(9))

    assert read() == sorted(old + new)


def test_the_error_of_a_stream_is_the_last_line_of_the_python_traceback(
    spark: SparkSession, shared_cluster: RunningCluster, traffic: Traffic, tmp_path: Path
) -> None:
    def failed(**options: str) -> str:
        stream = spark.readStream.format("rocketmq").options(
            nameserver=shared_cluster.nameserver, **options
        )
        writer = stream.load().writeStream.format("noop")
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        with pytest.raises(StreamingQueryException) as caught:
            writer.start().awaitTermination()
        return last_line(caught.value)

    assert failed(subscribe="orders", endingOffsets="latest") == (
        "orbitmq.errors.InvalidOption: endingOffsets is an option of batch reads, and has no "
        "effect on streaming reads; leave it out"
    )
    offsets = json.dumps({traffic.topic: {"broker-z:0": 0}})
    assert failed(subscribe=traffic.topic, startingOffsets=offsets).startswith(
        "orbitmq.errors.InvalidOffsets: startingOffsets has offsets of queues that don't exist"
    )
