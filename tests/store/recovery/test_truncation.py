"""A log that is cut: the store is as one that never had more, and no crash on the way hurts it."""

import errno
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orbitmq.errors import DiskFailed, StoreDamaged, StoreError
from orbitmq.message import flags
from orbitmq.randomness import SeededRandomness
from orbitmq.store.message_store import MessageStore
from orbitmq.store.reader.reader import StoreReader
from orbitmq.store.reader.verify import verify
from orbitmq.store.recovery import truncation
from orbitmq.store.recovery.truncation import LogPiece
from orbitmq.store.settings import FlushMode
from orbitmq.testing.disks import PowerLost, SimulatedDisk
from tests.store.logs import NOW, incoming
from tests.store.stores import bodies, flush, opened

KEYS = [f"k{number}" for number in range(7)]


def fill(store: MessageStore, begin: int, end: int) -> list[int]:
    """Append messages of several kinds; return where the log ended before each, and at last."""
    ends = [store.log.end]
    for number in range(begin, end):
        key = KEYS[number % len(KEYS)].encode()
        store.append(
            [
                incoming(
                    b"%04d" % number * (1 + number * 37 % 90),
                    topic=("orders", "bills")[number % 5 == 4],
                    queue_id=number % 3,
                    properties=b"KEYS\x01" + key + b"\x02",
                    sys_flag=flags.TRANSACTION_PREPARED if number % 11 == 7 else 0,
                )
            ]
        )
        ends.append(store.log.end)
    return ends


def files_of(disk: SimulatedDisk, directory: str) -> Iterator[tuple[str, bytes]]:
    """Yield all files below a directory; zeros at the end of one don't count."""
    for name in disk.list(directory):
        path = f"{directory}/{name}"
        if disk.is_directory(path):
            yield from files_of(disk, path)
        else:
            yield path, disk.open(path).read(1 << 24, 0).rstrip(b"\0")


def content(store: MessageStore) -> dict[str, bytes]:
    """Return the files of log and queues; a file of zeros, made in advance, is none."""
    disk = store._disk
    assert isinstance(disk, SimulatedDisk)
    flush(store)
    store.queues.write()
    found = [*files_of(disk, "/store/commitlog"), *files_of(disk, "/store/consumequeue")]
    return {path: data for path, data in found if data}


def found_by_keys(store: MessageStore) -> dict[str, list[int]]:
    index = store.index
    return {
        key: index.query(topic, key, 99, 0, NOW + 1)
        for topic in ("orders", "bills")
        for key in KEYS
    }


def is_sound(disk: SimulatedDisk) -> bool:
    return not verify(StoreReader("/store", disk)).is_damaged


def ends_of(store: MessageStore) -> dict[tuple[str, int], int]:
    """Return where queues end; a crash may leave some that never begin."""
    ends = {(one.topic, one.queue_id): one.max_offset for one in store.queues}
    return {name: end for name, end in ends.items() if end}


def alike(store: MessageStore, other: MessageStore) -> None:
    """Check that two stores have the same log, queues and keys, and know the same of them."""
    assert content(store) == content(other)
    assert found_by_keys(store) == found_by_keys(other)
    assert ends_of(store) == ends_of(other)
    assert (store.log.end, store.flushed) == (other.log.end, other.flushed)
    assert store.log.last_store_ms == other.log.last_store_ms
    for queue in other.queues:
        known = store.queues.queue(queue.topic, queue.queue_id)
        assert known is not None
        assert (known.min_offset, known.record_end) == (queue.min_offset, queue.record_end)


@pytest.mark.parametrize("mode", FlushMode)
@settings(max_examples=50)
@given(kept=st.integers(0, 60), cut=st.integers(1, 60), later=st.integers(0, 20))
def test_a_store_that_was_cut_is_one_that_never_had_more(
    mode: FlushMode, kept: int, cut: int, later: int
) -> None:
    disk, other_disk = SimulatedDisk(), SimulatedDisk()
    store, other = opened(disk, mode=mode), opened(other_disk, mode=mode)
    end = fill(store, 0, kept)[-1]
    fill(store, kept, kept + cut)
    fill(other, 0, kept)
    store.truncate(end)
    alike(store, other)
    for one in (store, other):
        fill(one, 100, 100 + later)
    alike(store, other)
    for one in (store, other):
        one.close()
    store, other = opened(disk, mode=mode), opened(other_disk, mode=mode)
    assert store.damages == []
    alike(store, other)
    store.close()
    assert is_sound(disk)


