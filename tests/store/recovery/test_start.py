"""Starts: what they read of the log, and that what they serve stays, whatever comes next."""

import errno
import os
from contextlib import suppress

import pytest

from orbitmq.errors import DiskFailed
from orbitmq.message import properties
from orbitmq.randomness import SeededRandomness
from orbitmq.store.checkpoint.checkpoint import Checkpoint
from orbitmq.store.checkpoint.queue_ends import QueueEnds
from orbitmq.store.index.key_index import KeyKind
from orbitmq.store.log.append import Incoming
from orbitmq.store.message_store import MessageStore
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


def in_two_queues(disk: SimulatedDisk, clock: HandClock) -> MessageStore:
    """Return an open store with twelve messages in each of two queues, the second one's first."""
    store = opened(disk, clock=clock)
    for queue_id in (1, 0):
        put(store, *NAMES[:12], queue_id=queue_id)
    return store


def take_away(disk: SimulatedDisk, queue: str, part: str) -> None:
    """Remove a queue's directory, or its last file."""
    path = f"/store/consumequeue/{queue}"
    names = disk.list(path)
    for name in names if part == "directory" else names[-1:]:
        disk.remove(f"{path}/{name}")
    if part == "directory":
        disk.remove_directory(path)


@pytest.mark.parametrize("part", ["directory", "last file"])
@pytest.mark.parametrize("end", ["stop", "kill", "crash"])
def test_what_one_queue_lacks_comes_back_from_the_log(
    part: str, end: str, caplog: pytest.LogCaptureFixture
) -> None:
    disk, clock = SimulatedDisk(), HandClock()
    store = in_two_queues(disk, clock)
    if end == "stop":
        store.close()
    else:
        tick_until_checkpointed(store, clock)
        clock.now += 100_000
        put(store, b"on", queue_id=0)  # so that the checkpoint vouches for all of the other queue
        tick_until_checkpointed(store, clock)
        disk.kill() if end == "kill" else disk.crash()
    take_away(disk, "orders/1", part)
    store = opened(disk, clock=clock)
    assert store.damages == []
    assert bodies(store, queue_id=1) == BODIES[:12]
    assert bodies(store)[:12] == BODIES[:12]
    assert put(store, b"next", queue_id=1)[0].queue_offset == 12
    state = "is missing" if part == "directory" else "ends at 10"
    assert f"queue 1 of topic orders {state} (listed end 12)" in caplog.text
    store.close()
    caplog.clear()
    opened(disk, clock=clock).close()
    assert "listed end" not in caplog.text


def test_a_light_queue_that_is_missing_comes_back_too() -> None:
    disk = SimulatedDisk()
    store = opened(disk)
    for number in range(7):
        text = b"INNER_MULTI_DISPATCH\x01%%LMQ%%a\x02INNER_MULTI_QUEUE_OFFSET\x01%d\x02" % number
        store.append([incoming(b"light", properties=text), incoming(b"other")])
    put(store, b"last")
    before = store.queues.queue("%LMQ%a", 0)
    assert before is not None
    entries = [*before.iterate(0)]
    store.close()
    take_away(disk, "%LMQ%a/0", "directory")
    store = opened(disk)
    queue = store.queues.queue("%LMQ%a", 0)
    assert queue is not None
    assert [*queue.iterate(0)] == entries
    assert len(bodies(store)) == 15
    store.close()


def test_of_many_queues_that_lack_entries_some_are_named(caplog: pytest.LogCaptureFixture) -> None:
    disk = SimulatedDisk()
    store = opened(disk)
    for queue_id in range(14):
        put(store, b"a", queue_id=queue_id)
    store.close()
    for queue_id in range(13):
        take_away(disk, f"orders/{queue_id}", "directory")
    store = opened(disk)
    assert [len(bodies(store, queue_id=queue_id)) for queue_id in range(14)] == [1] * 14
    (told,) = caplog.messages
    assert told.count("is missing") == 10
    assert "and 3 other queues lack entries" in told
    store.close()


