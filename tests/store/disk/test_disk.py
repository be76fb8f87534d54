"""What every disk keeps, shown on the real one and on its stand-in; then the real one's own."""

import errno
import mmap
import os
import resource
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from orbitmq.errors import DiskFailed, StoreLocked
from orbitmq.message.buffer import Buffer
from orbitmq.store.disk.disk import Disk, RealDisk, Usage
from orbitmq.testing.disks import SimulatedDisk


@pytest.fixture(params=[RealDisk, SimulatedDisk])
def disk(request: pytest.FixtureRequest) -> Disk:
    made: Disk = request.param()
    return made


@pytest.fixture
def root(disk: Disk, tmp_path: Path) -> str:
    path = str(tmp_path)
    disk.make_directory(path)
    return path


def put(disk: Disk, path: str, data: bytes = b"") -> None:
    file = disk.open(path, create=True)
    file.write([data], 0)
    file.close()


def contents(disk: Disk, path: str) -> bytes:
    file = disk.open(path, writable=False)
    try:
        return file.read(1 << 20, 0)
    finally:
        file.close()


# Files.


def test_what_is_written_is_read(disk: Disk, root: str) -> None:
    file = disk.open(f"{root}/f", create=True)
    file.write([b"abc", bytearray(b"de"), memoryview(b"xfx")[1:2]], 0)
    file.write([b"-"], 2)
    assert file.read(3, 0) == b"ab-"
    assert file.read(100, 4) == b"ef"
    assert file.read(100, 6) == b""
    assert file.path == f"{root}/f"
    assert file.size == disk.size(f"{root}/f") == 6
    file.sync()
    file.close()
    assert contents(disk, f"{root}/f") == b"ab-def"


def test_nothing_written_is_nothing_changed(disk: Disk, root: str) -> None:
    file = disk.open(f"{root}/f", create=True)
    file.write([], 10)
    file.write([b"", b""], 10)
    assert file.size == 0
    file.close()


def test_a_write_past_the_end_leaves_zeros_between(disk: Disk, root: str) -> None:
    file = disk.open(f"{root}/f", create=True)
    file.write([b"end"], 5000)
    assert file.read(6000, 0) == bytes(5000) + b"end"
    file.close()


def test_more_buffers_than_the_system_takes_at_once(disk: Disk, root: str) -> None:
    file = disk.open(f"{root}/f", create=True)
    buffers = [number.to_bytes(2) for number in range(5000)]
    file.write(buffers, 7)
    assert file.read(20_000, 7) == b"".join(buffers)
    file.close()


def test_open_makes_a_file_only_when_asked(disk: Disk, root: str) -> None:
    with pytest.raises(DiskFailed, match=f"can't open {root}/f: No such file") as caught:
        disk.open(f"{root}/f")
    assert (caught.value.path, caught.value.errno) == (f"{root}/f", errno.ENOENT)
    put(disk, f"{root}/f", b"kept")
    disk.open(f"{root}/f", create=True).close()
    assert contents(disk, f"{root}/f") == b"kept"


def test_a_file_opened_to_read_takes_no_write(disk: Disk, root: str) -> None:
    put(disk, f"{root}/f", b"kept")
    file = disk.open(f"{root}/f", writable=False)
    with pytest.raises(DiskFailed, match="can't write 1 bytes at 0 to") as caught:
        file.write([b"x"], 0)
    assert caught.value.errno == errno.EBADF
    assert file.read(9, 0) == b"kept"
    file.close()


@pytest.mark.parametrize(
    "use",
    [
        lambda file: file.write([b"x"], 0),
        lambda file: file.read(1, 0),
        lambda file: file.map(),
        lambda file: file.allocate(1),
        lambda file: file.extend(1),
        lambda file: file.sync(),
        lambda file: file.size,
    ],
)
def test_a_closed_file_can_not_be_used(
    disk: Disk, root: str, use: Callable[[object], object]
) -> None:
    file = disk.open(f"{root}/f", create=True)
    file.close()
    file.close()  # twice is fine
    with pytest.raises(DiskFailed) as caught:
        use(file)
    assert caught.value.errno == errno.EBADF


