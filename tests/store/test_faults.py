"""What a store says when its disk or its files are bad, and that the rest stays readable.

Each fault gives a named error or status that tells what, where and why. What was stored before can
be read meanwhile, and by the next start.
"""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import pytest

from orbitmq.errors import DiskFailed, StoreDamaged
from orbitmq.message.record import CRC_PROPERTY_SIZE
from orbitmq.store.damage import Damage
from orbitmq.store.disk.disk import Disk, RealDisk
from orbitmq.store.log.append import PutStatus
from orbitmq.store.message_store import MessageStore
from orbitmq.store.reader.reader import StoreReader
from orbitmq.store.reader.verify import verify
from orbitmq.store.settings import FlushMode
from orbitmq.testing.disks import Operation, SimulatedDisk
from tests.store.stores import bodies, opened, put

NAMES = [b"%02d" % number for number in range(50)]
BODIES = [name * 40 for name in NAMES]
FIRST, SECOND = f"{0:020d}", f"{4096:020d}"
REASONS = [errno.ENOSPC, errno.EIO]
NOBODY = 65_534


def put_and_wait(store: MessageStore, *names: bytes) -> tuple[PutStatus, str, list[bool]]:
    """Return what became of the last message: its status, why, and whether it is on the disk."""
    told: list[bool] = []
    result = put(store, *names)[-1]
    if result.status.is_stored:
        store.when_durable(result.end, told.append)
        store.flush_soon()
    return result.status, result.remark, told


def filled(disk: Disk, directory: str = "/store") -> MessageStore:
    """Return an open store with messages in three files, all of them on the disk."""
    store = opened(disk, directory, FlushMode.SYNC)
    assert put_and_wait(store, *NAMES) == (PutStatus.PUT_OK, "", [True])
    assert store.log.end > 2 * 4096
    return store


# On a disk that fails when it is told to, while the store runs


@pytest.mark.parametrize("reason", REASONS)
def test_an_append_that_fails_is_refused_and_the_next_one_is_stored(reason: int) -> None:
    disk = SimulatedDisk()
    store = filled(disk)
    disk.fail("write", "commitlog", reason)
    status, why, _ = put_and_wait(store, b"lost")
    assert status is PutStatus.UNKNOWN_ERROR
    assert "/store/commitlog/" in why
    assert os.strerror(reason) in why
    assert bodies(store) == BODIES
    assert put_and_wait(store, b"next") == (PutStatus.PUT_OK, "", [True])
    disk.crash()
    assert bodies(opened(disk)) == [*BODIES, b"next" * 40]


@pytest.mark.parametrize("operation", ["open", "allocate"])
@pytest.mark.parametrize("reason", REASONS)
def test_a_file_that_cannot_be_made_is_told_and_tried_again(
    operation: Operation, reason: int
) -> None:
    disk = SimulatedDisk()
    store = filled(disk)
    disk.fail(operation, f"commitlog/{3 * 4096:020d}", reason, times=None)
    disk.fail(operation, f"commitlog/{4 * 4096:020d}", reason, times=None)
    stored = [*BODIES]
    status, why = PutStatus.PUT_OK, ""
    while status is PutStatus.PUT_OK:
        status, why, _ = put_and_wait(store, b"x" * 20)
        stored += [b"x" * 800] * status.is_stored
    assert status is PutStatus.CREATE_MAPPED_FILE_FAILED
    assert f"/store/commitlog/{3 * 4096:020d}" in why
    assert os.strerror(reason) in why
    assert bodies(store) == stored
    disk.heal()
    assert put_and_wait(store, b"next") == (PutStatus.PUT_OK, "", [True])
    disk.crash()
    assert bodies(opened(disk)) == [*stored, b"next" * 40]


@pytest.mark.parametrize("operation", ["sync", "sync_directory"])
@pytest.mark.parametrize("reason", REASONS)
def test_a_flush_that_fails_is_told_and_ends_all_writing(operation: Operation, reason: int) -> None:
    disk = SimulatedDisk()
    store = filled(disk)
    disk.fail(operation, "commitlog", reason)
    told = [True]
    while told == [True]:  # a directory is synced with the first record of a new file
        _, _, told = put_and_wait(store, b"x" * 20)
    assert told == [False]
    assert isinstance(store.failure, DiskFailed)
    assert (store.failure.errno, "/store/commitlog" in store.failure.path) == (reason, True)
    status, why, _ = put_and_wait(store, b"never")
    assert status is PutStatus.SERVICE_NOT_AVAILABLE
    assert os.strerror(reason) in why
    assert bodies(store)[: len(BODIES)] == BODIES
    with pytest.raises(DiskFailed):
        store.close()
    disk.crash()
    assert bodies(opened(disk))[: len(BODIES)] == BODIES


