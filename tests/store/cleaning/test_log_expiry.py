"""Old log files go, in steps; queues and index follow."""

import errno

import pytest

from orbitmq.store.disk.disk import Usage
from orbitmq.store.log.append import PutStatus
from orbitmq.store.message_store import MessageStore
from orbitmq.store.settings import StoreSettings
from orbitmq.testing.clocks import InlineWorkers
from orbitmq.testing.disks import SimulatedDisk
from tests.store.stores import SMALL, AskedWorkers, HandClock, bodies, opened, put


def test_old_files_go_and_queues_and_index_follow() -> None:
    clock = HandClock()
    disk = SimulatedDisk(clock=clock)
    settings = StoreSettings(**SMALL, reserved_hours=1)  # type: ignore[arg-type]
    store = MessageStore("/store", settings, disk=disk, clock=clock, workers=InlineWorkers())
    store.open()
    put(store, *(b"%04d" % i for i in range(60)))
    kept_view = store.log.view(0, 100)
    clock.now += 3_600_000
    put(store, b"new")
    store.tick()
    removed = store.clean(asked=True)
    assert removed[0] == 0
    assert store.log.first_offset == removed[-1] + 4096
    queue = store.queues.queue("orders", 0)
    assert queue is not None
    assert 0 < queue.min_offset < queue.max_offset == 61
    assert bodies(store)[-1] == b"new" * 40
    assert store.record(0) is None
    assert kept_view is not None
    assert any(kept_view)
    store.close()
    again = opened(disk)
    found = again.queues.queue("orders", 0)
    assert found is not None
    assert (found.min_offset, found.max_offset) == (queue.min_offset, 61)
    again.close()


def test_by_the_clock_files_go_one_at_a_time() -> None:
    clock = HandClock()
    hours = ";".join(f"{hour:02d}" for hour in range(24))
    disk = SimulatedDisk(clock=clock)
    store = opened(disk, clock=clock, reserved_hours=1, delete_when=hours)
    put(store, *(b"%04d" % number for number in range(60)))
    clock.now += 3_600_000
    starts = []
    for _ in range(5):
        clock.now += 100
        store.tick()
        starts.append(store.log.first_offset)
    assert starts == [4096, 8192, 12288, 12288, 12288], "one in a tick, and never the last"
    store.close()


def test_a_disk_that_is_nearly_full_refuses_until_there_is_room() -> None:
    class Gauge(SimulatedDisk):
        used = 50

        def usage(self, path: str) -> Usage:
            return Usage(100, self.used)

    disk = Gauge()
    store = opened(disk)
    disk.used = 95
    store.clean()
    (refused,) = put(store, b"a")
    assert (refused.status, refused.remark) == (
        PutStatus.SERVICE_NOT_AVAILABLE,
        "the disk is full",
    )
    disk.used = 50
    store.clean()
    assert put(store, b"a")[0].status is PutStatus.PUT_OK
    store.close()


def test_the_names_of_removed_files_are_gone_from_the_disk_before_their_queue_entries() -> None:
    clock = HandClock()
    disk = SimulatedDisk(clock=clock)
    store = opened(disk, clock=clock, reserved_hours=1)
    put(store, *(b"%04d" % number for number in range(60)))
    clock.now += 3_600_000
    store.tick()
    before = len(disk.log)
    assert store.clean(asked=True)
    calls = [(call.operation, call.path) for call in disk.log[before:]]
    synced = calls.index(("sync_directory", "/store/commitlog"))
    removals = [at for at, (operation, _) in enumerate(calls) if operation == "remove"]
    of_log = [at for at in removals if "/commitlog/" in calls[at][1]]
    assert of_log
    assert max(of_log) < synced < min(set(removals) - set(of_log))


def test_other_settings_hold_at_once_as_far_as_files_allow() -> None:
    clock = HandClock()
    disk = SimulatedDisk(clock=clock)
    store = opened(disk, clock=clock, reserved_hours=100)
    put(store, *(b"%04d" % i for i in range(60)))
    clock.now += 2 * 3_600_000
    store.tick()
    assert store.clean(asked=True) == []
    bytes_before = store.settings.segment_bytes
    store.apply(StoreSettings(reserved_hours=1, segment_bytes=1 << 20, pull_count_in_memory=3))
    assert store.settings.segment_bytes == bytes_before
    assert store.clean(asked=True) != []
    queue = store.queues.queue("orders", 0)
    assert queue is not None
    found = store.lookup.get_messages("orders", 0, queue.min_offset, max_count=32)
    assert found.count == 3
    store.close()


