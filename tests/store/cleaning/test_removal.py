import errno
from contextlib import suppress

import pytest

from orbitmq.errors import DiskFailed
from orbitmq.message.names import SCHEDULE_TOPIC
from orbitmq.randomness import SeededRandomness
from orbitmq.store.disk.disk import Usage
from orbitmq.store.log.append import PutStatus
from orbitmq.store.message_store import MessageStore
from orbitmq.store.settings import FlushMode, StoreSettings
from orbitmq.testing.clocks import InlineWorkers
from orbitmq.testing.disks import PowerLost, SimulatedDisk
from tests.store.logs import incoming
from tests.store.stores import SMALL, HandClock, bodies, opened, put


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


def test_queues_whose_records_are_gone_can_be_deleted() -> None:
    clock = HandClock()
    store = opened(SimulatedDisk(clock=clock), clock=clock, reserved_hours=1)
    put(store, b"a", queue_id=1)
    put(store, *(b"%04d" % number for number in range(60)))
    clock.now += 3_600_000
    store.tick()
    assert store.clean(asked=True)
    assert store.delete_expired_queues() == [("orders", 1)]
    assert store.delete_expired_queues() == []
    assert put(store, b"b", queue_id=1)[0].queue_offset == 0
    assert put(store, b"c")[0].queue_offset == 60
    assert store.delete_unused_topics(["bills"]) == ["orders"]
    assert store.queues.topics() == []
    store.close()


def test_a_topic_is_deleted_with_what_waits_for_the_disk() -> None:
    """Else its queue would come back with the old offsets, and the next message break it."""
    disk = SimulatedDisk()
    store = opened(disk, mode=FlushMode.SYNC)
    store.append([incoming(topic="bills")])
    put(store, b"a", b"b")
    store.delete_topic("orders")
    assert store.queues.topics() == ["bills"]
    assert store.undispatched_bytes == 0
    (result,) = put(store, b"c")
    assert result.queue_offset == 0
    store.when_durable(result.end, lambda _: None)
    store.flush_soon()
    assert bodies(store) == [b"c" * 40]
    assert store.failure is None
    store.close()
    store = opened(disk, mode=FlushMode.SYNC)
    assert bodies(store) == [b"c" * 40]
    store.close()


def test_a_topic_stays_if_what_waits_cannot_be_flushed() -> None:
    disk = SimulatedDisk()
    store = opened(disk, mode=FlushMode.SYNC)
    put(store, b"a")
    store.when_durable(store.log.end, lambda _: None)
    store.flush_soon()
    put(store, b"b")
    disk.fail("sync", "commitlog", errno.EIO)
    with pytest.raises(DiskFailed):
        store.delete_topic("orders")
    assert bodies(store) == [b"a" * 40]


def test_the_broker_and_java_keep_topics_of_their_own() -> None:
    disk = SimulatedDisk()
    store = opened(disk)
    for topic in ("orders", "bills", SCHEDULE_TOPIC, "rmq_sys_x", "%LMQ%a", "%RETRY%billing"):
        store.append([incoming(topic=topic)])
    store.tick()
    assert store.delete_unused_topics({"bills"}) == ["%RETRY%billing", "orders"]
    kept = ["%LMQ%a", SCHEDULE_TOPIC, "bills", "rmq_sys_x"]
    assert store.queues.topics() == kept == disk.list("/store/consumequeue")
    store.close()


def test_queues_that_java_kept_of_a_topic_go_with_it() -> None:
    disk = SimulatedDisk()
    store = opened(disk)
    for part in ("consumequeue_ext", "batchconsumequeue"):
        for topic in ("orders", "bills"):
            disk.make_directory(f"/store/{part}/{topic}/0")
            disk.open(f"/store/{part}/{topic}/0/{0:020d}", create=True)
    store.delete_topic("orders")
    for part in ("consumequeue_ext", "batchconsumequeue"):
        assert disk.list(f"/store/{part}") == ["bills"]
    store.close()


@pytest.mark.parametrize("topic", ["", ".", "..", "../commitlog", "a/b", "never there"])
def test_a_topic_that_cannot_be_is_none(topic: str) -> None:
    disk = SimulatedDisk()
    store = opened(disk)
    disk.make_directory("/store/batchconsumequeue")
    put(store, b"a")
    store.delete_topic(topic)
    assert bodies(store) == [b"a" * 40]
    assert disk.exists("/store/batchconsumequeue")
    assert disk.list("/store/commitlog") != []
    store.close()


def test_a_queue_that_cannot_be_removed_is_still_there() -> None:
    disk = SimulatedDisk()
    store = opened(disk)
    put(store, b"a")
    store.tick()
    disk.fail("rename", "consumequeue", errno.EIO)
    with pytest.raises(DiskFailed):
        store.delete_topic("orders")
    assert bodies(store) == [b"a" * 40]
    assert put(store, b"b")[0].queue_offset == 1
    store.delete_topic("orders")
    assert store.queues.topics() == []
    store.close()


def test_files_that_cannot_be_removed_are_no_queue_any_more() -> None:
    disk = SimulatedDisk()
    store = opened(disk)
    put(store, b"a")
    store.tick()
    disk.fail("remove", "consumequeue", errno.EIO)
    with pytest.raises(DiskFailed):
        store.delete_topic("orders")
    assert disk.list("/store/consumequeue/orders") == ["0.deleted"]
    assert put(store, b"b")[0].queue_offset == 0
    store.close()
    store = opened(disk)
    assert disk.list("/store/consumequeue/orders") == ["0"]
    assert bodies(store) == [b"b" * 40]
    store.close()


@pytest.mark.parametrize("calls", [*range(0, 24, 3), 200])
def test_a_power_loss_brings_back_all_of_a_deleted_queue_or_nothing(calls: int) -> None:
    """One that came back without its last file would have a hole, which nobody fills."""
    names = [b"%02d" % n for n in range(60)]
    for seed in range(8):
        clock = HandClock()
        disk = SimulatedDisk(SeededRandomness(seed), clock=clock)
        store = opened(disk, clock=clock, queue_file_entries=5)
        put(store, *names[:40])
        clock.now += 600_000
        store.tick()
        put(store, *names[40:])
        store.append([incoming(topic="bills")])
        store.close()
        store = opened(disk, clock=clock, queue_file_entries=5)  # which trusts the stop's syncs
        disk.cut_power(after=calls)
        with suppress(PowerLost):
            store.delete_topic("orders")
        disk.crash()
        store = opened(disk, clock=clock, queue_file_entries=5)
        assert store.damages == []
        found = bodies(store)  # the log's last records come back in any case, as in Java
        assert found == [name * 40 for name in names[len(names) - len(found) :]]
        store.close()


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
    assert len(found.views) == 3
    store.close()
