"""Dead letters: what groups failed to consume, by cause, topic and age, with samples.

::

    %DLQ%group ──┐
    onReject's ──┴─ letters ──▶ a row each: group, topic, cause, age_hours, … ──▶ figures, re-drive

RocketMQ doesn't record why a message died. What is known of it, the first that there is::

    a property that the application set       --cause-property
    ORBIT_REJECT_REASON                       a row that a Spark write rejected
    the last failure of its listener          traces, if they are given
    how often it was delivered                every dead letter
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import Final

from pyspark import StorageLevel
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it

from orbitmq.clock import SystemClock
from orbitmq.errors import InvalidInput
from orbitmq.message import names, properties
from orbitmq.message.shown import shown_body
from orbitmq.spark.jobs.profile import slot_ms
from orbitmq.spark.jobs.progress import Progress, tasks_shown
from orbitmq.spark.jobs.redriving.figures import (
    Cause,
    DeadLetterFigures,
    Group,
    Letter,
    Slot,
    age_of,
)
from orbitmq.spark.jobs.sources import EVERYTHING, Source, Span, rows
from orbitmq.spark.jobs.trace import parsed, results
from orbitmq.spark.writing.rows_to_messages import REJECT_REASON, REJECT_TOPIC

__all__ = ["COLUMNS", "dead_letters", "figures", "letters", "read_letters", "selected"]

COLUMNS: Final = (
    *("key", "value", "topic", "broker", "queue_id", "queue_offset", "timestamp"),
    *("born_timestamp", "tags", "message_id", "offset_message_id", "properties"),
    "reconsume_times",
)
"""What ``letters`` needs of a read."""
_TRACE_COLUMNS: Final = ("value", "timestamp", "message_id")
_REDRIVE_TIMES: Final = "REDRIVE_TIMES"  # of copies that an admin re-drove
_NUMBERS: Final = "0x[0-9A-Fa-f]+|[0-9]+"
"""Reasons that differ in numbers alone are one cause."""
_CAUSE_CHARACTERS: Final = 120
_SAMPLES: Final = 3
_BODY_BYTES: Final = 200
_HOUR_MS: Final = 3_600_000


def dead_letters(
    spark: SparkSession,
    source: Source,
    span: Span = EVERYTHING,
    *,
    where: str | None = None,
    traces: Source | None = None,
    cause_properties: Sequence[str] = (),
    now_ms: int | None = None,
    progress: Progress | None = None,
) -> DeadLetterFigures:
    """Return the figures of the dead letters in a source.

    Args:
        spark: a session; see ``orbitmq.spark.session``.
        source: topics ``%DLQ%group``, or those of ``onReject``; or a store with them.
        span: only messages that died in this range of times.
        where: a condition of Spark SQL on the columns of ``letters``.
        traces: a trace topic, for the failures of listeners.
        cause_properties: properties with the cause, the best first.
        now_ms: the time that ages are of, in milliseconds since 1970; by default now.
        progress: is called with finished tasks and all tasks.

    Raises:
        InvalidInput: Spark can't read ``where``.
        OrbitError: the cluster can't be reached, or the directory is not a store.
        PySparkException: Spark failed; its text ends with our reason, if it was ours.
    """
    at_ms = SystemClock().now_ms() if now_ms is None else now_ms
    with tasks_shown(spark, progress):
        found = read_letters(
            spark, source, span, traces=traces, cause_properties=cause_properties, now_ms=at_ms
        )
        return figures(found if where is None else selected(found, where), now_ms=at_ms)


def read_letters(
    spark: SparkSession,
    source: Source,
    span: Span = EVERYTHING,
    *,
    traces: Source | None = None,
    cause_properties: Sequence[str] = (),
    now_ms: int,
) -> DataFrame:
    """Return ``letters`` of a source; arguments as ``dead_letters``."""
    failures = None
    if traces is not None:
        failures = _failures(parsed(rows(spark, traces, _TRACE_COLUMNS)))
    messages = rows(spark, source, COLUMNS, span)
    return letters(messages, failures, cause_properties=cause_properties, now_ms=now_ms)


def letters(
    messages: DataFrame,
    failures: DataFrame | None = None,
    *,
    cause_properties: Sequence[str] = (),
    now_ms: int,
) -> DataFrame:
    """Return a row for each dead letter of a read with ``COLUMNS``.

    ``failures`` has the last failed outcome by ``group`` and ``message_id``. The columns::

        group, topic      who failed, and where the message was sent to
        cause, reason     in a few words, and as it was recorded (null if nothing was)
        deliveries        how often the group got it
        died, age_hours   when it was given up
        redrive_times     how often it was re-driven before, and died again
        id, message_id    of the dead letter, and of the message
        key, tags, value, size, sent, properties, broker, queue_id, queue_offset
    """
    group = F.regexp_replace("topic", f"^{names.DEAD_LETTER_PREFIX}", "")
    found = messages.select(
        group.alias("group"),
        F.coalesce(
            *map(_property, (properties.DLQ_ORIGIN_TOPIC, properties.RETRY_TOPIC, REJECT_TOPIC)),
            F.lit(""),
        ).alias("topic"),
        F.coalesce(*map(_property, (*cause_properties, REJECT_REASON))).alias("reason"),
        F.col("reconsume_times").alias("deliveries"),
        F.col("timestamp").alias("died"),
        ((F.lit(now_ms) - F.unix_millis("timestamp")) / _HOUR_MS).alias("age_hours"),
        F.coalesce(_property(_REDRIVE_TIMES).try_cast("int"), F.lit(0)).alias("redrive_times"),
        F.col("offset_message_id").alias("id"),
        *("message_id", "key", "tags", "value"),
        F.octet_length("value").alias("size"),
        F.col("born_timestamp").alias("sent"),
        *("properties", "broker", "queue_id", "queue_offset"),
    )
    others = [name for name in found.columns if name not in ("group", "topic")]
    if failures is None:
        found = found.withColumn("outcome", F.lit(None).cast("string"))
    else:
        found = found.join(failures, ["group", "message_id"], "left")
    return found.select("group", "topic", _cause().alias("cause"), *others)


def selected(found: DataFrame, where: str) -> DataFrame:
    """Return the letters that a condition of Spark SQL selects.

    Raises:
        InvalidInput: Spark can't read it; the error names the columns.
    """
    try:
        return found.where(where)
    except AnalysisException as error:  # a ParseException is one too
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        raise InvalidInput(
            f"where is {where[:80]!r}, which Spark can't read: {lines[0]} The columns are "
            f"{', '.join(found.columns)}",
            field="where",
        ) from error


def _property(name: str) -> Column:
    return F.col("properties")[name]


def _cause() -> Column:
    """Return the cause, so that causes of one kind are equal."""
    first_line = F.split(F.trim("reason"), "\n")[0]
    reason = F.substring(F.regexp_replace(first_line, _NUMBERS, "N"), 1, _CAUSE_CHARACTERS)
    times = F.when(F.col("deliveries") == 1, F.lit("given up at the first delivery")).otherwise(
        F.concat(F.lit("given up after "), F.col("deliveries").cast("string"), F.lit(" deliveries"))
    )
    return F.coalesce(reason, F.concat(F.lit("listener: "), F.col("outcome")), times)


def _failures(records: DataFrame) -> DataFrame:
    """Return the last failure of each message in each group."""
    failed = results(records).where("NOT success AND `group` IS NOT NULL")
    last = F.max_by("outcome", F.coalesce("at", "reported"))
    return failed.groupBy("group", "message_id").agg(last.alias("outcome"))


# Figures


def figures(found: DataFrame, *, now_ms: int) -> DeadLetterFigures:
    """Return the figures of a frame of ``letters``."""
    narrow = (
        found.withColumn("died_ms", F.unix_millis("died"))
        .withColumn("body", F.substring("value", 1, _BODY_BYTES))
        .select(
            *("group", "topic", "cause", "reason", "deliveries", "died_ms", "redrive_times"),
            *("id", "message_id", "key", "size", "body"),
        )
        .persist(StorageLevel.MEMORY_AND_DISK)
    )
    try:
        return _figures(narrow, now_ms)
    finally:
        narrow.unpersist()


def _figures(narrow: DataFrame, now_ms: int) -> DeadLetterFigures:
    grouped = narrow.groupBy("group").agg(
        F.count("*").alias("letters"),
        F.count_if(F.col("redrive_times") > 0).alias("again"),
        F.min("died_ms").alias("oldest"),
        F.max("died_ms").alias("newest"),
        F.sum("size").alias("bytes"),
    )
    by_group = sorted(grouped.collect(), key=lambda row: (-row.letters, row.group))
    if not by_group:
        return DeadLetterFigures(letters=0, now_ms=now_ms)
    first_ms, last_ms = min(row.oldest for row in by_group), max(row.newest for row in by_group)
    each_ms = slot_ms(first_ms, last_ms)
    slots = _slots(narrow, each_ms)
    return DeadLetterFigures(
        letters=sum(row.letters for row in by_group),
        now_ms=now_ms,
        bytes=sum(row.bytes for row in by_group),
        groups=tuple(
            Group(
                group=row.group,
                letters=row.letters,
                died_again=row.again,
                oldest_ms=row.oldest,
                newest_ms=row.newest,
            )
            for row in by_group
        ),
        causes=_causes(narrow),
        ages=_ages(narrow, now_ms),
        slot_ms=each_ms,
        slots=tuple(
            Slot(at, slots.get(at, 0))
            for at in range(first_ms // each_ms * each_ms, last_ms + 1, each_ms)
        ),
    )


def _slots(narrow: DataFrame, each_ms: int) -> dict[int, int]:
    start = F.floor(F.col("died_ms") / each_ms) * each_ms
    return {
        row.start: row["count"] for row in narrow.groupBy(start.alias("start")).count().collect()
    }


def _ages(narrow: DataFrame, now_ms: int) -> dict[str, int]:
    """Return the letters by span of age, the youngest first."""
    hours = F.greatest(F.lit(0), F.floor((F.lit(now_ms) - F.col("died_ms")) / _HOUR_MS))
    found: dict[str, int] = defaultdict(int)
    for row in narrow.groupBy(hours.alias("hours")).count().orderBy("hours").collect():
        found[age_of(row.hours * _HOUR_MS)] += row["count"]
    return dict(found)


def _causes(narrow: DataFrame) -> tuple[Cause, ...]:
    """Return the letters by group, topic and cause, with the newest of each."""
    window = "OVER (PARTITION BY `group`, topic, cause"
    placed = narrow.selectExpr(
        "*",
        f"row_number() {window} ORDER BY died_ms DESC, id) AS place",
        f"count(*) {window}) AS letters",
        f"min(died_ms) {window}) AS oldest",
        f"max(died_ms) {window}) AS newest",
    ).where(f"place <= {_SAMPLES}")
    totals: dict[tuple[str, str, str], tuple[int, int, int]] = {}
    samples: dict[tuple[str, str, str], list[Letter]] = defaultdict(list)
    for row in placed.orderBy(F.desc("letters"), "group", "topic", "cause", "place").collect():
        kind = (row.group, row.topic, row.cause)
        totals[kind] = (row.letters, row.oldest, row.newest)
        samples[kind].append(
            Letter(
                id=row.id,
                message_id=row.message_id,
                key=row.key or "",
                died_ms=row.died_ms,
                deliveries=row.deliveries,
                reason=row.reason or "",
                body=shown_body(bytes(row.body)),
            )
        )
    return tuple(
        Cause(
            group=group,
            topic=topic,
            cause=cause,
            letters=count,
            oldest_ms=oldest,
            newest_ms=newest,
            samples=tuple(samples[group, topic, cause]),
        )
        for (group, topic, cause), (count, oldest, newest) in totals.items()
    )
