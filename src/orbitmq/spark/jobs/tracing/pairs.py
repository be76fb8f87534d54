"""Sends and deliveries of traces joined by the ids of messages: delays, and orphans.

A group consumes a topic if it was delivered a message of it. It should have got all messages that
were sent since the first of those, until shortly before the end of the traces::

    sent to the topic    m1   m2   m3   m4   m5 … │ grace
    delivered to group             m3        m5   │
                         not its   ▲    lost ▲
                         business  since

Left out are failed sends, delayed messages (traces don't say when they are due), recalled ones, and
half messages without a commit.
"""

from collections import defaultdict
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it

from orbitmq.spark.jobs.tracing.figures import Delay, Orphans

__all__ = ["PERCENTILES", "delays", "orphans"]

PERCENTILES: Final = "percentile_disc(array(0.5, 0.95, 0.99)) WITHIN GROUP (ORDER BY {})"
"""Exact: the least value that so many are not above."""
_SAMPLES: Final = 3


def delays(once: DataFrame) -> tuple[Delay, ...]:
    """Return the times from send to first delivery, by topic and group."""
    direct = F.col("message_kind").isin("normal", "ordered")
    first = once.where("kind = 'delivery' AND retry_times = 0").groupBy("group", "message_id")
    delivered = first.agg(F.min("at_ms").alias("delivered_ms"))
    took = F.col("delivered_ms") - F.col("sent_ms")
    pairs = _sent(once, direct).join(delivered, "message_id").withColumn("took", took)
    found = pairs.groupBy("topic", "group").agg(
        F.count("*").alias("deliveries"),
        F.count_if(F.col("took") < 0).alias("negative"),
        F.expr(PERCENTILES.format("took")).alias("percentiles"),
        F.max("took").alias("most"),
    )
    return tuple(
        Delay(
            topic=row.topic,
            group=row.group,
            deliveries=row.deliveries,
            negative=row.negative,
            **dict(zip(("p50_ms", "p95_ms", "p99_ms"), map(int, row.percentiles), strict=True)),
            max_ms=row.most,
        )
        for row in found.orderBy("topic", "group").collect()
    )


def orphans(once: DataFrame, *, until_ms: int) -> tuple[Orphans, ...]:
    """Return the records up to a time that lack their counterpart."""
    delivered = once.where("kind = 'delivery'").select("group", "message_id", "request_id", "at_ms")
    missing = {
        "never delivered": _never_delivered(once, delivered, until_ms),
        "no send": delivered.join(
            _sent(once, F.lit(True), failed=True), "message_id", "left_anti"
        ).withColumn("topic", F.lit("")),
        "no result": delivered.where(F.col("at_ms") <= until_ms)
        .join(once.where("kind = 'result'"), ["request_id", "message_id"], "left_anti")
        .withColumn("topic", F.lit("")),
    }
    return tuple(one for kind, found in missing.items() for one in _counted(kind, found))


def _never_delivered(once: DataFrame, delivered: DataFrame, until_ms: int) -> DataFrame:
    recalled = once.where("kind = 'recall' AND success").select("message_id")
    committed = once.where("transaction_state = 'COMMIT_MESSAGE'").select("message_id")
    half = F.col("message_kind") == "half"
    direct = _sent(once, ~half & (F.col("message_kind") != "delayed"))
    ended = _sent(once, half).join(committed, "message_id", "left_semi")
    due = direct.unionByName(ended).join(recalled, "message_id", "left_anti")
    got = delivered.select("group", "message_id").distinct()
    since = (
        due.join(got, "message_id")
        .groupBy("topic", "group")
        .agg(F.min("sent_ms").alias("since_ms"))
    )
    expected = due.join(since, "topic").where(
        (F.col("sent_ms") >= F.col("since_ms")) & (F.col("sent_ms") <= until_ms)
    )
    return expected.join(got, ["group", "message_id"], "left_anti").withColumn(
        "at_ms", F.col("sent_ms")
    )


def _sent(once: DataFrame, wanted: Column, *, failed: bool = False) -> DataFrame:
    """Return the messages of sends: an id and a topic once, with the time of the first send.

    Java reports a batch as one send with all ids, separated by commas.
    """
    chosen = once.where("kind = 'send'").where(wanted)
    if not failed:
        chosen = chosen.where("success")
    ids = F.explode(F.split("message_id", ","))
    each = chosen.select("topic", "at_ms", ids.alias("message_id"))
    return each.groupBy("topic", "message_id").agg(F.min("at_ms").alias("sent_ms"))


def _counted(kind: str, missing: DataFrame) -> list[Orphans]:
    """Return orphans by topic and group: how many messages, and the first of them."""
    each = missing.groupBy("topic", "group", "message_id").agg(F.min("at_ms").alias("at_ms"))
    window = "OVER (PARTITION BY topic, `group`"
    placed = each.selectExpr(
        "*",
        f"row_number() {window} ORDER BY at_ms, message_id) AS place",
        f"count(*) {window}) AS messages",
    ).where(f"place <= {_SAMPLES}")
    found: dict[tuple[str, str, int], list[str]] = defaultdict(list)
    for row in placed.orderBy("topic", "group", "place").collect():
        found[row.topic, row.group, row.messages].append(row.message_id)
    return [
        Orphans(kind=kind, topic=topic, group=group, count=count, message_ids=tuple(ids))
        for (topic, group, count), ids in found.items()
    ]
