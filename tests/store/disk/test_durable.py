import errno
import itertools
from pathlib import Path

import pytest

from orbitmq.errors import DiskFailed
from orbitmq.randomness import SeededRandomness
from orbitmq.store.disk.disk import RealDisk
from orbitmq.store.disk.durable import (
    make_durable_directory,
    parent_of,
    read_file,
    remove_tree,
    replace_file,
)
from orbitmq.testing.disks import Call, Operation, PowerLost, SimulatedDisk


@pytest.mark.parametrize(
    ("path", "parent"),
    [
        ("/a/b", "/a"),
        ("/a/b/", "/a"),
        ("/a", "/"),
        ("/", "/"),
        ("a/b", "a"),
        ("a", "."),
        (".", "."),
    ],
)
def test_parent_of(path: str, parent: str) -> None:
    assert parent_of(path) == parent


@pytest.mark.parametrize("path", ["/a/b/c", "/a/b/c/", "a/b/c"])
def test_every_new_level_of_a_directory_survives(path: str) -> None:
    disk = SimulatedDisk()
    make_durable_directory(disk, path)
    disk.crash()
    assert disk.is_directory(path)


def test_a_directory_that_exists_costs_no_sync() -> None:
    disk = SimulatedDisk()
    make_durable_directory(disk, "/a")
    disk.log.clear()
    make_durable_directory(disk, "/a")
    assert disk.log == [Call("make_directory", "/a")]


def test_a_relative_directory_on_the_real_disk(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path_factory.mktemp("work"))
    make_durable_directory(RealDisk(), "data/store")
    replace_file(RealDisk(), "abort", b"1")
    assert RealDisk().list(".") == ["abort", "data"]


def test_read_file_tells_absent_from_empty_and_unreadable() -> None:
    disk = SimulatedDisk()
    assert read_file(disk, "/f") is None
    disk.open("/f", create=True).close()
    assert read_file(disk, "/f") == b""
    disk.fail("read", "/f", errno.EIO)
    with pytest.raises(DiskFailed):
        read_file(disk, "/f")


def test_the_bytes_are_on_the_disk_before_the_name() -> None:
    disk = SimulatedDisk()
    replace_file(disk, "/f", b"abc")
    assert [call.operation for call in disk.log] == [
        *("open", "write", "sync"),
        *("rename", "sync_directory"),
    ]


def test_what_a_crash_left_behind_does_not_show_through() -> None:
    disk = SimulatedDisk()
    file = disk.open("/f.tmp", create=True)
    file.write([b"a long version that was never finished"], 0)
    replace_file(disk, "/f", b"short")
    assert read_file(disk, "/f") == b"short"
    assert disk.list("/") == ["f"]


def test_the_old_version_is_the_backup() -> None:
    disk = SimulatedDisk()
    for number in range(4):
        replace_file(disk, "/f", b"%d" % number, backup="/f.bak")
    assert (read_file(disk, "/f"), read_file(disk, "/f.bak")) == (b"3", b"2")


@pytest.mark.parametrize("operation", ["open", "write", "sync", "rename"])
def test_a_refusal_leaves_the_old_version(operation: Operation) -> None:
    disk = SimulatedDisk()
    replace_file(disk, "/f", b"old")
    disk.fail(operation, "/f.tmp", errno.ENOSPC)
    with pytest.raises(DiskFailed, match="No space left"):
        replace_file(disk, "/f", b"new")
    assert read_file(disk, "/f") == b"old"
    replace_file(disk, "/f", b"newer")
    assert read_file(disk, "/f") == b"newer"


@pytest.mark.parametrize("seed", [None, *range(30)])
def test_a_crash_at_any_point_leaves_the_old_version_or_the_new(seed: int | None) -> None:
    for calls in itertools.count():
        disk = SimulatedDisk(None if seed is None else SeededRandomness(seed))
        replace_file(disk, "/f", b"old" * 3000)
        disk.cut_power(after=calls)
        try:
            replace_file(disk, "/f", b"new" * 5000)
        except PowerLost:
            disk.crash()
            assert read_file(disk, "/f") in (b"old" * 3000, b"new" * 5000)
            continue
        disk.crash()
        assert read_file(disk, "/f") == b"new" * 5000
        assert calls > 3
        break


def test_a_tree_goes_with_all_that_is_in_it(tmp_path: Path) -> None:
    disk = RealDisk()
    (tmp_path / "queue/0/deep").mkdir(parents=True)
    (tmp_path / "queue/0/deep/file").write_bytes(b"a")
    (tmp_path / "beside").touch()
    remove_tree(disk, f"{tmp_path}/queue")
    remove_tree(disk, f"{tmp_path}/absent")
    assert disk.list(str(tmp_path)) == ["beside"]