@pytest.mark.parametrize("reason", [errno.EROFS, errno.EACCES])
@pytest.mark.parametrize(
    ("operation", "part"),
    [("lock", "lock"), ("open", "checkpoint"), ("open", "abort"), ("open", "commitlog")],
)
def test_a_store_on_a_read_only_disk_does_not_open(
    operation: Operation, part: str, reason: int
) -> None:
    disk = SimulatedDisk()
    filled(disk).close()
    disk.fail(operation, part, reason, times=None)
    with pytest.raises(DiskFailed, match=os.strerror(reason)) as caught:
        opened(disk)
    assert (caught.value.errno, part in caught.value.path) == (reason, True)
    disk.heal()
    store = opened(disk)
    assert bodies(store) == BODIES
    store.close()


# On a real disk, by somebody without the rights


@contextmanager
def as_nobody() -> Iterator[None]:
    """Do without root's privilege to open and change every file."""
    if os.geteuid():
        yield
        return
    try:
        os.seteuid(NOBODY)
    except OSError as error:
        pytest.skip(f"root may do everything, and can't become nobody here: {error}")
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def home() -> Iterator[Path]:
    """A directory that nobody owns; pytest's own lie in one that only its user may enter."""
    with TemporaryDirectory() as directory:
        if not os.geteuid():
            os.chown(directory, NOBODY, NOBODY)
        yield Path(directory)


@contextmanager
def mode(path: Path, bits: int) -> Iterator[None]:
    """Give a file or directory other rights for a time."""
    before = path.stat().st_mode
    path.chmod(bits)
    try:
        yield
    finally:
        path.chmod(before)


def test_a_store_is_not_made_in_a_read_only_directory(home: Path) -> None:
    store = home / "store"
    with as_nobody():
        with mode(home, 0o555), pytest.raises(DiskFailed, match="Permission denied") as caught:
            opened(RealDisk(), str(store))
        assert (caught.value.errno, caught.value.path) == (errno.EACCES, str(store))
        opened(RealDisk(), str(store)).close()


@pytest.mark.parametrize(
    ("name", "bits", "path"),
    [
        (".", 0o555, "abort.tmp"),
        ("commitlog", 0o000, "commitlog"),
        (f"commitlog/{FIRST}", 0o444, f"commitlog/{FIRST}"),
        (f"commitlog/{SECOND}", 0o000, f"commitlog/{SECOND}"),
        ("checkpoint", 0o000, "checkpoint"),
        ("lock", 0o444, "lock"),
        ("consumequeue/orders/0", 0o000, "consumequeue/orders/0"),
    ],
)
def test_a_store_without_the_rights_does_not_open_and_loses_nothing(
    home: Path, name: str, bits: int, path: str
) -> None:
    with as_nobody():
        filled(RealDisk(), str(home)).close()
        with mode(home / name, bits), pytest.raises(DiskFailed, match="Permission") as caught:
            opened(RealDisk(), str(home))
        assert caught.value.errno == errno.EACCES
        assert caught.value.path.startswith(str(home / path))
        store = opened(RealDisk(), str(home))
        assert bodies(store) == BODIES
        store.close()


def test_a_log_that_becomes_read_only_takes_what_fits_its_files(home: Path) -> None:
    with as_nobody():
        store = filled(RealDisk(), str(home))
        stored = [*BODIES]
        status, why = PutStatus.PUT_OK, ""
        with mode(home / "commitlog", 0o555):
            while status is PutStatus.PUT_OK:
                status, why, _ = put_and_wait(store, b"x" * 20)
                stored += [b"x" * 800] * status.is_stored
            assert status is PutStatus.CREATE_MAPPED_FILE_FAILED
            assert "Permission denied" in why
            assert bodies(store) == stored
        assert put_and_wait(store, b"next") == (PutStatus.PUT_OK, "", [True])
        store.close()
        store = opened(RealDisk(), str(home))
        assert bodies(store) == [*stored, b"next" * 40]
        store.close()


# Files that somebody has damaged


class Stored(NamedTuple):
    """A closed store, and where its records begin and end."""

    home: Path
    offsets: list[int]

    def segment(self, number: int) -> Path:
        return self.home / "commitlog" / f"{number * 4096:020d}"

    def read(self) -> tuple[list[bytes], list[Damage]]:
        """Return what a reader finds, and the places it can't read."""
        damages: list[Damage] = []
        reader = StoreReader(str(self.home))
        found = [bytes(view.body) for view in reader.records(verify=True, on_damage=damages.append)]
        return found, [damage for damage in damages if not damage.harmless]


