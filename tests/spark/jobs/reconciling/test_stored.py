"""Messages of a store and of an archive, by what they are compared; and where queues begin."""

from pathlib import Path
from typing import cast

from pyspark.sql import SparkSession

from orbitmq import Message, embedded
from orbitmq.blocking import Producer, PullConsumer
from orbitmq.spark.jobs.reconciling.stored import (
    Archive,
    committed,
    heads,
    of_reports,
    stored,
    with_names,
)
from orbitmq.spark.jobs.sources import Store, Topics
from tests.store.golden import unpack


def test_a_store_and_its_archive_are_the_same(spark: SparkSession, tmp_path: Path) -> None:
    golden = unpack("normal", tmp_path / "store")
    sends = golden.manifest["sends"]
    names = sorted({one["topic"] for one in sends})
    store = with_names(Store(str(golden.root)), *names)
    rows = stored(spark, store).collect()
    assert sorted((row.topic, row.queue_id, row.queue_offset, row.message_id) for row in rows) == (
        sorted((one["topic"], one["queueId"], one["queueOffset"], one["msgId"]) for one in sends)
    )
    assert all(row.identity == row.message_id and row.broker == "store" for row in rows)
    whole = spark.read.format("rocketmq-store").option("includeProperties", "true")
    whole.load(str(golden.root)).write.partitionBy("topic").parquet(str(tmp_path / "archive"))
    archive = Archive(str(tmp_path / "archive"), tuple(names))
    assert sorted(stored(spark, archive).collect()) == sorted(rows)
    assert sorted(heads(spark, archive, names)) == sorted(heads(spark, store, names))
    latest = max(row.stored_ms for row in rows)
    last = [row for row in rows if row.stored_ms == latest]
    assert stored(spark, archive, latest).count() == len(last)
    assert stored(spark, store, latest).count() == len(last)


def test_topics_of_reports_that_a_store_lacks(tmp_path: Path) -> None:
    """All that was sent to them may be lost: that is no reason to refuse."""
    golden = unpack("normal", tmp_path / "store")
    (there, *_) = sorted({one["topic"] for one in golden.manifest["sends"]})
    source = of_reports(Store(str(golden.root)), ("all-lost", there))
    assert source == Store(str(golden.root), (there,))


def test_delays_and_keys_of_order(spark: SparkSession, tmp_path: Path) -> None:
    golden = unpack("delay", tmp_path / "store")
    topic = next(one["topic"] for one in golden.manifest["sends"])
    rows = stored(spark, Store(str(golden.root), (topic,))).collect()
    assert rows
    assert all(row.is_delayed and row.sharding_key is None for row in rows)


def test_queues_and_offsets_in_a_namespace() -> None:
    """A cluster is asked with the options of its source; that needs no Spark."""
    no_spark = cast("SparkSession", None)
    with embedded.start() as cluster:
        at = cluster.nameserver
        with Producer("shop", nameserver=at, namespace="team") as producer:
            receipt = producer.send(Message("orders", b"tea"))
        with PullConsumer("billing", nameserver=at, namespace="team") as consumer:
            consumer.assign(consumer.queues("orders"))
            consumer.seek_to_begin()
            assert consumer.poll(timeout_ms=10_000)
            consumer.commit()
        source = Topics(at, ("orders",), {"namespace": "team"})
        place = ("orders", receipt.queue.broker_name, receipt.queue.queue_id)
        ends = {head[:3]: head.end for head in heads(no_spark, source, source.names)}
        assert (sum(ends.values()), ends[place]) == (1, 1)
        assert committed(source, "billing", source.names)[place] == 1


def test_messages_of_transactions_come_when_they_are_committed(
    spark: SparkSession, tmp_path: Path
) -> None:
    with embedded.start(str(tmp_path)) as cluster:
        with Producer("shop", nameserver=cluster.nameserver) as producer:
            producer.send(Message("orders", b"tea"))
            with producer.transaction(Message("orders", b"paid")):
                pass
        source = Topics(cluster.nameserver, ("orders",))
        rows = stored(spark, source).collect()
    assert sorted(row.is_delayed for row in rows) == [False, True]
