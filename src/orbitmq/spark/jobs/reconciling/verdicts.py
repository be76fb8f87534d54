"""Said and stored messages joined: a row for each, with its verdict and its faults.

Laws:

- A message is its topic and unique id. Copies have one identity and different places; the first
  stored of them is the message, the others are duplicates.
- Order is judged among messages of one producer, queue and sharding key (or one queue, if asked):
  one is out of order if an earlier place has a message that was sent later. Copies are not judged,
  nor is what is stored long after its send by design: delayed messages, and those of transactions.
- Late is by the time from the send to the store, or to the first delivery, of what wasn't delayed.
- What is missing is gone, not lost, if the place it was said to be at is before its queue's first
  message; without a place, if a queue of its topic begins with a message stored after it was sent.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it

from orbitmq.spark.jobs.reconciling.stored import Head

__all__ = ["Rules", "judged"]

_QUEUE: Final = ("topic", "broker", "queue_id")
_HEADS: Final = "topic string, broker string, queue_id int, first bigint, end bigint"
_TIMELY: Final = ("normal", "ordered")


class Rules(NamedTuple):
    """What is compared how."""

    late_ms: int
    by_queue: bool = False
    """Whether messages of one producer are in order in each queue, and not only by sharding key."""
    start_ms: int | None = None
    end_ms: int | None = None
    """Only messages sent in this range of times count."""


def judged(
    sent: DataFrame,
    stored: DataFrame,
    deliveries: DataFrame | None,
    heads: Sequence[Head],
    committed: Mapping[str, Mapping[tuple[str, str, int], int]],
    rules: Rules,
) -> DataFrame:
    """Return the messages with their verdicts.

    ``deliveries`` has ``message_id`` and ``delivered_ms``, the first delivery to a group;
    ``committed`` are the offsets of groups. The columns are ``topic``, ``message_id``, ``at_ms``
    (when it was sent, else born), ``verdict``, the flags ``out_of_order``, ``late`` and
    ``not_consumed`` (the groups), and the place.
    """
    spark = sent.sparkSession
    found = _matched(sent, _copies(stored), _cut(spark, stored, heads))
    found = _in_range(found, rules)
    found = _with_deliveries(found, deliveries)
    found = _with_order(found, rules)
    found = _with_groups(found, committed)
    timely = ~F.coalesce("is_delayed", F.lit(False)) & F.coalesce(
        F.col("kind"), F.lit("normal")
    ).isin(*_TIMELY)
    took = F.greatest(F.col("stored_ms"), F.col("delivered_ms")) - F.col("at_ms")
    is_first = F.coalesce(F.col("copy") == 1, F.lit(False))
    late = is_first & timely & (took > rules.late_ms)
    return found.select(
        *("topic", "message_id", "at_ms", "verdict", "broker", "queue_id", "queue_offset"),
        *("out_of_order", "not_consumed", took.alias("took_ms")),
        F.coalesce(late, F.lit(False)).alias("late"),
    )


def _copies(stored: DataFrame) -> DataFrame:
    """Add which of the copies of a message, by the time they were stored, a row is."""
    at = ("stored_ms", "broker", "queue_id", "queue_offset")
    copy = F.row_number().over(Window.partitionBy("topic", "identity").orderBy(*at))
    return stored.withColumn("copy", copy)


def _cut(spark: SparkSession, stored: DataFrame, heads: Sequence[Head]) -> DataFrame:
    """Return the queues that don't begin at 0: at which offset, and with a message of which time.

    An empty one has lost all it had, up to now: its time is infinite. So is none if its first
    message was stored before the messages that were read.
    """
    cut = [head for head in heads if head.first > 0]
    table = spark.createDataFrame(cut, _HEADS)
    if not cut:
        return table.select(*_QUEUE, "first", F.lit(0).cast("bigint").alias("first_ms"))
    times = (
        stored.join(F.broadcast(table.select(*_QUEUE, "first")), [*_QUEUE])
        .where("queue_offset = first")
        .groupBy(*_QUEUE)
        .agg(F.min("stored_ms").alias("first_ms"))
    )
    forever = F.when(F.col("first") == F.col("end"), F.lit((1 << 63) - 1))
    return table.join(times, [*_QUEUE], "left").select(
        *(*_QUEUE, "first"), F.coalesce("first_ms", forever).alias("first_ms")
    )


def _matched(sent: DataFrame, copies: DataFrame, cut: DataFrame) -> DataFrame:
    place = ("broker", "queue_id", "queue_offset")
    said = sent.withColumnsRenamed({name: f"said_{name}" for name in place})
    both = said.join(copies, ["topic", "message_id"], "full_outer")
    heads = cut.select(
        "topic",
        F.col("broker").alias("said_broker"),
        F.col("queue_id").alias("said_queue_id"),
        "first",
    )
    topics = cut.groupBy("topic").agg(F.max("first_ms").alias("cut_ms"))
    known = both.join(F.broadcast(heads), ["topic", "said_broker", "said_queue_id"], "left")
    known = known.join(F.broadcast(topics), ["topic"], "left")
    return known.select(
        *("topic", "message_id", "producer", "sequence", "kind", "sent_ms", "stored_ms"),
        *("sharding_key", "is_delayed", "copy"),
        F.coalesce("sent_ms", "born_ms").alias("at_ms"),
        *(F.coalesce(name, f"said_{name}").alias(name) for name in place),
        _verdict().alias("verdict"),
    )


def _verdict() -> Column:
    placed = F.col("said_queue_offset").isNotNull()
    gone = (placed & (F.col("said_queue_offset") < F.col("first"))) | (
        ~placed & (F.col("sent_ms") < F.col("cut_ms"))
    )
    half = F.col("kind") == "half"
    return (
        F.when(F.col("copy") > 1, "duplicated")
        .when(F.col("copy").isNotNull() & F.col("sent_ms").isNull(), "unreported")
        .when(F.col("copy").isNotNull(), "found")
        .when(F.col("recalled") | (half & (F.col("ended") == "ROLLBACK_MESSAGE")), "withdrawn")
        .when(F.col("waiting"), "waiting")
        .when(~F.col("acknowledged"), "failed")
        .when(half & (F.coalesce("ended", F.lit("")) != "COMMIT_MESSAGE"), "undecided")
        .when(gone, "gone")
        .when(F.col("kind") == "delayed", "delayed")
        .otherwise("lost")
    )


def _in_range(found: DataFrame, rules: Rules) -> DataFrame:
    if rules.start_ms is not None:
        found = found.where(F.col("at_ms") >= rules.start_ms)
    if rules.end_ms is not None:
        found = found.where(F.col("at_ms") < rules.end_ms)
    return found


def _with_deliveries(found: DataFrame, deliveries: DataFrame | None) -> DataFrame:
    if deliveries is None:
        return found.withColumn("delivered_ms", F.lit(None).cast("bigint"))
    latest = deliveries.groupBy("message_id").agg(F.max("delivered_ms").alias("delivered_ms"))
    return found.join(latest, ["message_id"], "left")


def _with_order(found: DataFrame, rules: Rules) -> DataFrame:
    key = F.col("sharding_key")
    if rules.by_queue:
        key = F.lit("")
    turn = F.coalesce("sequence", "sent_ms")
    before = (
        # Numbers are not compared with times.
        Window.partitionBy(*_QUEUE, "producer", F.col("sequence").isNull(), key)
        .orderBy("queue_offset")
        .rowsBetween(Window.unboundedPreceding, -1)
    )
    in_order = (F.col("verdict") == "found") & key.isNotNull() & F.col("producer").isNotNull()
    # Receipts need not have a kind: what is stored has it too.
    in_order &= F.col("kind").isin(*_TIMELY) & ~F.col("is_delayed")
    # Of copies and of what nobody reported the turn is null, which no maximum takes.
    last = F.max(F.when(in_order, turn)).over(before)
    return found.withColumn("out_of_order", F.coalesce(in_order & (last > turn), F.lit(False)))


def _with_groups(
    found: DataFrame, committed: Mapping[str, Mapping[tuple[str, str, int], int]]
) -> DataFrame:
    """Add the groups that have not consumed a stored message; of an unknown queue none was."""
    missing: list[Column] = []
    is_stored = F.col("verdict").isin("found", "duplicated", "unreported")
    for group, offsets in committed.items():
        column = f"committed_{len(missing)}"
        rows = [(*queue, offset) for queue, offset in offsets.items()]
        table = found.sparkSession.createDataFrame(
            rows, f"topic string, broker string, queue_id int, {column} bigint"
        )
        found = found.join(F.broadcast(table), [*_QUEUE], "left")
        behind = is_stored & (F.col("queue_offset") >= F.coalesce(column, F.lit(0)))
        missing.append(F.when(behind, F.lit(group)))
    groups = F.array_compact(F.array(*missing)) if missing else F.array().cast("array<string>")
    return found.withColumn("not_consumed", groups)
