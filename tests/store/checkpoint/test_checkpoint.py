import contextlib
import errno
import itertools
import tarfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbitmq.errors import DiskFailed, StoreLocked
from orbitmq.randomness import SeededRandomness
from orbitmq.store.checkpoint.checkpoint import (
    AbortMarker,
    Checkpoint,
    CheckpointValues,
    OwnValues,
    StoreLock,
    read_checkpoint,
)
from orbitmq.store.disk.durable import read_file
from orbitmq.store.index.key_index import IndexMark
from orbitmq.testing.disks import Call, Operation, PowerLost, SimulatedDisk
from tests.golden_files import GOLDEN, golden

PATH = "/store/checkpoint"
LONG = st.integers(-(2**63), 2**63 - 1)
OWN = st.builds(OwnValues, LONG, st.builds(IndexMark, LONG, LONG, LONG), LONG)
VALUES = st.builds(CheckpointValues, LONG, LONG, LONG, LONG, LONG, st.none() | OWN)


@pytest.fixture
def disk() -> SimulatedDisk:
    disk = SimulatedDisk()
    disk.make_directory("/store")
    disk.sync_directory("/")
    return disk


def put(disk: SimulatedDisk, path: str, data: bytes) -> None:
    disk.open(path, create=True).write([data], 0)


# The checkpoint.


FIELDS_IN_JAVA = (
    *("physicMsgTimestamp", "logicsMsgTimestamp", "indexMsgTimestamp"),
    *("masterFlushedOffset", "confirmPhyOffset"),
)
JAVA_STORES = sorted(
    path.name.removesuffix(".tar.gz") for path in (GOLDEN / "store").glob("*.tar.gz")
)


def from_java(store: str, name: str) -> bytes:
    """Return a file out of a store that the Java broker wrote."""
    with tarfile.open(GOLDEN / "store" / f"{store}.tar.gz") as archive:
        member = archive.extractfile(f"./{name}")
        assert member is not None
        return member.read()


@pytest.mark.parametrize("store", JAVA_STORES)
def test_java_s_checkpoints_are_read_and_written_back_the_same(
    disk: SimulatedDisk, store: str
) -> None:
    data = from_java(store, "checkpoint")
    put(disk, PATH, data)
    expected = golden(f"store/{store}.manifest")["dump"]["checkpoint"]
    values = read_checkpoint(disk, PATH)
    assert values == CheckpointValues(*(expected[field] for field in FIELDS_IN_JAVA))

    Checkpoint(disk, "/store/again").write(values)
    assert read_file(disk, "/store/again") == data


def test_a_new_checkpoint_is_a_page_of_zeros_that_survives(disk: SimulatedDisk) -> None:
    assert Checkpoint(disk, PATH).values == CheckpointValues()
    disk.crash()
    assert read_file(disk, PATH) == bytes(4096)


@given(values=VALUES)
def test_what_is_written_survives(values: CheckpointValues) -> None:
    disk = SimulatedDisk()
    checkpoint = Checkpoint(disk, "/checkpoint")
    checkpoint.write(values)
    assert checkpoint.values == values
    disk.crash()
    assert Checkpoint(disk, "/checkpoint").values == values
    assert disk.size("/checkpoint") == 4096


def test_an_absent_checkpoint_reads_as_zeros_and_is_not_made(disk: SimulatedDisk) -> None:
    assert read_checkpoint(disk, PATH) == CheckpointValues(0, 0, 0, 0, 0)
    assert disk.list("/store") == []


@pytest.mark.parametrize("length", [0, 1, 8, 12, 39])
def test_a_short_checkpoint_says_what_it_has(disk: SimulatedDisk, length: int) -> None:
    whole = b"".join(number.to_bytes(8) for number in (1 << 40, 2 << 40, 3 << 40, 4, 5))
    put(disk, PATH, whole[:length])
    log_ms, queues_ms, index_ms, flushed, confirmed = (
        int.from_bytes(whole[:length].ljust(40, b"\0")[at : at + 8]) for at in range(0, 40, 8)
    )
    expected = CheckpointValues(log_ms, queues_ms, index_ms, flushed, confirmed)
    assert read_checkpoint(disk, PATH) == expected
    assert Checkpoint(disk, PATH).values == expected
    assert disk.size(PATH) == 4096


def test_an_unreadable_checkpoint_is_not_an_absent_one(disk: SimulatedDisk) -> None:
    put(disk, PATH, bytes(4096))
    disk.fail("read", "checkpoint", errno.EIO)
    with pytest.raises(DiskFailed, match="can't read 4096 bytes at 0 of /store/checkpoint"):
        read_checkpoint(disk, PATH)


def test_nothing_new_is_not_written(disk: SimulatedDisk) -> None:
    checkpoint = Checkpoint(disk, PATH)
    disk.log.clear()
    checkpoint.write(CheckpointValues())
    assert disk.log == []
    checkpoint.write(CheckpointValues(log_ms=1))
    checkpoint.write(CheckpointValues(log_ms=1))
    assert disk.log == [Call("write", PATH, 0, 512), Call("sync", PATH)]