class Stepwise:
    """A store with 60 messages an hour ago, whose workers work when a test says so."""

    def __init__(self) -> None:
        self.clock = HandClock()
        self.disk = SimulatedDisk(clock=self.clock)
        store = opened(self.disk, clock=self.clock)
        put(store, *(b"%04d" % number for number in range(60)))
        store.close()
        self.clock.now += 3_600_000
        settings = StoreSettings(**SMALL, reserved_hours=1)  # type: ignore[arg-type]
        self.workers = AskedWorkers()
        self.store = MessageStore(
            "/store", settings, disk=self.disk, clock=self.clock, workers=self.workers
        )
        self.store.open()
        put(self.store, b"on")
        self.disk.log.clear()

    def done(self) -> list[str]:
        """Return what was done to the disk since, as far as it takes long."""
        calls = [call.operation for call in self.disk.log]
        self.disk.log.clear()
        return [call for call in calls if call in ("sync", "remove", "sync_directory")]


def test_the_owner_neither_syncs_nor_removes_files() -> None:
    scene = Stepwise()
    assert scene.store.clean(asked=True) == [0, 4096, 8192]
    assert scene.done() == []
    assert scene.store.log.first_offset == 0
    scene.workers.run()
    assert set(scene.done()) == {"sync", "sync_directory"}  # of queues and index
    assert scene.store.log.first_offset == 12288  # but its files are still there
    assert scene.disk.exists(f"/store/commitlog/{0:020d}")
    assert scene.store.delete_expired_queues() == []
    scene.workers.run()  # the list of ends
    scene.done()
    scene.workers.run()
    assert scene.done()[:4] == ["remove"] * 3 + ["sync_directory"]
    queue = scene.store.queues.queue("orders", 0)
    assert queue is not None
    assert 0 < queue.min_offset < 60


def test_an_operator_need_not_ask_twice() -> None:
    scene = Stepwise()
    scene.clock.now += 60_000
    scene.store.tick()  # begins a sync of the queues
    assert scene.store.clean(asked=True) == []
    scene.workers.do_all()
    scene.store.tick()
    scene.workers.do_all()
    assert scene.store.log.first_offset == 12288


def test_files_that_cannot_be_removed_stay_in_use(caplog: pytest.LogCaptureFixture) -> None:
    scene = Stepwise()
    scene.disk.fail("remove", "/commitlog/00000000000000004096", errno.EIO)
    assert scene.store.clean(asked=True)
    scene.workers.do_all()
    assert "expired files could not be removed" in caplog.text
    assert scene.store.log.first_offset == 4096
    assert bodies(scene.store)[-1] == b"on" * 40
    assert scene.store.clean(asked=True) == [4096, 8192]


@pytest.mark.parametrize("steps", [0, 1, 2])
def test_a_stop_at_any_step_leaves_a_store_in_order(steps: int) -> None:
    scene = Stepwise()
    assert scene.store.clean(asked=True)
    for _ in range(steps):
        scene.workers.run()
    scene.store.close()
    store = opened(scene.disk, clock=scene.clock)
    assert bodies(store)[-1] == b"on" * 40
    assert put(store, b"new")[0].queue_offset == 61
    assert store.damages == []
    store.close()


def test_thousands_of_queues_follow_some_in_a_tick() -> None:
    clock = HandClock()
    disk = SimulatedDisk(clock=clock)
    store = opened(disk, clock=clock, reserved_hours=1)
    for number in range(300):
        put(store, b"a", queue_id=number)
    put(store, *(b"%04d" % number for number in range(60)))
    clock.now += 3_600_000
    store.tick()
    assert store.clean(asked=True)

    def empty() -> int:
        return sum(queue.min_offset == queue.max_offset for queue in store.queues)

    counts = [empty()]
    for _ in range(3):
        store.tick()
        counts.append(empty())
    assert 0 < counts[0] < counts[1] < counts[2] == counts[3] < 300
    store.close()
