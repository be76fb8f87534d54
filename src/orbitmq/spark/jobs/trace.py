"""Trace: what clients report of sends and deliveries, as tables and figures.

::

    trace messages ── parsed ──▶ records ──┬─ sends, deliveries, results, transaction_ends, recalls
       (batch or stream)                   └─ figures ──▶ latencies, failures, orphans, judgement

``parsed`` keeps no state, so it works on a stream as well. ``figures`` counts a record once that a
client reported twice.
"""

from collections import defaultdict
from typing import Final

import msgspec
from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it

from orbitmq.spark.jobs.progress import Progress, tasks_shown
from orbitmq.spark.jobs.sources import EVERYTHING, Source, Span, rows
from orbitmq.spark.jobs.tracing.figures import (
    BUCKET_ENDS_MS,
    BUCKETS,
    GroupFigures,
    Latency,
    Minute,
    Sample,
    Send,
    TraceFigures,
    judgement,
    put_times,
)
from orbitmq.spark.jobs.tracing.pairs import PERCENTILES, delays, orphans
from orbitmq.spark.jobs.tracing.records import MALFORMED, RECORD_COLUMNS, UNKNOWN, records_of

__all__ = [
    "deliveries",
    "figures",
    "parsed",
    "recalls",
    "results",
    "sends",
    "trace",
    "transaction_ends",
    "unreadable",
]

_COLUMNS: Final = ("value", "timestamp", "message_id", "broker", "queue_id", "queue_offset")
_RECORD: Final = ", ".join(f"`{name}`: {kind}" for name, kind in RECORD_COLUMNS)
_SAMPLES: Final = 5
_LISTED: Final = 20
_MINUTE_MS: Final = 60_000
_GRACE_MS: Final = 60_000
"""Messages of the last minute may still be on their way."""


def trace(
    spark: SparkSession,
    source: Source,
    span: Span = EVERYTHING,
    *,
    listed: int = _LISTED,
    grace_ms: int = _GRACE_MS,
    progress: Progress | None = None,
) -> TraceFigures:
    """Return the figures of the traces in a source.

    Args:
        spark: a session; see ``orbitmq.spark.session``.
        source: the trace topic, or a store with it.
        span: only reports stored in this range of times.
        listed: how many of the slowest sends, and of the failed ones.
        grace_ms: deliveries and results may be missing for so long before the last record, by the
            clock of its client, or by that of the broker if the client's is ahead.
        progress: is called with finished tasks and all tasks.

    Raises:
        OrbitError: the cluster can't be reached, or the directory is not a store.
        PySparkException: Spark failed; its text ends with our reason, if it was ours.

    ::

        found = trace(spark, Topics("127.0.0.1:9876", ("RMQ_SYS_TRACE_TOPIC",)))
        print(found.counts, found.judgement)
    """
    with tasks_shown(spark, progress):
        records = parsed(rows(spark, source, _COLUMNS, span))
        return figures(records, listed=listed, grace_ms=grace_ms)


# Tables


def parsed(messages: DataFrame) -> DataFrame:
    """Return a row for each record of trace messages, of a batch or a stream.

    ``messages`` has ``value`` and ``timestamp``, as read from the trace topic; with ``message_id``
    the rows have the address of the client, and with ``broker``, ``queue_id`` and ``queue_offset``
    the place of the trace message. The columns are those of all tables below, ``kind``, and
    ``sample``: the text of a record of kind ``malformed`` or ``unknown``.

    ::

        records = parsed(spark.readStream.format("rocketmq").options(**options).load())
        sends(records).writeStream.format("parquet").option("path", path).start()
    """
    given = set(messages.columns)
    place = [F.col(name) for name in ("broker", "queue_id", "queue_offset") if name in given]
    message_id = F.col("message_id") if "message_id" in given else _nothing()
    # Not mapInArrow, which refuses to run without pandas.
    read = F.arrow_udf(records_of, f"array<struct<{_RECORD}>>")  # type: ignore[attr-defined]
    records = messages.select(
        F.inline(read(F.col("value"), message_id)),
        F.col("timestamp").alias("reported"),
        (F.concat_ws(":", *place) if place else _nothing()).alias("place"),
    )
    return records.select(
        "kind",
        F.timestamp_millis("at_ms").alias("at"),
        "reported",
        *(name for name, _ in RECORD_COLUMNS if name not in ("kind", "at_ms")),
        "place",
    )


