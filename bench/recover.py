"""How fast a store comes back after a crash, and what an fsync is shared by: ``make bench``."""

import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from queue import SimpleQueue
from tempfile import TemporaryDirectory
from time import perf_counter

from bench.append import messages
from bench.measure import machine, write
from orbitmq.store.message_store import MessageStore
from orbitmq.store.put import Incoming
from orbitmq.store.settings import FlushMode, StoreSettings

LOG_BYTES = 256 * 1024 * 1024
TURN = 32
SECONDS = 1.5
MB = 1_000_000


def settings(mode: FlushMode = FlushMode.ASYNC, *, index: bool = True) -> StoreSettings:
    """Return the sizes of the stores here: four files of the log, one of the index."""
    return StoreSettings(
        flush_mode=mode,
        segment_bytes=LOG_BYTES // 4,
        queue_file_entries=30_000,
        index_enabled=index,
        index_slots=500_000,
        index_entries=2_000_000,
    )


def fill_and_die(directory: str) -> None:
    """Fill a log, and end the process without a stop. The log is on the disk, the queues may be."""
    store = MessageStore(directory, settings())
    store.open()
    given = messages(3200, 4)
    turns = [given[begin : begin + TURN] for begin in range(0, len(given), TURN)]
    while store.log.end < LOG_BYTES - 2 * MB:
        for turn in turns:
            store.append(turn)
    os._exit(0)


def recovered(*, index: bool) -> dict[str, object]:
    """Return how fast the log of a dead process is read, checked and dispatched again."""
    with TemporaryDirectory(prefix="orbitmq-bench-") as directory:
        subprocess.run([sys.executable, "-m", "bench.recover", directory], check=True)
        store = MessageStore(directory, settings(index=index))
        begin = perf_counter()
        store.open()
        seconds = perf_counter() - begin
        size = store.log.end
        store.close()
    what = "recovered after a crash" + ("" if index else ", no index")
    return {"what": what, "mb": round(size / MB), "mb_per_s": round(size / MB / seconds)}


class Senders:
    """So many senders, each of whom waits for the disk before he sends again."""

    def __init__(self, store: MessageStore, given: list[Incoming]) -> None:
        self._store = store
        self._free = given
        self.acknowledged = 0

    def send(self) -> None:
        """Append for all who wait for nothing, in one turn."""
        turn, self._free = self._free, []
        for message, result in zip(turn, self._store.append(turn), strict=True):
            self._store.when_durable(result.end, partial(self._told, message))
        self._store.flush_soon()

    def _told(self, message: Incoming, _durable: bool) -> None:
        self._free.append(message)
        self.acknowledged += 1


def shared(waiters: int) -> dict[str, object]:
    """Return how many messages share a flush under SYNC_FLUSH, and how many are stored."""
    calls: SimpleQueue[Callable[[], None]] = SimpleQueue()
    with TemporaryDirectory(prefix="orbitmq-bench-") as directory:
        store = MessageStore(directory, settings(FlushMode.SYNC), post=calls.put)
        store.open()
        senders = Senders(store, messages(waiters, 4))
        groups = 0
        end = perf_counter() + SECONDS
        begin = perf_counter()
        while perf_counter() < end:
            senders.send()
            before = store.flushed
            calls.get()()
            groups += store.flushed > before
        seconds = perf_counter() - begin
        store.close()
    return {
        "what": f"SYNC_FLUSH, {waiters} waiters",
        "messages_per_flush": round(senders.acknowledged / groups, 1),
        "messages_per_s": round(senders.acknowledged / seconds),
    }


def main() -> None:
    """Measure everything, print it, and write it to ``bench/results/recover.json``."""
    found = [recovered(index=True), recovered(index=False)]
    found += [shared(waiters) for waiters in (1, 16, 256)]
    for one in found:
        print("  ".join(f"{name}={value}" for name, value in one.items()))
    write("recover", {"machine": machine(), "figures": found})


if __name__ == "__main__":
    if len(sys.argv) > 1:
        fill_and_die(sys.argv[1])
    main()
