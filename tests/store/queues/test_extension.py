"""Tags codes in extensions. Java's store is read in test_consume_queues and test_lookup."""

import logging
import os
import struct
from pathlib import Path

import pytest

from orbitmq.errors import StoreDamaged
from orbitmq.store.disk.disk import RealDisk
from orbitmq.store.queues.extension import QueueExtensions, is_address

LEAST = -(1 << 63)


def unit(tags_code: int, bitmap: bytes = b"") -> bytes:
    return struct.pack(">hqqh", 20 + len(bitmap), tags_code, 1_000, len(bitmap)) + bitmap


@pytest.fixture
def queue(tmp_path: Path) -> Path:
    directory = tmp_path / "orders" / "0"
    directory.mkdir(parents=True)
    return directory


def extensions(root: Path) -> QueueExtensions:
    return QueueExtensions(RealDisk(), str(root))


@pytest.mark.parametrize(
    ("code", "expected"),
    [(0, False), (-(1 << 31), False), (-(1 << 31) - 1, True), (LEAST, True), (1 << 62, False)],
)
def test_addresses_are_below_every_hash(code: int, expected: bool) -> None:
    assert is_address(code) is expected


def test_units_are_read_in_every_file(tmp_path: Path, queue: Path) -> None:
    first = unit(-5) + unit(7, b"\xff\x00")
    (queue / f"{0:020d}").write_bytes(first.ljust(64, b"\0"))
    found = extensions(tmp_path)
    assert found.tags_code_of("orders", 0, LEAST) == -5
    assert found.tags_code_of("orders", 0, LEAST + 20) == 7
    (queue / f"{64:020d}").write_bytes(unit(9).ljust(64, b"\0"))
    assert found.tags_code_of("orders", 0, LEAST + 64) == 9
    assert found.tags_code_of("orders", 0, 2112) == 2112


@pytest.mark.parametrize("position", [20, 60, 64, 1_000_000, (1 << 63) - (1 << 31) - 1])
def test_an_address_without_a_unit_raises(tmp_path: Path, queue: Path, position: int) -> None:
    (queue / f"{0:020d}").write_bytes(unit(-5).ljust(64, b"\0"))
    with pytest.raises(StoreDamaged, match="has no unit") as caught:
        extensions(tmp_path).tags_code_of("orders", 0, LEAST + position)
    assert caught.value.position == position


def test_units_are_read_many_at_a_time(
    tmp_path: Path, queue: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orbitmq.store.queues.extension._BLOCK_BYTES", 50)
    (queue / f"{0:020d}").write_bytes(b"".join(unit(code) for code in range(10)).ljust(256, b"\0"))
    (queue / f"{256:020d}").write_bytes(unit(77).ljust(256, b"\0"))
    found = extensions(tmp_path)
    codes = [found.tags_code_of("orders", 0, LEAST + 20 * number) for number in range(10)]
    assert codes == list(range(10))
    assert found.tags_code_of("orders", 0, LEAST + 256) == 77
    assert found.tags_code_of("orders", 0, LEAST) == 0


def test_what_is_not_found_is_logged_once_for_each_queue(
    tmp_path: Path, queue: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (queue / f"{0:020d}").write_bytes(unit(-5).ljust(64, b"\0"))
    found = extensions(tmp_path)
    with caplog.at_level(logging.ERROR, logger="orbitmq.store"):
        assert [found.find("orders", 0, LEAST + at) for at in (64, 0, 20, 1_000)] == [
            None, -5, None, None,
        ]  # fmt: skip
        assert found.find("orders", 7, LEAST) is None
    assert len(caplog.messages) == 2
    assert f"{queue} has no unit" in caplog.messages[0]


def open_below(root: Path) -> int:
    """Return how many files below a directory this process has open, deleted ones too."""
    links = (Path("/proc/self/fd") / name for name in os.listdir("/proc/self/fd"))
    return sum(os.readlink(link).startswith(f"{root}/") for link in links if link.is_symlink())


def test_files_of_a_deleted_topic_are_closed(tmp_path: Path, queue: Path) -> None:
    (queue / f"{0:020d}").write_bytes(unit(-5).ljust(64, b"\0"))
    found = extensions(tmp_path)
    assert found.find("orders", 0, LEAST) == -5
    assert open_below(tmp_path) == 1
    (queue / f"{0:020d}").unlink()
    found.forget("orders")
    assert open_below(tmp_path) == 0
    assert found.find("orders", 0, LEAST) is None


def test_few_files_are_open_however_many_queues_there_are(tmp_path: Path) -> None:
    found = extensions(tmp_path)
    for number in range(100):
        directory = tmp_path / "orders" / str(number)
        directory.mkdir(parents=True)
        (directory / f"{0:020d}").write_bytes(unit(number).ljust(64, b"\0"))
        assert found.find("orders", number, LEAST) == number
    assert open_below(tmp_path) == 64
    found.close()
    assert open_below(tmp_path) == 0


def test_a_queue_without_extension_is_logged(tmp_path: Path) -> None:
    with pytest.raises(StoreDamaged, match="has no unit"):
        extensions(tmp_path).tags_code_of("orders", 0, LEAST)
