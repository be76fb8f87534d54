"""How fast a store is read on one core, row by row, as columns and by pulls: ``make bench``."""

from collections.abc import Callable, Iterable, Iterator, Mapping

from bench.measure import HOW, Cell, cpu_each, in_child, scratch, table, write
from bench.stores import SMALL, Owner, chunks
from orbitmq.store.message_store import MessageStore
from orbitmq.store.reader.columns import COLUMNS
from orbitmq.store.reader.queue_reader import QueueRecord
from orbitmq.store.reader.reader import StoreReader
from orbitmq.store.serving.pull_reader import GetMessageStatus, PullReader
from orbitmq.store.settings import StoreSettings

MESSAGES = 100_000
QUEUES = 4
ROUNDS = 5
FEW_COLUMNS = ("queue_id", "queue_offset", "store_timestamp_ms")
PULL = 32
MEMORY_BYTES = 1 << 40  # so much that every record counts as in memory: a pull returns 32, not 8
QUEUES_READ = 100
"""The most queues read by queue: opening thousands would dominate the cost."""


def readings(directory: str) -> Mapping[str, Callable[[], int]]:
    """Return ways to read a store; each returns the number of rows read."""
    reader = StoreReader(directory)
    return {
        "records": lambda: count(reader.records()),
        "records, checksums verified": lambda: count(reader.records(verify=True)),
        "records as messages": lambda: count(view.message() for view in reader.records()),
        f"{len(FEW_COLUMNS)} columns": lambda: sum(map(len, reader.batches(FEW_COLUMNS))),
        f"all {len(COLUMNS)} columns": lambda: sum(map(len, reader.batches(COLUMNS))),
        "by queue": lambda: count(by_queue(reader)),
    }


def count(rows: Iterable[object]) -> int:
    """Iterate over all rows and return their number."""
    return sum(1 for _ in rows)


def by_queue(reader: StoreReader) -> Iterator[QueueRecord]:
    """Yield the messages of the first queues, one queue after the other."""
    for name in reader.queues()[:QUEUES_READ]:
        queue = reader.queue(*name)
        yield from queue.read(queue.min_offset, queue.max_offset)


def pulled(store: MessageStore) -> int:
    """Pull the first queues from end to end; return the number of messages.

    Raises:
        RuntimeError: a pull inside a queue found nothing.
    """
    reader = PullReader(store.log, store.settings, MEMORY_BYTES)
    found = 0
    for _, queue in zip(range(QUEUES_READ), store.queues, strict=False):
        offset = queue.min_offset
        while offset < queue.max_offset:
            result = reader.get_messages(queue, offset, max_count=PULL)
            if result.status is not GetMessageStatus.FOUND:
                raise RuntimeError(f"a pull at {offset} of {queue!r}: {result.status.name}")
            found += result.count
            offset = result.next_offset
    return found


def read_costs(directory: str, settings: StoreSettings, rounds: int) -> dict[str, float]:
    """Return the cost per row in µs, for each way to read a cleanly stopped store."""
    costs = {
        name: min(cpu_each(read) for _ in range(rounds))
        for name, read in readings(directory).items()
    }
    store = MessageStore(directory, settings)
    store.open()
    try:
        costs[f"pulls of {PULL}"] = min(cpu_each(lambda: pulled(store)) for _ in range(rounds))
    finally:
        store.close()
    return costs


def filled(directory: str, settings: StoreSettings, messages: int, queues: int) -> None:
    """Fill a store and stop it orderly."""
    owner = Owner(directory, settings)
    owner.store.open()
    try:
        count(owner.fill(chunks(messages, queues)))
    finally:
        owner.store.close()


def main() -> None:
    """Measure everything, print it, and write it to ``bench/results/scan.json``."""
    with scratch() as directory:
        in_child(filled, directory, SMALL, MESSAGES, QUEUES)
        costs = in_child(read_costs, directory, SMALL, ROUNDS)
    print(f"{MESSAGES:,} messages of 1 KB in {QUEUES} queues, read on one core\n({HOW})")
    rows: list[list[Cell]] = [[name, cost, round(1e6 / cost)] for name, cost in costs.items()]
    print(table(["", "µs per row", "rows/s"], rows))
    write("scan", {"how": HOW, "messages": MESSAGES, "queues": QUEUES, "microseconds": costs})


if __name__ == "__main__":
    main()
