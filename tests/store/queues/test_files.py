"""A stream of bytes in files of one size."""

from pathlib import Path

import pytest

from orbitmq.errors import StoreDamaged
from orbitmq.store.disk.disk import RealDisk
from orbitmq.store.disk.open_files import OpenFiles
from orbitmq.store.queues.files import QueueFiles
from tests.store.golden import contents


def files_in(directory: Path, size: int = 10) -> QueueFiles:
    return QueueFiles(OpenFiles(RealDisk(), limit=4), str(directory), size)


def name(position: int) -> str:
    return f"{position:020d}"


def test_a_write_goes_to_every_file_it_touches(tmp_path: Path) -> None:
    files = files_in(tmp_path / "queue")
    files.write(0, b"0123456")
    files.write(7, b"789abcdefghijkl")
    assert (files.start, files.end) == (0, 30)
    assert contents(tmp_path / "queue") == {
        name(0): b"0123456789",
        name(10): b"abcdefghij",
        name(20): b"kl" + bytes(8),
    }
    assert files.read(8, 100) == b"89"
    assert files.read(30, 1) == b""


def test_the_first_write_may_be_anywhere(tmp_path: Path) -> None:
    files = files_in(tmp_path)
    files.write(47, b"xyz")
    assert (files.start, files.end) == (40, 50)
    assert files.read(0, 1) == b""
    assert contents(tmp_path) == {name(40): bytes(7) + b"xyz"}


def test_files_are_found_again(tmp_path: Path) -> None:
    files_in(tmp_path).write(40, b"x" * 20)
    (tmp_path / "directory").mkdir()
    found = files_in(tmp_path)
    found.load()
    assert (found.start, found.end) == (40, 60)
    assert found.path_of(59) == str(tmp_path / name(50))


def test_nothing_is_found_in_a_directory_that_is_absent(tmp_path: Path) -> None:
    files = files_in(tmp_path / "absent")
    files.load()
    assert (files.start, files.end) == (0, 0)


def test_an_empty_last_file_is_removed(tmp_path: Path) -> None:
    files_in(tmp_path).write(0, b"x" * 10)
    (tmp_path / name(10)).touch()
    files = files_in(tmp_path)
    files.load()
    assert files.end == 10
    assert list(contents(tmp_path)) == [name(0)]


@pytest.mark.parametrize(
    ("stray", "size", "why"),
    [
        (name(0), 9, "has 9 bytes, not 10"),
        ("0" * 19, 0, "not named by 20 digits"),
        ("notes.txt", 10, "not named by 20 digits"),
        ("٠" * 20, 10, "not named by 20 digits"),
        (name(5), 10, "no multiple of 10"),
    ],
)
def test_a_file_that_does_not_belong_there_is_told(
    tmp_path: Path, stray: str, size: int, why: str
) -> None:
    files_in(tmp_path).write(0, b"x" * 10)
    (tmp_path / stray).write_bytes(bytes(size))
    with pytest.raises(StoreDamaged, match=why) as caught:
        files_in(tmp_path).load()
    assert caught.value.path.startswith(str(tmp_path))


def test_of_files_with_one_missing_between_them_the_later_ones_stay_unless_they_are_empty(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    files_in(tmp_path).write(0, b"x" * 35)
    (tmp_path / name(10)).unlink()
    files = files_in(tmp_path)
    files.load()
    assert (files.start, files.end) == (20, 40)
    assert sorted(path.name for path in tmp_path.iterdir()) == [name(20), name(30)]
    assert f"{name(10)} is missing before {tmp_path / name(20)}" in caplog.text
    for start in (50, 70):
        (tmp_path / name(start)).write_bytes(bytes(10))
    open_files = OpenFiles(RealDisk(), limit=4)
    files = QueueFiles(open_files, str(tmp_path), 10)
    files.load()
    assert (files.start, files.end) == (20, 40)
    assert repr(open_files) == "<OpenFiles 0 of 4 open>"
    assert sorted(path.name for path in tmp_path.iterdir()) == [name(20), name(30)]


def test_what_is_known_to_be_stale_is_cleared_at_once(tmp_path: Path) -> None:
    files = QueueFiles(OpenFiles(RealDisk(), limit=4), str(tmp_path), 6_000_000)
    files.write(0, b"x" * 300_000)
    files.clear(4, 300_000)
    assert (tmp_path / name(0)).read_bytes() == b"xxxx" + bytes(5_999_996)
    assert (tmp_path / name(0)).stat().st_blocks * 512 < 400_000


@pytest.mark.parametrize("size", [20, 50_000, 100_000, 200_000])
def test_the_rest_is_cleared_ahead_of_what_is_written(tmp_path: Path, size: int) -> None:
    whole = b"1234" + b"stale" * 200_000
    (tmp_path / name(0)).write_bytes(whole.ljust(2_000_000, b"\0"))
    files = QueueFiles(OpenFiles(RealDisk(), limit=4), str(tmp_path), 2_000_000)
    files.load()
    files.clear(4, 4)
    for position in range(4, 1_200_004, size):
        if position % 50_000 < size:
            assert files.read(position, 65_536) == bytes(65_536), position
        files.write(position, b"n" * size)
    assert files.read(4, 1_200_000) == b"n" * 1_200_000


class SyncsSeen(OpenFiles):
    """Remembers which files were synced at once."""

    def __init__(self) -> None:
        super().__init__(RealDisk(), limit=4)
        self.synced: list[str] = []

    def sync(self, path: str) -> None:
        super().sync(path)
        self.synced.append(Path(path).name)


def test_what_was_cleared_can_not_come_back(tmp_path: Path) -> None:
    seen = SyncsSeen()
    files = QueueFiles(seen, str(tmp_path), 100)
    files.write(0, b"x" * 30)
    files.clear(30, 30)
    assert seen.synced == []
    files.clear(20, 30)
    assert seen.synced == [name(0)]


def test_nothing_is_cleared_behind_the_last_file(tmp_path: Path) -> None:
    files = files_in(tmp_path)
    files.write(0, b"x" * 10)
    files.clear(10, 10)
    files.clear(500, 500)
    assert contents(tmp_path) == {name(0): b"x" * 10}


def test_files_are_removed_from_either_end(tmp_path: Path) -> None:
    files = files_in(tmp_path)
    files.write(0, b"x" * 50)
    assert files.remove_behind(30) == [str(tmp_path / name(40)), str(tmp_path / name(30))]
    assert files.remove_first() == str(tmp_path / name(0))
    assert (files.start, files.end) == (10, 30)
    assert list(contents(tmp_path)) == [name(10), name(20)]
    assert len(files.remove_behind(0)) == 2
    assert (files.start, files.end) == (10, 10)
