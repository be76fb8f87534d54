"""A store directory and a Kafka topic, read by one Spark session: ``python -m bench.store_scan``.

The same messages of 1 KB are in the files of an orbitmq broker, which was killed before, and in a
Kafka broker, in as many queues as partitions. CPU time is that of Spark's processes (driver, JVM
and Python workers); what Kafka's broker needs comes on top, and is not counted. ``--growth`` counts
parts of a store alone, which may be large.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from bench import kafka
from bench.measure import Cell, in_child, scratch, table, write
from bench.spark import HOW, QUEUES, ROUNDS, TOPIC, filled, growth_rows
from bench.spark_queries import KAFKA, OURS, Findings, Query, Source, measured
from orbitmq.message.model import MessageQueue
from orbitmq.spark.offsets import shared_out, to_spark
from orbitmq.store.reader.reader import StoreReader

MESSAGES: Final = 300_000
STEPS: Final = (1, 3)
"""Tenths of the messages that are counted to show growth, before all of them."""
GROWTH_STEPS: Final = (1, 2, 5, 9)
"""The same of a large store. A killed broker had not yet written the last entries of its queues."""
_FORMAT: Final = "rocketmq-store"

_SIX: Final = {
    _FORMAT: "key,value,topic,queue_id,queue_offset,timestamp",
    "kafka": "key,value,topic,partition,offset,timestamp",
}
QUERIES: Final = (
    Query("counted", {}, 0.4),
    Query("value alone, bytes summed", {_FORMAT: "value", "kafka": "value"}, 0.7),
    Query("Parquet, six columns", _SIX, writes=True),
    Query("Parquet, all columns", {}, writes=True),
)


def run(messages: int, rounds: int) -> Findings:
    """Fill a store, kill its broker, start Kafka, and measure the queries."""
    with scratch() as name, ExitStack() as stack:
        directory = Path(name)
        with filled(directory, messages):
            pass  # the messages are in files that the system holds in memory
        (log,) = directory.rglob("commitlog")
        everything = Source(_FORMAT, {"path": str(log.parent), "subscribe": TOPIC}, messages)
        # A killed broker had not yet written the last entries of its queues: they are no measure.
        steps = parts(log.parent, [messages * tenths // 10 for tenths in STEPS])
        sources, jars = {OURS: everything}, []
        if trouble := kafka.missing():
            print(f"measured without Kafka: {trouble}", file=sys.stderr)
        else:
            address = stack.enter_context(kafka.running(directory / "kafka", partitions=QUEUES))
            options = {"kafka.bootstrap.servers": address, "subscribe": TOPIC}
            sources[KAFKA] = Source("kafka", options, messages)
            jars = kafka.spark_jars()
        return in_child(
            measured, sources, [*steps, everything], directory / "files", jars, rounds, QUERIES
        )


def run_growth(messages: int, rounds: int) -> Findings:
    """Fill a store, kill its broker, and count more and more of it."""
    with scratch() as name:
        directory = Path(name)
        with filled(directory, messages):
            pass
        (log,) = directory.rglob("commitlog")
        steps = parts(log.parent, [messages * tenths // 10 for tenths in GROWTH_STEPS])
        warm_up, counted = {OURS: steps[0]}, QUERIES[:1]
        return in_child(measured, warm_up, steps, directory / "files", [], rounds, counted)


def parts(store: Path, counts: Sequence[int]) -> list[Source]:
    """Return a source with the first messages of each queue, for each count."""
    reader = StoreReader(str(store))
    ends = {
        MessageQueue(TOPIC, "broker-a", name.queue_id): reader.queue(*name).max_offset
        for name in reader.queues()
        if name.topic == TOPIC
    }
    start = dict.fromkeys(ends, 0)
    access = {"path": str(store), "subscribe": TOPIC}
    return [
        Source(
            _FORMAT,
            {**access, "endingOffsets": json.dumps(to_spark(shared_out(start, ends, count)))},
            count,
        )
        for count in counts
    ]


def rows(found: Findings) -> list[list[Cell]]:
    """Return the rows about queries: CPU and wall times, their ratios, and the aims."""
    listed: list[list[Cell]] = []
    for query in QUERIES:
        spent = found.queries[query.name]
        mine, other = spent[OURS], spent.get(KAFKA)
        cpu = mine.cpu_s / other.cpu_s if other else None
        wall = mine.wall_s / other.wall_s if other else None
        seconds = [mine.cpu_s, other and other.cpu_s, cpu, mine.wall_s, other and other.wall_s]
        listed.append([query.name, *seconds, wall, query.cpu_aim])
    return listed


def show(messages: int, found: Findings) -> None:
    """Print the tables."""
    print(f"{messages:,} messages of 1 KB, from a store and from Kafka, by Spark: s\n({HOW})")
    head = ["", "CPU", "Kafka", "ratio", "wall", "Kafka", "ratio", "CPU aim"]
    print(table(head, rows(found)))
    print(f"load at the start of each round: {', '.join(f'{one:.1f}' for one in found.load)}\n")
    print("store, counted: CPU s, CPU µs per message, wall s, peak MB of a Python worker")
    print(table(["messages", "CPU s", "µs each", "wall s", "MB"], growth_rows(found.growth)))


def main(given: Sequence[str] | None = None) -> None:
    """Measure both, print the result, and write it to ``bench/results/store_scan.json``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=MESSAGES)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--growth", action="store_true", help="count parts of the store, no Kafka")
    asked = parser.parse_args(given)
    if asked.growth:
        grown = run_growth(asked.messages, asked.rounds)
        print(table(["messages", "CPU s", "µs each", "wall s", "MB"], growth_rows(grown.growth)))
        write("store_growth", {"how": HOW, "load": grown.load, "growth": _steps(grown)})
        return
    found = run(asked.messages, asked.rounds)
    show(asked.messages, found)
    write(
        "store_scan",
        {
            "how": HOW,
            "kafka": kafka.KAFKA_VERSION,
            "messages": asked.messages,
            "aims": {query.name: query.cpu_aim for query in QUERIES},
            "load": found.load,
            "queries": {
                query: {name: one._asdict() for name, one in by_name.items()}
                for query, by_name in found.queries.items()
            },
            "growth": _steps(found),
        },
    )


def _steps(found: Findings) -> list[dict[str, object]]:
    return [{**one._asdict(), "spent": one.spent._asdict()} for one in found.growth]


if __name__ == "__main__":
    main()