@pytest.mark.parametrize("operation", ["write", "sync"])
def test_a_failed_write_is_not_believed(disk: SimulatedDisk, operation: Operation) -> None:
    checkpoint = Checkpoint(disk, PATH)
    disk.fail(operation, "checkpoint", errno.EIO)
    with pytest.raises(DiskFailed):
        checkpoint.write(CheckpointValues(log_ms=7))
    assert checkpoint.values == CheckpointValues()
    checkpoint.write(CheckpointValues(log_ms=7))
    disk.crash()
    assert read_checkpoint(disk, PATH).log_ms == 7


def test_a_closed_checkpoint_takes_no_write(disk: SimulatedDisk) -> None:
    checkpoint = Checkpoint(disk, PATH)
    checkpoint.close()
    with pytest.raises(DiskFailed):
        checkpoint.write(CheckpointValues(log_ms=7))


@pytest.mark.parametrize(
    ("log_ms", "queues_ms", "limit"),
    [(0, 0, 0), (2999, 9000, 0), (9000, 3000, 0), (9000, 3001, 1), (5000, 9000, 2000)],
)
def test_recovery_begins_a_little_before_what_both_have(
    log_ms: int, queues_ms: int, limit: int
) -> None:
    assert CheckpointValues(log_ms, queues_ms, index_ms=1).recovery_limit_ms == limit


# The mark of a broker that runs.


def test_the_mark_is_on_the_disk_when_create_returns(disk: SimulatedDisk) -> None:
    marker = AbortMarker(disk, "/store/abort")
    assert not marker.is_present
    marker.create("1234")
    disk.crash()
    assert marker.is_present
    assert read_file(disk, "/store/abort") == b"1234"


def test_a_mark_is_renewed_without_a_moment_when_it_is_absent() -> None:
    for seed, calls in itertools.product(range(30), range(10)):
        disk = SimulatedDisk(SeededRandomness(seed))
        marker = AbortMarker(disk, "/abort")
        marker.create("123456")
        disk.cut_power(after=calls)
        with contextlib.suppress(PowerLost):
            marker.create("7")
        disk.crash()
        assert read_file(disk, "/abort") in (b"123456", b"7")


def test_a_mark_that_was_removed_stays_away(disk: SimulatedDisk) -> None:
    marker = AbortMarker(disk, "/store/abort")
    marker.create("1234")
    marker.remove()
    assert not marker.is_present
    disk.crash()
    assert not marker.is_present


def test_to_remove_no_mark_is_an_error(disk: SimulatedDisk) -> None:
    with pytest.raises(DiskFailed, match="can't remove /store/abort"):
        AbortMarker(disk, "/store/abort").remove()


# The lock.


def test_a_store_has_one_owner(disk: SimulatedDisk) -> None:
    with StoreLock(disk, "/store") as lock:
        with pytest.raises(StoreLocked, match="/store/lock is locked"):
            StoreLock(disk, "/store")
        StoreLock(disk, "/other").release()
        assert repr(lock) == "<StoreLock /store/lock>"
    StoreLock(disk, "/store").release()


def test_the_lock_makes_the_directory_for_good() -> None:
    disk = SimulatedDisk()
    StoreLock(disk, "/data/store")
    disk.crash()
    assert disk.is_directory("/data/store")


def test_the_lock_file_is_java_s(disk: SimulatedDisk) -> None:
    with StoreLock(disk, "/store"):
        assert read_file(disk, "/store/lock") == from_java("normal", "lock")


def test_what_java_has_written_since_makes_our_own_values_void(disk: SimulatedDisk) -> None:
    own = OwnValues(queues_ms=9_000, index_mark=IndexMark(20_240_229_120_000_000, 7, 640))
    values = CheckpointValues(log_ms=9_000, queues_ms=4_000, index_ms=4_000, own=own)
    Checkpoint(disk, PATH).write(values)
    assert read_checkpoint(disk, PATH).recovery_limit_ms == 6_000
    disk.open(PATH).write([(9_001).to_bytes(8)], 8)  # logicsMsgTimestamp
    assert read_checkpoint(disk, PATH) == values._replace(queues_ms=9_001, own=None)


def test_java_s_own_fields_stand_where_they_did(disk: SimulatedDisk) -> None:
    own = OwnValues(queues_ms=6, index_mark=IndexMark(7, 8, 9), log_end=10)
    Checkpoint(disk, PATH).write(CheckpointValues(1, 2, 3, 4, 5, own))
    data = read_file(disk, PATH) or b""
    assert data[:40] == b"".join(number.to_bytes(8) for number in (1, 2, 3, 4, 5))
    assert (data[40:256], data[512:]) == (bytes(216), bytes(4096 - 512))
    assert read_checkpoint(disk, PATH).own == own


def test_of_a_checkpoint_that_an_older_version_of_us_wrote_no_end_of_the_log_is_known(
    disk: SimulatedDisk,
) -> None:
    own = OwnValues(queues_ms=6, index_mark=IndexMark(7, 8, 9), log_end=10)
    Checkpoint(disk, PATH).write(CheckpointValues(1, 2, 3, 4, 5, own))
    disk.open(PATH).write([bytes(8)], 256 + 64)
    assert read_checkpoint(disk, PATH).own == own._replace(log_end=0)
