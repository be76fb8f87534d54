import errno
from contextlib import suppress

import pytest

from orbitmq.errors import DiskFailed
from orbitmq.message.names import SCHEDULE_TOPIC
from orbitmq.randomness import SeededRandomness
from orbitmq.store.settings import FlushMode
from orbitmq.testing.disks import PowerLost, SimulatedDisk
from tests.store.logs import incoming
from tests.store.stores import HandClock, bodies, opened, put


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


def test_extensions_that_java_kept_of_a_topic_go_with_it() -> None:
    disk = SimulatedDisk()
    store = opened(disk)
    for topic in ("orders", "bills"):
        disk.make_directory(f"/store/consumequeue_ext/{topic}/0")
        disk.open(f"/store/consumequeue_ext/{topic}/0/{0:020d}", create=True)
    store.delete_topic("orders")
    assert disk.list("/store/consumequeue_ext") == ["bills"]
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