def sends(records: DataFrame) -> DataFrame:
    """Return the sends of ``parsed`` records.

    ``cost_ms`` is what the client waited; ``success`` is false if the broker's answer was another
    than SEND_OK. ``message_id`` of a batch by a Java client has several ids, with commas between.
    """
    return _table(
        records,
        "send",
        *("at", "topic", "group", "message_id", "keys", "tags", "store_host", "client_host"),
        *("cost_ms", "success", "body_length", "message_kind", "offset_message_id"),
    )


def deliveries(records: DataFrame) -> DataFrame:
    """Return the deliveries of ``parsed`` records: messages that were passed to a listener."""
    return _table(
        records,
        "delivery",
        *("at", "group", "message_id", "keys", "client_host", "request_id", "retry_times"),
    )


def results(records: DataFrame) -> DataFrame:
    """Return the results of listeners; ``request_id`` and ``message_id`` are of a delivery.

    ``at`` and ``group`` are null if the client is on the CLOUD channel.
    """
    return _table(
        records,
        "result",
        *("at", "group", "message_id", "keys", "client_host", "request_id", "cost_ms"),
        *("success", "outcome"),
    )


def transaction_ends(records: DataFrame) -> DataFrame:
    """Return the commits and rollbacks of ``parsed`` records."""
    return _table(
        records,
        "transaction_end",
        *("at", "topic", "group", "message_id", "keys", "store_host", "client_host"),
        *("message_kind", "transaction_id", "transaction_state", "from_check"),
    )


def recalls(records: DataFrame) -> DataFrame:
    """Return the recalls of delayed messages."""
    return _table(
        records, "recall", *("at", "topic", "group", "message_id", "client_host", "success")
    )


def unreadable(records: DataFrame) -> DataFrame:
    """Return the records that could not be read, with their text and place."""
    wanted = F.col("kind").isin(MALFORMED, UNKNOWN)
    return records.where(wanted).select("kind", "reported", "place", "sample")


def _table(records: DataFrame, kind: str, *columns: str) -> DataFrame:
    return records.where(F.col("kind") == kind).select(*columns, "reported")


def _nothing() -> Column:
    return F.lit(None).cast("string")


# Figures


def figures(
    records: DataFrame, *, listed: int = _LISTED, grace_ms: int = _GRACE_MS
) -> TraceFigures:
    """Return the figures of ``parsed`` records, as of a table of them; arguments as ``trace``."""
    said = [name for name in records.columns if name not in ("reported", "place")]
    once = records.groupBy(*said).agg(
        F.count("*").alias("copies"),
        F.min("place").alias("place"),
        F.min("reported").alias("reported"),
    )
    once = once.withColumn("at_ms", F.unix_millis("at")).persist(StorageLevel.MEMORY_AND_DISK)
    try:
        found = _figures(once, listed, grace_ms)
    finally:
        once.unpersist()
    return msgspec.structs.replace(found, judgement=tuple(judgement(found)))


def _figures(once: DataFrame, listed: int, grace_ms: int) -> TraceFigures:
    totals = once.groupBy("kind").agg(
        F.count("*").alias("records"),
        F.sum("copies").alias("copies"),
        F.min("at_ms").alias("first"),
        F.max("at_ms").alias("last"),
        F.max(F.unix_millis("reported")).alias("reported"),
    )
    by_kind = {row["kind"]: row for row in totals.collect()}
    ends = [row[name] for row in by_kind.values() for name in ("first", "last")]
    times = [at for at in ends if at is not None]
    sent = _sent(once)
    delivered = once.where("kind = 'delivery'")
    ended = once.where("kind = 'result'")
    minutes = _minutes(sent)
    # A client whose clock is ahead must not end the grace of all others.
    last_ms = min(max(times, default=0), max((row.reported for row in by_kind.values()), default=0))
    return TraceFigures(
        counts={kind: _count(row) for kind, row in sorted(by_kind.items())},
        repeated=sum(row.copies - _count(row) for row in by_kind.values()),
        samples=_samples(once),
        first_ms=min(times, default=None),
        last_ms=max(times, default=None),
        minutes=minutes,
        put_times=tuple(put_times(minutes)),
        topics=_latencies(sent, "topic"),
        brokers=_latencies(sent, "broker"),
        clients=_latencies(sent, "client_host"),
        slow=_listed(sent.orderBy(F.desc("cost_ms"), "at_ms", "message_id"), listed),
        failed=_listed(sent.where("NOT success").orderBy(F.desc("at_ms"), "message_id"), listed),
        groups=_groups(delivered, ended),
        delays=delays(once),
        orphans=orphans(once, until_ms=last_ms - grace_ms),
        transactions={
            row.transaction_state: row["count"]
            for row in once.where("kind = 'transaction_end'")
            .groupBy("transaction_state")
            .count()
            .orderBy("transaction_state")
            .collect()
        },
    )