def test_it_is_cut_between_two_records_alone() -> None:
    store = opened(SimulatedDisk())
    ends = fill(store, 0, 40)
    before = content(store)
    for offset in (1, ends[3] + 1, ends[-1] + 1, ends[-1] + 5000, -1):
        with pytest.raises(StoreDamaged, match=f"can't be cut at {offset}"):
            store.truncate(offset)
    assert content(store) == before
    store.truncate(ends[-1])
    assert content(store) == before
    store.truncate(4096)  # the end of a file
    assert store.log.end == 4096


def test_what_is_cut_is_saved_first_and_told() -> None:
    disk = SimulatedDisk()
    store = opened(disk)
    ends = fill(store, 0, 40)
    told: list[int] = []
    store.on_truncate = told.append
    log = b"".join(data.ljust(4096, b"\0") for _, data in files_of(disk, "/store/commitlog"))
    middle = ends[20]
    pieces = [LogPiece("one", ends[5], middle), LogPiece("two", middle, ends[-1])]
    store.truncate(ends[5], pieces)
    assert told == [ends[5]]
    saved = {name: disk.open(f"/store/cutlog/{name}") for name in disk.list("/store/cutlog")}
    assert sorted(saved) == ["one", "two"]
    assert [saved[one].size for one in ("one", "two")] == [middle - ends[5], ends[-1] - middle]
    kept = b"".join(saved[name].read(1 << 20, 0) for name in ("one", "two"))
    assert kept == log[ends[5] : ends[-1]]
    disk.crash()
    assert len(disk.list("/store/cutlog")) == 2


def test_with_no_room_to_save_nothing_is_cut() -> None:
    disk = SimulatedDisk()
    store = opened(disk)
    ends = fill(store, 0, 40)
    before = content(store)
    disk.fail("write", "cutlog", errno.ENOSPC)
    piece = LogPiece("one", ends[5], ends[-1])
    with pytest.raises(DiskFailed, match="No space"):
        store.truncate(ends[5], [piece])
    assert disk.list("/store/cutlog") == []
    assert content(store) == before
    assert store.failure is None
    store.truncate(ends[5], [piece])
    assert store.log.end == ends[5]


def test_much_is_saved_in_steps_and_a_part_of_a_file_is_removed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(truncation, "_COPIED_AT_ONCE", 500)
    monkeypatch.setattr(truncation, "_SYNCED_AT_ONCE", 2_000)
    disk = SimulatedDisk()
    store = opened(disk)
    ends = fill(store, 0, 40)
    size = ends[-1] - ends[5]
    pieces = [LogPiece("one", ends[5], ends[-1])]
    steps = store.truncation.saving(pieces)
    next(steps)
    assert disk.open("/store/cutlog/one").size == 2_000
    steps.close()
    assert disk.list("/store/cutlog") == []
    assert len(list(store.truncation.saving(pieces))) >= size // 2_500
    disk.crash()
    assert disk.open("/store/cutlog/one").size == size
    assert store.log.end == ends[-1]


def test_a_closed_store_is_not_cut() -> None:
    store = opened(SimulatedDisk())
    store.close()
    with pytest.raises(StoreError, match="can't be cut: the store is not open"):
        store.truncate(0)


def test_the_confirmed_offset_is_cut_too_and_known_to_the_next_start() -> None:
    disk = SimulatedDisk()
    store = opened(disk)
    ends = fill(store, 0, 40)
    store.confirmed = ends[-1]
    store.truncate(ends[5])
    assert store.confirmed == ends[5]
    disk.crash()
    assert opened(disk).confirmed == ends[5]


def before_a_cut(disk: SimulatedDisk) -> tuple[MessageStore, list[int], LogPiece]:
    """Return a store, where its log ended before each message, and what is going to be cut.

    All of it is claimed by the checkpoint, and the queues are listed.
    """
    store = opened(disk)
    ends = fill(store, 0, 45)
    store.close()
    return opened(disk), ends, LogPiece("one", ends[8], ends[-1])


