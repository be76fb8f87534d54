"""What a sync of the disk is shared by, under SYNC_FLUSH: ``make bench``.

These figures are of time that goes by: a sender waits for the disk, not for the processor.
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
    """How senders who wait for the disk fare together."""

    waiters: int
    fsyncs_per_s: float
    fsync_ms: float
    """How long one takes."""
    messages_per_fsync: float
    messages_per_s: float
    cpu_microseconds: float
    """All threads, for each message."""


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

    def _told(self, message: Incoming, durable: bool) -> None:
        if not durable:
            raise RuntimeError("a message did not reach the disk in time")
        self._free.append(message)
        self.acknowledged += 1


def shared(waiters: int, seconds: float = SECONDS) -> Shared:
    """Return how many messages share a sync, and how many are stored."""
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
    how = f"the quickest of {ROUNDS} runs of {SECONDS} s; others may have used the disk too"
    print(f"1 KB under SYNC_FLUSH, senders who wait\n({how})")
    head = ["waiting", "fsyncs/s", "ms each", "messages/fsync", "messages/s", "CPU µs/message"]
    print(table(head, [list(msgspec.structs.astuple(one)) for one in found]))
    write("flush", {"how": how, "figures": [msgspec.structs.asdict(one) for one in found]})


if __name__ == "__main__":
    main()
