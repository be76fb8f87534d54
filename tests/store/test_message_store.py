"""The store as a whole: what is acknowledged is there, whatever happens in between."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from orbitmq.errors import DiskFailed, StoreDamaged, StoreLocked
from orbitmq.message import flags
from orbitmq.randomness import SeededRandomness
from orbitmq.store.checkpoint.checkpoint import read_checkpoint
from orbitmq.store.disk.disk import RealDisk, Usage
from orbitmq.store.dispatch import Dispatched
from orbitmq.store.log.append import PutStatus
from orbitmq.store.message_store import MessageStore
from orbitmq.store.queues.consume_queue import Boundary
from orbitmq.store.reader.inspect import inspect
from orbitmq.store.reader.reader import StoreReader
from orbitmq.store.settings import FlushMode, StoreSettings
from orbitmq.testing.clocks import InlineWorkers, LateWorkers, VirtualClock, run_virtual
from orbitmq.testing.disks import PowerLost, SimulatedDisk
from tests.architecture.sources import ROOT
from tests.store.logs import NOW, incoming
from tests.store.stores import SMALL, HandClock, bodies, opened, put

MANY_QUEUES = 10_000 if os.environ.get("ORBITMQ_SOAK") == "1" else 1_500
SEEDS = 1000 if os.environ.get("ORBITMQ_SOAK") == "1" else 100


def test_messages_come_back_by_queue_offset_by_offset_and_by_time(tmp_path: Path) -> None:
    store = opened(RealDisk(), str(tmp_path))
    results = put(store, *(b"%02d" % i for i in range(50)))
    assert bodies(store) == [b"%02d" % i * 40 for i in range(50)]
    for result in results:
        view = store.record(result.offsets[0])
        assert view is not None
        assert view.queue_offset == result.queue_offset
    assert store.record(1) is None
    assert store.lookup.offset_by_time("orders", 0, NOW) == 0
    assert store.lookup.offset_by_time("orders", 0, NOW + 1) == 50
    assert store.lookup.offset_by_time("orders", 0, NOW + 1, Boundary.UPPER) == 49
    assert store.lookup.offset_by_time("nobody", 0, NOW) == 0
    store.close()


@pytest.mark.parametrize("mode", FlushMode)
def test_a_record_is_filed_until_its_topic_is_deleted(tmp_path: Path, mode: FlushMode) -> None:
    store = opened(RealDisk(), str(tmp_path), mode)
    (result,) = store.append([incoming(b"not in its queue yet, if that waits for the disk")])
    record = store.record(result.offsets[0])
    assert record is not None
    assert store.is_filed(record)
    store.flush_soon()
    assert store.is_filed(record)
    store.delete_topic("orders")
    assert not store.is_filed(record)
    store.close()


def test_a_store_goes_on_after_an_orderly_stop(tmp_path: Path) -> None:
    for round_number in range(3):
        store = opened(RealDisk(), str(tmp_path))
        assert (tmp_path / "abort").exists()
        put(store, *(b"%d%d" % (round_number, i) for i in range(7)))
        store.close()
        assert not (tmp_path / "abort").exists()
    store = opened(RealDisk(), str(tmp_path))
    assert bodies(store) == [b"%d%d" % (r, i) * 40 for r in range(3) for i in range(7)]
    assert store.damages == []
    store.close()


def test_a_stop_waits_for_the_checkpoint_in_flight() -> None:
    """Written after the stop, it would be older than what the stop wrote."""
    disk = SimulatedDisk()

    async def stop_while_a_checkpoint_is_written(_clock: VirtualClock) -> int:
        clock = HandClock()
        store = MessageStore(
            "/store",
            StoreSettings(**SMALL),  # type: ignore[arg-type]
            disk=disk,
            clock=clock,
            workers=LateWorkers(lambda: 5.0),
        )
        store.open()
        clock.now += 2_000
        store.tick()
        put(store, b"a", b"b")
        store.close()
        return store.log.end

    end = run_virtual(stop_while_a_checkpoint_is_written)
    own = read_checkpoint(disk, "/store/checkpoint").own
    assert own is not None
    assert own.log_end == end > 0


@pytest.mark.parametrize("mode", FlushMode)
def test_nobody_sees_a_message_before_it_is_confirmed(mode: FlushMode) -> None:
    store = opened(SimulatedDisk(), "/store", mode)
    confirmed = 0
    store.confirmed_end = lambda: confirmed
    arrived: list[Dispatched] = []
    store.on_arrival = arrived.extend
    results = put(store, b"a", b"b", b"c")
    store.tick()
    assert bodies(store) == []
    assert store.undispatched_bytes == store.log.end
    confirmed = results[1].offsets[0] + 1
    store.dispatch_confirmed()
    assert [one.commit_log_offset for one in arrived] == [one.offsets[0] for one in results[:2]]
    confirmed = store.log.end
    store.tick()
    assert len(bodies(store)) == 3
    confirmed = 0
    put(store, b"d")
    store.close()
    assert len(bodies(opened(store._disk, "/store", mode))) == 4


def test_the_owner_of_a_store_may_refuse_messages_and_its_reason_is_told() -> None:
    store = opened(SimulatedDisk(), "/store")
    store.why_refused = lambda: "another is the master"
    (refused,) = put(store, b"a")
    assert (refused.status, refused.remark) == (
        PutStatus.SERVICE_NOT_AVAILABLE,
        "another is the master",
    )
    store.why_refused = lambda: ""
    assert put(store, b"a")[0].status is PutStatus.PUT_OK


def test_a_second_process_is_kept_out(tmp_path: Path) -> None:
    disk = SimulatedDisk()
    store = opened(disk)
    with pytest.raises(StoreLocked):
        opened(disk)
    store.close()
    opened(disk).close()


def test_listeners_hear_of_what_consumers_can_see() -> None:
    store = opened(SimulatedDisk())
    heard: list[Dispatched] = []
    store.on_arrival = heard.extend
    store.append([incoming(), incoming(sys_flag=flags.TRANSACTION_PREPARED), incoming()])
    assert [entry.queue_offset for entry in heard] == [0, 1]
    store.close()


def test_in_sync_mode_nobody_sees_a_message_before_it_is_on_the_disk() -> None:
    disk = SimulatedDisk()
    store = opened(disk, mode=FlushMode.SYNC)
    heard: list[Dispatched] = []
    store.on_arrival = heard.extend
    (result,) = put(store, b"a")
    assert heard == []
    told: list[bool] = []
    store.when_durable(result.end, told.append)
    store.flush_soon()
    assert (told, len(heard), store.flushed) == ([True], 1, result.end)
    store.close()


@pytest.mark.parametrize("mode", FlushMode)
@pytest.mark.parametrize("missing", ["consumequeue", "checkpoint", "lock"])
def test_what_is_missing_is_made_again(tmp_path: Path, mode: FlushMode, missing: str) -> None:
    store = opened(RealDisk(), str(tmp_path), mode)
    put(store, *(b"%02d" % i for i in range(30)))
    put(store, *(b"%02d" % i for i in range(30)), queue_id=1)
    store.close()
    remove(tmp_path / missing)
    store = opened(RealDisk(), str(tmp_path), mode)
    for queue_id in (0, 1):
        assert bodies(store, queue_id=queue_id) == [b"%02d" % i * 40 for i in range(30)]
    put(store, b"on")
    store.close()


def remove(path: Path) -> None:
    if path.is_dir():
        for inner in path.iterdir():
            remove(inner)
        path.rmdir()
    else:
        path.unlink()


def test_entries_that_never_reached_the_queues_are_added_by_the_next_start(tmp_path: Path) -> None:
    """Java loses the first of them: the one that begins exactly where the last known one ends."""
    store = opened(RealDisk(), str(tmp_path))
    put(store, *(b"%02d" % i for i in range(12)))
    store.close()
    last = max((tmp_path / "consumequeue/orders/0").iterdir())
    last.write_bytes(bytes(100))
    store = opened(RealDisk(), str(tmp_path))
    assert bodies(store) == [b"%02d" % i * 40 for i in range(12)]
    store.close()


def test_a_damaged_record_behind_an_orderly_stop_costs_itself_alone(tmp_path: Path) -> None:
    store = opened(RealDisk(), str(tmp_path))
    results = put(store, *(b"%02d" % i for i in range(12)))
    store.close()
    segment = tmp_path / "commitlog" / f"{0:020d}"
    content = bytearray(segment.read_bytes())
    content[results[3].offsets[0] + 100] ^= 1
    segment.write_bytes(content)
    store = opened(RealDisk(), str(tmp_path))
    (damage,) = store.damages
    assert damage.position == results[3].offsets[0]
    queue = store.queues.queue("orders", 0)
    assert queue is not None
    assert queue.max_offset == 12
    (after,) = put(store, b"on")
    assert after.queue_offset == 12
    store.close()


def test_a_store_with_another_file_size_is_refused(tmp_path: Path) -> None:
    store = opened(RealDisk(), str(tmp_path))
    put(store, b"a")
    store.close()
    with pytest.raises(StoreDamaged, match="has 4096 bytes, not 8192"):
        opened(RealDisk(), str(tmp_path), segment_bytes=8192)
    opened(RealDisk(), str(tmp_path)).close()  # the lock was given back


def test_a_disk_that_fails_to_sync_ends_all_writing_and_keeps_what_was_there() -> None:
    disk = SimulatedDisk()
    store = opened(disk, mode=FlushMode.SYNC)
    (first,) = put(store, b"a")
    store.when_durable(first.end, lambda _: None)
    store.flush_soon()
    disk.fail("sync", "commitlog", errno.EIO)
    (second,) = put(store, b"b")
    told: list[bool] = []
    store.when_durable(second.end, told.append)
    store.flush_soon()
    assert told == [False]
    assert store.failure is not None
    (third,) = put(store, b"c")
    assert third.status is PutStatus.SERVICE_NOT_AVAILABLE
    assert "Input/output error" in third.remark
    assert bodies(store) == [b"a" * 40]


def test_many_queues_work_in_a_process_that_may_open_few_files(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.store.many_queues", str(tmp_path), str(MANY_QUEUES)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (0, f"{4 * MANY_QUEUES}\n"), ended.stderr
    assert "too many open files" in ended.stderr


@pytest.mark.parametrize("place", ["consumequeue", "index", "commitlog", "queue_ends"])
def test_a_file_that_cannot_be_opened_since_too_many_are_stops_nobody(place: str) -> None:
    disk, clock = SimulatedDisk(), HandClock()
    store = opened(disk, clock=clock)
    for operation in ("open", "sync_directory"):
        disk.fail(operation, place, errno.EMFILE)
    for number in range(30):
        assert put(store, b"%02d" % number)[0].status is PutStatus.PUT_OK
        clock.now += 61_000
        store.tick()
    assert store.failure is None
    store.close()
    store = opened(disk, clock=clock)
    assert bodies(store) == [b"%02d" % number * 40 for number in range(30)]
    store.close()


@pytest.mark.parametrize("crashed", [False, True])
def test_a_log_may_have_a_disk_of_its_own(crashed: bool) -> None:
    disk = SimulatedDisk()
    names = [b"%02d" % number for number in range(30)]
    store = opened(disk, commit_log_path="/fast/log/")
    put(store, *names)
    if crashed:
        disk.kill()
    else:
        store.close()
    assert disk.list("/fast/log")[0] == f"{0:020d}"
    assert not disk.exists("/store/commitlog")
    reader = StoreReader("/store", disk, commit_log="/fast/log")
    assert len(list(reader.records())) == 30
    assert inspect(reader).disk["commitlog"].files == len(disk.list("/fast/log"))
    store = opened(disk, commit_log_path="/fast/log")
    assert bodies(store) == [name * 40 for name in names]
    store.close()
    with pytest.raises(StoreDamaged, match="/store/commitlog has the log up to byte 0"):
        opened(disk)


def test_the_fuller_disk_counts() -> None:
    class TwoDisks(SimulatedDisk):
        def usage(self, path: str) -> Usage:
            return Usage(100, 95 if path.startswith("/fast") else 10)

    store = opened(TwoDisks(), commit_log_path="/fast/log")
    store.clean()
    assert store.disk_used_ratio == 0.95
    assert put(store, b"a")[0].remark == "the disk is full"
    store.close()


def test_a_store_of_javas_sizes_takes_little_of_the_disk(tmp_path: Path) -> None:
    store = MessageStore(str(tmp_path), clock=HandClock(), workers=InlineWorkers())
    store.open()
    store.append([incoming(properties=b"KEYS\x01k\x02")])
    store.close()
    files = [path.stat() for path in tmp_path.rglob("*") if path.is_file()]
    assert sum(file.st_size for file in files) > 1 << 30
    assert sum(file.st_blocks * 512 for file in files) < 80 << 20


def test_a_full_disk_refuses_and_serves_on() -> None:
    disk = SimulatedDisk(capacity=40_000)
    store = opened(disk, index_enabled=False)
    statuses = []
    for _ in range(60):
        statuses.append(put(store, b"x" * 20)[0].status)
        store.tick()
    assert PutStatus.CREATE_MAPPED_FILE_FAILED in statuses
    stored = statuses.count(PutStatus.PUT_OK)
    assert len(bodies(store)) == stored > 10
    store.close()


@pytest.mark.parametrize("seed", range(SEEDS))
def test_after_a_power_loss_all_that_was_acknowledged_is_there(seed: int) -> None:
    """SYNC_FLUSH, power lost at any moment, any legal outcome of the disk, several times over."""
    chance = SeededRandomness(seed)
    disk = SimulatedDisk(chance)
    acknowledged: dict[int, list[bytes]] = {0: [], 1: []}
    count = 0
    for _ in range(4):
        store = opened(disk, mode=FlushMode.SYNC)
        for queue_id, known in acknowledged.items():
            found = bodies(store, queue_id=queue_id)
            assert found[: len(known)] == known
            known[:] = found  # what survived by chance is there for good
        for _ in range(chance.below(8) + 1):
            queue_id = chance.below(2)
            names = [b"%04d" % (count + i) for i in range(chance.below(5) + 1)]
            count += len(names)
            results = put(store, *names, queue_id=queue_id)
            told: list[bool] = []
            store.when_durable(results[-1].end, told.append)
            if chance.below(4):
                store.flush_soon()
            if chance.below(3) == 0:
                store.tick()
            if told == [True]:
                acknowledged[queue_id] += [name * 40 for name in names]
            else:
                break  # the sender doesn't know; nothing may follow it in this test's account
        disk.crash()
    store = opened(disk, mode=FlushMode.SYNC)
    for queue_id, known in acknowledged.items():
        assert bodies(store, queue_id=queue_id)[: len(known)] == known
    store.close()


@pytest.mark.parametrize("seed", range(SEEDS))
def test_after_a_power_loss_an_async_store_has_no_gap_and_recovers_the_same_again(
    seed: int,
) -> None:
    chance = SeededRandomness(seed)
    disk = SimulatedDisk(chance)
    store = opened(disk)
    sent = [b"%04d" % i for i in range(chance.below(60) + 1)]
    for name in sent:
        put(store, name)
        if chance.below(10) == 0:
            store.tick()
    disk.crash()
    store = opened(disk)
    found = bodies(store)
    assert found == [name * 40 for name in sent[: len(found)]]
    end = store.log.end
    disk.crash()
    store = opened(disk)
    assert (bodies(store), store.log.end) == (found, end)
    put(store, b"next")
    assert bodies(store) == [*found, b"next" * 40]
    store.close()


def test_keys_are_found_and_found_again_after_a_crash_and_without_index_files() -> None:
    disk = SimulatedDisk()
    store = opened(disk)
    keys = [b"KEYS\x01k%d\x02UNIQ_KEY\x01U%d\x02" % (i, i) for i in range(60)]
    results = store.append([incoming(properties=text) for text in keys])
    store.when_durable(results[-1].end, lambda _: None)
    store.flush_soon()

    def all_found(one: MessageStore) -> bool:
        return all(
            set(one.index.query("orders", key, 8, 0, NOW + 10)) == set(result.offsets)
            for i, result in enumerate(results)
            for key in (f"k{i}", f"U{i}")
        )

    assert all_found(store)
    disk.crash()
    store = opened(disk)
    assert all_found(store)
    store.close()
    for name in disk.list("/store/index"):
        disk.remove(f"/store/index/{name}")
    for _ in range(2):
        store = opened(disk)
        assert all_found(store)
        store.close()


def test_entries_of_queues_wait_for_a_tick_and_consumers_do_not() -> None:
    disk = SimulatedDisk()
    store = opened(disk)
    put(store, b"a", b"b")
    assert bodies(store) == [b"a" * 40, b"b" * 40]
    assert not disk.exists("/store/consumequeue/orders")
    store.tick()
    assert disk.list("/store/consumequeue/orders/0") != []
    store.close()


def test_entries_that_are_too_many_to_wait_are_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orbitmq.store.message_store._BUFFERED_ENTRIES", 3)
    disk = SimulatedDisk()
    store = opened(disk)
    for queue_id in range(4):
        put(store, b"a", queue_id=queue_id)
    assert disk.list("/store/consumequeue/orders") == ["0"]
    assert store.queues.buffered == 3
    store.close()


def test_queues_that_cannot_be_written_end_all_writing_until_the_next_start() -> None:
    disk = SimulatedDisk()
    store = opened(disk)
    put(store, b"a")
    disk.fail("write", "consumequeue", errno.EIO)
    (second,) = put(store, b"b")
    assert second.status is PutStatus.PUT_OK  # it is in the log
    store.tick()
    (third,) = put(store, b"c")
    assert third.status is PutStatus.SERVICE_NOT_AVAILABLE
    assert "Input/output error" in third.remark
    store.close()
    store = opened(disk)
    assert bodies(store) == [b"a" * 40, b"b" * 40]
    store.close()


def test_a_store_that_could_not_be_opened_is_no_orderly_stop_when_closed() -> None:
    disk = SimulatedDisk()
    put(opened(disk), b"a")
    disk.crash()
    disk.fail("list", "consumequeue", errno.EIO)
    store = MessageStore("/store", StoreSettings(**SMALL), disk=disk)  # type: ignore[arg-type]
    with pytest.raises(DiskFailed):
        store.open()
    store.close()
    assert disk.exists("/store/abort")
    assert put(store, b"b")[0].status is PutStatus.SERVICE_NOT_AVAILABLE


def test_a_closed_store_can_be_closed_again() -> None:
    disk = SimulatedDisk()
    store = opened(disk)
    put(store, b"a")
    store.close()
    store.close()
    store = opened(disk)
    assert bodies(store) == [b"a" * 40]
    store.close()


def test_pages_are_flushed_although_the_time_of_day_goes_back() -> None:
    class Uneven(HandClock):
        ticks = 0

        def monotonic_ms(self) -> int:
            self.ticks += 10_000
            return self.ticks

    clock = Uneven()
    settings = StoreSettings(**SMALL)  # type: ignore[arg-type]
    disk = SimulatedDisk()
    store = MessageStore("/store", settings, disk=disk, clock=clock, workers=InlineWorkers())
    store.open()
    clock.now -= 86_400_000
    (result,) = put(store, b"a")
    store.tick()
    assert store.flushed == result.end
    store.close()


def test_what_a_killed_process_left_in_memory_outlives_a_power_loss_after_the_next_start() -> None:
    disk, clock = SimulatedDisk(), HandClock()
    settings = StoreSettings(
        segment_bytes=4096, queue_file_entries=50, index_enabled=False, flush_mode=FlushMode.ASYNC
    )

    def started() -> MessageStore:
        disk._locks.clear()  # the process is gone, and its lock with it
        one = MessageStore("/store", settings, disk=disk, clock=clock, workers=InlineWorkers())
        one.open()
        return one

    store = started()
    for number in range(30):
        put(store, b"%02d" % number, queue_id=number % 2)
        clock.now += 1_000
        if number == 1:  # the files of both queues are on the disk, with one entry each
            clock.now += 60_000
            store.tick()
    store = started()
    put(store, b"on", queue_id=1)
    clock.now += 60_000
    store.tick()
    clock.now += 1_000
    store.tick()
    disk.crash()
    store = started()
    assert bodies(store) == [b"%02d" % number * 40 for number in range(0, 30, 2)]
    store.close()


def test_a_light_queue_with_a_gap_stops_nobody() -> None:
    store = opened(SimulatedDisk())
    for offset in (b"0", b"7"):
        text = b"INNER_MULTI_DISPATCH\x01%LMQ%a\x02INNER_MULTI_QUEUE_OFFSET\x01" + offset + b"\x02"
        store.append([incoming(properties=text)])
    light = store.queues.queue("%LMQ%a", 0)
    assert light is not None
    assert light.max_offset == 1
    assert store.failure is None
    assert put(store, b"on")[0].status is PutStatus.PUT_OK
    assert len(bodies(store)) == 3
    store.close()


def test_bytes_inside_a_body_are_no_record() -> None:
    store = opened(SimulatedDisk())
    (probe,) = store.append([incoming(b"")])
    at = probe.end + 84 + 4  # where the body of the next record will begin
    fake = (100).to_bytes(4, "big") + bytes(24) + at.to_bytes(8, "big") + bytes(64)
    store.append([incoming(fake)])
    view = store.log.view(at, len(fake))
    assert view is not None
    assert bytes(view) == fake
    assert store.record(at) is None
    store.close()


def test_a_queue_whose_records_are_all_gone_keeps_its_offset_after_a_crash() -> None:
    clock = HandClock()
    disk = SimulatedDisk(clock=clock)
    settings = StoreSettings(**SMALL, reserved_hours=1)  # type: ignore[arg-type]
    store = MessageStore("/store", settings, disk=disk, clock=clock, workers=InlineWorkers())
    store.open()
    put(store, b"a", b"b", b"c", queue_id=1)
    put(store, *(b"%04d" % number for number in range(60)))
    clock.now += 3_600_000
    store.tick()
    assert store.clean(asked=True)
    disk.sync_directory("/store/commitlog")
    disk.crash()
    store = opened(disk)
    idle = store.queues.queue("orders", 1)
    assert idle is not None
    assert (idle.min_offset, idle.max_offset) == (3, 3)
    assert put(store, b"d", queue_id=1)[0].queue_offset == 3
    store.close()


def test_a_power_loss_at_any_call_around_a_new_file_loses_nothing_acknowledged() -> None:
    """The file is made ahead, taken into use, named on the disk, then written and acknowledged."""

    def acknowledged(disk: SimulatedDisk) -> list[bytes]:
        known: list[bytes] = []
        try:
            store = opened(disk, mode=FlushMode.SYNC, index_enabled=False)
            for number in range(9):
                name = b"%d" % number * 10
                (result,) = put(store, name)
                store.when_durable(result.end, lambda ok, name=name: known.append(name * 40))  # type: ignore[misc]
                store.flush_soon()
            store.close()
        except PowerLost:
            pass
        return known

    whole = SimulatedDisk()
    assert len(acknowledged(whole)) == 9
    assert "00004096" in whole.list("/store/commitlog")[-1]
    for after in range(len(whole.log)):
        disk = SimulatedDisk(SeededRandomness(after))
        disk.cut_power(after=after)
        known = acknowledged(disk)
        disk.crash()
        store = opened(disk, mode=FlushMode.SYNC, index_enabled=False)
        assert bodies(store)[: len(known)] == known
        put(store, b"on")
        store.close()


def test_a_file_made_ahead_is_used_after_a_crash_and_gone_after_a_stop() -> None:
    disk = SimulatedDisk()
    store = opened(disk, mode=FlushMode.SYNC)
    put(store, *(b"%02d" % number * 5 for number in range(7)))
    put(store, b"on")
    store.when_durable(store.log.end, lambda _: None)
    store.flush_soon()
    disk.sync_directory("/store/commitlog")
    names = disk.list("/store/commitlog")
    assert (len(names), store.log.end < 4096) == (2, True)
    disk.crash()
    assert disk.list("/store/commitlog") == names  # the second without its length
    store = opened(disk, mode=FlushMode.SYNC)
    assert len(bodies(store)) == 8
    put(store, *(b"%02d" % number * 5 for number in range(7)))
    store.close()
    assert disk.list("/store/commitlog") == names
    store = opened(disk, mode=FlushMode.SYNC)
    assert len(bodies(store)) == 15
    store.close()


def spoil(disk: SimulatedDisk, how: str) -> None:
    """Do to an index in use what a Java broker may do before it finds the store locked."""
    names = disk.list("/store/index")
    assert len(names) > 1
    if how == "removed":
        disk.remove(f"/store/index/{names[-1]}")
    elif how == "added":
        disk.open("/store/index/20991231235959999", create=True).extend(1120)
    else:
        disk.open(f"/store/index/{names[-1]}").write([b"\x00\x00\x00\x07"], 36)


@pytest.mark.parametrize("how", ["removed", "added", "written"])
def test_an_index_that_somebody_else_changed_is_made_again(
    how: str, caplog: pytest.LogCaptureFixture
) -> None:
    disk = SimulatedDisk()
    store = opened(disk)
    texts = [b"KEYS\x01k%d\x02" % number for number in range(60)]
    store.append([incoming(properties=text) for text in texts])
    spoil(disk, how)
    store.close()
    assert "another process" in caplog.text
    assert disk.list("/store/index") == []
    assert not disk.exists("/store/abort")
    disk.crash()  # it is gone for good
    store = opened(disk)
    for number in range(60):
        (view,) = store.lookup.query("orders", f"k{number}", max_count=9, begin_ms=0, end_ms=NOW)
        assert view.queue_offset == number
    store.close()
    assert disk.list("/store/index") != []


def test_an_index_that_nobody_changed_stays(caplog: pytest.LogCaptureFixture) -> None:
    disk = SimulatedDisk()
    for _ in range(3):
        store = opened(disk)
        store.append([incoming(properties=b"KEYS\x01k\x02") for _ in range(30)])
        store.close()
    assert "another process" not in caplog.text
    opened(disk, index_enabled=False).close()
    assert len(disk.list("/store/index")) == 2
