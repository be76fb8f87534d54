"""How the cost of a message grows with the store: ``make bench``, ``make bench FULL=1``.

Each step has its own store, with Java's file sizes. One process fills it and dies, one starts it
again, one reads it, so their memory is that of this work alone. Bodies have 100 bytes, so that ten
million messages take 4 GB.
"""

import argparse
import shutil
import sys
from collections import deque
from collections.abc import Sequence

import msgspec

from bench.measure import Cell, Resident, in_child, resident, scratch, table, write
from bench.recover import Start, opened
from bench.scan import read_costs
from bench.stores import CHUNK, KILOBYTE, Owner, chunks
from orbitmq.store.settings import StoreSettings

BODY = KILOBYTE[:100]
JAVA_SIZES = StoreSettings()
LAST_CHUNKS = 10
"""The best of these is the cost per message in a store of nearly full size."""
BYTES_EACH = 600  # on disk: the record, its keys and its queue entry, and some reserve
FILES = 3  # files of full length that are not full: two of the log, one of the index

MESSAGES, FULL_MESSAGES = (100_000, 1_000_000), (100_000, 1_000_000, 10_000_000)
FEW, QUEUES = 4, (100, 10_000)


class Step(msgspec.Struct, frozen=True):
    """The figures of one store."""

    messages: int
    queues: int
    append: float
    """µs per message, in a store of nearly full size."""
    crash: Start
    stop: Start
    rows: dict[str, float]
    """µs per row, for each way to read."""
    memory: dict[str, Resident | None]
    """Memory of the appending process, the one that starts after the crash, and the reader."""


def fill(
    directory: str, settings: StoreSettings, messages: int, queues: int
) -> tuple[float, Resident | None]:
    """Fill a store; return the cost of one of the last messages, and the memory."""
    owner = Owner(directory, settings)
    owner.store.open()
    last = deque(owner.fill(chunks(messages, queues, BODY)), maxlen=LAST_CHUNKS)
    return min(last), resident()


def restart(directory: str, settings: StoreSettings) -> tuple[Start, Resident | None]:
    """Start a store and stop it orderly; return the cost of the start, and the memory."""
    store, start = opened(directory, settings)
    memory = resident()
    store.close()
    return start, memory


def read(directory: str, settings: StoreSettings) -> tuple[dict[str, float], Resident | None]:
    """Read a store in every way; return the cost per row, and the memory."""
    costs = read_costs(directory, settings, rounds=1)
    return costs, resident()


def measured(messages: int, queues: int, settings: StoreSettings = JAVA_SIZES) -> Step:
    """Measure one step.

    Raises:
        RuntimeError: the disk has too little space.
    """
    with scratch() as directory:
        wanted = messages * BYTES_EACH + FILES * settings.segment_bytes
        free = shutil.disk_usage(directory).free
        if wanted > free:
            raise RuntimeError(
                f"{messages:,} messages need {wanted:,} bytes in {directory}, but only {free:,} "
                "are free; set TMPDIR to a directory with more space"
            )
        append, filling = in_child(fill, directory, settings, messages, queues)
        crash, starting = in_child(restart, directory, settings)
        stop, _ = in_child(restart, directory, settings)
        rows, reading = in_child(read, directory, settings)
    print(f"measured: {messages:,} messages in {queues:,} queues", file=sys.stderr, flush=True)
    memory = {"append": filling, "start": starting, "read": reading}
    return Step(messages, queues, append, crash, stop, rows, memory)


def shown(heads: Sequence[str], steps: Sequence[Step]) -> str:
    """Return a table of the steps: µs per message or row, then seconds and MB."""
    rows: list[list[Cell]] = [["append, µs", *(step.append for step in steps)]]
    rows += [[f"{name}, µs", *(step.rows[name] for step in steps)] for name in steps[0].rows]
    rows += [
        ["start after a crash, CPU s", *(step.crash.cpu_s for step in steps)],
        ["  MB read", *(step.crash.read_mb for step in steps)],
        ["start after a stop, CPU s", *(step.stop.cpu_s for step in steps)],
        ["  MB read", *(step.stop.read_mb for step in steps)],
        ["log, MB", *(step.crash.log_mb for step in steps)],
    ]
    rows += [
        [f"memory to {name}, MB", *(_own(step.memory[name]) for step in steps)]
        for name in steps[0].memory
    ]
    return table(["", *heads], rows)


def _own(memory: Resident | None) -> float | None:
    return None if memory is None else memory.own


def main() -> None:
    """Measure the steps, print them, and write them to ``bench/results/growth.json``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--full", action="store_true", help="up to ten million messages")
    full = parser.parse_args().full
    by_messages = [measured(count, FEW) for count in (FULL_MESSAGES if full else MESSAGES)]
    base = by_messages[1 if full else 0]
    by_queues = [base, *(measured(base.messages, queues) for queues in QUEUES)]
    how = f"CPU time of one run; append: the best of the last {LAST_CHUNKS} chunks of {CHUNK:,}"
    print(f"messages of {len(BODY)} bytes in {FEW} queues\n({how})")
    print(shown([f"{step.messages:,}" for step in by_messages], by_messages))
    print(f"\n{base.messages:,} messages of {len(BODY)} bytes, by number of queues")
    print(shown([f"{step.queues:,}" for step in by_queues], by_queues))
    steps = msgspec.to_builtins([*by_messages, *by_queues[1:]])
    write("growth", {"how": how, "body_bytes": len(BODY), "full": full, "steps": steps})


if __name__ == "__main__":
    main()