def test_allocation_adds_zeros_and_never_shortens(disk: Disk, root: str) -> None:
    file = disk.open(f"{root}/f", create=True)
    file.write([b"abc"], 0)
    file.allocate(8192)
    assert file.read(9000, 0) == b"abc" + bytes(8189)
    file.allocate(100)
    assert file.size == 8192
    with pytest.raises(DiskFailed, match="can't allocate 0 bytes for"):
        file.allocate(0)
    file.close()


def test_extension_adds_zeros_and_never_shortens(disk: Disk, root: str) -> None:
    file = disk.open(f"{root}/f", create=True)
    file.write([b"abc"], 0)
    file.extend(8192)
    file.extend(100)
    assert file.size == 8192
    assert file.read(9000, 0) == b"abc" + bytes(8189)
    file.close()


def test_a_negative_offset_is_refused(disk: Disk, root: str) -> None:
    file = disk.open(f"{root}/f", create=True)
    for use in (lambda: file.write([b"x"], -1), lambda: file.read(1, -1)):
        with pytest.raises(DiskFailed) as caught:
            use()
        assert caught.value.errno == errno.EINVAL
    file.close()


# Maps.


def test_a_map_shows_later_writes_and_takes_none(disk: Disk, root: str) -> None:
    file = disk.open(f"{root}/f", create=True)
    file.allocate(4096)
    view = file.map()
    file.write([b"later"], 10)
    assert bytes(view[8:16]) == b"\0\0later\0"
    assert len(view) == 4096
    assert view.readonly
    file.close()


def test_a_map_outlives_close_and_remove(disk: Disk, root: str) -> None:
    put(disk, f"{root}/f", b"still here")
    file = disk.open(f"{root}/f")
    view = file.map()[6:]
    file.close()
    disk.remove(f"{root}/f")
    assert bytes(view) == b"here"


def test_a_file_may_grow_under_a_map(disk: Disk, root: str) -> None:
    file = disk.open(f"{root}/f", create=True)
    file.write([b"12345"], 0)
    view = file.map()
    file.allocate(10_000)
    file.write([b"-and-more"], 4)
    assert bytes(view) == b"1234-"
    assert bytes(file.map()[:13]) == b"1234-and-more"
    file.close()


def test_an_empty_file_has_an_empty_map(disk: Disk, root: str) -> None:
    file = disk.open(f"{root}/f", create=True)
    assert bytes(file.map()) == b""
    file.close()


# Names.


def test_names_are_listed_in_order(disk: Disk, root: str) -> None:
    for name in ("b", "a", "%RETRY%g"):
        put(disk, f"{root}/{name}")
    disk.make_directory(f"{root}/c/d/e")
    assert disk.list(root) == ["%RETRY%g", "a", "b", "c"]
    assert disk.list(f"{root}/c/d/e") == []
    assert disk.list(f"{root}/nowhere") == []
    with pytest.raises(DiskFailed, match="can't list"):
        disk.list(f"{root}/a")


def test_files_and_directories_are_told_apart(disk: Disk, root: str) -> None:
    put(disk, f"{root}/f")
    assert (disk.exists(root), disk.is_directory(root)) == (True, True)
    assert (disk.exists(f"{root}/f"), disk.is_directory(f"{root}/f")) == (True, False)
    for absent in (f"{root}/g", f"{root}/f/below"):
        assert (disk.exists(absent), disk.is_directory(absent)) == (False, False)


def test_a_directory_that_exists_is_made_again_but_not_over_a_file(disk: Disk, root: str) -> None:
    put(disk, f"{root}/f")
    disk.make_directory(root)
    assert disk.list(root) == ["f"]
    with pytest.raises(DiskFailed, match=f"can't create {root}/f: File exists"):
        disk.make_directory(f"{root}/f")


