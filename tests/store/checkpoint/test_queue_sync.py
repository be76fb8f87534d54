"""Rounds of syncs: what is listed and claimed after them, and what is not."""

import errno
from collections.abc import Callable

import pytest

from orbitmq.errors import StoreError
from orbitmq.store.checkpoint.claims import Synced
from orbitmq.store.checkpoint.queue_ends import QueueEnds
from orbitmq.store.checkpoint.queue_sync import QueueSync
from orbitmq.store.index.key_index import KeyIndex
from orbitmq.store.log.append import PutStatus
from orbitmq.store.message_store import MessageStore
from orbitmq.store.queues.consume_queues import ConsumeQueues, Ends
from orbitmq.store.settings import StoreSettings
from orbitmq.testing.clocks import InlineWorkers
from orbitmq.testing.disks import SimulatedDisk
from tests.store.entries import dispatched
from tests.store.stores import SMALL, AskedWorkers, HandClock, HandWorkers, bodies, opened, put

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
            lambda work, told: work.add_done_callback(
                lambda done: self.posted.append(lambda: told(done.exception()))
            ),
        )
        self.posted: list[Callable[[], None]] = []
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

    def step(self) -> None:
        """Let a worker do one piece of work, and the owner be told of it."""
        self.workers.run()
        self.tell()

    def tell(self) -> None:
        while self.posted:
            self.posted.pop(0)()

    def run(self) -> None:
        """Let the workers do all they have, and what follows from it."""
        while self.workers.waiting:
            self.step()

    def listed(self) -> Ends:
        return QueueEnds(self.disk, PATH).load()


def test_what_is_listed_was_synced_and_is_claimed_after_that() -> None:
    bench = Bench()
    bench.begin()
    assert (bench.listed(), bench.claimed, bench.sync.is_under_way) == ({}, [], True)
    bench.step()
    assert (bench.listed(), bench.claimed, bench.sync.is_under_way) == ({}, [], True)
    bench.step()
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


def test_a_stop_takes_what_a_worker_has_done_and_begins_no_more() -> None:
    bench = Bench()
    bench.begin()
    bench.workers.run()
    bench.sync.finish()
    bench.tell()
    bench.begin()
    assert (bench.workers.waiting, bench.claimed, bench.sync.is_under_way) == ([], [], False)
    assert bench.listed() == {}


def test_a_stop_does_not_pass_over_a_sync_that_failed_meanwhile() -> None:
    bench = Bench()
    bench.disk.fail("sync", "consumequeue", errno.EIO)
    bench.begin()
    bench.workers.run()
    with pytest.raises(StoreError, match="Input/output error"):
        bench.sync.finish()
    bench.tell()
    assert len(bench.failures) == 1


def test_what_a_worker_lacked_a_descriptor_for_is_left_for_the_stop() -> None:
    bench = Bench()
    bench.disk.fail("open", "consumequeue", errno.EMFILE)
    bench.begin()
    bench.workers.run()
    bench.sync.finish()
    bench.queues.sync()
    bench.sync.list_now()
    bench.disk.crash()
    assert bench.disk.list("/consumequeue/orders/0") == [f"{0:020d}"]
    assert (bench.failures, bench.rooms) == ([], 1)


def test_a_list_is_waited_for_and_its_failure_left_for_the_next() -> None:
    bench = Bench()
    bench.disk.fail("write", PATH, errno.ENOSPC)
    bench.begin()
    bench.step()
    bench.workers.run()
    bench.sync.finish()
    bench.tell()
    assert (bench.claimed, bench.failures, bench.sync.is_under_way) == ([], [], False)
    bench.sync.list_now()
    assert bench.listed() == {"orders": {0: 3}}


