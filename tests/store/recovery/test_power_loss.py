import errno
from pathlib import Path

import pytest

from orbitmq.errors import DiskFailed
from orbitmq.store.disk.disk import RealDisk
from orbitmq.store.disk.stream_files import file_name
from orbitmq.store.log.segments import Segment
from orbitmq.store.recovery.power_loss import mend_queues, mend_stream, write_again
from orbitmq.testing.disks import SimulatedDisk


def sizes(directory: Path) -> dict[int, int]:
    return {int(path.name): path.stat().st_size for path in sorted(directory.iterdir())}


def test_short_files_get_their_length_and_keep_what_they_hold(tmp_path: Path) -> None:
    (tmp_path / file_name(0)).write_bytes(b"x" * 100)
    (tmp_path / file_name(100)).write_bytes(b"y" * 30)
    (tmp_path / file_name(200)).touch()
    mend_stream(RealDisk(), str(tmp_path), 100)
    assert sizes(tmp_path) == {0: 100, 100: 100, 200: 100}
    assert (tmp_path / file_name(100)).read_bytes() == b"y" * 30 + bytes(70)


def test_files_after_a_missing_one_are_removed(tmp_path: Path) -> None:
    for base in (100, 200, 400, 500):
        (tmp_path / file_name(base)).write_bytes(bytes(100))
    mend_stream(RealDisk(), str(tmp_path), 100)
    assert sizes(tmp_path) == {100: 100, 200: 100}


def test_what_is_no_file_of_the_stream_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / file_name(0)).write_bytes(bytes(200))
    mend_stream(RealDisk(), str(tmp_path), 100)
    assert (tmp_path / "notes.txt").read_text() == "mine"
    assert (tmp_path / file_name(0)).stat().st_size == 200


def test_every_queue_is_mended(tmp_path: Path) -> None:
    for queue in ("orders/0", "orders/1", "%RETRY%g/0"):
        (tmp_path / queue).mkdir(parents=True)
        (tmp_path / queue / file_name(0)).write_bytes(b"x")
    (tmp_path / "stray").write_text("mine")
    mend_queues(RealDisk(), str(tmp_path), 100)
    assert sizes(tmp_path / "orders/0") == sizes(tmp_path / "%RETRY%g/0") == {0: 100}


def test_nothing_there_is_nothing_to_mend(tmp_path: Path) -> None:
    mend_queues(RealDisk(), str(tmp_path / "none"), 100)


def test_a_log_file_after_a_missing_one_is_kept_if_it_has_data(
    tmp_path: Path,
) -> None:
    (tmp_path / file_name(0)).write_bytes(bytes(100))
    (tmp_path / file_name(200)).write_bytes(b"records".ljust(100))
    mend_stream(RealDisk(), str(tmp_path), 100, keep_filled=True)
    assert sizes(tmp_path) == {0: 100, 200: 100}
    (tmp_path / file_name(200)).write_bytes(bytes(100))
    mend_stream(RealDisk(), str(tmp_path), 100, keep_filled=True)
    assert sizes(tmp_path) == {0: 100}


def test_a_short_file_after_a_removed_one_is_extended(tmp_path: Path) -> None:
    for base in (0, 200, 300):
        (tmp_path / "orders/0").mkdir(parents=True, exist_ok=True)
        (tmp_path / "orders/0" / file_name(base)).write_bytes(b"entries")
    mend_queues(RealDisk(), str(tmp_path), 100)
    assert sizes(tmp_path / "orders/0") == {0: 100, 200: 100, 300: 100}


def test_what_was_mended_stays_so() -> None:
    disk = SimulatedDisk()
    disk.make_directory("/queues/orders/0")
    path = f"/queues/orders/0/{file_name(0)}"
    disk.open(path, create=True).write([b"entry"], 0)
    for parent in ("/", "/queues", "/queues/orders"):
        disk.sync_directory(parent)
    mend_queues(disk, "/queues", 100)
    disk.crash()
    assert disk.open(path).read(200, 0) == b"entry" + bytes(95)


def test_what_is_written_again_reaches_the_disk_after_a_failed_sync() -> None:
    disk = SimulatedDisk()
    file = disk.open("/log", create=True)
    disk.sync_directory("/")
    file.allocate(3 * 4096)
    file.sync()
    file.write([b"x" * 3 * 4096], 0)
    disk.fail("sync", "log", errno.EIO)
    with pytest.raises(DiskFailed):
        file.sync()
    segment = Segment(disk, "/log", 8192, 3 * 4096, file)
    write_again(segment, 8192 + 4096, 1 << 40)
    file.sync()
    disk.crash()
    assert disk.open("/log").read(3 * 4096, 0) == bytes(4096) + b"x" * 8192
