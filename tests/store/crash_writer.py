"""A process that stores messages as fast as it can, and says which are safe, until it is killed.

Run as ``python -m tests.store.crash_writer DIRECTORY FIRST MODE``. Each line on stdout is the
number of a message that was acknowledged; the messages are ``FIRST``, ``FIRST + 1``, …

Its workers are threads, and have something to flush all the time: a kill may come in the midst.
"""

import os
import sys
from collections.abc import Callable
from queue import SimpleQueue

from orbitmq.store.message_store import MessageStore
from orbitmq.store.settings import FlushMode, StoreSettings
from tests.store.logs import incoming

QUEUES = 3


def settings(mode: FlushMode) -> StoreSettings:
    return StoreSettings(
        flush_mode=mode,
        segment_bytes=64 * 1024,
        queue_file_entries=50,
        index_slots=100,
        index_entries=300,
        flush_interval_ms=1,
        flush_least_pages=1,
        queue_flush_thorough_interval_ms=1,
    )


def main(directory: str, first: int, mode: FlushMode) -> None:
    posted: SimpleQueue[Callable[[], None]] = SimpleQueue()
    store = MessageStore(directory, settings(mode), post=posted.put, pid=os.getpid())
    store.open()
    number = first
    while True:
        turn = range(number, number + 1 + number % 7)
        results = store.append([incoming(b"%d " % i * 20, queue_id=i % QUEUES) for i in turn])
        number = turn.stop
        if mode is FlushMode.SYNC:
            safe: list[bool] = []
            store.when_durable(results[-1].end, safe.append)
            store.flush_soon()
            while not safe:
                posted.get()()
            assert safe == [True]
        # One write: what a pipe has taken, a killed writer can't take back.
        os.write(1, b"".join(b"%d\n" % i for i in turn))
        store.tick()
        while not posted.empty():
            posted.get()()
        assert store.failure is None


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), FlushMode(sys.argv[3]))
