"""The archive job and Spark's way from Kafka to Parquet: ``python -m bench.archive``.

The same messages of 1 KB are in an orbitmq broker, in its files, and in a Kafka broker, in as many
queues as partitions. One Spark session archives the topic and the store with all columns, and
writes the Kafka topic to Parquet with Spark's own writer, in turn. CPU time is that of Spark's
processes (driver, JVM and Python workers), not of the brokers.
"""

import argparse
import shutil
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from bench import kafka
from bench.measure import Cell, in_child, scratch, table, write
from bench.spark import HOW, QUEUES, ROUNDS, TOPIC, filled
from bench.spark_queries import KAFKA, OURS, Findings, Query, Source, Spent, measured
from orbitmq.spark.jobs.archive import archive
from orbitmq.spark.jobs.sources import Store, Topics

MESSAGES: Final = 300_000
STORE: Final = "orbitmq's store"
AIMS: Final[Mapping[str, float]] = {OURS: 0.45, STORE: 0.35}
"""Shares of the CPU time of Kafka's way."""
_NAME: Final = "archived"
_FORMATS: Final = {OURS: "rocketmq", STORE: "rocketmq-store"}


class Archiving(Query):
    """Writes all messages of a source to Parquet; a query of ``bench.spark_queries``."""

    def run(self, spark: SparkSession, source: Source, directory: Path) -> None:
        """Write the files anew.

        Raises:
            RuntimeError: messages are missing, so the measurement is void.
        """
        to = directory / source.format
        if source.format == "kafka":
            source.frame(spark).write.mode("overwrite").parquet(str(to))
            return
        shutil.rmtree(to, ignore_errors=True)
        found = archive(spark, job_source(source), str(to))
        if found.rows != source.messages:
            raise RuntimeError(f"{source.format}: {found.rows} rows, not {source.messages}")


def job_source(source: Source) -> Topics | Store:
    """Return a source as the job takes it.

    >>> job_source(Source("rocketmq", {"nameserver": "h:1"}, 5))
    <Topics orders at h:1>
    """
    if source.format == _FORMATS[STORE]:
        return Store(source.options["path"], (TOPIC,))
    return Topics(source.options["nameserver"], (TOPIC,))


def run(messages: int, rounds: int) -> Findings:
    """Start both brokers, fill them, and measure."""
    with scratch() as name, ExitStack() as stack:
        directory = Path(name)
        nameserver = stack.enter_context(filled(directory, messages))
        (log,) = directory.rglob("commitlog")
        sources = {
            OURS: Source(_FORMATS[OURS], {"nameserver": nameserver, "subscribe": TOPIC}, messages),
            STORE: Source(_FORMATS[STORE], {"path": str(log.parent)}, messages),
        }
        jars: list[Path] = []
        if trouble := kafka.missing():
            print(f"measured without Kafka: {trouble}", file=sys.stderr)
        else:
            address = stack.enter_context(kafka.running(directory / "kafka", partitions=QUEUES))
            options = {"kafka.bootstrap.servers": address, "subscribe": TOPIC}
            sources[KAFKA] = Source("kafka", options, messages)
            jars = kafka.spark_jars()
        files = directory / "files"
        return in_child(measured, sources, [], files, jars, rounds, (Archiving(_NAME, {}),))


def rows(found: Mapping[str, Spent], messages: int) -> list[list[Cell]]:
    """Return a row for each source: CPU, per million messages, and its share of Kafka's.

    >>> rows({OURS: Spent(1.0, 2.0), KAFKA: Spent(4.0, 2.5)}, 500_000)[0]
    ['orbitmq', 1.0, 2.0, 0.25, 2.0, 0.8, 0.45]
    """
    other = found.get(KAFKA)
    return [
        [
            *(name, one.cpu_s, one.cpu_s / messages * 1e6, other and one.cpu_s / other.cpu_s),
            *(one.wall_s, other and one.wall_s / other.wall_s, AIMS.get(name)),
        ]
        for name, one in found.items()
    ]


def main(given: Sequence[str] | None = None) -> None:
    """Measure, print the result, and write it to ``bench/results/archive.json``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=MESSAGES)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    asked = parser.parse_args(given)
    found = run(asked.messages, asked.rounds)
    spent = found.queries[_NAME]
    print(f"{asked.messages:,} messages of 1 KB to Parquet, all columns\n({HOW})")
    head = ["from", "CPU s", "s a million", "of Kafka's", "wall s", "of Kafka's", "CPU aim"]
    print(table(head, rows(spent, asked.messages)))
    print(f"load at the start of each round: {', '.join(f'{one:.1f}' for one in found.load)}")
    write(
        "archive",
        {
            "how": HOW,
            "kafka": kafka.KAFKA_VERSION,
            "messages": asked.messages,
            "aims": AIMS,
            "load": found.load,
            "spent": {name: one._asdict() for name, one in spent.items()},
        },
    )


if __name__ == "__main__":
    main()
