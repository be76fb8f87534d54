"""Spark finds exactly what loops in Python find in the same rows."""

from collections import Counter
from collections.abc import Mapping, Sequence

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from orbitmq.spark.jobs.reconcile import collected
from orbitmq.spark.jobs.reconciling.figures import DIFFERENCES, Reconciliation
from orbitmq.spark.jobs.reconciling.sent import SAID, merged
from orbitmq.spark.jobs.reconciling.stored import Head
from orbitmq.spark.jobs.reconciling.verdicts import Rules, judged
from tests.spark.jobs.reconciling.made_up import (
    BEGIN_MS,
    FATES,
    GROUP,
    LATE_MS,
    Morning,
    Row,
    expected,
)

STORED = (
    "topic string, broker string, queue_id int, queue_offset bigint, message_id string, "
    "stored_ms bigint, born_ms bigint, identity string, sharding_key string, is_delayed boolean"
)


def table(spark: SparkSession, rows: Sequence[Row], schema: str) -> DataFrame:
    names = [column.split()[0] for column in schema.split(", ")]
    return spark.createDataFrame([tuple(row[name] for name in names) for row in rows], schema)


def judge(spark: SparkSession, morning: Morning) -> DataFrame:
    return judged(
        merged(table(spark, morning.said, SAID)),
        table(spark, morning.stored, STORED),
        None,
        [Head(*head) for head in morning.heads()],
        {GROUP: morning.committed},
        Rules(LATE_MS),
    )


def counted(judged: DataFrame) -> Counter[tuple[str, str]]:
    found: Counter[tuple[str, str]] = Counter()
    for row in judged.collect():
        found[row.verdict, row.message_id] += 1
        found.update((name, row.message_id) for name in ("late", "out_of_order") if row[name])
        found.update(("not_consumed", row.message_id) for _ in row.not_consumed)
    return found


@pytest.mark.parametrize(("seed", "cut"), [(1, True), (2, False)])
def test_the_planted_faults_and_nothing_else(spark: SparkSession, seed: int, cut: bool) -> None:
    morning = Morning(seed, 600, cut=cut)
    wanted = expected(morning)
    found = judge(spark, morning).persist()
    assert counted(found) == wanted
    kinds: Counter[str] = Counter()
    for (kind, _), count in wanted.items():
        kinds[kind] += count
    assert set(morning.planted) == set(FATES)
    if not cut:
        assert kinds["lost"] == morning.planted["lost"] > 0
        assert kinds["duplicated"] == morning.planted["twice"] > 0
        assert kinds["gone"] == 0 < kinds["out_of_order"]
    figures = collected(found, late_ms=LATE_MS)
    assert {name: figures.count(name) for name in kinds} == kinds
    assert figures.differences == sum(kinds[name] for name in DIFFERENCES)
    assert_by_minute(figures, morning)
    (group, *_) = figures.groups
    assert sum(one.not_consumed for one in figures.groups) == kinds["not_consumed"]
    assert group.group == GROUP
    for sample in figures.samples:
        assert wanted[sample.kind, sample.message_id]
    found.unpersist()


def assert_by_minute(figures: Reconciliation, morning: Morning) -> None:
    """Compare the losses of each minute."""
    begun = {row["message_id"]: row for row in reversed(morning.said)}
    wanted = Counter(
        (begun[name]["topic"], begun[name]["sent_ms"] // 60_000 * 60_000)
        for (kind, name) in expected(morning)
        if kind == "lost"
    )
    assert {(one.topic, one.start_ms): one.lost for one in figures.minutes if one.lost} == wanted


def test_order_by_queue_and_a_range_of_times(spark: SparkSession) -> None:
    """Three messages without a sharding key, in the order third, first, second."""
    said: list[Row] = [
        dict.fromkeys(column.split()[0] for column in SAID.split(", "))
        | {"topic": "orders", "message_id": f"m{number}", "sent_ms": BEGIN_MS + number * 1_000}
        | {"acknowledged": True, "producer": "shop"}
        for number in range(3)
    ]
    stored: list[Row] = [
        {
            "topic": "orders",
            "broker": "a",
            "queue_id": 0,
            "queue_offset": offset,
            "message_id": f"m{number}",
            "identity": f"m{number}",
            "sharding_key": None,
            "stored_ms": BEGIN_MS + 5_000,
            "born_ms": BEGIN_MS,
            "is_delayed": False,
        }
        for offset, number in enumerate((2, 0, 1))
    ]
    offsets: Mapping[str, Mapping[tuple[str, str, int], int]] = {}
    heads: list[Head] = []
    given = merged(table(spark, said, SAID)), table(spark, stored, STORED), None, heads, offsets
    assert judged(*given, Rules(LATE_MS)).where("out_of_order").count() == 0
    wrong = judged(*given, Rules(LATE_MS, by_queue=True)).where("out_of_order")
    assert sorted(row.message_id for row in wrong.collect()) == ["m0", "m1"]
    some = judged(*given, Rules(LATE_MS, start_ms=BEGIN_MS + 1_000, end_ms=BEGIN_MS + 2_000))
    assert [row.message_id for row in some.collect()] == ["m1"]
    said[2]["kind"] = "delayed"  # so it may come at any time
    again = merged(table(spark, said, SAID)), *given[1:]
    assert judged(*again, Rules(LATE_MS, by_queue=True)).where("out_of_order").count() == 0
    said[2]["kind"] = None  # receipts may leave it out
    stored[0]["is_delayed"] = True
    again = merged(table(spark, said, SAID)), table(spark, stored, STORED), *given[2:]
    assert judged(*again, Rules(LATE_MS, by_queue=True)).where("out_of_order").count() == 0


def test_a_number_is_not_compared_with_a_time(spark: SparkSession) -> None:
    """Some receipts of a producer have a sequence, others, such as older ones, don't."""
    morning = Morning(1, 40, cut=False)
    queue = {"topic": "orders", "broker": "a", "queue_id": 0}
    said: list[Row] = [
        dict.fromkeys(column.split()[0] for column in SAID.split(", "))
        | {"topic": "orders", "message_id": f"m{number}", "sent_ms": BEGIN_MS + number}
        | {"acknowledged": True, "producer": "shop", "sequence": sequence}
        for number, sequence in enumerate((None, 1, None, 2))
    ]
    stored: list[Row] = [
        morning.stored[0]
        | queue
        | {"queue_offset": number, "message_id": f"m{number}", "identity": f"m{number}"}
        | {"sharding_key": "k", "stored_ms": BEGIN_MS + number}
        for number in range(4)
    ]
    sent = merged(table(spark, said, SAID))
    found = judged(sent, table(spark, stored, STORED), None, [], {}, Rules(LATE_MS))
    assert found.where("out_of_order").count() == 0


def test_late_deliveries(spark: SparkSession) -> None:
    morning = Morning(7, 40, cut=False)
    wanted = {name for kind, name in expected(morning) if kind == "late"}
    slow = next(name for kind, name in expected(morning) if kind == "found" and name not in wanted)
    deliveries = spark.createDataFrame(
        [(slow, BEGIN_MS + 900_000)], "message_id string, delivered_ms bigint"
    )
    found = judged(
        merged(table(spark, morning.said, SAID)),
        table(spark, morning.stored, STORED),
        deliveries,
        [],
        {},
        Rules(LATE_MS),
    )
    late = {row.message_id for row in found.where(F.col("late")).collect()}
    assert late == wanted | {slow}
