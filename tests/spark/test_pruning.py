import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as f
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from orbitmq import Message
from orbitmq.blocking import Producer
from orbitmq.spark import pruning
from orbitmq.spark.pruning import PRUNING, install
from orbitmq.spark.schema import DEFAULT_COLUMNS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from orbitmq.embedded import RunningCluster

ALL = ",".join(DEFAULT_COLUMNS)


def send(cluster: "RunningCluster", topic: str, count: int) -> None:
    with Producer("shop", nameserver=cluster.nameserver) as producer:
        producer.send_many(
            Message(topic, b"%d" % n, tags="paid" if n % 3 else "new", keys=[f"o-{n % 20}"])
            for n in range(count)
        )


@pytest.fixture(scope="module")
def pruned(shared_cluster: "RunningCluster") -> "RunningCluster":
    send(shared_cluster, "pruned", 60)
    return shared_cluster


def load(
    spark: "SparkSession", cluster: "RunningCluster", topic: str = "pruned", **more: str
) -> "DataFrame":
    options = {"nameserver": cluster.nameserver, "subscribe": topic, **more}
    return spark.read.format("rocketmq").options(**options).load()


def scans(frame: "DataFrame") -> list[str]:
    """Return the columns of each scan in the plan of a query."""
    plan: Any = frame._jdf.queryExecution().executedPlan().toString()
    found = re.findall(r"BatchScan rocketmq(?:-store)?\[([^]]*)\]", plan)
    return [re.sub(r"#\d+L?", "", one).replace(" ", "") for one in found]


def joined(frame: "DataFrame") -> "DataFrame":
    left, right = frame.alias("l"), frame.alias("r")
    same = f.expr("l.queue_id = r.queue_id AND l.queue_offset = r.queue_offset")
    return left.join(right, same).selectExpr("l.tags", "r.value")


QUERIES: dict[str, tuple[Callable[["DataFrame"], "DataFrame"], list[str]]] = {
    "count": (lambda d: d.groupBy().count(), ["queue_id"]),
    "sum": (lambda d: d.agg(f.sum(f.length("value"))), ["value"]),
    "groups": (lambda d: d.groupBy("tags").count(), ["tags"]),
    "filter": (lambda d: d.where("tags = 'paid'").select("value"), ["value,tags"]),
    "filters": (
        lambda d: d.where("tags = 'paid'").where("length(value) > 1").groupBy("key").count(),
        ["key,value,tags"],
    ),
    "self-join": (joined, ["queue_id,queue_offset,tags", "value,queue_id,queue_offset"]),
    "union": (lambda d: d.select("key").union(d.select("tags")), ["key", "tags"]),
    "all": (lambda d: d.select("*"), [ALL]),
    "all, filtered": (lambda d: d.where("tags = 'new'"), [ALL]),
    "nested": (
        lambda d: (
            d.groupBy("key")
            .agg(f.max("queue_offset").alias("last"))
            .where("last > 1")
            .select("key")
        ),
        ["key,queue_offset"],
    ),
    "subquery": (
        lambda d: d.where(f.col("key").isin("o-1", "o-2")).select(
            f.struct("key", "tags").alias("both")
        ),
        ["key,tags"],
    ),
}


@pytest.mark.parametrize("name", QUERIES)
def test_a_query_reads_the_columns_that_it_uses(
    spark: "SparkSession", pruned: "RunningCluster", name: str
) -> None:
    query, columns = QUERIES[name]
    frame = query(load(spark, pruned))
    assert sorted(scans(frame)) == sorted(columns)
    found = sorted(map(str, frame.collect()))
    spark.conf.set(PRUNING, "false")
    try:
        wide = query(load(spark, pruned))
        assert set(scans(wide)) == {ALL}
        assert sorted(map(str, wide.collect())) == found
    finally:
        spark.conf.unset(PRUNING)


def test_all_queries_of_a_load_end_at_the_same_offsets(
    spark: "SparkSession", pruned: "RunningCluster"
) -> None:
    send(pruned, "growing", 30)
    frame = load(spark, pruned, "growing")
    assert frame.count() == 30
    send(pruned, "growing", 10)
    assert frame.where("value IS NOT NULL").count() == 30
    assert len(frame.select("key", "tags").collect()) == len(frame.collect()) == 30
    assert load(spark, pruned, "growing").count() == 40


def test_columns_and_schemas_of_the_user_are_narrowed_too(
    spark: "SparkSession", pruned: "RunningCluster"
) -> None:
    some = load(spark, pruned, columns="value,tags,properties")
    assert scans(some.select("tags")) == ["tags"]
    assert some.selectExpr("properties['KEYS']").distinct().count() == 20
    reader = spark.read.format("rocketmq").schema("tags string, value binary")
    own = reader.options(nameserver=pruned.nameserver, subscribe="pruned").load()
    assert scans(own.groupBy().count()) == ["tags"]
    assert own.count() == 60


def test_pushed_filters_are_left_alone(spark: "SparkSession", pruned: "RunningCluster") -> None:
    frame = load(spark, pruned, pushFilters="true").where("tags = 'paid'").groupBy().count()
    assert scans(frame) == [ALL]
    assert frame.collect()[0][0] == 40


def stored(spark: "SparkSession") -> None:
    """Register a source with the name of the one that reads a store."""

    class Reader(DataSourceReader):
        def __init__(self, columns: list[str]) -> None:
            self.columns = columns

        def read(self, partition: InputPartition) -> Iterator[tuple[int, ...]]:
            yield tuple(len(self.columns) for _ in self.columns)

    class Stored(DataSource):
        @classmethod
        def name(cls) -> str:
            return "rocketmq-store"

        def schema(self) -> str:
            return "a int, b int, c int"

        def reader(self, schema: Any) -> DataSourceReader:
            return Reader(schema.fieldNames())

    spark.dataSource.register(Stored)


def test_a_store_is_pruned_too_and_a_failure_leaves_the_query_as_it_is(
    spark: "SparkSession",
) -> None:
    session = spark.newSession()
    stored(session)
    assert install(session)
    reader = session.read.format("rocketmq-store")
    assert [*reader.load().select("b").collect()[0]] == [1]
    # What the rule can't read, Spark can.
    assert [*reader.option("pushFilters", "perhaps").load().select("b").collect()[0]] == [3]


def test_a_second_installation_changes_nothing(spark: "SparkSession") -> None:
    session: Any = spark
    before = session._jsparkSession.experimental().extraOptimizations().length()
    assert install(spark)
    assert session._jsparkSession.experimental().extraOptimizations().length() == before


def test_other_versions_and_spark_connect_are_left_alone() -> None:
    tried = SimpleNamespace(version="4.4.0", _jsparkSession=object())
    assert not install(tried)  # type: ignore[arg-type]
    assert not install(SimpleNamespace(version="4.3.0"))  # type: ignore[arg-type]


def test_a_rule_that_cannot_be_compiled_is_reported_and_left_out(
    spark: "SparkSession",
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    broken = tmp_path / "ColumnPruning.java"
    broken.write_text("package orbitmq; public class ColumnPruning { int ")
    monkeypatch.setattr(pruning, "_SOURCE", broken)
    session: Any = spark.newSession()
    assert not install(session)
    assert session._jsparkSession.experimental().extraOptimizations().length() == 0
    assert "queries read all columns of rocketmq sources" in caplog.text
    assert "\n" not in caplog.records[-1].getMessage()
