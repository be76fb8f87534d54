"""Reconcile: what producers say they sent, against what is stored and what groups consumed.

::

    traces ───┐
    receipts ─┼─▶ sent: a row for each message ──┐
    outboxes ─┘                                  ├─▶ judged ──▶ by topic and minute, samples
    topics, a store or an archive ─▶ stored ─────┤
    offsets of groups, deliveries of traces ─────┘

What was sent is read before what is stored, so a message that is acknowledged meanwhile is not
missing; and what is stored before the offsets of groups and the beginnings of queues, so one that
is consumed or deleted meanwhile isn't either. ``reconciling/figures.py`` draws the verdicts,
``reconciling/verdicts.py`` has the rules.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Final

import msgspec
from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it

from orbitmq.errors import InvalidInput
from orbitmq.spark.jobs import trace
from orbitmq.spark.jobs.progress import Progress, tasks_shown
from orbitmq.spark.jobs.reconciling.figures import (
    DIFFERENCES,
    VERDICTS,
    Group,
    Minute,
    Reconciliation,
    Sample,
    reconciliation,
)
from orbitmq.spark.jobs.reconciling.sent import Waiting, merged, of_outbox, of_receipts, of_traces
from orbitmq.spark.jobs.reconciling.stored import (
    STORE,
    Archive,
    Stored,
    committed,
    heads,
    messages,
    of_reports,
    stored,
    with_names,
)
from orbitmq.spark.jobs.reconciling.verdicts import Rules, judged
from orbitmq.spark.jobs.sources import EVERYTHING, Span, Store, Topics

__all__ = ["Archive", "Reports", "Rules", "Waiting", "reconcile"]

_TRACE_COLUMNS: Final = ("value", "timestamp", "message_id", "broker", "queue_id", "queue_offset")
_MINUTE_MS: Final = 60_000
_MARGIN_MS: Final = 3_600_000
"""Clocks of clients and brokers may differ; copies may be stored later anyway."""
_SAMPLES: Final = 5


class Reports(msgspec.Struct, frozen=True):
    """Who says what was sent.

    ``traces`` is the trace topic, in the same cluster, store or archive; ``receipts`` are files of
    receipts, ``waiting`` what outboxes hold.
    """

    traces: str | None = None
    receipts: tuple[str, ...] = ()
    waiting: tuple[Waiting, ...] = ()

    def __post_init__(self) -> None:
        if self.traces is None and not self.receipts:
            raise InvalidInput(
                "nothing says what was sent: give the trace topic, or files of receipts",
                field="traces",
            )


def reconcile(
    spark: SparkSession,
    source: Stored,
    reports: Reports,
    *,
    groups: Sequence[str] = (),
    span: Span = EVERYTHING,
    late_ms: int = 60_000,
    by_queue: bool = False,
    progress: Progress | None = None,
) -> Reconciliation:
    """Compare what was sent with what is stored and consumed.

    Args:
        spark: a session; see ``orbitmq.spark.session``.
        source: where the messages are; without names, the topics that the reports name.
        reports: who says what was sent.
        groups: consumer groups that should have consumed all of it.
        span: only messages sent in this range of times, by the clocks of their senders.
        late_ms: a message that is stored or delivered later than this after its send is late.
        by_queue: whether each producer sends in order to each queue; else only messages with a
            sharding key have to be in order.
        progress: is called with finished tasks and all tasks.

    Raises:
        InvalidInput: a file can't be receipts, or groups are given without a cluster.
        GroupNotFound: no broker has the group.
        OrbitError: the cluster can't be reached, or the directory is not a store.
        PySparkException: Spark failed; its text ends with our reason, if it was ours.

    ::

        found = reconcile(spark, Topics(nameserver, ("orders",)), Reports(traces=TRACE_TOPIC))
        print(found.equal, found.count("lost"))
    """
    if groups and not isinstance(source, Topics):
        raise InvalidInput(
            "only a cluster knows what groups have consumed; give a --nameserver instead of a "
            "store or an archive, or leave --group out",
            field="group",
        )
    rules = Rules(late_ms, by_queue, span.start_ms, span.end_ms)
    for group in groups:  # a name that is misspelled should not cost an hour
        committed(source, group, source.names)
    with ExitStack() as held, tasks_shown(spark, progress):
        records = _records(spark, source, reports, span)
        if records is not None:
            records = _held(records, held)
        said = _held(_said(spark, reports, records), held)
        sent = _of_source(merged(said), source)
        names = source.names or _topics(sent)
        unreadable = _unreadable(said, records)
        if not names:
            return reconciliation([], [], [], late_ms=late_ms, unreadable=unreadable)
        whole = source if source.names else of_reports(source, names)
        start_ms = None if span.start_ms is None else max(0, span.start_ms - _MARGIN_MS)
        found = _held(stored(spark, whole, start_ms).where(F.col("topic").isin(*names)), held)
        found.count()  # read now: what is consumed or deleted meanwhile is neither behind nor lost
        table = judged(
            sent,
            found,
            None if records is None else _deliveries(records, groups),
            heads(spark, whole, names),
            {group: committed(whole, group, names) for group in groups},
            rules,
        )
        return collected(table, late_ms=late_ms, unreadable=unreadable)


def _held(frame: DataFrame, held: ExitStack) -> DataFrame:
    """Have a frame computed once: reading topics is what takes time."""
    held.callback(frame.unpersist)
    return frame.persist(StorageLevel.MEMORY_AND_DISK)


def collected(table: DataFrame, *, late_ms: int, unreadable: int = 0) -> Reconciliation:
    """Return the figures of a table of judged messages."""
    with ExitStack() as held:
        table = _held(table, held)
        return reconciliation(
            _minutes(table), _groups(table), _samples(table), late_ms=late_ms, unreadable=unreadable
        )


# What was sent


def _records(spark: SparkSession, source: Stored, reports: Reports, span: Span) -> DataFrame | None:
    """Return the records of traces; None if none are asked for."""
    if reports.traces is None:
        return None
    carriers = with_names(source, reports.traces)
    return trace.parsed(messages(spark, carriers, _TRACE_COLUMNS, Span(span.start_ms)))


def _said(spark: SparkSession, reports: Reports, records: DataFrame | None) -> DataFrame:
    said = of_outbox(spark, reports.waiting)
    if records is not None:
        said = said.unionByName(of_traces(records))
    if reports.receipts:
        said = said.unionByName(of_receipts(spark, reports.receipts))
    return said


def _of_source(sent: DataFrame, source: Stored) -> DataFrame:
    """Return what was sent to the topics of a source; a store doesn't know the broker's name."""
    if source.names:
        sent = sent.where(F.col("topic").isin(*source.names))
    return sent.withColumn("broker", F.lit(STORE)) if isinstance(source, Store) else sent


def _topics(sent: DataFrame) -> tuple[str, ...]:
    return tuple(sorted(row.topic for row in sent.select("topic").distinct().collect()))


def _unreadable(said: DataFrame, records: DataFrame | None) -> int:
    lacking = F.col("topic").isNull() | F.col("message_id").isNull()
    untimed = F.col("sent_ms").isNull() & F.col("ended").isNull() & F.col("recalled").isNull()
    count = said.where(lacking | untimed).count()
    return count if records is None else count + trace.unreadable(records).count()


def _deliveries(records: DataFrame, groups: Collection[str]) -> DataFrame:
    """Return the first deliveries of messages, to the given groups or to all."""
    first = trace.deliveries(records).where("retry_times = 0")
    if groups:
        first = first.where(F.col("group").isin(*groups))
    return first.groupBy("group", "message_id").agg(
        F.min(F.unix_millis("at")).alias("delivered_ms")
    )


# What came of it


def _flag(name: str) -> Column:
    """Return whether a message counts under a name, of a verdict or a difference."""
    if name in VERDICTS:
        return F.col("verdict") == name
    return F.size("not_consumed") > 0 if name == "not_consumed" else F.col(name)


def _minutes(table: DataFrame) -> Iterator[Minute]:
    names = tuple(dict.fromkeys((*VERDICTS, *DIFFERENCES)))
    start = (F.floor(F.col("at_ms") / _MINUTE_MS) * _MINUTE_MS).alias("start_ms")
    grouped = table.groupBy("topic", start).agg(
        *(F.count_if(_flag(name)).alias(name) for name in names)
    )
    for row in grouped.collect():
        yield Minute(**row.asDict())


def _groups(table: DataFrame) -> list[Group]:
    missing = table.select("topic", F.explode("not_consumed").alias("group"))
    counted = missing.groupBy("group", "topic").count().orderBy("group", "topic")
    return [
        Group(group=row.group, topic=row.topic, not_consumed=row["count"])
        for row in counted.collect()
    ]


def _samples(table: DataFrame) -> list[Sample]:
    """Return the first messages of each verdict and difference, but for what was found."""
    names = [name for name in dict.fromkeys((*DIFFERENCES, *VERDICTS)) if name != "found"]
    kinds = F.array_compact(F.array(*(F.when(_flag(name), F.lit(name)) for name in names)))
    each = table.select("*", F.explode(kinds).alias("kind"))
    place = "row_number() OVER (PARTITION BY kind ORDER BY at_ms, topic, message_id) AS place"
    rows = each.selectExpr("*", place).where(F.col("place") <= _SAMPLES).collect()
    rows.sort(key=lambda row: (names.index(row["kind"]), row["place"]))
    return [_sample(row.asDict()) for row in rows]


def _sample(row: Mapping[str, object]) -> Sample:
    kind = str(row["kind"])
    at = "" if row["queue_offset"] is None else f" at {row['queue_offset']}"
    place = "" if row["broker"] is None else f"{row['broker']}:{row['queue_id']}{at}"
    notes: Iterable[object] = ()
    if kind == "late":
        notes = (f"after {row['took_ms']} ms",)
    elif kind == "not_consumed":
        notes = row["not_consumed"]  # type: ignore[assignment]
    return Sample(
        kind=kind,
        topic=str(row["topic"]),
        message_id=str(row["message_id"]),
        sent_ms=int(row["at_ms"]),  # type: ignore[call-overload]
        place=place if row["queue_offset"] is not None else "",
        note=", ".join(map(str, notes)),
    )
