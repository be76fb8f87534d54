"""Rounds of syncs: what is listed and claimed after them, and what is not."""

import errno

from orbitmq.errors import StoreError
from orbitmq.store.claims import Synced
from orbitmq.store.consume_queues import ConsumeQueues
from orbitmq.store.key_index import KeyIndex
from orbitmq.store.queue_ends import Ends, QueueEnds
from orbitmq.store.queue_sync import QueueSync
from orbitmq.testing.disks import SimulatedDisk
from tests.store.entries import dispatched
from tests.store.stores import HandWorkers

PATH = "/queue_ends.json"
SYNCED = Synced(queues_ms=4000)


class Bench:
    """A queue with three entries, and a hand on the workers."""

    def __init__(self) -> None:
        self.disk = SimulatedDisk()
        self.queues = ConsumeQueues(self.disk, "/consumequeue", entries_per_file=5)
        index = KeyIndex(self.disk, "/index", slots=7, entries=16, file_name=lambda: "20261115")
        self.ends = QueueEnds(self.disk, PATH)
        self.workers = HandWorkers()
        self.sync = QueueSync(
            self.queues,
            index,
            self.ends,
            self.disk,
            self.workers,
            lambda work, told: work.add_done_callback(lambda done: told(done.exception())),
        )
        self.claimed: list[Synced] = []
        self.failures: list[StoreError] = []
        self.rooms = 0
        self.sync.on_listed = self.claimed.append
        self.sync.on_failure = self.failures.append
        self.sync.make_room = self.make_room
        self.queues.append_all([dispatched(offset, 100 * offset) for offset in range(3)])
        self.queues.write()

    def make_room(self) -> None:
        self.rooms += 1

    def begin(self) -> None:
        self.sync.begin(SYNCED)

    def run(self) -> None:
        """Let the workers do all they have, and what follows from it."""
        while self.workers.waiting:
            self.workers.run()

    def listed(self) -> Ends:
        return QueueEnds(self.disk, PATH).load()


def test_a_stop_leaves_the_rest_of_a_round_undone() -> None:
    bench = Bench()
    bench.begin()
    bench.sync.is_stopped = True
    bench.workers.run()
    assert (bench.workers.waiting, bench.claimed, bench.sync.is_under_way) == ([], [], False)
    bench.begin()
    assert not bench.workers.waiting
    assert bench.listed() == {}


def test_what_is_listed_was_synced_and_is_claimed_after_that() -> None:
    bench = Bench()
    bench.begin()
    assert (bench.listed(), bench.claimed, bench.sync.is_under_way) == ({}, [], True)
    bench.workers.run()
    assert (bench.listed(), bench.claimed, bench.sync.is_under_way) == ({}, [], True)
    bench.workers.run()
    assert (bench.claimed, bench.sync.is_under_way) == ([SYNCED], False)
    bench.disk.crash()
    assert bench.listed() == {"orders": {0: 3}}
    queues = ConsumeQueues(bench.disk, "/consumequeue", entries_per_file=5)
    queues.load()
    queues.recover()
    assert queues.ends() == {"orders": {0: 3}}


def test_a_round_that_is_under_way_is_finished_first() -> None:
    bench = Bench()
    bench.begin()
    bench.queues.append_all([dispatched(3, 300)])
    bench.queues.write()
    bench.begin()
    bench.run()
    assert bench.listed() == {"orders": {0: 3}}


def test_a_queue_that_is_deleted_meanwhile_is_not_listed() -> None:
    bench = Bench()
    bench.begin()
    bench.ends.forget([("orders", 0)])
    bench.run()
    assert bench.listed() == {}


def test_a_failed_sync_is_told_and_nothing_is_claimed() -> None:
    bench = Bench()
    bench.disk.fail("sync", "consumequeue", errno.EIO)
    bench.begin()
    bench.run()
    assert ["Input/output error" in str(error) for error in bench.failures] == [True]
    assert (bench.listed(), bench.claimed, bench.rooms) == ({}, [], 0)


def test_without_a_descriptor_it_is_tried_again_in_the_next_round() -> None:
    bench = Bench()
    bench.disk.fail("open", "consumequeue", errno.EMFILE)
    bench.begin()
    bench.run()
    assert (bench.listed(), bench.claimed, bench.failures) == ({}, [], [])
    assert bench.rooms == 1
    bench.begin()
    bench.run()
    assert bench.claimed == [SYNCED]
    bench.disk.crash()
    assert bench.disk.list("/consumequeue/orders/0") == [f"{0:020d}"]


def test_a_list_that_cannot_be_written_is_tried_again() -> None:
    bench = Bench()
    bench.disk.fail("write", PATH, errno.ENOSPC)
    bench.begin()
    bench.run()
    assert (bench.claimed, bench.failures) == ([], [])
    bench.begin()
    bench.run()
    assert bench.claimed == [SYNCED]
