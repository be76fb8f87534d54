"""Spark queries over the same messages in two brokers, and their cost to Spark's processes.

All queries run in one session, which `measured` starts in the calling process: the processes below
it are the driver, the JVM with its executor threads, and the Python workers.
"""

import gc
import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Final, NamedTuple

from pyspark.sql import DataFrame, SparkSession

from bench.process_tree import CpuWatch, peak_mb
from orbitmq.spark import session

__all__ = ["KAFKA", "OURS", "QUERIES", "Findings", "Growth", "Query", "Source", "Spent", "measured"]

OURS: Final = "orbitmq"
KAFKA: Final = "Kafka"
_WORKER: Final = "pyspark.daemon"
WARM_UP_ROUNDS: Final = 3
"""Java's compilers are at work all that time, and code is slow until they are done with it."""


class Source(NamedTuple):
    """The format and options with which Spark reads some messages."""

    format: str
    options: Mapping[str, str]
    messages: int

    def frame(self, spark: SparkSession, **more: str) -> DataFrame:
        """Return the messages as a data frame."""
        return spark.read.format(self.format).options(**self.options, **more).load()


class Query(NamedTuple):
    """A query that both sources can run."""

    name: str
    columns: Mapping[str, str]
    """The selected columns by format; empty for all."""
    cpu_aim: float | None = None
    """The share of the Kafka source's CPU time that ours should take at most; None: no aim."""
    writes: bool = False
    """Whether it writes Parquet; otherwise it sums the bytes of values, or counts rows."""

    def run(self, spark: SparkSession, source: Source, directory: Path) -> None:
        """Run the query.

        Raises:
            RuntimeError: messages are missing, so the measurement is void.
        """
        picked = self.columns.get(source.format, "")
        frame = source.frame(spark)
        if picked:
            frame = frame.select(*picked.split(","))
        if self.writes:
            frame.write.mode("overwrite").parquet(str(directory / source.format))
            return
        counting = "sum(length(value)) DIV 1024" if "value" in picked else "count(*)"
        found = frame.selectExpr(counting).collect()[0][0]
        if found != source.messages:
            raise RuntimeError(f"{source.format}: read {found} messages, not {source.messages}")


_SHARED: Final = {
    "rocketmq": "key,value,topic,queue_id,queue_offset,timestamp",
    "kafka": "key,value,topic,partition,offset,timestamp",
}
QUERIES: Final = (
    Query("counted", {}, 0.5),
    Query("value alone, bytes summed", {"rocketmq": "value", "kafka": "value"}, 0.85),
    # Ours are 14, and Kafka's 7: nothing that can be compared, so there is no aim.
    Query("Parquet, all columns", {}, writes=True),
    Query("Parquet, six columns", _SHARED, 0.9, writes=True),
)


class Spent(NamedTuple):
    """The cost of a query."""

    cpu_s: float
    wall_s: float


class Growth(NamedTuple):
    """The cost of counting some messages."""

    messages: int
    spent: Spent
    worker_mb: float | None
    """The peak memory of a Python worker."""


class Findings(NamedTuple):
    """The results of one session."""

    queries: dict[str, dict[str, Spent]]
    """By query and source: the best CPU time and the best wall time of some rounds."""
    growth: list[Growth]
    load: list[float]
    """The load average at the start of each round."""


def measured(
    sources: Mapping[str, Source],
    steps: Sequence[Source],
    directory: Path,
    jars: Sequence[Path],
    rounds: int,
    queries: Sequence[Query] = QUERIES,
) -> Findings:
    """Run all queries over all sources alternately, and count the steps.

    Args:
        sources: the sources by name; Kafka's is first filled from orbitmq's.
        steps: orbitmq sources with more and more messages.
        directory: where files are written.
        jars: the jars that the session needs in addition to Spark's.
        rounds: how often each query runs after the warm-up.
        queries: the queries.
    """
    config = {
        "spark.jars": ",".join(map(str, jars)),
        "spark.driver.extraJavaOptions": "-XX:-UseDynamicNumberOfCompilerThreads",  # see CpuWatch
    }
    spark = session("bench.spark", config=config)
    if KAFKA in sources:
        _copy(spark, sources[OURS], sources[KAFKA])
    spent: dict[str, dict[str, list[Spent]]] = {}
    load = []
    for number in range(WARM_UP_ROUNDS + rounds):
        load.append(os.getloadavg()[0])
        for query in queries:
            for name, source in sources.items():
                one = _spent(partial(query.run, spark, source, directory))
                if number >= WARM_UP_ROUNDS:
                    spent.setdefault(query.name, {}).setdefault(name, []).append(one)
    growth = [_grown(spark, step, directory, rounds) for step in steps]
    best = {
        query: {name: _best(each) for name, each in by_name.items()}
        for query, by_name in spent.items()
    }
    return Findings(best, growth, load)


def _copy(spark: SparkSession, ours: Source, kafka: Source) -> None:
    """Copy orbitmq's messages to Kafka: the same keys and bodies, in as many partitions."""
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
    with CpuWatch(os.getpid()) as watch:
        began = perf_counter()
        work()
        wall = perf_counter() - began
    return Spent(watch.seconds, wall)


def _best(rounds: Sequence[Spent]) -> Spent:
    """Return the least of each figure.

    >>> _best([Spent(3.0, 1.5), Spent(2.5, 2.0)])
    Spent(cpu_s=2.5, wall_s=1.5)
    """
    return Spent(min(one.cpu_s for one in rounds), min(one.wall_s for one in rounds))
