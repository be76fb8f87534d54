"""Starts: what they read of the log, and that what they serve stays, whatever comes next."""

import errno
import os

import pytest

from orbitmq.errors import DiskFailed
from orbitmq.message import properties
from orbitmq.randomness import SeededRandomness
from orbitmq.store.key_index import KeyKind
from orbitmq.store.message_store import MessageStore
from orbitmq.store.put import Incoming
from orbitmq.store.settings import FlushMode, StoreSettings
from orbitmq.testing.clocks import InlineWorkers
from orbitmq.testing.disks import PowerLost, SimulatedDisk
from tests.store.logs import NOW, incoming
from tests.store.stores import SMALL, HandClock, bodies, opened, put

NAMES = [b"%02d" % number for number in range(60)]
BODIES = [name * 40 for name in NAMES]
SEGMENT = SMALL["segment_bytes"]
SEEDS = 1000 if os.environ.get("ORBITMQ_SOAK") == "1" else 60


def filled(
    disk: SimulatedDisk, clock: HandClock, mode: FlushMode = FlushMode.ASYNC
) -> MessageStore:
    """Return an open store with messages in several files, one a second."""
    store = opened(disk, mode=mode, clock=clock)
    for name in NAMES:
        clock.now += 1_000
        put(store, name)
    return store


def bytes_read(disk: SimulatedDisk, **settings: int) -> int:
    """Start a store and stop it; return how much of the log the start had to look at."""
    told: list[tuple[int, int]] = []
    store = MessageStore(
        "/store",
        StoreSettings(**{**SMALL, **settings}),  # type: ignore[arg-type]
        disk=disk,
        clock=HandClock(),
        workers=InlineWorkers(),
    )
    store.open(lambda *step: told.append(step))
    store.close()
    assert told[-1][0] == told[-1][1]
    return told[-1][1]


def test_after_an_orderly_stop_the_last_file_is_read_however_few_keys_there_are() -> None:
    disk = SimulatedDisk()
    store = opened(disk)
    store.append([incoming(properties=b"KEYS\x01o-1\x02")])
    for _ in NAMES:
        store.append([incoming(bytes(80), properties=b"")])
    assert store.log.end > 2 * SEGMENT
    store.close()
    assert bytes_read(disk) == SEGMENT
    store = opened(disk)
    assert store.index.query("orders", "o-1", 8, 0, NOW) == [0]
    (result,) = store.append([incoming(properties=b"KEYS\x01o-2\x02")])
    assert store.index.query("orders", "o-2", 8, 0, NOW) == list(result.offsets)
    store.close()


def test_after_a_crash_the_part_is_read_that_the_checkpoint_does_not_vouch_for() -> None:
    """Although the index has never filled a file, and Java would have to read everything."""
    disk, clock = SimulatedDisk(), HandClock()
    store = opened(disk, clock=clock, index_entries=500)
    for name in NAMES:
        clock.now += 1_000
        put(store, name)
    tick_until_checkpointed(store, clock)
    (last,) = put(store, b"last")
    assert store.log.end > 2 * SEGMENT
    disk.crash()
    assert bytes_read(disk, index_entries=500) == 2 * SEGMENT  # the last file, and one made ahead
    store = opened(disk, index_entries=500)
    found = store.index.query("orders", "paid", 99, 0, clock.now, kind=KeyKind.TAGS)
    assert len(found) == len(NAMES)
    assert last.offsets[0] not in found  # it was not on the disk
    store.close()


def test_what_was_stored_while_the_index_was_off_is_indexed_when_it_is_on_again() -> None:
    disk = SimulatedDisk()
    opened_and_put(disk, b"a")
    opened_and_put(disk, b"b", index_enabled=False)
    store = opened(disk)
    assert len(store.index.query("orders", "paid", 8, 0, NOW, kind=KeyKind.TAGS)) == 2
    store.close()


def opened_and_put(disk: SimulatedDisk, name: bytes, *, index_enabled: bool = True) -> None:
    store = opened(disk, index_enabled=index_enabled)
    put(store, name)
    store.close()


def test_what_a_start_serves_after_a_failed_sync_of_the_log_survives_a_loss_of_power() -> None:
    disk, clock = SimulatedDisk(), HandClock()
    store = filled(disk, clock)
    disk.fail("sync", "commitlog", errno.EIO)
    with pytest.raises(DiskFailed):
        store.close()
    store = opened(disk, clock=clock)
    assert bodies(store) == BODIES
    disk.crash()
    assert bodies(opened(disk, clock=clock)) == BODIES


