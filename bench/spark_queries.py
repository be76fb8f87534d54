"""Queries of Spark over the same messages in two brokers, and what each costs Spark's processes.

All runs in one session, which `measured` starts in the process that calls it: the tree below that
process is the driver, the JVM with its executor threads, and the Python workers.
"""

import gc
import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Final, NamedTuple

from pyspark.sql import DataFrame, SparkSession

from bench.process_tree import cpu_seconds, peak_mb
from orbitmq.spark import session

__all__ = ["KAFKA", "OURS", "QUERIES", "Findings", "Growth", "Query", "Source", "Spent", "measured"]

OURS: Final = "orbitmq"
KAFKA: Final = "Kafka"
_WORKER: Final = "pyspark.daemon"


class Source(NamedTuple):
    """How Spark is told of some messages."""

    format: str
    options: Mapping[str, str]
    messages: int

    def frame(self, spark: SparkSession, **more: str) -> DataFrame:
        """Return the messages as Spark reads them."""
        return spark.read.format(self.format).options(**self.options, **more).load()


class Query(NamedTuple):
    """What is done with messages, in a way that suits both sources."""

    name: str
    columns: Mapping[str, str]
    """The columns that are wanted of each format, named there; empty for all."""
    writes: bool = False
    """To Parquet; otherwise the bytes of values are summed if they are wanted, or rows counted."""

    def run(self, spark: SparkSession, source: Source, directory: Path) -> None:
        """Run it.

        Raises:
            RuntimeError: not all messages were there, so this is not what should be measured.

        """
        picked = self.columns.get(source.format, "")
        # Spark tells a Python source nothing of the columns that a query uses: its user does.
        more = {"columns": picked} if picked and source.format == "rocketmq" else {}
        frame = source.frame(spark, **more)
        if picked:
            frame = frame.select(*picked.split(","))
        if self.writes:
            frame.write.mode("overwrite").parquet(str(directory / source.format))
            return
        counting = "sum(length(value)) DIV 1024" if "value" in picked else "count(*)"
        found = frame.selectExpr(counting).collect()[0][0]
        if found != source.messages:
            raise RuntimeError(f"{source.format}: {found} messages read, not {source.messages}")


_SHARED: Final = {
    "rocketmq": "key,value,topic,queue_id,queue_offset,timestamp",
    "kafka": "key,value,topic,partition,offset,timestamp",
}
QUERIES: Final = (
    Query("counted", {}),
    # Spark itself picks for Kafka: to count, it has that source make no column at all.
    Query("counted, one column picked", {"rocketmq": "queue_offset"}),
    Query("value alone, bytes summed", {"rocketmq": "value", "kafka": "value"}),
    Query("Parquet, all columns", {}, writes=True),
    Query("Parquet, six columns", _SHARED, writes=True),
)


class Spent(NamedTuple):
    """What a query has cost."""

    cpu_s: float
    wall_s: float


class Growth(NamedTuple):
    """What so many messages have cost to be counted."""

    messages: int
    spent: Spent
    worker_mb: float | None
    """The most memory that a Python worker ever had."""


class Findings(NamedTuple):
    """All that one session has found out."""

    queries: dict[str, dict[str, Spent]]
    """By query and source: the best of some rounds, of CPU time and of wall time."""
    growth: list[Growth]
    load: list[float]
    """Programs that wanted a core, on average, when a round began."""


def measured(
    sources: Mapping[str, Source],
    steps: Sequence[Source],
    directory: Path,
    jars: Sequence[Path],
    rounds: int,
) -> Findings:
    """Run all queries over all sources, which take turns, and count the steps.

    Args:
        sources: by name; Kafka's is filled from ours first.
        steps: ever more messages of ours.
        directory: where files go.
        jars: what the session needs besides Spark's own.
        rounds: how often each query runs, once it has run to be warm.

    """
    spark = session("bench.spark", config={"spark.jars": ",".join(map(str, jars))})
    if KAFKA in sources:
        _copy(spark, sources[OURS], sources[KAFKA])
    spent: dict[str, dict[str, list[Spent]]] = {}
    load = []
    for number in range(rounds + 1):
        load.append(os.getloadavg()[0])
        for query in QUERIES:
            for name, source in sources.items():
                one = _spent(partial(query.run, spark, source, directory))
                if number:  # the first is to be warm
                    spent.setdefault(query.name, {}).setdefault(name, []).append(one)
    growth = [_grown(spark, step, directory, rounds) for step in steps]
    best = {
        query: {name: _best(each) for name, each in by_name.items()}
        for query, by_name in spent.items()
    }
    return Findings(best, growth, load)


def _copy(spark: SparkSession, ours: Source, kafka: Source) -> None:
    """Fill Kafka's topic with our messages: the same keys and bodies, in as many partitions."""
    rows = ours.frame(spark, columns="key,value,queue_id").withColumnRenamed(
        "queue_id", "partition"
    )
    to = {**kafka.options, "topic": kafka.options["subscribe"]}
    rows.write.format("kafka").options(**to).save()


def _grown(spark: SparkSession, step: Source, directory: Path, rounds: int) -> Growth:
    count = partial(QUERIES[0].run, spark, step, directory)
    spent = _best([_spent(count) for _ in range(rounds)])
    return Growth(step.messages, spent, peak_mb(os.getpid(), _WORKER))


def _spent(work: Callable[[], None]) -> Spent:
    gc.collect()
    cpu, began = cpu_seconds(os.getpid()), perf_counter()
    work()
    wall = perf_counter() - began
    return Spent(cpu_seconds(os.getpid()) - cpu, wall)


def _best(rounds: Sequence[Spent]) -> Spent:
    """Return the least of each figure.

    >>> _best([Spent(3.0, 1.5), Spent(2.5, 2.0)])
    Spent(cpu_s=2.5, wall_s=1.5)
    """
    return Spent(min(one.cpu_s for one in rounds), min(one.wall_s for one in rounds))
