"""orbitmq's Spark source and Spark's Kafka source in one run: ``python -m bench.spark``.

The same messages of 1 KB are in an orbitmq broker, as run by ``orbitmq up``, and in a Kafka broker,
in as many queues as partitions. One Spark session reads both alternately. CPU time is that of
Spark's processes (driver, JVM and Python workers), not of the brokers, which share the cores with
them. Without Kafka only orbitmq is measured.
"""

import argparse
import json
import random
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from bench import kafka, parties
from bench.measure import Cell, in_child, scratch, table, write
from bench.spark_queries import KAFKA, OURS, QUERIES, Findings, Growth, Source, Spent, measured
from orbitmq.blocking import Admin, Producer
from orbitmq.message.model import Message
from orbitmq.spark.cluster.cluster import Cluster
from orbitmq.spark.offsets import shared_out, to_spark
from orbitmq.spark.options.options import Access

MESSAGES: Final = 200_000
STEPS: Final[Sequence[int]] = (100_000, 300_000, 1_000_000)
FULL_MESSAGES: Final = 1_000_000
FULL_STEPS: Final[Sequence[int]] = (100_000, 1_000_000, 10_000_000)
ROUNDS: Final = 3
QUEUES: Final = 8
TOPIC: Final = "orders"
BODY_BYTES: Final = 1_024
_POOL: Final = random.Random(7).randbytes(1 << 20)
_AT_ONCE: Final = 2_000

WALL_AIM: Final = 0.7
"""Share of the time of the Kafka source; those of CPU time are the queries'."""
CPU_AIMS: Final = {query.name: query.cpu_aim for query in QUERIES}
HOW: Final = (
    "the best of some rounds of a warm session, without Java's compiler threads; "
    "other programs may have used the machine, see load"
)


def fill(nameserver: str, messages: int) -> None:
    """Create the topic and send messages of 1 KB to it, with a key and a tag each."""
    with Admin(nameserver=nameserver) as admin:
        admin.create_topic(TOPIC, queues=QUEUES)
    with Producer("bench", nameserver=nameserver) as producer:
        for first in range(0, messages, _AT_ONCE):
            numbers = range(first, min(first + _AT_ONCE, messages))
            producer.send_many(
                Message(TOPIC, body(number), keys=[f"o-{number}"], tags="paid")
                for number in numbers
            )


def body(number: int) -> bytes:
    """Return a message body that can't be compressed and differs from most others."""
    start = number * 7_919 % (len(_POOL) - BODY_BYTES)
    return _POOL[start : start + BODY_BYTES]


def ours(nameserver: str, counts: Sequence[int]) -> list[Source]:
    """Return a source with the first messages of the topic, for each count."""
    with Cluster(Access(nameserver=nameserver)) as cluster:
        bounds = cluster.bounds(cluster.queues(TOPIC))
    start = dict.fromkeys(bounds, 0)
    latest = {queue: one.max for queue, one in bounds.items()}
    access = {"nameserver": nameserver, "subscribe": TOPIC}
    return [
        Source(
            "rocketmq",
            {**access, "endingOffsets": json.dumps(to_spark(shared_out(start, latest, count)))},
            count,
        )
        for count in counts
    ]


def run(messages: int, rounds: int = ROUNDS) -> Findings:
    """Start both brokers, fill them, and measure the queries."""
    with scratch() as name, ExitStack() as stack:
        directory = Path(name)
        nameserver = stack.enter_context(filled(directory, messages))
        sources, jars = {OURS: ours(nameserver, [messages])[0]}, []
        if trouble := kafka.missing():
            print(f"measured without Kafka: {trouble}", file=sys.stderr)
        else:
            address = stack.enter_context(kafka.running(directory / "kafka", partitions=QUEUES))
            options = {"kafka.bootstrap.servers": address, "subscribe": TOPIC}
            sources[KAFKA] = Source("kafka", options, messages)
            jars = kafka.spark_jars()
        return in_child(measured, sources, [], directory / "files", jars, rounds)


