"""The stand-in's own ways; what it shares with the real disk is in store/disk/test_disk.py."""

import errno
import threading
from collections.abc import Callable

import pytest

from orbitmq.errors import DiskFailed, StoreLocked
from orbitmq.randomness import SeededRandomness
from orbitmq.store.disk.disk import Disk, DiskFile, DiskLock, Usage
from orbitmq.testing.clocks import EPOCH_MS, VirtualClock, run_virtual
from orbitmq.testing.disks import Call, Operation, PowerLost, SimulatedDisk
from orbitmq.testing.power_loss import PAGE


def prepared(disk: SimulatedDisk) -> SimulatedDisk:
    """Return the disk with an empty directory /store that no crash can take away."""
    disk.make_directory("/store")
    disk.sync_directory("/")
    disk.log.clear()
    return disk


@pytest.fixture
def disk() -> SimulatedDisk:
    return prepared(SimulatedDisk())


def contents(disk: Disk, path: str) -> bytes:
    file = disk.open(path)
    return file.read(file.size, 0)


def test_it_has_the_face_of_a_disk(disk: SimulatedDisk) -> None:
    face: Disk = disk
    file: DiskFile = face.open("/store/f", create=True)
    lock: DiskLock = face.lock("/store/lock", "lock")
    lock.release()
    assert (repr(file), repr(disk)) == (
        "<SimulatedFile /store/f>",
        "<SimulatedDisk 4096 bytes, 2 calls>",
    )


# Crashes.


def test_a_crash_keeps_synced_bytes_under_synced_names(disk: SimulatedDisk) -> None:
    file = disk.open("/store/f", create=True)
    file.write([b"synced"], 0)
    file.sync()
    disk.sync_directory("/store")
    file.write([b"written"], 6)
    disk.open("/store/g", create=True).sync()
    disk.crash()
    assert disk.list("/store") == ["f"]
    assert contents(disk, "/store/f") == b"synced"


def test_after_a_crash_files_are_dead_and_maps_are_memory(disk: SimulatedDisk) -> None:
    file = disk.open("/store/f", create=True)
    file.write([b"abc"], 0)
    view = file.map()
    disk.crash()
    for use in (lambda: file.write([b"x"], 0), lambda: file.read(1, 0), file.sync, file.map):
        with pytest.raises(DiskFailed) as caught:
            use()
        assert caught.value.errno == errno.EIO
    file.close()
    assert bytes(view) == b"abc"


def test_a_crash_frees_the_locks(disk: SimulatedDisk) -> None:
    disk.lock("/store/lock", "lock")
    with pytest.raises(StoreLocked):
        disk.lock("/store/lock", "lock")
    disk.crash()
    disk.lock("/store/lock", "lock")


def test_the_same_seed_crashes_the_same_way() -> None:
    def outcome(seed: int) -> list[bytes]:
        disk = prepared(SimulatedDisk(SeededRandomness(seed)))
        for number in range(10):
            file = disk.open(f"/store/{number}", create=True)
            file.write([bytes([number]) * 10_000], 0)
        disk.crash()
        return [contents(disk, f"/store/{name}") for name in disk.list("/store")]

    assert [outcome(seed) for seed in range(20)] == [outcome(seed) for seed in range(20)]
    assert len({tuple(outcome(seed)) for seed in range(20)}) > 10


def test_the_power_can_fail_at_any_call(disk: SimulatedDisk) -> None:
    disk.cut_power(after=2)
    file = disk.open("/store/f", create=True)
    file.write([b"a"], 0)
    for _ in range(2):
        with pytest.raises(PowerLost, match="before sync of /store/f"):
            file.sync()
    disk.crash()
    assert disk.list("/store") == []
    disk.open("/store/f", create=True).sync()


def test_a_move_between_directories_may_leave_both_names_or_none() -> None:
    outcomes = set()
    for seed in range(100):
        disk = prepared(SimulatedDisk(SeededRandomness(seed)))
        disk.make_directory("/store/d")
        disk.open("/store/f", create=True).sync()
        disk.sync_directory("/store")
        disk.rename("/store/f", "/store/d/f")
        disk.crash()
        outcomes.add((disk.exists("/store/f"), disk.exists("/store/d/f")))
    assert outcomes == {(True, True), (True, False), (False, True), (False, False)}


