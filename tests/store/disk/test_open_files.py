"""Few descriptors for many files, and what has to be synced."""

import errno
from pathlib import Path

import pytest

from orbitmq.errors import DiskFailed, InvalidInput
from orbitmq.store.disk.disk import RealDisk, RealFile
from orbitmq.store.disk.open_files import OpenFiles, Unsynced, is_shortage, with_room
from orbitmq.testing.disks import SimulatedDisk
from tests.store.counting import CountingDisk


@pytest.fixture
def disk() -> CountingDisk:
    return CountingDisk()


def test_a_new_file_is_as_long_as_asked_and_takes_no_space(tmp_path: Path) -> None:
    files = OpenFiles(RealDisk(), limit=2)
    files.create(str(tmp_path / "a" / "b"), "new", 6_000_000)
    found = (tmp_path / "a" / "b" / "new").stat()
    assert (found.st_size, found.st_blocks) == (6_000_000, 0)
    assert files.read(str(tmp_path / "a" / "b" / "new"), 4, 5_999_998) == b"\0\0"


def test_a_file_that_is_there_is_not_cut(tmp_path: Path) -> None:
    (tmp_path / "old").write_bytes(b"longer")
    OpenFiles(RealDisk(), limit=2).create(str(tmp_path), "old", 3)
    assert (tmp_path / "old").read_bytes() == b"longer"


def test_the_file_used_longest_ago_is_closed(tmp_path: Path, disk: CountingDisk) -> None:
    files = OpenFiles(disk, limit=2)
    for name in "abc":
        (tmp_path / name).write_text(name)
    for name in "abacab":
        assert files.read(str(tmp_path / name), 10, 0) == name.encode()
    assert disk.opened == ["a", "b", "c", "b"]
    assert sorted(disk.open_now()) == ["a", "b"]
    files.close()
    assert disk.open_now() == []
    assert files.read(str(tmp_path / "a"), 10, 0) == b"a"


class ScarceDisk(CountingDisk):
    """Refuses to open more files than ``limit`` at a time, as the system does."""

    limit = 2

    def open(self, path: str, *, create: bool = False, writable: bool = True) -> RealFile:
        if len(self.open_now()) >= self.limit:
            raise DiskFailed(f"can't open {path}", path=path, errno=errno.EMFILE)
        return super().open(path, create=create, writable=writable)


def test_room_is_made_before_a_file_is_opened(tmp_path: Path) -> None:
    disk = ScarceDisk()
    files = OpenFiles(disk, limit=2)
    for name in "abc":
        files.create(str(tmp_path), name, 10)
    for name in "abc":
        assert files.read(str(tmp_path / name), 1, 0) == b"\0"
    assert sorted(disk.open_now()) == ["b", "c"]


def test_without_a_descriptor_idle_files_are_closed(tmp_path: Path) -> None:
    disk = ScarceDisk()
    files = OpenFiles(disk, limit=512)
    for name in "abc":
        files.create(str(tmp_path), name, 10)
        files.write(str(tmp_path / name), name.encode(), 0)
    assert disk.open_now() == ["c"]
    assert [files.read(str(tmp_path / name), 1, 0) for name in "abc"] == [b"a", b"b", b"c"]
    disk.limit = 1
    files.sync_all()
    assert not files.take_unsynced()


def test_idle_files_of_others_are_closed_too(tmp_path: Path) -> None:
    disk = ScarceDisk()
    of_queues = OpenFiles(disk, limit=512)
    for name in "ab":
        of_queues.create(str(tmp_path), name, 10)
    of_index = OpenFiles(disk, limit=512, make_room=of_queues.close)
    of_index.create(str(tmp_path), "c", 10)
    assert disk.open_now() == ["c"]


def test_a_process_that_has_no_descriptor_left_fails(tmp_path: Path) -> None:
    disk = ScarceDisk()
    disk.limit = 0
    with pytest.raises(DiskFailed) as caught:
        OpenFiles(disk, limit=512).create(str(tmp_path), "a", 10)
    assert is_shortage(caught.value)


def test_another_reason_makes_no_room() -> None:
    rooms: list[int] = []

    def call() -> None:
        raise DiskFailed("can't open", path="a", errno=errno.EACCES)

    with pytest.raises(DiskFailed, match="can't open"):
        with_room(call, lambda: rooms.append(1))
    assert rooms == []


def test_what_is_put_back_is_to_be_synced_again(tmp_path: Path) -> None:
    files = OpenFiles(RealDisk(), limit=1)
    files.create(str(tmp_path), "a", 100)
    due = files.take_unsynced()
    files.put_back(due)
    assert files.take_unsynced() == due


def test_what_was_written_is_to_be_synced_once(tmp_path: Path) -> None:
    files = OpenFiles(RealDisk(), limit=1)
    files.create(str(tmp_path / "queue"), "a", 100)
    files.create(str(tmp_path / "queue"), "b", 100)
    files.write(str(tmp_path / "queue" / "a"), b"12345", 10)
    assert (tmp_path / "queue" / "a").read_bytes()[9:16] == b"\x0012345\x00"
    due = files.take_unsynced(least_bytes=5)
    assert due == Unsynced(
        (str(tmp_path / "queue" / "a"),), (str(tmp_path), str(tmp_path / "queue"))
    )
    assert files.take_unsynced() == Unsynced((str(tmp_path / "queue" / "b"),), ())
    assert not files.take_unsynced()


def test_a_removed_file_is_closed_and_only_its_name_is_synced(
    tmp_path: Path, disk: CountingDisk
) -> None:
    files = OpenFiles(disk, limit=2)
    files.create(str(tmp_path), "a", 100)
    files.take_unsynced()
    files.write(str(tmp_path / "a"), b"new", 0)
    files.remove(str(tmp_path / "a"))
    assert disk.open_now() == []
    assert files.take_unsynced() == Unsynced((), (str(tmp_path),))
    assert not (tmp_path / "a").exists()


def test_a_sync_has_descriptors_of_its_own(tmp_path: Path, disk: CountingDisk) -> None:
    (tmp_path / "a").write_text("a")
    unsynced = Unsynced((str(tmp_path / "a"), str(tmp_path / "gone")), (str(tmp_path / "gone"),))
    unsynced.sync(disk)
    assert disk.opened == ["a"]
    assert disk.open_now() == []


def test_a_failed_sync_is_told(tmp_path: Path) -> None:
    (tmp_path / "directory").mkdir()
    with pytest.raises(DiskFailed) as caught:
        Unsynced((str(tmp_path / "directory"),), ()).sync(RealDisk())
    assert caught.value.errno == errno.EISDIR


def test_a_limit_of_nothing_is_refused() -> None:
    with pytest.raises(InvalidInput, match="limit is 0"):
        OpenFiles(RealDisk(), limit=0)


class Hastened(SimulatedDisk):
    """Counts the hints."""

    hints = 0

    def hasten(self) -> None:
        self.hints += 1


@pytest.mark.parametrize(("count", "hints"), [(256, 0), (257, 1)])
def test_many_files_are_written_back_together_before_each_is_synced(count: int, hints: int) -> None:
    disk = Hastened()
    files = OpenFiles(disk, limit=8)
    for number in range(count):
        files.create("/queues", f"{number}", 20)
        files.write(f"/queues/{number}", b"entry", 0)
    files.take_unsynced().sync(disk)
    assert disk.hints == hints
    disk.sync_directory("/")  # whoever makes the first directory sees to its name
    disk.crash()
    assert disk.open("/queues/0").read(5, 0) == b"entry"
