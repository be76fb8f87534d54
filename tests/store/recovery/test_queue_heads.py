"""A start restores the first files of queues when they were removed."""

from contextlib import suppress

import pytest

from orbitmq.store.message_store import MessageStore
from orbitmq.store.reader.inspect import inspect
from orbitmq.store.reader.reader import StoreReader
from orbitmq.testing.disks import PowerLost, SimulatedDisk
from tests.store.logs import NOW, incoming
from tests.store.recovery.java_checkpoints import written_by_java
from tests.store.stores import SMALL, HandClock, bodies, opened, put

NAMES = [b"%02d" % number for number in range(24)]
BODIES = [name * 40 for name in NAMES]
PER_FILE = SMALL["queue_file_entries"]
QUEUES = "/store/consumequeue"


def stored(disk: SimulatedDisk, clock: HandClock, end: str = "stop") -> None:
    """Leave a store, stopped in order or killed, with the same messages in two queues, by turns."""
    store = opened(disk, clock=clock)
    for name in NAMES:
        clock.now += 1_000
        put(store, name, queue_id=0)
        put(store, name, queue_id=1)
    store.close()
    if end == "kill":
        opened(disk, clock=clock)
        disk.kill()


def file_of(number: int, queue_id: int = 1) -> str:
    """Return the path of a file of a queue."""
    return f"{QUEUES}/orders/{queue_id}/{number * PER_FILE * 20:020d}"


def take_away(disk: SimulatedDisk, *paths: str) -> None:
    for path in paths:
        disk.remove(path)
        disk.sync_directory(path.rpartition("/")[0])


def damage_log(disk: SimulatedDisk, position: int, data: bytes) -> None:
    file = disk.open(f"/store/commitlog/{0:020d}")
    file.write([data], position)
    file.sync()


def assert_whole(store: MessageStore, disk: SimulatedDisk) -> None:
    assert bodies(store, queue_id=0) == bodies(store, queue_id=1) == BODIES
    assert disk.list("/store/consumequeue.made") == []
    assert inspect(StoreReader("/store", disk=disk)).damages == []


@pytest.mark.parametrize("end", ["stop", "kill"])
@pytest.mark.parametrize(
    "gone", [[0], [0, 1], [0, 1, 2, 3], [1], [0, 2], [3]], ids=lambda gone: f"files {gone}"
)
def test_a_queue_that_lacks_files_before_others_is_whole_after_a_start(
    gone: list[int], end: str, caplog: pytest.LogCaptureFixture
) -> None:
    disk, clock = SimulatedDisk(), HandClock()
    stored(disk, clock, end)
    before = {name: disk.open(file_of(name)).read(100, 0) for name in range(4)}
    take_away(disk, *map(file_of, gone))
    store = opened(disk, clock=clock)
    assert_whole(store, disk)
    assert {name: disk.open(file_of(name)).read(100, 0) for name in range(4)} == before
    put(store, b"on", queue_id=1)
    store.close()
    caplog.clear()
    assert bodies(opened(disk, clock=clock), queue_id=1) == [*BODIES, b"on" * 40]
    assert "restored their entries" not in caplog.text


def test_all_queues_without_their_first_files_are_made_whole_at_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    disk, clock = SimulatedDisk(), HandClock()
    stored(disk, clock)
    take_away(disk, file_of(0, 0), file_of(0, 1), file_of(1, 1))
    assert_whole(opened(disk, clock=clock), disk)
    assert "queue 0 of topic orders began at 5 but the log has messages from 0 on" in caplog.text
    assert "queue 1 of topic orders began at 10 but the log has messages from 0 on" in caplog.text


def test_a_light_queue_gets_its_first_file_again() -> None:
    disk = SimulatedDisk()
    store = opened(disk)
    light = b"INNER_MULTI_DISPATCH\x01%LMQ%a\x02INNER_MULTI_QUEUE_OFFSET\x01"
    for number in range(8):
        properties = light + b"%d\x02" % number
        store.append([incoming(b"%d" % number * 80, properties=properties)])
    store.close()
    take_away(disk, f"{QUEUES}/%LMQ%a/0/{0:020d}")
    store = opened(disk)
    queue = store.queues.queue("%LMQ%a", 0)
    assert queue is not None
    assert (queue.min_offset, queue.max_offset) == (0, 8)
    assert [entry.commit_log_offset for _, entry in queue.iterate(0)] == [
        entry.commit_log_offset for _, entry in store.queues.queues_of("orders")[0].iterate(0)
    ]


def test_files_that_went_with_the_log_do_not_come_again_nor_is_the_log_read_for_them(
    caplog: pytest.LogCaptureFixture,
) -> None:
    disk, clock = SimulatedDisk(), HandClock()
    stored(disk, clock)
    disk.remove(f"/store/commitlog/{0:020d}")
    store = opened(disk, clock=clock)
    assert "restored their entries" not in caplog.text
    queue = store.queues.queue("orders", 1)
    assert queue is not None
    assert 0 < queue.min_offset < queue.max_offset == len(NAMES)
    assert bodies(store, queue_id=1) == BODIES[queue.min_offset :]
    store.close()
    first = queue.min_offset // PER_FILE
    take_away(disk, *map(file_of, range(first + 1)))
    store = opened(disk, clock=clock)
    assert bodies(store, queue_id=1) == BODIES[queue.min_offset :]
    assert disk.list(f"{QUEUES}/orders/1")[0] == file_of(first).rpartition("/")[2]
    assert f"the log has messages from {queue.min_offset} on" in caplog.text