def test_a_file_needs_its_directory(disk: Disk, root: str) -> None:
    with pytest.raises(DiskFailed, match="can't open") as caught:
        disk.open(f"{root}/absent/f", create=True)
    assert caught.value.errno == errno.ENOENT
    with pytest.raises(DiskFailed, match="can't open") as caught:
        disk.open(root)
    assert caught.value.errno == errno.EISDIR


def test_remove(disk: Disk, root: str) -> None:
    put(disk, f"{root}/f")
    disk.remove(f"{root}/f")
    assert not disk.exists(f"{root}/f")
    with pytest.raises(DiskFailed, match=f"can't remove {root}/f: No such file"):
        disk.remove(f"{root}/f")
    with pytest.raises(DiskFailed, match=f"can't remove {root}"):
        disk.remove(root)


def test_a_directory_is_removed_only_when_empty(disk: Disk, root: str) -> None:
    disk.make_directory(f"{root}/d")
    put(disk, f"{root}/d/f")
    with pytest.raises(DiskFailed, match="can't remove") as caught:
        disk.remove_directory(f"{root}/d")
    assert caught.value.errno == errno.ENOTEMPTY
    with pytest.raises(DiskFailed, match="Not a directory"):
        disk.remove_directory(f"{root}/d/f")
    disk.remove(f"{root}/d/f")
    disk.remove_directory(f"{root}/d")
    assert disk.list(root) == []


def test_rename_replaces(disk: Disk, root: str) -> None:
    put(disk, f"{root}/new", b"new")
    put(disk, f"{root}/old", b"old")
    disk.rename(f"{root}/new", f"{root}/old")
    assert disk.list(root) == ["old"]
    assert contents(disk, f"{root}/old") == b"new"
    disk.rename(f"{root}/old", f"{root}/old")
    assert disk.list(root) == ["old"]


def test_rename_to_another_directory(disk: Disk, root: str) -> None:
    put(disk, f"{root}/f", b"moved")
    disk.make_directory(f"{root}/d")
    disk.rename(f"{root}/f", f"{root}/d/g")
    assert disk.list(root) == ["d"]
    assert contents(disk, f"{root}/d/g") == b"moved"


def test_rename_takes_a_directory_with_what_is_in_it(disk: Disk, root: str) -> None:
    disk.make_directory(f"{root}/d")
    put(disk, f"{root}/d/f", b"moved")
    disk.rename(f"{root}/d", f"{root}/e")
    assert disk.list(root) == ["e"]
    assert contents(disk, f"{root}/e/f") == b"moved"


def test_rename_needs_a_file_and_a_place(disk: Disk, root: str) -> None:
    with pytest.raises(DiskFailed, match=f"can't rename to {root}/b {root}/a: No such file"):
        disk.rename(f"{root}/a", f"{root}/b")
    put(disk, f"{root}/a")
    for new, reason in ((f"{root}/absent/b", errno.ENOENT), (root, errno.EISDIR)):
        with pytest.raises(DiskFailed, match="can't rename") as caught:
            disk.rename(f"{root}/a", new)
        assert caught.value.errno in (reason, errno.ENOTEMPTY, errno.EBUSY)


def test_an_open_file_keeps_its_bytes_whatever_its_name(disk: Disk, root: str) -> None:
    put(disk, f"{root}/f", b"first")
    file = disk.open(f"{root}/f")
    put(disk, f"{root}/g", b"other")
    disk.rename(f"{root}/g", f"{root}/f")
    assert file.read(9, 0) == b"first"
    file.close()


def test_sync_directory(disk: Disk, root: str) -> None:
    disk.sync_directory(root)
    with pytest.raises(DiskFailed, match=f"can't sync {root}/absent: No such file"):
        disk.sync_directory(f"{root}/absent")