def calls_of_a_cut() -> int:
    disk = SimulatedDisk()
    store, ends, piece = before_a_cut(disk)
    before = len(disk.log)
    store.truncate(ends[8], [piece])
    return len(disk.log) - before


@pytest.mark.parametrize("kind", ["killed", "power", "torn"])
def test_a_crash_at_any_call_leaves_a_store_that_can_be_cut_again(kind: str) -> None:
    reference = opened(SimulatedDisk())
    fill(reference, 0, 8)
    calls = calls_of_a_cut()
    assert calls > 50
    for call in range(calls):
        disk = SimulatedDisk(SeededRandomness(call) if kind == "torn" else None)
        store, ends, piece = before_a_cut(disk)
        disk.cut_power(after=call)
        with pytest.raises(PowerLost):
            store.truncate(ends[8], [piece])
        is_saved = disk.exists("/store/cutlog/one")
        (disk.kill if kind == "killed" else disk.crash)()
        store = opened(disk)
        end = store.log.end
        assert end <= ends[-1]
        assert end in ends or end % 4096 == 0
        assert [one.skipped_bytes for one in store.damages] == []
        if kind == "killed" and end < ends[-1]:
            assert is_saved
        if end > ends[8]:
            store.truncate(ends[8], [LogPiece("two", ends[8], end)])
        if end >= ends[8]:  # else the log was not synced before the crash
            alike(store, reference)
        store.close()
        assert is_sound(disk)


@pytest.mark.parametrize("reason", [errno.ENOSPC, errno.EIO])
@pytest.mark.parametrize("operation", ["write", "sync", "remove", "sync_directory"])
def test_a_disk_that_fails_on_the_way_stops_the_store_at_most(operation: str, reason: int) -> None:
    for after in range(30):
        disk = SimulatedDisk()
        store = opened(disk)
        ends = fill(store, 0, 45)
        disk.fail(operation, "/store", reason, after=after)  # type: ignore[arg-type]
        try:
            store.truncate(ends[8])
        except StoreError:
            disk.heal()
            if store.failure is None:
                assert (store.log.end, bodies(store) != []) == (ends[-1], True)
        disk.heal()
        disk.kill()
        store = opened(disk)
        assert ends[8] <= store.log.end <= ends[-1]
        store.truncate(ends[8])
        assert store.log.end == ends[8]
        store.close()
        assert is_sound(disk)


@pytest.mark.parametrize("mode", FlushMode)
def test_what_consumers_do_not_see_yet_is_cut_too(mode: FlushMode) -> None:
    store, confirmed = opened(SimulatedDisk(), mode=mode), 0
    store.confirmed_end = lambda: confirmed
    ends = fill(store, 0, 45)
    assert bodies(store) == []
    store.truncate(ends[8])
    seen = bodies(store)
    assert seen  # as after a start
    fill(store, 60, 70)
    confirmed = store.log.end
    flush(store)
    store.tick()
    assert bodies(store)[: len(seen)] == seen
    assert [one[:4] for one in bodies(store)[len(seen) :]] == [b"0060", b"0063", b"0066"]


def test_light_queues_are_cut_too() -> None:
    store = opened(SimulatedDisk(), lmq_enabled=True, multi_dispatch_enabled=True)

    def send(*names: str) -> int:
        named = ",".join(names).encode()
        text = b"INNER_MULTI_DISPATCH\x01" + named + b"\x02"
        [result] = store.append([incoming(b"body", properties=text)])
        assert result.status.is_stored
        return store.log.end

    end = send("%LMQ%a")
    send("%LMQ%a", "%LMQ%b")
    store.truncate(end)
    assert store.queues.light_count == 1
    assert store.queues.ends() == {"orders": {0: 1}, "%LMQ%a": {0: 1}}
    send("%LMQ%a", "%LMQ%b")
    assert store.queues.ends() == {"orders": {0: 2}, "%LMQ%a": {0: 2}, "%LMQ%b": {0: 1}}


def test_records_after_a_cut_have_their_keys_and_their_places() -> None:
    store = opened(SimulatedDisk())
    ends = fill(store, 0, 45)
    store.truncate(ends[8])
    fill(store, 60, 63)
    assert store.index.query("orders", "k4", 99, 0, NOW + 1)[0] == ends[8]
    assert bodies(store, queue_id=0)[-1].startswith(b"0060")
