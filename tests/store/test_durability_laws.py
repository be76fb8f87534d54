"""Laws of durability that power losses, refusals and cleanings once broke, each in a few lines."""

import errno

import pytest

from orbitmq.randomness import SeededRandomness
from orbitmq.store.disk.disk import Usage
from orbitmq.store.message_store import MessageStore
from orbitmq.store.reader.reader import StoreReader
from orbitmq.store.reader.verify import verify
from orbitmq.testing.disks import SimulatedDisk
from tests.store.logs import NOW, incoming
from tests.store.stores import HandClock, bodies, flush, opened, put


def test_a_file_in_which_nothing_was_written_has_its_length_after_a_stop() -> None:
    for seed in range(50):
        disk = SimulatedDisk(SeededRandomness(seed))
        store = opened(disk)
        disk.fail("write", "commitlog", errno.EIO)
        put(store, b"a")
        store.close()
        disk.crash()
        opened(disk).close()


def test_a_start_indexes_nothing_twice() -> None:
    disk = SimulatedDisk()
    store = opened(disk)
    store.append([incoming(properties=b"KEYS\x01k\x02")])
    disk.kill()
    store = opened(disk)
    for _ in range(3):
        store.close()
        store = opened(disk)
        assert store.index.query("orders", "k", 9, 0, NOW + 1) == [0]


class Gauge(SimulatedDisk):
    """A disk whose use is set by hand."""

    used = 10

    def usage(self, path: str) -> Usage:
        return Usage(100, self.used)


def cleaned(clock: HandClock) -> tuple[Gauge, MessageStore]:
    disk = Gauge(clock=clock)
    store = opened(disk, clock=clock)
    put(store, b"a", b"b", b"c", queue_id=1)
    put(store, *(b"%04d" % n for n in range(60)))
    flush(store)
    disk.used = 86
    assert store.clean()
    disk.used = 10
    return disk, store


def test_a_queue_keeps_its_offset_though_its_records_went_before_its_first_sync() -> None:
    disk, store = cleaned(HandClock())
    disk.sync_directory("/store/commitlog")
    disk.crash()
    store = opened(disk)
    assert put(store, b"d", queue_id=1)[0].queue_offset == 3


def test_records_that_a_power_loss_brings_back_have_their_queue_entries() -> None:
    disk = Gauge(clock=HandClock())
    store = opened(disk)
    put(store, *(b"%04d" % n for n in range(60)))
    flush(store)
    store.queues.write()
    store.queues.sync()
    disk.used = 86
    assert store.clean()
    disk.used = 10
    disk.sync_directory("/store/consumequeue/orders/0")
    disk.crash()
    store = opened(disk)
    store.close()
    assert not verify(StoreReader("/store", disk)).is_damaged


def test_what_was_refused_does_not_come_back() -> None:
    for seed in range(200):
        disk = SimulatedDisk(SeededRandomness(seed))
        store = opened(disk)
        put(store, b"a")
        flush(store)
        disk.fail("write", "commitlog", errno.EIO)
        put(store, b"r", b"s", b"t", b"u")
        disk.crash()
        assert bodies(opened(disk)) == [b"a" * 40], seed


@pytest.mark.parametrize("sealed", [False, True])
def test_a_record_without_the_end_of_its_properties_is_not_served(sealed: bool) -> None:
    for seed in range(300):
        disk = SimulatedDisk(SeededRandomness(seed))
        store = opened(disk, append_crc=sealed)
        text = b"TAGS\x01paid\x02note\x01" + b"x" * 700 + b"\x02"
        store.append([incoming(properties=text) for _ in range(4)])
        disk.crash()
        store = opened(disk, append_crc=sealed)
        queue = store.queues.queue("orders", 0)
        for _, entry in () if queue is None else queue.iterate(0):
            view = store.record(entry.commit_log_offset)
            assert view is not None
            assert b"\0" not in view.properties, seed


@pytest.mark.parametrize("how", ["stopped", "killed"])
@pytest.mark.parametrize("again", [1, 3])
def test_messages_of_a_topic_that_was_deleted_and_made_again_are_seen(how: str, again: int) -> None:
    disk = SimulatedDisk()
    store = opened(disk)
    put(store, *(b"%02d" % n for n in range(12)))
    flush(store)
    store.queues.delete_topic("orders")
    store.log.forget_queues("orders")
    names = [b"n%d" % n for n in range(again)]
    assert put(store, *names)[0].queue_offset == 0
    if how == "stopped":
        store.close()
        for name in disk.list("/store/consumequeue/orders/0"):
            disk.remove(f"/store/consumequeue/orders/0/{name}")
    else:
        disk.kill()
    store = opened(disk)
    assert bodies(store)[:again] == [name * 40 for name in names]


def test_they_are_seen_also_if_the_log_begins_in_the_middle_of_the_old_ones() -> None:
    disk = SimulatedDisk()
    clock = HandClock()
    store = opened(disk, clock=clock, reserved_hours=1)
    put(store, *(b"%02d" % n for n in range(45)))
    flush(store)
    clock.now += 3_700_000
    store.tick()
    store.queues.delete_topic("orders")
    store.log.forget_queues("orders")
    assert put(store, b"new")[0].queue_offset == 0
    flush(store)
    assert store.clean(asked=True)
    disk.kill()
    store = opened(disk)
    assert bodies(store)[:1] == [b"new" * 40]


def test_an_index_made_again_is_trusted_only_once_it_was_synced() -> None:
    for seed in range(60):
        clock = HandClock()
        disk = SimulatedDisk(SeededRandomness(seed), clock=clock)
        store = opened(disk, clock=clock, index_slots=7, index_entries=16)
        results = store.append([incoming(properties=b"KEYS\x01k%d\x02" % n) for n in range(60)])
        flush(store)
        for _ in range(3):
            clock.now += 61_000
            store.tick()
        store.close()
        for name in disk.list("/store/index"):
            disk.remove(f"/store/index/{name}")
        disk.sync_directory("/store/index")
        store = opened(disk, clock=clock, index_slots=7, index_entries=16)
        disk.crash()
        store = opened(disk, clock=clock, index_slots=7, index_entries=16)
        for number, result in enumerate(results):
            found = store.index.query("orders", f"k{number}", 99, 0, 1 << 60)
            assert result.offsets[0] in found, (seed, number)


def test_an_index_file_that_a_crash_left_short_is_gone_for_good() -> None:
    """Its name came back after a stop in order, which vouches for what it finds."""
    for seed in range(150):
        disk = SimulatedDisk(SeededRandomness(seed))
        store = opened(disk)
        put(store, b"a")
        disk.crash()
        store = opened(disk)
        store.close()
        disk.crash()
        store = opened(disk)
        assert store.damages == []
        store.close()
