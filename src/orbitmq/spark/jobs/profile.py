"""Profile: sizes, rates, skew of queues and keys, growth; with advice in words.

::

    source ──▶ narrow rows (no bodies), kept for the job ──▶ by topic, queue and slot of time
                                                        ├──▶ sizes and keys by topic
                                                        └──▶ hot keys, tags

The source is read once; bodies are measured, and never leave the read.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec
from pyspark import StorageLevel
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it

from orbitmq.spark.jobs.profiling.figures import (
    DAY_MS,
    Growth,
    HotKey,
    Profile,
    QueueShare,
    Slot,
    TopicProfile,
    advice,
    growth,
)
from orbitmq.spark.jobs.profiling.storage import Storage, storage_of
from orbitmq.spark.jobs.progress import Progress, tasks_shown
from orbitmq.spark.jobs.sources import EVERYTHING, Source, Span, Store, rows

__all__ = ["profile", "slot_ms"]

_COLUMNS: Final = ("topic", "broker", "queue_id", "timestamp", "key", "tags", "value")
_SLOTS: Final = 120
_SLOTS_MS: Final = (
    *(1_000, 5_000, 15_000, 60_000, 300_000, 900_000, 3_600_000, 6 * 3_600_000, DAY_MS),
    *(7 * DAY_MS, 30 * DAY_MS, 365 * DAY_MS),
)
_TOP: Final = 10
_RECORD_MORE: Final = 91 + 20
"""What a record and its queue entry take besides topic, body and properties."""


def profile(
    spark: SparkSession,
    source: Source,
    span: Span = EVERYTHING,
    *,
    retention_ms: int | None = None,
    progress: Progress | None = None,
) -> Profile:
    """Return the profile of a source.

    Args:
        spark: a session; see ``orbitmq.spark.session``.
        source: topics or a store.
        span: only messages stored in this range of times.
        retention_ms: how long messages are kept, if not as the brokers' settings say.
        progress: is called with finished tasks and all tasks.

    Raises:
        OrbitError: the cluster can't be reached, or the directory is not a store.
        PySparkException: Spark failed; its text ends with our reason, if it was ours.

    ::

        found = profile(spark, Topics("127.0.0.1:9876", ("orders",)))
        print(found.messages, found.advice)
    """
    narrow = _narrow(rows(spark, source, _COLUMNS, span)).persist(StorageLevel.MEMORY_AND_DISK)
    try:
        with tasks_shown(spark, progress):
            found = _figures(narrow)
    finally:
        narrow.unpersist()
    disks = storage_of(source, retention_ms) if found.messages else {}
    grown = tuple(_growth(found, disks, one_disk=isinstance(source, Store)))
    found = msgspec.structs.replace(found, growth=grown)
    return msgspec.structs.replace(found, advice=tuple(advice(found)))


def slot_ms(first_ms: int, last_ms: int) -> int:
    """Return the length of a slot, so that a chart has at most 120 of them.

    >>> slot_ms(0, 60_000), slot_ms(0, 3_600_000), slot_ms(0, 90 * DAY_MS)
    (1000, 60000, 86400000)
    """
    took = last_ms - first_ms
    return next((each for each in _SLOTS_MS if took / each < _SLOTS), _SLOTS_MS[-1])


def _narrow(messages: DataFrame) -> DataFrame:
    return messages.select(
        "topic",
        F.coalesce("broker", F.lit("store")).alias("broker"),
        "queue_id",
        F.unix_millis("timestamp").alias("stored_ms"),
        "key",
        "tags",
        F.octet_length("value").alias("size"),
    )


def _figures(narrow: DataFrame) -> Profile:
    (whole,) = narrow.agg(F.min("stored_ms"), F.max("stored_ms")).collect()
    first_ms, last_ms = whole
    if first_ms is None:
        return Profile(
            messages=0, bytes=0, first_ms=None, last_ms=None, slot_ms=1_000, slots=(), topics=()
        )
    each_ms = slot_ms(first_ms, last_ms)
    slot = F.floor(F.col("stored_ms") / each_ms) * each_ms
    totals = narrow.groupBy("topic", "broker", "queue_id", slot.alias("slot")).agg(
        F.count("*").alias("messages"), F.sum("size").alias("bytes")
    )
    parts = totals.collect()
    topics = _topics(narrow, parts)
    return Profile(
        messages=sum(part.messages for part in parts),
        bytes=sum(part.bytes for part in parts),
        first_ms=first_ms,
        last_ms=last_ms,
        slot_ms=each_ms,
        slots=_slots(parts, first_ms, last_ms, each_ms),
        topics=topics,
    )


def _slots(parts: Iterable[Row], first_ms: int, last_ms: int, each_ms: int) -> tuple[Slot, ...]:
    """Return all slots from the first message to the last one, empty ones too."""
    sums: dict[int, list[int]] = defaultdict(lambda: [0, 0])
    for part in parts:
        sums[part.slot][0] += part.messages
        sums[part.slot][1] += part.bytes
    begin = first_ms // each_ms * each_ms
    return tuple(Slot(at, *sums[at]) for at in range(begin, last_ms + 1, each_ms))


def _topics(narrow: DataFrame, parts: Iterable[Row]) -> tuple[TopicProfile, ...]:
    queues: dict[str, dict[tuple[str, int], list[int]]] = defaultdict(dict)
    for part in parts:
        found = queues[part.topic].setdefault((part.broker, part.queue_id), [0, 0])
        found[0] += part.messages
        found[1] += part.bytes
    sizes = narrow.groupBy("topic").agg(
        F.percentile_approx("size", [0.5, 0.99]).alias("size"),
        F.max("size").alias("most"),
        F.count("key").alias("keyed"),
        F.approx_count_distinct("key").alias("keys"),
    )
    hot, tags = _most(narrow, "key"), _most(narrow, "tags")
    profiles = [
        TopicProfile(
            topic=row.topic,
            messages=sum(messages for messages, _ in queues[row.topic].values()),
            bytes=sum(size for _, size in queues[row.topic].values()),
            size_p50=row["size"][0],
            size_p99=row["size"][1],
            size_max=row.most,
            keyed=row.keyed,
            keys=row["keys"],
            hot_keys=hot.get(row.topic, ()),
            tags=tags.get(row.topic, ()),
            queues=tuple(
                QueueShare(broker, number, *sums)
                for (broker, number), sums in sorted(queues[row.topic].items())
            ),
        )
        for row in sizes.collect()
    ]
    return tuple(sorted(profiles, key=lambda one: (-one.bytes, one.topic)))


def _most(narrow: DataFrame, column: str) -> Mapping[str, tuple[HotKey, ...]]:
    """Return the most frequent values of a column by topic."""
    counted = narrow.where(F.col(column).isNotNull()).groupBy("topic", column).count()
    place = "row_number() OVER (PARTITION BY topic ORDER BY count DESC, {0}) AS place"
    first = counted.selectExpr("*", place.format(column)).where(f"place <= {_TOP}")
    found: dict[str, list[HotKey]] = defaultdict(list)
    for row in first.orderBy("topic", "place").collect():
        found[row.topic].append(HotKey(row[column], row["count"]))
    return {topic: tuple(keys) for topic, keys in found.items()}


def _growth(found: Profile, disks: Mapping[str, Storage], *, one_disk: bool) -> Iterable[Growth]:
    """Yield the growth of each broker, by the rate of the profiled time."""
    added: dict[str, int] = defaultdict(int)
    for topic in found.topics:
        for queue in topic.queues:
            name = "store" if one_disk else queue.broker
            added[name] += queue.bytes + queue.messages * (_RECORD_MORE + len(topic.topic))
    for name, disk in disks.items():
        if disk.total:
            per_day = added[name] / found.seconds * DAY_MS / 1000
            yield growth(
                name,
                per_day,
                disk=(disk.total, disk.used),
                stored=disk.log,
                retention_ms=disk.retention_ms,
            )
