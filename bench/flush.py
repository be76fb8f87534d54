"""How many messages share an fsync with SYNC_FLUSH: ``make bench``.

These figures are wall time: a sender waits for the disk, not for the processor.
"""

from collections.abc import Callable
from functools import partial
from queue import SimpleQueue
from time import perf_counter, process_time

import msgspec

from bench.measure import scratch, table, write
from bench.stores import SMALL, MeteredDisk, messages
from orbitmq.store.log.append import Incoming
from orbitmq.store.message_store import MessageStore
from orbitmq.store.settings import FlushMode

WAITERS = (1, 16, 256)
SECONDS = 1.5
ROUNDS = 3
WAITING_STORE = msgspec.structs.replace(SMALL, flush_mode=FlushMode.SYNC)


class Shared(msgspec.Struct, frozen=True):
    """The result for some senders that wait for the disk."""

    waiters: int
    fsyncs_per_s: float
    fsync_ms: float
    """The duration of one fsync."""
    messages_per_fsync: float
    messages_per_s: float
    cpu_microseconds: float
    """CPU time of all threads, per message."""


class Senders:
    """Senders that each wait for the disk before they send again."""

    def __init__(self, store: MessageStore, given: list[Incoming]) -> None:
        self._store = store
        self._free = given
        self.acknowledged = 0

    def send(self) -> None:
        """Append the messages of all senders that are not waiting, in one turn."""
        turn, self._free = self._free, []
        for message, result in zip(turn, self._store.append(turn), strict=True):
            self._store.when_durable(result.end, partial(self._on_durable, message))
        self._store.flush_soon()

    def _on_durable(self, message: Incoming, durable: bool) -> None:
        if not durable:
            raise RuntimeError("a message did not reach the disk in time")
        self._free.append(message)
        self.acknowledged += 1


def shared(waiters: int, seconds: float = SECONDS) -> Shared:
    """Return how many messages share an fsync, and how many are stored per second."""
    calls: SimpleQueue[Callable[[], None]] = SimpleQueue()
    with scratch() as directory:
        disk = MeteredDisk(directory)
        store = MessageStore(directory, WAITING_STORE, post=calls.put, disk=disk)
        store.open()
        try:
            senders = Senders(store, messages(range(waiters), 4))
            disk.reset()
            begin, begin_cpu = perf_counter(), process_time()
            while (spent := perf_counter() - begin) < seconds or not senders.acknowledged:
                senders.send()
                calls.get()()
            cpu = process_time() - begin_cpu
            log = disk.accounts["commitlog"]
            syncs, sync_ns = log.syncs, log.sync_ns
        finally:
            store.close()
    return Shared(
        waiters=waiters,
        fsyncs_per_s=syncs / spent,
        fsync_ms=sync_ns / syncs / 1e6,
        messages_per_fsync=senders.acknowledged / syncs,
        messages_per_s=senders.acknowledged / spent,
        cpu_microseconds=cpu / senders.acknowledged * 1e6,
    )


def main() -> None:
    """Measure everything, print it, and write it to ``bench/results/flush.json``."""
    found = [
        max((shared(waiters) for _ in range(ROUNDS)), key=lambda one: one.messages_per_s)
        for waiters in WAITERS
    ]
    how = f"the best of {ROUNDS} runs of {SECONDS} s; other programs may have used the disk"
    print(f"1 KB with SYNC_FLUSH, by number of waiting senders\n({how})")
    head = ["waiting", "fsyncs/s", "ms each", "messages/fsync", "messages/s", "CPU µs/message"]
    print(table(head, [list(msgspec.structs.astuple(one)) for one in found]))
    write("flush", {"how": how, "figures": [msgspec.structs.asdict(one) for one in found]})


if __name__ == "__main__":
    main()