# Faults.


@pytest.mark.parametrize(
    "operation",
    [
        *("open", "read", "write", "map", "allocate", "extend", "sync"),
        *("list", "make_directory", "remove", "remove_directory", "rename", "sync_directory"),
        "lock",
    ],
)
@pytest.mark.parametrize("reason", [errno.ENOSPC, errno.EIO, errno.EROFS, errno.EACCES])
def test_each_operation_can_fail(disk: SimulatedDisk, operation: Operation, reason: int) -> None:
    file = disk.open("/store/f", create=True)
    disk.make_directory("/store/d")
    uses: dict[Operation, Callable[[], object]] = {
        "open": lambda: disk.open("/store/f"),
        "read": lambda: file.read(1, 0),
        "write": lambda: file.write([b"x"], 0),
        "map": file.map,
        "allocate": lambda: file.allocate(100),
        "extend": lambda: file.extend(100),
        "sync": file.sync,
        "sync_directory": lambda: disk.sync_directory("/store"),
        "rename": lambda: disk.rename("/store/f", "/store/g"),
        "remove": lambda: disk.remove("/store/f"),
        "list": lambda: disk.list("/store"),
        "make_directory": lambda: disk.make_directory("/store/e"),
        "remove_directory": lambda: disk.remove_directory("/store/d"),
        "lock": lambda: disk.lock("/store/lock", "lock"),
    }
    disk.fail(operation, "store", reason)
    with pytest.raises(DiskFailed, match="can't .*/store") as caught:
        uses[operation]()
    assert caught.value.errno == disk.log[-1].errno == reason
    uses[operation]()
    assert disk.log[-1].errno == 0


def test_a_fault_waits_and_passes(disk: SimulatedDisk) -> None:
    disk.fail("open", "/f", errno.EIO, after=2, times=3)
    done = []
    for _ in range(8):
        disk.exists("/store/f")
        disk.open("/store/other", create=True)
        try:
            disk.open("/store/f", create=True)
        except DiskFailed:
            done.append(False)
        else:
            done.append(True)
    assert done == [True, True, False, False, False, True, True, True]


def test_a_fault_may_last(disk: SimulatedDisk) -> None:
    disk.fail("make_directory", "", errno.EROFS, times=None)
    for _ in range(5):
        with pytest.raises(DiskFailed, match="Read-only file system"):
            disk.make_directory("/store/d")


def test_a_refused_write_may_leave_a_part() -> None:
    lengths = set()
    for seed in range(50):
        disk = prepared(SimulatedDisk(SeededRandomness(seed)))
        file = disk.open("/store/f", create=True)
        disk.fail("write", "f", errno.EIO)
        with pytest.raises(DiskFailed):
            file.write([b"abc"], 0)
        assert b"abc".startswith(contents(disk, "/store/f"))
        lengths.add(file.size)
    assert lengths == {0, 1, 2, 3}


def test_a_refused_sync_is_told_once_and_the_data_is_gone(disk: SimulatedDisk) -> None:
    file = disk.open("/store/f", create=True)
    disk.sync_directory("/store")
    file.write([b"data"], 0)
    disk.fail("sync", "f", errno.EIO)
    with pytest.raises(DiskFailed):
        file.sync()
    file.sync()
    assert contents(disk, "/store/f") == b"data"
    disk.crash()
    assert contents(disk, "/store/f").strip(b"\0") == b""


# Space.


def test_a_disk_fills_up() -> None:
    disk = prepared(SimulatedDisk(capacity=3 * PAGE))
    file = disk.open("/store/f", create=True)
    file.allocate(PAGE + 1)
    assert disk.usage("/store") == Usage(3 * PAGE, 2 * PAGE)
    with pytest.raises(DiskFailed, match="can't allocate 12289 bytes for /store/f: No space left"):
        file.allocate(3 * PAGE + 1)
    file.write([bytes(2 * PAGE)], 0)  # its space is its own
    with pytest.raises(DiskFailed, match="can't write 8192 bytes at 8000 to") as caught:
        file.write([b"x" * 2 * PAGE], 8000)
    assert caught.value.errno == disk.log[-1].errno == errno.ENOSPC
    assert file.read(2 * PAGE, 8000) == b"x" * (3 * PAGE - 8000)  # as much as fitted
    disk.remove("/store/f")
    assert disk.usage("/store").used == 0