def test_who_waits_for_a_sync_is_told_of_its_failure_and_the_round_goes_on() -> None:
    bench = Bench()
    bench.sync.settle()  # nothing is under way
    bench.begin()
    bench.workers.run()
    bench.sync.settle()
    assert bench.sync.is_under_way
    bench.run()
    bench.tell()
    assert bench.claimed == [SYNCED]
    bench.queues.append_all([dispatched(3, 300)])
    bench.queues.write()
    bench.disk.fail("sync", "consumequeue", errno.EIO)
    bench.begin()
    bench.workers.run()
    with pytest.raises(StoreError, match="Input/output error"):
        bench.sync.settle()
    bench.tell()
    assert (bench.claimed, len(bench.failures)) == ([SYNCED], 1)


def test_files_of_the_log_go_only_once_a_sync_of_queues_under_way_is_over() -> None:
    """Else a power loss takes entries whose records are gone, and offsets are used again."""
    disk, clock = SimulatedDisk(), HandClock()
    settings = StoreSettings(**{**SMALL, "reserved_hours": 1})  # type: ignore[arg-type]
    asked = AskedWorkers()
    store = MessageStore("/store", settings, disk=disk, clock=clock, workers=asked)
    store.open()
    put(store, b"a", b"b", b"c", queue_id=1)
    put(store, *(b"%02d" % number for number in range(60)))
    store.when_durable(store.log.end, lambda _is_safe: None)
    store.flush_soon()
    asked.do_all()
    clock.now += settings.queue_flush_thorough_interval_ms
    store.tick()
    clock.now += 2 * 3_600_000
    assert store.clean(asked=True) == []
    asked.do_all()
    assert store.log.first_offset == 0
    for _ in range(2):  # the first tick begins a sync that is due
        store.tick()
        asked.do_all()
    assert store.log.first_offset > 0
    disk.crash()
    store = opened(disk)
    (result,) = put(store, b"d", queue_id=1)
    assert result.queue_offset == 3
    store.close()


def test_queues_that_cannot_be_synced_end_all_writing_and_the_checkpoint_stays() -> None:
    """A second sync would succeed, though the pages of the first are lost."""
    disk, clock = SimulatedDisk(), HandClock()
    settings = StoreSettings(**SMALL)  # type: ignore[arg-type]
    store = MessageStore("/store", settings, disk=disk, clock=clock, workers=InlineWorkers())
    store.open()
    put(store, b"a")
    clock.now += settings.queue_flush_thorough_interval_ms
    disk.fail("sync", "consumequeue", errno.EIO)
    store.tick()
    (refused,) = put(store, b"b")
    assert refused.status is PutStatus.SERVICE_NOT_AVAILABLE
    assert store.failure is not None
    store.close()
    assert disk.exists("/store/abort")
    disk.crash()
    store = opened(disk)
    assert bodies(store) == [b"a" * 40]
    store.close()


def test_a_close_does_not_pass_over_a_sync_of_queues_that_failed_before_it_was_told() -> None:
    disk, clock = SimulatedDisk(), HandClock()
    settings = StoreSettings(**SMALL)  # type: ignore[arg-type]
    later: list[Callable[[], None]] = []
    workers = InlineWorkers()
    store = MessageStore(
        "/store", settings, disk=disk, clock=clock, workers=workers, post=later.append
    )
    store.open()
    put(store, b"a")
    clock.now += settings.queue_flush_thorough_interval_ms
    disk.fail("sync", "consumequeue", errno.EIO)
    store.tick()
    with pytest.raises(StoreError, match="Input/output error"):
        store.close()
    assert disk.exists("/store/abort")
    for call in later:
        call()
    disk.crash()
    store = opened(disk)
    assert bodies(store) == [b"a" * 40]
    store.close()


@pytest.mark.parametrize("steps", [0, 1])
def test_of_a_round_that_is_waited_for_nothing_is_claimed_and_the_next_one_is(steps: int) -> None:
    bench = Bench()
    bench.sync.begin(SYNCED)
    for _ in range(steps):
        bench.step()
    for future, work in list(bench.workers.waiting):
        bench.workers.waiting.clear()
        future.set_result(work())
    bench.sync.drain()
    bench.tell()
    assert not bench.sync.is_under_way
    assert bench.claimed == []
    bench.begin()
    bench.step()
    bench.step()
    assert bench.claimed == [SYNCED]
