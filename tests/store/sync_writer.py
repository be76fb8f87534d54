"""A process that stores messages, and says of each that it is safe once the store has said so.

Run as ``python -m tests.store.sync_writer DIRECTORY COUNT``. Each message that was acknowledged is
one write to stdout: ``ack BEGIN END``, the place of its record in the log. Threads sync, as they do
in a broker.
"""

import os
import sys
from collections.abc import Callable
from functools import partial
from queue import SimpleQueue

from orbitmq.store.message_store import MessageStore
from orbitmq.store.settings import FlushMode, StoreSettings
from tests.store.logs import incoming

SEGMENT = 4096
PER_TURN = 3


def main(directory: str, count: int) -> None:
    settings = StoreSettings(
        flush_mode=FlushMode.SYNC,
        segment_bytes=SEGMENT,
        queue_file_entries=50,
        index_slots=100,
        index_entries=300,
    )
    posted: SimpleQueue[Callable[[], None]] = SimpleQueue()
    store = MessageStore(directory, settings, post=posted.put, pid=os.getpid())
    store.open()
    for first in range(0, count, PER_TURN):
        numbers = range(first, min(first + PER_TURN, count))
        results = store.append([incoming(b"%d " % number * 40) for number in numbers])
        for result in results:
            line = b"ack %d %d\n" % (result.offsets[0], result.end)
            store.when_durable(result.end, partial(acknowledge, line))
        store.flush_soon()
        while store.flushed < results[-1].end:
            posted.get()()
    store.close()


def acknowledge(line: bytes, safe: bool) -> None:
    assert safe
    os.write(1, line)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
