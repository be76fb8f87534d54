"""What is stored: messages of topics, of a store or of an archive, and where queues begin."""

from collections.abc import Sequence
from typing import Final, NamedTuple, TypeAlias

import msgspec
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it

from orbitmq.message import properties
from orbitmq.spark.jobs.sources import EVERYTHING, Source, Span, Store, Topics, admin_of, rows
from orbitmq.spark.writing.stable_ids import ORBIT_ID
from orbitmq.store.reader.reader import StoreReader

__all__ = [
    "Archive",
    "Head",
    "Stored",
    "committed",
    "heads",
    "messages",
    "of_reports",
    "stored",
    "with_names",
]

_COLUMNS: Final = (
    *("topic", "broker", "queue_id", "queue_offset", "message_id", "timestamp"),
    *("born_timestamp", "properties"),
)
_DELAYED: Final = (
    *(properties.DELAY, properties.TIMER_DELAY_SEC, properties.TIMER_DELAY_MS),
    *(properties.TIMER_DELIVER_MS, properties.TRANSACTION_PREPARED, properties.TRANSACTION_ID),
)
"""Brokers leave them in what they deliver later, or after a commit."""
STORE: Final = "store"
"""The name of the broker of a store directory, which doesn't know it."""


class Archive(msgspec.Struct, frozen=True):
    """Parquet files with the columns of a read, as ``orbitmq pipeline archive`` writes them."""

    directory: str
    names: tuple[str, ...] = ()


Stored: TypeAlias = Source | Archive


class Head(NamedTuple):
    """Where a queue begins, and ends."""

    topic: str
    broker: str
    queue_id: int
    first: int
    end: int


def with_names(source: Stored, *names: str) -> Stored:
    """Return a source with other topics."""
    return msgspec.structs.replace(source, names=names)


def of_reports(source: Stored, names: Sequence[str]) -> Stored:
    """Return a source with the topics that reports name; a store with those of them that it has.

    A read of a store refuses others, but all that was sent to one may be lost. If it has none of
    them, it is the whole store.
    """
    if isinstance(source, Store):
        there = set(StoreReader(source.directory).topics())
        names = [name for name in names if name in there]
    return with_names(source, *names)


def messages(
    spark: SparkSession, source: Stored, columns: Sequence[str], span: Span = EVERYTHING
) -> DataFrame:
    """Return messages of a source as columns of a read."""
    if not isinstance(source, Archive):
        return rows(spark, source, columns, span)
    found = spark.read.parquet(source.directory).select(*columns, "timestamp")
    if source.names:
        found = found.where(F.col("topic").isin(*source.names))
    if span.start_ms is not None:
        found = found.where(F.unix_millis("timestamp") >= span.start_ms)
    if span.end_ms is not None:
        found = found.where(F.unix_millis("timestamp") < span.end_ms)
    return found.select(*columns)


def stored(spark: SparkSession, source: Stored, start_ms: int | None = None) -> DataFrame:
    """Return the messages stored from a time on, with what they are compared by.

    ``identity`` is the same for copies: the ``ORBIT_ID`` of a Spark write, else the unique id.
    ``is_delayed`` also marks messages of transactions.
    """
    found = messages(spark, source, _COLUMNS, Span(start_ms))

    def has(name: str) -> Column:
        return F.try_element_at(F.col("properties"), F.lit(name))

    delayed = F.greatest(*(has(name).isNotNull() for name in _DELAYED))
    return found.select(
        "topic",
        F.coalesce("broker", F.lit(STORE)).alias("broker"),
        *("queue_id", "queue_offset", "message_id"),
        F.unix_millis("timestamp").alias("stored_ms"),
        F.unix_millis("born_timestamp").alias("born_ms"),
        F.coalesce(has(ORBIT_ID), "message_id").alias("identity"),
        has(properties.SHARDING_KEY).alias("sharding_key"),
        delayed.alias("is_delayed"),
    )


def heads(spark: SparkSession, source: Stored, names: Sequence[str]) -> list[Head]:
    """Return where the queues of topics begin and end.

    Raises:
        OrbitError: a broker can't be reached, or the directory is not a store.
    """
    if isinstance(source, Topics):
        with admin_of(source) as admin:
            return [
                Head(
                    name, one.queue.broker_name, one.queue.queue_id, one.min_offset, one.max_offset
                )
                for name in names
                for one in admin.topic_stats(name).queues
            ]
    if isinstance(source, Store):
        reader = StoreReader(source.directory)
        queues = (reader.queue(*name) for name in reader.queues() if name.topic in names)
        return [Head(one.name.topic, STORE, one.name.queue_id, one.min_offset, one.max_offset)
                for one in queues]  # fmt: skip
    found = messages(spark, source, ("topic", "broker", "queue_id", "queue_offset"))
    grouped = found.groupBy("topic", F.coalesce("broker", F.lit(STORE)).alias("broker"), "queue_id")
    ends = grouped.agg(F.min("queue_offset"), F.max("queue_offset") + 1)
    return [Head(*row) for row in ends.collect() if row.topic in names]


def committed(source: Stored, group: str, names: Sequence[str]) -> dict[tuple[str, str, int], int]:
    """Return the offsets that a group has committed, by topic, broker and queue.

    Raises:
        GroupNotFound: no broker has the group.
        OrbitError: a broker can't be reached.
    """
    assert isinstance(source, Topics)  # the job refuses others
    with admin_of(source) as admin:
        return {
            (one.queue.topic, one.queue.broker_name, one.queue.queue_id): one.consumer_offset
            for one in admin.progress(group).queues
            if one.queue.topic in names
        }
