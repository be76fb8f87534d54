"""Tags codes that stand elsewhere. The golden store of Java is read in test_consume_queues."""

import struct
from pathlib import Path

import pytest

from orbitmq.errors import StoreDamaged
from orbitmq.store.disk import RealDisk
from orbitmq.store.queue_extension import QueueExtensions, is_address

LEAST = -(1 << 63)


def unit(tags_code: int, bitmap: bytes = b"") -> bytes:
    return struct.pack(">hqqh", 20 + len(bitmap), tags_code, 1_000, len(bitmap)) + bitmap


@pytest.fixture
def queue(tmp_path: Path) -> Path:
    directory = tmp_path / "orders" / "0"
    directory.mkdir(parents=True)
    return directory


def extensions(root: Path) -> QueueExtensions:
    return QueueExtensions(RealDisk(), str(root), file_bytes=64)


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
def test_an_address_of_nothing_is_told(tmp_path: Path, queue: Path, position: int) -> None:
    (queue / f"{0:020d}").write_bytes(unit(-5).ljust(64, b"\0"))
    with pytest.raises(StoreDamaged, match="has no unit") as caught:
        extensions(tmp_path).tags_code_of("orders", 0, LEAST + position)
    assert caught.value.position == position


def test_a_queue_without_extension_is_told(tmp_path: Path) -> None:
    with pytest.raises(StoreDamaged, match="has no unit"):
        extensions(tmp_path).tags_code_of("orders", 0, LEAST)