def test_queue_entries_a_start_finds_after_a_failed_sync_survive_a_loss_of_power() -> None:
    disk, clock = SimulatedDisk(), HandClock()
    store = filled(disk, clock)
    disk.fail("sync", "consumequeue", errno.EIO)
    with pytest.raises(DiskFailed):
        store.close()
    store = opened(disk, clock=clock)
    assert bodies(store) == BODIES
    clock.now += 100_000
    put(store, b"on")
    tick_until_checkpointed(store, clock)
    disk.crash()
    assert bodies(opened(disk, clock=clock)) == [*BODIES, b"on" * 40]


def tick_until_checkpointed(store: MessageStore, clock: HandClock) -> None:
    """Let everything be synced, and the checkpoint tell so."""
    clock.now += 100_000
    store.tick()
    clock.now += 100_000
    store.tick()


def test_messages_behind_a_lost_one_are_there_when_their_queue_is_made_again() -> None:
    disk, clock = SimulatedDisk(), HandClock()
    store = filled(disk, clock)
    queue = store.queues.queue("orders", 0)
    assert queue is not None
    lost = queue.entry(7)
    assert lost is not None
    store.close()
    disk.open(f"/store/commitlog/{0:020d}").write([b"?"], lost.commit_log_offset + 100)
    for name in disk.list("/store/consumequeue/orders/0"):
        disk.remove(f"/store/consumequeue/orders/0/{name}")
    store = opened(disk, clock=clock)
    queue = store.queues.queue("orders", 0)
    assert queue is not None
    assert queue.max_offset == len(NAMES)
    assert queue.entry(7) == queue.entry(8)
    assert bodies_from(store, 8) == BODIES[8:]
    assert [damage.where for damage in store.damages] == ["commitlog", "consumequeue/orders/0"]
    store.close()


def test_after_a_crash_a_damaged_record_that_was_on_the_disk_costs_itself_alone() -> None:
    disk, clock = SimulatedDisk(), HandClock()
    store = filled(disk, clock)
    tick_until_checkpointed(store, clock)
    queue = store.queues.queue("orders", 0)
    assert queue is not None
    lost = queue.entry(7)
    assert lost is not None
    disk.crash()
    disk.open(f"/store/commitlog/{0:020d}").write([b"?"], lost.commit_log_offset + 100)
    store = opened(disk, clock=clock)
    assert store.log.end > lost.commit_log_offset + SEGMENT
    assert bodies_from(store, 8) == BODIES[8:]
    store.close()


def bodies_from(store: MessageStore, offset: int) -> list[bytes]:
    queue = store.queues.queue("orders", 0)
    assert queue is not None
    views = [store.record(entry.commit_log_offset) for _, entry in queue.iterate(offset)]
    return [bytes(view.body) for view in views if view]


@pytest.mark.parametrize("seed", range(SEEDS))
def test_whatever_a_loss_of_power_leaves_queues_and_index_are_those_of_the_log(seed: int) -> None:
    """Power lost again and again, also inside a start; syncs and checkpoints by the clock."""
    chance = SeededRandomness(seed)
    disk, clock = SimulatedDisk(chance), HandClock()
    mode = FlushMode.SYNC if chance.below(2) else FlushMode.ASYNC
    count = 0
    for _ in range(6):
        if chance.below(2):
            disk.cut_power(after=chance.below(150))
        try:
            store = opened(disk, mode=mode, clock=clock, index_entries=40)
            assert_agreement(store)
            for _ in range(chance.below(12)):
                store.append([keyed(count + number) for number in range(chance.below(6) + 1)])
                count += 6
                clock.now += chance.below(40_000)
                store.tick()
            if chance.below(4) == 0:
                store.close()
        except PowerLost:
            pass
        disk.crash()
    store = opened(disk, mode=mode, clock=clock, index_entries=40)
    assert_agreement(store)
    store.close()


def keyed(number: int) -> Incoming:
    """Return a message; every third has a key."""
    text = b"KEYS\x01k%d\x02" % number if number % 3 == 0 else b""
    return incoming(b"%d" % number * 20, properties=text, queue_id=number % 2)


def assert_agreement(store: MessageStore) -> None:
    """Compare queues and index with a walk over all of the log."""
    keys: dict[str, list[int]] = {}
    queued: dict[int, list[int]] = {0: [], 1: []}
    position = store.log.first_offset
    while position < store.log.end:
        view = store.record(position)
        if view is None:
            position = store.log.next_segment_offset(position)
            continue
        queued[view.queue_id].append(position)
        if key := properties.decode(view.properties).get("KEYS"):
            keys.setdefault(key, []).append(position)
        position += view.size
    for queue_id, places in queued.items():
        queue = store.queues.queue("orders", queue_id)
        entries = [] if queue is None else [entry for _, entry in queue.iterate(0)]
        assert [entry.commit_log_offset for entry in entries] == places
    for key, places in keys.items():
        # The last record of a full file is indexed once more, for keys that did not fit into it.
        found = dict.fromkeys(store.index.query("orders", key, 99, 0, (1 << 63) - 1))
        assert list(found) == places[::-1]