@pytest.fixture
def stored(tmp_path: Path) -> Stored:
    store = opened(RealDisk(), str(tmp_path), append_crc=True)
    offsets = [result.offsets[0] for result in put(store, *NAMES)]
    store.close()
    return Stored(tmp_path, offsets)


@pytest.mark.parametrize("number", [0, 1, 2])
@pytest.mark.parametrize("left", [1, 2000, 4095])
def test_a_truncated_file_is_refused_and_a_reader_reads_the_rest(
    stored: Stored, number: int, left: int
) -> None:
    os.truncate(stored.segment(number), left)
    with pytest.raises(StoreDamaged, match=f"{left} bytes.* move the file away") as caught:
        opened(RealDisk(), str(stored.home))
    assert caught.value.path == str(stored.segment(number))
    found, damages = stored.read()
    cut = range(number * 4096 + left, (number + 1) * 4096)
    ends = [*stored.offsets[1:], stored.offsets[-1] + 1]
    lost = {
        body
        for body, begin, end in zip(BODIES, stored.offsets, ends, strict=True)
        if begin < cut.stop and end > cut.start
    }
    assert {*BODIES} - {*found} <= lost
    assert damages != [] or not lost


def test_a_truncated_last_file_is_made_whole_after_a_crash(stored: Stored) -> None:
    (stored.home / "abort").write_text("7")
    last = stored.segment(2)
    left = stored.offsets[-3] + 10 - 2 * 4096  # in the middle of a record
    os.truncate(last, left)
    (stored.home / "checkpoint").unlink()  # else it would speak for what is cut off
    store = opened(RealDisk(), str(stored.home), append_crc=True)
    assert bodies(store) == BODIES[:-3]
    assert put(store, b"next")[0].queue_offset == len(BODIES) - 3
    store.close()
    assert last.stat().st_size == 4096


def test_what_a_truncated_last_file_lacks_is_damage_if_it_was_on_the_disk(stored: Stored) -> None:
    (stored.home / "abort").write_text("7")
    begin = stored.offsets[-3]
    os.truncate(stored.segment(2), begin + 10 - 2 * 4096)
    store = opened(RealDisk(), str(stored.home), append_crc=True)
    assert [damage.position for damage in store.damages] == [begin]
    views = [store.record(offset) for offset in stored.offsets]
    assert [bytes(view.body) for view in views if view] == BODIES[:-3]
    assert put(store, b"next")[0].queue_offset == len(BODIES)
    store.close()


@pytest.mark.parametrize("which", [0, 17, -1])
def test_any_flipped_byte_of_a_record_costs_that_record_alone(stored: Stored, which: int) -> None:
    offset = stored.offsets[which]
    path = stored.segment(offset // 4096)
    whole = path.read_bytes()
    size = int.from_bytes(whole[offset % 4096 :][:4], "big")
    for at in range(offset % 4096, offset % 4096 + size - CRC_PROPERTY_SIZE):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :])
        found, damages = stored.read()
        assert found == [body for body in BODIES if body != BODIES[which]], at
        assert [damage.position for damage in damages] == [offset], at


@pytest.mark.parametrize("field", [0, 4, 8, 28, 90], ids=["size", "magic", "crc", "place", "body"])
def test_a_start_tells_of_a_flipped_byte_and_goes_on_behind_it(stored: Stored, field: int) -> None:
    which = -4  # in the file that a start reads
    offset = stored.offsets[which]
    path = stored.segment(offset // 4096)
    whole = bytearray(path.read_bytes())
    whole[offset % 4096 + field] ^= 0xFF
    path.write_bytes(whole)
    store = opened(RealDisk(), str(stored.home), append_crc=True)
    assert offset in [damage.position for damage in store.damages]
    for place, body in zip(stored.offsets, BODIES, strict=True):
        view = store.record(place)
        if place != offset:
            assert view is not None
            assert bytes(view.body) == body
    assert put(store, b"next")[0].queue_offset == len(BODIES)
    store.close()


def test_a_flipped_byte_of_a_queue_is_found_and_the_queue_made_again(stored: Stored) -> None:
    queue = stored.home / "consumequeue" / "orders" / "0"
    path = sorted(queue.iterdir())[3]
    entries = bytearray(path.read_bytes())
    entries[27] ^= 0xFF  # where the second record lies
    path.write_bytes(entries)
    verdict = verify(StoreReader(str(stored.home)))
    assert [damage.where.split("/")[:3] for damage in verdict.damages] == [
        ["consumequeue", "orders", "0"]
    ]
    for file in queue.iterdir():
        file.unlink()
    store = opened(RealDisk(), str(stored.home), append_crc=True)
    assert bodies(store) == BODIES
    store.close()
    assert not verify(StoreReader(str(stored.home))).is_damaged