def grown(steps: Sequence[int], rounds: int = ROUNDS) -> list[Growth]:
    """Start an orbitmq broker, fill it, and count more and more of its messages.

    This is not the broker of the queries: for records too old to be in memory a broker returns
    eight messages per pull instead of 32, and Kafka's log is short.
    """
    with scratch() as name, filled(Path(name), max(steps)) as nameserver:
        parts = ours(
            nameserver, [steps[0], *steps]
        )  # the first is counted twice, to warm up the session
        return in_child(measured, {}, parts, Path(name) / "files", [], rounds).growth[1:]


@contextmanager
def filled(directory: Path, messages: int) -> Iterator[str]:
    """Run an orbitmq broker with some messages; yield its nameserver."""
    with parties.PARTIES[parties.OURS](directory / "ours") as party:
        in_child(fill, str(party.nameserver), messages)
        yield str(party.nameserver)


# Results


def query_rows(found: Mapping[str, Mapping[str, Spent]]) -> list[list[Cell]]:
    """Return the rows about queries: CPU and wall times, and their ratios.

    >>> query_rows({"counted": {OURS: Spent(2.0, 1.5), KAFKA: Spent(4.0, 2.0)}})
    [['counted', 2.0, 4.0, 0.5, 1.5, 2.0, 0.75, 'wall']]
    """
    rows: list[list[Cell]] = []
    for name, by_source in found.items():
        mine, other = by_source[OURS], by_source.get(KAFKA)
        if other is None:
            rows.append([name, mine.cpu_s, None, None, mine.wall_s, None, None, ""])
            continue
        cpu, wall = mine.cpu_s / other.cpu_s, mine.wall_s / other.wall_s
        aim = CPU_AIMS.get(name)
        over = ["CPU"] * (aim is not None and cpu > aim)
        over += ["wall"] * (aim is not None and wall > WALL_AIM)
        seconds = [mine.cpu_s, other.cpu_s, cpu, mine.wall_s, other.wall_s, wall]
        rows.append([name, *seconds, ", ".join(over)])
    return rows


def growth_rows(found: Sequence[Growth]) -> list[list[Cell]]:
    """Return the rows about growth: total, per message, and the memory of a worker."""
    return [
        [
            f"{one.messages:,}",
            one.spent.cpu_s,
            one.spent.cpu_s / one.messages * 1e6,
            one.spent.wall_s,
            one.worker_mb,
        ]
        for one in found
    ]


def show(messages: int, found: Findings) -> None:
    """Print the tables."""
    print(f"{messages:,} messages of 1 KB in {QUEUES} queues, read by Spark: seconds\n({HOW})")
    head = ["", "CPU", "Kafka", "ratio", "wall", "Kafka", "ratio", "over"]
    print(table(head, query_rows(found.queries)))
    aims = ", ".join(f"{aim} {name}" for name, aim in CPU_AIMS.items() if aim is not None)
    print(f"target ratios: CPU time {aims}; wall time {WALL_AIM}")
    print(f"load at the start of each round: {', '.join(f'{one:.1f}' for one in found.load)}\n")
    print("orbitmq, counted: CPU s, CPU µs per message, wall s, peak MB of a Python worker")
    print(table(["messages", "CPU s", "µs each", "wall s", "MB"], growth_rows(found.growth)))


def main() -> None:
    """Measure both, print the result, and write it to ``bench/results/spark.json``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--full", action="store_true", help="a million messages, and growth up to ten million"
    )
    parser.add_argument(
        "--messages", type=int, help=f"how many the queries read; {MESSAGES:,} unless --full"
    )
    asked = parser.parse_args()
    messages: int = asked.messages or (FULL_MESSAGES if asked.full else MESSAGES)
    steps = FULL_STEPS if asked.full else STEPS
    if asked.messages:
        steps = tuple(step for step in steps if step <= messages) or (messages,)
    found = run(messages)._replace(growth=grown(steps))
    show(messages, found)
    write(
        "spark",
        {
            "how": HOW,
            "kafka": kafka.KAFKA_VERSION,
            "messages": messages,
            "aims": CPU_AIMS,
            "load": found.load,
            "queries": {
                query: {name: one._asdict() for name, one in by_name.items()}
                for query, by_name in found.queries.items()
            },
            "growth": [{**one._asdict(), "spent": one.spent._asdict()} for one in found.growth],
        },
    )


if __name__ == "__main__":
    main()
