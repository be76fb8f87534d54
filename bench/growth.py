"""Whether a message costs the same however many there are: ``make bench``, ``make bench FULL=1``.

Each step is a store of its own, with files of Java's sizes. One process fills it and dies, one
starts it again, one reads it: their memory is that of this work alone. Bodies have 100 bytes, so
that ten million messages are 4 GB.
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
"""The best of the last chunks is what a message costs once the store has its size."""
BYTES_EACH = 600  # of disk: the record, its keys and its queue entry, and some room
FILES = 3  # that have their full size, and are not full: two of the log, one of the index

MESSAGES, FULL_MESSAGES = (100_000, 1_000_000), (100_000, 1_000_000, 10_000_000)
FEW, QUEUES = 4, (100, 10_000)


class Step(msgspec.Struct, frozen=True):
    """What was measured of one store."""

    messages: int
    queues: int
    append: float
    """µs a message, when the store has nearly that size."""
    crash: Start
    stop: Start
    rows: dict[str, float]
    """µs a row, for each way to read."""
    memory: dict[str, Resident | None]
    """Of the process that appends, of that which starts after the crash, of that which reads."""


def fill(
    directory: str, settings: StoreSettings, messages: int, queues: int
) -> tuple[float, Resident | None]:
    """Fill a store; return what one of the last messages costs, and the memory."""
    owner = Owner(directory, settings)
    owner.store.open()
    last = deque(owner.fill(chunks(messages, queues, BODY)), maxlen=LAST_CHUNKS)
    return min(last), resident()


def restart(directory: str, settings: StoreSettings) -> tuple[Start, Resident | None]:
    """Start a store and stop it in order; return what the start took, and the memory."""
    store, start = opened(directory, settings)
    memory = resident()
    store.close()
    return start, memory


def read(directory: str, settings: StoreSettings) -> tuple[dict[str, float], Resident | None]:
    """Read a store in every way; return what a row costs, and the memory."""
    costs = read_costs(directory, settings, rounds=1)
    return costs, resident()


def measured(messages: int, queues: int, settings: StoreSettings = JAVA_SIZES) -> Step:
    """Return what one step costs.

    Raises:
        RuntimeError: the disk has no room for it.

    """
    with scratch() as directory:
        wanted = messages * BYTES_EACH + FILES * settings.segment_bytes
        free = shutil.disk_usage(directory).free
        if wanted > free:
            raise RuntimeError(
                f"{messages:,} messages need {wanted:,} bytes in {directory}, where {free:,} are "
                "free; set TMPDIR to a place with more room"
            )
        append, filling = in_child(fill, directory, settings, messages, queues)
        crash, starting = in_child(restart, directory, settings)
        stop, _ = in_child(restart, directory, settings)
        rows, reading = in_child(read, directory, settings)
    print(f"measured: {messages:,} messages in {queues:,} queues", file=sys.stderr, flush=True)
    memory = {"append": filling, "start": starting, "read": reading}
    return Step(messages, queues, append, crash, stop, rows, memory)


def shown(heads: Sequence[str], steps: Sequence[Step]) -> str:
    """Return the steps side by side: µs for each message or row, then seconds and MB."""
    rows: list[list[Cell]] = [["append, µs", *(step.append for step in steps)]]
    rows += [[f"{name}, µs", *(step.rows[name] for step in steps)] for name in steps[0].rows]
    rows += [
        ["start after a crash, CPU s", *(step.crash.cpu_s for step in steps)],
        ["  MB read for it", *(step.crash.read_mb for step in steps)],
        ["start after a stop, CPU s", *(step.stop.cpu_s for step in steps)],
        ["  MB read for it", *(step.stop.read_mb for step in steps)],
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
    how = f"CPU time of one run, append the best of the last {LAST_CHUNKS} times {CHUNK:,}"
    print(f"messages of {len(BODY)} bytes in {FEW} queues\n({how})")
    print(shown([f"{step.messages:,}" for step in by_messages], by_messages))
    print(f"\n{base.messages:,} messages of {len(BODY)} bytes in so many queues")
    print(shown([f"{step.queues:,}" for step in by_queues], by_queues))
    steps = msgspec.to_builtins([*by_messages, *by_queues[1:]])
    write("growth", {"how": how, "body_bytes": len(BODY), "full": full, "steps": steps})


if __name__ == "__main__":
    main()