def _count(row: Row) -> int:
    """Return how many records of a kind there are; of unreadable ones each copy counts."""
    return int(row.copies if row["kind"] in (MALFORMED, UNKNOWN) else row.records)


def _samples(once: DataFrame) -> tuple[Sample, ...]:
    found = unreadable(once).orderBy("place", "sample").limit(_SAMPLES).collect()
    return tuple(Sample(row.place or "", row["sample"]) for row in found)


def _sent(once: DataFrame) -> DataFrame:
    """Return the sends, with a broker and a client even where they are unknown."""
    unknown = F.lit("unknown")
    return (
        once.where("kind = 'send'")
        .withColumn("broker", F.coalesce("store_host", unknown))
        .withColumn("client_host", F.coalesce("client_host", unknown))
    )


def _minutes(sent: DataFrame) -> tuple[Minute, ...]:
    passed = [(F.col("cost_ms") >= end).cast("int") for end in BUCKET_ENDS_MS]
    bucket = F.when(F.col("cost_ms") <= 0, 0).otherwise(sum(passed, start=F.lit(1)))
    start = F.floor(F.col("at_ms") / _MINUTE_MS) * _MINUTE_MS
    counts: dict[tuple[int, str], list[int]] = defaultdict(lambda: [0] * len(BUCKETS))
    grouped = sent.groupBy(start.alias("start"), "broker", bucket.alias("bucket")).count()
    for row in grouped.collect():
        counts[row.start, row.broker][row.bucket] = row["count"]
    return tuple(Minute(*key, tuple(found)) for key, found in sorted(counts.items()))


def _latencies(sent: DataFrame, column: str) -> tuple[Latency, ...]:
    """Return the latencies by a column, those with most sends first."""
    grouped = sent.groupBy(F.col(column).alias("name")).agg(
        F.count("*").alias("sends"),
        F.count_if(~F.col("success")).alias("failed"),
        F.expr(PERCENTILES.format("cost_ms")).alias("percentiles"),
        F.max("cost_ms").alias("most"),
    )
    return tuple(
        Latency(
            name=row.name,
            sends=row.sends,
            failed=row.failed,
            **dict(zip(("p50_ms", "p95_ms", "p99_ms"), map(int, row.percentiles), strict=True)),
            max_ms=row.most,
        )
        for row in sorted(grouped.collect(), key=lambda row: (-row.sends, row.name))
    )


def _listed(ordered: DataFrame, count: int) -> tuple[Send, ...]:
    return tuple(
        Send(
            at_ms=row.at_ms,
            topic=row.topic,
            broker=row.broker,
            client_host=row.client_host,
            group=row.group,
            message_id=row.message_id,
            keys=row["keys"] or "",
            cost_ms=row.cost_ms,
            success=row.success,
        )
        for row in ordered.limit(count).collect()
    )


def _groups(delivered: DataFrame, ended: DataFrame) -> tuple[GroupFigures, ...]:
    """Return the figures of groups; a result without a group has that of its delivery."""
    of_request = delivered.groupBy("request_id").agg(F.max("group").alias("of_request"))
    named = ended.join(of_request, "request_id", "left").withColumn(
        "group", F.coalesce("group", "of_request", F.lit("unknown"))
    )
    passed = delivered.groupBy("group").agg(
        F.count("*").alias("deliveries"), F.count_if(F.col("retry_times") > 0).alias("again")
    )
    took = named.groupBy("group").agg(
        F.expr(PERCENTILES.format("cost_ms")).alias("percentiles"), F.max("cost_ms").alias("most")
    )
    outcomes: dict[str, dict[str, int]] = defaultdict(dict)
    for row in named.groupBy("group", "success", "outcome").count().collect():
        outcome = row.outcome or ("success" if row.success else "failed")
        found = outcomes[row.group]
        found[outcome] = found.get(outcome, 0) + row["count"]
    counts = {row.group: (row.deliveries, row.again) for row in passed.collect()}
    times = {row.group: (*map(int, row.percentiles), row.most) for row in took.collect()}
    return tuple(
        GroupFigures(
            group=group,
            deliveries=counts.get(group, (0, 0))[0],
            redeliveries=counts.get(group, (0, 0))[1],
            results=sum(outcomes[group].values()),
            outcomes=dict(sorted(outcomes[group].items())),
            **dict(
                zip(("p50_ms", "p95_ms", "p99_ms", "max_ms"), times.get(group, ()), strict=False)
            ),
        )
        for group in sorted({*counts, *times})
    )