def test_the_last_hole_of_a_file_is_known(tmp_path: Path) -> None:
    path = tmp_path / "sparse"
    path.write_bytes(b"")
    file = RealDisk().open(str(path))
    assert file.data_end == 0
    file.extend(64 * 1024 * 1024)
    assert file.data_end in (0, file.size)  # where a file system knows nothing of holes
    file.write([b"x" * 100], 5 * 1024 * 1024)
    end = file.data_end
    assert 5 * 1024 * 1024 + 100 <= end <= file.size
    if path.stat().st_blocks * 512 < file.size:  # it has a hole
        assert end < 6 * 1024 * 1024
    file.write([b"x"], file.size - 1)
    assert file.data_end == file.size
    file.close()


@pytest.mark.parametrize("ask", ["size", "modified_ms"])
def test_an_absent_file_has_no_size_and_no_time(disk: Disk, root: str, ask: str) -> None:
    with pytest.raises(DiskFailed, match=f"can't look at {root}/f: No such file"):
        getattr(disk, ask)(f"{root}/f")


def test_a_write_renews_the_time(disk: Disk, root: str) -> None:
    put(disk, f"{root}/f", b"x")
    assert disk.modified_ms(f"{root}/f") > 1_600_000_000_000


def test_usage_is_a_part_of_the_whole(disk: Disk, root: str) -> None:
    put(disk, f"{root}/f", bytes(100_000))
    found = disk.usage(root)
    assert 0 < found.used <= found.total
    assert found.ratio == found.used / found.total
    with pytest.raises(DiskFailed, match="can't look at the file system of"):
        disk.usage(f"{root}/absent")


def test_an_unknown_file_system_is_empty() -> None:
    assert Usage(0, 0).ratio == 0.0


# Locks.


@pytest.mark.parametrize(
    ("limit", "files"),
    [(256, 512), (20_000, 10_000), (1_000_000, 32_768), (resource.RLIM_INFINITY, 32_768)],
)
def test_half_of_the_descriptors_are_for_files(
    limit: int, files: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _which: (limit, limit))
    assert RealDisk().files_at_once() == files


def test_a_lock_is_held_until_it_is_released(disk: Disk, root: str) -> None:
    held = disk.lock(f"{root}/lock", "lock")
    for _ in range(2):  # a refused attempt must not free it either
        with pytest.raises(StoreLocked, match=f"{root}/lock is locked by process"):
            disk.lock(f"{root}/lock", "lock")
    disk.lock(f"{root}/other", "lock").release()
    held.release()
    held.release()
    disk.lock(f"{root}/lock", "lock").release()
    assert contents(disk, f"{root}/lock") == b"lock"


def test_a_lock_needs_its_directory(disk: Disk, root: str) -> None:
    with pytest.raises(DiskFailed, match="No such file"):
        disk.lock(f"{root}/absent/lock", "lock")


# The real disk: what the system does in its own way.


def test_a_short_write_is_carried_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = os.pwritev

    def short(descriptor: int, buffers: Sequence[Buffer], offset: int) -> int:
        return whole(descriptor, [b"".join(buffers)[:3]], offset)

    monkeypatch.setattr(os, "pwritev", short)
    file = RealDisk().open(str(tmp_path / "f"), create=True)
    file.write([b"ab", b"cdef", b"", b"g"], 1)
    assert file.read(20, 0) == b"\0abcdefg"
    file.close()


def test_a_short_write_that_ends_in_an_error_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "pwritev", lambda *_: 1)
    monkeypatch.setattr(os, "pwrite", full)
    file = RealDisk().open(str(tmp_path / "f"), create=True)
    with pytest.raises(DiskFailed, match="can't write 2 bytes at 5 to .*: No space left"):
        file.write([b"ab"], 5)
    file.close()


def test_a_full_device() -> None:
    file = RealDisk().open("/dev/full")
    with pytest.raises(DiskFailed, match="can't write 4 bytes at 0 to /dev/full") as caught:
        file.write([b"data"], 0)
    assert caught.value.errno == errno.ENOSPC
    file.close()