def test_a_deleted_topic_does_not_come_back_when_another_queue_does() -> None:
    disk = SimulatedDisk()
    store = opened(disk)
    store.append([incoming(topic="bills"), incoming(topic="bills"), incoming(), incoming()])
    store.delete_topic("bills")
    put(store, b"on", queue_id=1)
    store.close()
    take_away(disk, "orders/0", "directory")
    store = opened(disk)
    assert store.queues.ends() == {"orders": {0: 2, 1: 1}}
    store.close()


@pytest.mark.parametrize("calls", range(20))
def test_a_topic_whose_deletion_was_cut_short_is_there_or_not_as_its_files_are(calls: int) -> None:
    """Its files decide, not a list that still has it. A start reads none of its records."""
    disk, clock = SimulatedDisk(SeededRandomness(calls)), HandClock()
    store = opened(disk, clock=clock, index_entries=500)
    store.append([incoming(topic="bills")] * 3)
    for name in NAMES:
        clock.now += 1_000
        put(store, name)
    tick_until_checkpointed(store, clock)
    clock.now += 100_000
    put(store, b"on")
    tick_until_checkpointed(store, clock)
    disk.cut_power(after=calls)
    with suppress(PowerLost):
        store.delete_topic("bills")
    disk.crash()
    is_there = disk.list("/store/consumequeue/bills/0") != []
    store = opened(disk, clock=clock, index_entries=500)
    assert store.queues.topics() == (["bills", "orders"] if is_there else ["orders"])
    store.close()


def test_what_java_did_with_a_store_is_not_undone() -> None:
    disk, clock = SimulatedDisk(), HandClock()
    store = in_two_queues(disk, clock)
    store.close()
    take_away(disk, "orders/1", "directory")  # a broker that deletes a topic does no less
    java = Checkpoint(disk, "/store/checkpoint")
    java.write(java.values._replace(log_ms=clock.now + 1, own=None))
    java.close()
    store = opened(disk, clock=clock)
    assert store.queues.ends() == {"orders": {0: 12}}
    store.close()


def test_a_list_that_another_program_left_behind_does_no_harm() -> None:
    """A topic that was deleted and made again has fewer messages than are listed."""
    disk = SimulatedDisk()
    store = opened(disk)
    put(store, *NAMES[:12])
    store.delete_topic("orders")
    put(store, *NAMES[12:15])
    put(store, b"on", queue_id=1)
    store.close()
    QueueEnds(disk, "/store/queue_ends.json").write({"orders": {0: 12, 1: 1, 7: 5}, "gone": {0: 1}})
    store = opened(disk)
    assert bodies(store) == BODIES[12:15]
    assert store.queues.ends() == {"orders": {0: 3, 1: 1}}
    assert store.damages == []
    store.close()
    assert bytes_read(disk) == SEGMENT  # the list is right again, and nothing is looked for


def test_a_queue_whose_files_are_of_records_that_went_begins_where_the_log_does() -> None:
    """Log files expired, and the last files of the queue were removed by hand."""
    disk, clock = SimulatedDisk(), HandClock()
    store = filled(disk, clock)
    put(store, b"other", queue_id=1)
    store.close()
    queue_files = disk.list("/store/consumequeue/orders/0")
    log_files = disk.list("/store/commitlog")
    for name in log_files[:-1]:
        disk.remove(f"/store/commitlog/{name}")
    for name in queue_files[1:]:
        disk.remove(f"/store/consumequeue/orders/0/{name}")
    store = opened(disk, clock=clock)
    found = bodies(store)
    assert found == BODIES[-len(found) :]
    assert 0 < len(found) < 60
    assert store.damages == []
    assert put(store, b"on")[0].queue_offset == 60
    store.close()


def tick_until_checkpointed(store: MessageStore, clock: HandClock) -> None:
    """Sync everything, and write that to the checkpoint."""
    clock.now += 100_000
    store.tick()
    clock.now += 100_000
    store.tick()


def bodies_from(store: MessageStore, offset: int) -> list[bytes]:
    queue = store.queues.queue("orders", 0)
    assert queue is not None
    views = [store.record(entry.commit_log_offset) for _, entry in queue.iterate(offset)]
    return [bytes(view.body) for view in views if view]


def test_messages_after_a_lost_one_are_in_the_rebuilt_queue() -> None:
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