@pytest.mark.parametrize("last", [False, True], ids=["in the middle", "last of the file"])
def test_a_message_that_is_lost_has_the_next_one_in_its_place(last: bool) -> None:
    disk, clock = SimulatedDisk(), HandClock()
    stored(disk, clock)
    offset = 4 if last else 2
    store = opened(disk, clock=clock)
    entry = store.queues.queues_of("orders")[1].entry(offset)
    assert entry is not None
    store.close()
    damage_log(disk, entry.commit_log_offset, bytes(entry.size))
    take_away(disk, file_of(0))
    store = opened(disk, clock=clock)
    queue = store.queues.queues_of("orders")[1]
    assert queue.entry(offset) == queue.entry(offset + 1)
    pulled = [bytes(store.record(e.commit_log_offset).body) for _, e in queue.iterate(0)]  # type: ignore[union-attr]
    assert pulled == [*BODIES[:offset], BODIES[offset + 1], *BODIES[offset + 1 :]]
    where = [damage.where for damage in store.damages]
    assert where == ["commitlog", "consumequeue/orders/1"]


def test_a_record_with_a_much_too_high_offset_is_left_out_of_a_head() -> None:
    disk, clock = SimulatedDisk(), HandClock()
    stored(disk, clock)
    store = opened(disk, clock=clock)
    first = store.queues.queues_of("orders")[1].entry(0)
    assert first is not None
    store.close()
    damage_log(disk, first.commit_log_offset + 20, (1 << 40).to_bytes(8))  # its queue offset
    take_away(disk, file_of(0))
    store = opened(disk, clock=clock)
    queue = store.queues.queues_of("orders")[1]
    assert (queue.min_offset, queue.max_offset) == (1, len(NAMES))
    assert bodies(store, queue_id=1) == BODIES[1:]


def test_a_damaged_time_keeps_no_record_out_of_a_head() -> None:
    disk, clock = SimulatedDisk(), HandClock()
    stored(disk, clock)
    store = opened(disk, clock=clock)
    first = store.queues.queues_of("orders")[1].entry(0)
    assert first is not None
    store.close()
    damage_log(disk, first.commit_log_offset + 56, (1 << 50).to_bytes(8))  # when it was stored
    damage_log(disk, first.commit_log_offset + first.size, b"no record")
    take_away(disk, file_of(0))
    assert bodies(opened(disk, clock=clock), queue_id=1) == BODIES


@pytest.mark.parametrize("end", ["stop", "kill"])
@pytest.mark.parametrize("gone", [[1], [0, 2]], ids=lambda gone: f"files {gone}")
def test_files_after_a_missing_one_are_kept_without_a_list_of_queue_ends(
    gone: list[int], end: str
) -> None:
    disk, clock = SimulatedDisk(), HandClock()
    stored(disk, clock, end)
    take_away(disk, *map(file_of, gone), "/store/queue_ends.json")
    assert_whole(opened(disk, clock=clock), disk)


@pytest.mark.parametrize("end", ["stop", "kill"])
@pytest.mark.parametrize("gone", [[0, 1], [0, 1, 2], [2]], ids=lambda gone: f"files {gone}")
def test_a_queue_gets_its_head_again_if_all_else_of_it_went_with_the_log(
    gone: list[int], end: str
) -> None:
    disk, clock = SimulatedDisk(), HandClock()
    stored(disk, clock, end)
    take_away(disk, *map(file_of, gone))
    take_away(disk, *(f"/store/commitlog/{name}" for name in disk.list("/store/commitlog")[1:]))
    written_by_java(disk, log_ms=NOW)  # which cuts the log, and leaves old entries in queues
    store = opened(disk, clock=clock)
    whole = bodies(store, queue_id=1)
    assert whole == BODIES[: len(whole)]
    assert len(bodies(store, queue_id=0)) - len(whole) in (0, 1)
    put(store, b"on", queue_id=1)
    store.close()
    assert bodies(opened(disk, clock=clock), queue_id=1) == [*whole, b"on" * 40]


@pytest.mark.parametrize("calls", range(0, 60, 2))
def test_a_start_that_is_cut_short_leaves_the_next_one_all_it_needs(calls: int) -> None:
    disk, clock = SimulatedDisk(), HandClock()
    stored(disk, clock)
    take_away(disk, file_of(0), file_of(1))
    disk.cut_power(after=calls)
    with suppress(PowerLost):
        opened(disk, clock=clock)
    disk.crash()
    assert_whole(opened(disk, clock=clock), disk)