@pytest.mark.parametrize(
    ("call", "reason", "use", "text"),
    [
        ("open", errno.EROFS, "open", "can't open {}: Read-only file system"),
        ("open", errno.EACCES, "open", "can't open {}: Permission denied"),
        ("open", errno.EMFILE, "open", "can't open {}: Too many open files"),
        ("lstat", errno.EACCES, "exists", "can't look at {}: Permission denied"),
        ("stat", errno.EIO, "is_directory", "can't look at {}: Input/output error"),
        ("replace", errno.EROFS, "rename", "can't rename to {}.new {}: Read-only file system"),
        ("makedirs", errno.ENOSPC, "make_directory", "can't create {}: No space left on device"),
    ],
)
def test_a_refusal_names_the_path_and_the_reason(
    monkeypatch: pytest.MonkeyPatch, call: str, reason: int, use: str, text: str
) -> None:
    def refuse(*_: object, **__: object) -> object:
        raise OSError(reason, os.strerror(reason))

    monkeypatch.setattr(os, call, refuse)
    arguments = ("/data/f", "/data/f.new") if use == "rename" else ("/data/f",)
    with pytest.raises(DiskFailed) as caught:
        getattr(RealDisk(), use)(*arguments)
    assert str(caught.value) == text.replace("{}", "/data/f")
    assert (caught.value.path, caught.value.errno) == ("/data/f", reason)


@pytest.mark.parametrize(
    ("call", "use", "text"),
    [
        ("fdatasync", lambda file: file.sync(), "can't sync"),
        ("close", lambda file: file.close(), "can't close"),
        ("posix_fallocate", lambda file: file.allocate(9), "can't allocate 9 bytes for"),
        ("pread", lambda file: file.read(3, 4), "can't read 3 bytes at 4 of"),
    ],
)
def test_an_error_of_the_device_names_the_file(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    call: str,
    use: Callable[[object], object],
    text: str,
) -> None:
    def refuse(*_: object) -> object:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    file = RealDisk().open(str(tmp_path / "f"), create=True)
    with monkeypatch.context() as patch:
        patch.setattr(os, call, refuse)
        with pytest.raises(DiskFailed) as caught:
            use(file)
    assert str(caught.value) == f"{text} {tmp_path}/f: Input/output error"
    file.close()


def test_a_map_that_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> object:
        raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))

    put(RealDisk(), str(tmp_path / "f"), b"x")
    file = RealDisk().open(str(tmp_path / "f"))
    monkeypatch.setattr(mmap, "mmap", refuse)
    with pytest.raises(DiskFailed, match="can't map .*/f: Cannot allocate memory"):
        file.map()
    file.close()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Mount a file system of 64 KiB."""
    place = tmp_path / "small"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=65536", "orbitmq-test", str(place)]
    try:
        found = subprocess.run(mount, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("no mount command on this machine")
    if found.returncode:
        pytest.skip(f"can't mount a small file system here: {found.stderr.strip()}")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_a_full_disk_refuses_and_what_was_there_stays(small_disk: Path) -> None:
    disk = RealDisk()
    file = disk.open(str(small_disk / "f"), create=True)
    file.allocate(32_768)
    with pytest.raises(DiskFailed, match="can't allocate 100000 bytes for") as caught:
        file.allocate(100_000)
    assert caught.value.errno == errno.ENOSPC
    more = disk.open(str(small_disk / "g"), create=True)
    with pytest.raises(DiskFailed, match="can't write 100000 bytes at 0 to") as caught:
        more.write([bytes(100_000)], 0)
    assert caught.value.errno == errno.ENOSPC
    assert disk.usage(str(small_disk)).ratio == 1.0
    file.write([b"allocated space can be written"], 1000)
    assert file.read(9, 1000) == b"allocated"
    more.close()
    file.close()