def test_holes_use_no_space_until_they_are_written() -> None:
    disk = prepared(SimulatedDisk(capacity=2 * PAGE))
    file = disk.open("/store/f", create=True)
    file.extend(100 * PAGE)
    assert (file.size, disk.usage("/store").used) == (100 * PAGE, 0)
    file.write([b"x"], 50 * PAGE)
    file.write([b"y"], 50 * PAGE + 1)
    assert disk.usage("/store").used == PAGE
    file.write([b"z"], 0)
    with pytest.raises(DiskFailed, match="No space left"):
        file.write([b"x"], 10 * PAGE)
    file.write([b"z"], 0)


def test_space_is_as_large_after_a_crash_as_what_survived() -> None:
    disk = prepared(SimulatedDisk(capacity=100 * PAGE))
    file = disk.open("/store/f", create=True)
    file.allocate(2 * PAGE)
    file.write([b"x"], 9 * PAGE)
    file.sync()
    disk.sync_directory("/store")
    file.write([b"x"], 20 * PAGE)
    disk.crash()
    assert disk.usage("/store").used == 3 * PAGE


# What was asked.


def test_the_log_tells_what_came_before_what(disk: SimulatedDisk) -> None:
    file = disk.open("/store/f", create=True)
    file.write([b"ab", b"c"], 7)
    file.sync()
    disk.mark("acknowledged")
    with pytest.raises(DiskFailed):
        disk.remove("/store/absent")
    assert disk.log == [
        Call("open", "/store/f"),
        Call("write", "/store/f", offset=7, size=3),
        Call("sync", "/store/f"),
        Call("mark", "acknowledged"),
        Call("remove", "/store/absent", errno=errno.ENOENT),
    ]


def test_what_was_done_is_counted_and_what_failed_is_not(disk: SimulatedDisk) -> None:
    file = disk.open("/store/f", create=True)
    disk.fail("write", "", errno.EIO, after=2)
    disk.fail("sync", "", errno.EIO, after=1)
    for _ in range(2):
        file.write([b"abc"], 0)
    for use in (file.sync, lambda: file.write([b"abc"], 0), file.sync):
        try:
            use()
        except DiskFailed:
            disk.mark("failed")
    assert (disk.writes, disk.bytes_written, disk.syncs) == (2, 6, 1)
    assert disk.log.count(Call("mark", "failed")) == 2


def test_times_come_from_the_clock() -> None:
    async def scenario(clock: VirtualClock) -> None:
        disk = prepared(SimulatedDisk(clock=clock))
        file = disk.open("/store/f", create=True)
        assert disk.modified_ms("/store/f") == EPOCH_MS
        await clock.sleep(5)
        file.write([b"x"], 0)
        assert disk.modified_ms("/store/f") == EPOCH_MS + 5000
        await clock.sleep(5)
        file.allocate(100)
        file.allocate(50)  # changes nothing
        disk.rename("/store/f", "/store/g")
        assert disk.modified_ms("/store/g") == EPOCH_MS + 10_000

    run_virtual(scenario)


def test_one_thread_may_write_while_another_syncs() -> None:
    disk = prepared(SimulatedDisk())
    file = disk.open("/store/f", create=True)
    file.allocate(1 << 20)
    written = threading.Event()

    def sync() -> None:
        while not written.is_set():
            file.sync()

    syncing = threading.Thread(target=sync)
    syncing.start()
    for at in range(0, 1 << 20, 1 << 10):
        file.write([b"x" * (1 << 10)], at)
    written.set()
    syncing.join()
    file.sync()
    disk.sync_directory("/store")
    disk.crash()
    assert contents(disk, "/store/f") == b"x" * (1 << 20)
