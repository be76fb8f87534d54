"""A process that may open few files, and whose store has many queues.

Run as ``python -m tests.store.many_queues DIRECTORY COUNT``. It stores a message in each queue,
again and again; then it takes all descriptors that are left but a few, goes on, stops, and looks at
what the next start finds. It prints how many messages that was.
"""

import errno
import os
import resource
import sys
from collections.abc import Callable
from queue import SimpleQueue

from orbitmq.store.log.append import PutStatus
from orbitmq.store.message_store import MessageStore
from orbitmq.store.settings import StoreSettings
from tests.store.logs import incoming

OPEN_FILES = 1024
ROUNDS = 3
SPARE = 8  # for the syncs of four workers, and what Python itself may want
SETTINGS = StoreSettings(
    segment_bytes=4 << 20,
    queue_file_entries=2,  # so that each queue has several files
    index_slots=1000,
    index_entries=4000,
    flush_interval_ms=1,
    flush_least_pages=1,
    queue_flush_thorough_interval_ms=1,
)


class Owner:
    """A store, and the thread that owns it."""

    def __init__(self, directory: str) -> None:
        self._posted: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self.store = MessageStore(directory, SETTINGS, post=self._posted.put)
        self.store.open()

    def turn(self, queue_ids: range) -> None:
        """Store a message in each of the queues, and let the workers work."""
        results = self.store.append([incoming(queue_id=queue_id) for queue_id in queue_ids])
        assert {result.status for result in results} == {PutStatus.PUT_OK}, results[-1]
        self.store.tick()
        while not self._posted.empty():
            self._posted.get()()
        assert self.store.failure is None

    def round(self, count: int) -> None:
        """Store a message in each queue."""
        for first in range(0, count, 100):
            self.turn(range(first, min(first + 100, count)))


def take_descriptors() -> list[int]:
    """Open files until there are few descriptors left."""
    taken = []
    try:
        while True:
            taken.append(os.open("/dev/null", os.O_RDONLY))
    except OSError as error:
        assert error.errno == errno.EMFILE  # noqa: PT017 - this is no test function
    for _ in range(SPARE):
        os.close(taken.pop())
    return taken


def main(directory: str, count: int) -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (OPEN_FILES, OPEN_FILES))
    owner = Owner(directory)
    for _ in range(ROUNDS):
        owner.round(count)
    owner.store.queues.close()  # or it would have enough
    taken = take_descriptors()
    owner.round(count)
    for one in taken:
        os.close(one)
    owner.store.close()
    again = Owner(directory)
    assert again.store.damages == []
    ends = again.store.queues.ends()["orders"]
    assert ends == dict.fromkeys(range(count), ROUNDS + 1)
    again.store.close()
    print(sum(ends.values()))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
