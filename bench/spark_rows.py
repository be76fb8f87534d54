"""The cost of a row in a Spark task, from socket to Arrow batch: ``python -m bench.spark_rows``.

Spark itself is left out; it adds the cost of reading a batch. The broker is another process, whose
CPU time is not counted.
"""

from collections.abc import Iterator
from pathlib import Path

from bench.measure import HOW, Cell, cpu_each, in_child, resident, scratch, table, write
from bench.parties import OURS, PARTIES
from orbitmq.blocking import Producer
from orbitmq.message.model import Message
from orbitmq.spark.cluster.cluster import Cluster
from orbitmq.spark.columns.record_columns import MARGIN
from orbitmq.spark.columns.row_builder import BATCH_BYTES, BATCH_ROWS, RowBuilder
from orbitmq.spark.offsets import Slice
from orbitmq.spark.options.options import Access
from orbitmq.spark.pulling.answer_batch import AnswerBatch
from orbitmq.spark.pulling.puller import PullOptions, pull
from orbitmq.spark.pulling.record_run import Records
from orbitmq.spark.schema import READ_COLUMNS

MESSAGES = 200_000
ROUNDS = 5
TOPIC = "orders"
BODY = bytes(range(256)) * 4
_AT_ONCE = 1_000

PICKED = {
    f"all {len(READ_COLUMNS)} columns": READ_COLUMNS,
    "value": ("value",),
    "key, tags, message_id": ("key", "tags", "message_id"),
    "properties": ("properties",),
    "queue_offset": ("queue_offset",),
}


def fill(nameserver: str, messages: int) -> None:
    """Send messages of 1 KB, with a key and a tag each."""
    with Producer("bench", nameserver=nameserver) as producer:
        for first in range(0, messages, _AT_ONCE):
            numbers = range(first, min(first + _AT_ONCE, messages))
            producer.send_many(
                Message(TOPIC, BODY, keys=[f"o-{number}"], tags="paid") for number in numbers
            )


def answers(cluster: Cluster) -> Iterator[tuple[Slice, Iterator[Records]]]:
    """Yield the queues of the topic with their pull responses."""
    for queue, bounds in cluster.bounds(cluster.queues(TOPIC)).items():
        piece = Slice(queue, bounds.min, bounds.max)
        into = AnswerBatch(BATCH_ROWS, BATCH_BYTES, MARGIN)
        yield piece, pull(cluster, piece, PullOptions(group="TOOLS_CONSUMER"), batch=into)


def pulled(cluster: Cluster) -> int:
    """Pull all messages without reading them; return their number."""
    found = 0
    for piece, bodies in answers(cluster):
        for _ in bodies:
            pass
        found += piece.end - piece.start
    return found


def built(cluster: Cluster, columns: tuple[str, ...]) -> int:
    """Pull all messages into batches; return the number of rows."""
    found = 0
    for piece, bodies in answers(cluster):
        builder = RowBuilder(piece, columns)
        for body in bodies:
            found += sum(map(len, builder.feed(body)))
        found += sum(map(len, builder.finish()))
    return found


def costs(nameserver: str, rounds: int) -> tuple[dict[str, float], float | None]:
    """Return the cost per row in µs, by selected columns, and the peak memory in MB."""
    with Cluster(Access(nameserver=nameserver)) as cluster:
        found = {"pulled alone": min(cpu_each(lambda: pulled(cluster)) for _ in range(rounds))}
        for name, columns in PICKED.items():
            found[name] = min(
                cpu_each(lambda picked=columns: built(cluster, picked))  # type: ignore[misc]
                for _ in range(rounds)
            )
    memory = resident()
    return found, None if memory is None else memory.peak


def main() -> None:
    """Measure everything, print it, and write it to ``bench/results/spark_rows.json``."""
    with scratch() as directory, PARTIES[OURS](Path(directory) / "broker") as party:
        in_child(fill, str(party.nameserver), MESSAGES)
        microseconds, peak_mb = in_child(costs, str(party.nameserver), ROUNDS)
    print(f"{MESSAGES:,} messages of 1 KB, pulled into Arrow batches\n({HOW})")
    rows: list[list[Cell]] = [[name, cost] for name, cost in microseconds.items()]
    print(table(["", "µs per row"], [*rows, ["peak memory, MB", peak_mb]]))
    write(
        "spark_rows",
        {"how": HOW, "messages": MESSAGES, "microseconds": microseconds, "peak_mb": peak_mb},
    )


if __name__ == "__main__":
    main()
