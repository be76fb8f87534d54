import struct
from pathlib import Path

import pytest

from orbitmq.store.disk.disk import RealDisk
from orbitmq.store.layout import INDEX_ENTRY, INDEX_HEADER, INDEX_SLOT, key_hash
from orbitmq.store.reader.index_reader import IndexFile, index_files, index_names
from tests.store.golden import manifest
from tests.store.unpacked import NAMES, unpacked

BEGIN = 1_700_000_000_000


def index(keys: list[str], slots: int, entries: int, *, counted: int | None = None) -> bytearray:
    """Return an index file in which key n belongs to the record at byte 1000·n."""
    entries_at = INDEX_HEADER.size + INDEX_SLOT.size * slots
    file = bytearray(entries_at + INDEX_ENTRY.size * entries)
    for number, key in enumerate(keys, start=1):
        slot_at = INDEX_HEADER.size + INDEX_SLOT.size * (key_hash(key) % slots)
        (previous,) = INDEX_SLOT.unpack_from(file, slot_at)
        at = entries_at + INDEX_ENTRY.size * number
        INDEX_ENTRY.pack_into(file, at, key_hash(key), 1000 * (number - 1), 0, previous)
        INDEX_SLOT.pack_into(file, slot_at, number)
    count = len(keys) if counted is None else counted
    used = sum(any(file[at : at + 4]) for at in range(INDEX_HEADER.size, entries_at, 4))
    last = 1000 * (len(keys) - 1)
    INDEX_HEADER.pack_into(file, 0, BEGIN, BEGIN + 5000, 0, last, used, count + 1)
    return file


def opened(file: bytes | bytearray) -> IndexFile:
    return IndexFile("20261115105049366", memoryview(file))


@pytest.mark.parametrize("name", NAMES)
def test_every_golden_file_is_understood(name: str, tmp_path: Path) -> None:
    files = list(index_files(RealDisk(), unpacked(name, tmp_path)))
    listed = manifest(name)["dump"]["indexFiles"]
    assert [file.where for file in reversed(files)] == [f"index/{one['file']}" for one in listed]
    for file, one in zip(reversed(files), listed, strict=True):
        assert tuple(file.header) == (
            one["beginTimestamp"], one["endTimestamp"], one["beginPhyOffset"],
            one["endPhyOffset"], one["hashSlotCount"], one["indexCount"],
        )  # fmt: skip
        assert file.slots == 100
        assert file.fault is None


@pytest.mark.parametrize("slots", [1, 7, 100, 1003])
@pytest.mark.parametrize("count", [1, 2, 50])
@pytest.mark.parametrize("entries", [51, 300])
def test_the_number_of_slots_is_found_out(slots: int, count: int, entries: int) -> None:
    keys = [f"orders#o-{number}" for number in range(count)]
    file = opened(index(keys, slots, entries))
    assert (file.slots, file.count, file.fault) == (slots, count, None)
    for number, key in enumerate(keys):
        assert 1000 * number in file.find(key)


def test_a_key_with_several_records_has_the_newest_first() -> None:
    file = opened(index(["a#1", "a#2", "a#1", "a#1"], 3, 10))
    assert list(file.find("a#1")) == [3000, 2000, 0]
    assert list(file.find("a#3")) == []


def test_keys_of_one_hash_are_all_found() -> None:
    file = opened(index(["x#Aa", "x#BB"], 3, 10))
    assert list(file.find("x#Aa")) == [1000, 0]


def test_an_entry_that_the_header_does_not_count_yet() -> None:
    file = opened(index(["a#1", "a#2"], 3, 10, counted=1))
    assert file.slots == 3
    assert list(file.find("a#1")) == [0]


@pytest.mark.parametrize("written", [0, 2])
def test_slots_that_are_older_than_the_entries(written: int) -> None:
    keys = ["a#1", "a#2", "a#1", "a#3"]
    file = index(keys, 7, 10)
    table = slice(INDEX_HEADER.size, INDEX_HEADER.size + INDEX_SLOT.size * 7)
    file[table] = index(keys[:written], 7, 10)[table]
    growing = opened(file)
    assert (growing.is_growing, growing.slots) == (True, 7)
    assert list(growing.find("a#1")) == [2000, 0]
    assert list(growing.find("a#4")) == []
    assert growing.fault is not None
    assert not opened(index(keys, 7, 10)).is_growing


@pytest.mark.parametrize("count", [0, 1])
def test_an_empty_file_has_no_entries(count: int) -> None:
    file = bytearray(index([], 3, 10))
    INDEX_HEADER.pack_into(file, 0, 0, 0, 0, 0, 0, count)
    assert (opened(file).count, opened(file).fault) == (0, None)
    assert list(opened(file).find("a#1")) == []
    assert list(opened(file).entries()) == []


def test_a_chain_in_a_circle_ends() -> None:
    file = index(["a#1", "a#1"], 1, 10)
    struct.pack_into(">i", file, INDEX_HEADER.size + 4 + 20 + 16, 2)  # the first points to the last
    assert set(opened(file).find("a#1")) == {0, 1000}


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        ((BEGIN, BEGIN, 0, 1000, 1, 9), "its header counts 8 entries"),
        ((BEGIN, BEGIN, 2000, 1000, 1, 3), "it covers bytes 2000 to 1000"),
        ((BEGIN, BEGIN, 0, 1000, 5, 3), "5 of 3 slots are in use"),
        ((BEGIN, BEGIN, 0, 1000, -1, 3), "-1 of 3 slots are in use"),
    ],
)
def test_headers_that_can_not_be(header: tuple[int, ...], reason: str) -> None:
    file = index(["a#1", "a#2"], 3, 10)
    INDEX_HEADER.pack_into(file, 0, *header)
    fault = opened(file).fault
    assert fault is not None
    assert reason in fault.reason
    assert fault.where == "index/20261115105049366"


def test_a_file_too_short_for_its_header() -> None:
    fault = opened(b"short").fault
    assert fault is not None
    assert fault.reason == "the file has only 5 bytes, less than a header"


def test_which_times_a_file_covers() -> None:
    file = opened(index(["a#1"], 3, 10))
    assert file.covers(0, BEGIN + 1)
    assert file.covers(BEGIN + 5000, BEGIN + 9000)
    assert not file.covers(0, BEGIN)
    assert not file.covers(BEGIN + 5001, BEGIN + 9000)


def test_what_is_no_index_file_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "index").mkdir()
    (tmp_path / "index" / "notes.txt").write_text("mine")
    (tmp_path / "index" / "20261115").mkdir()
    assert list(index_files(RealDisk(), str(tmp_path))) == []


@pytest.mark.parametrize("name", NAMES)
def test_entries_are_those_of_java(name: str, tmp_path: Path) -> None:
    files = list(index_files(RealDisk(), unpacked(name, tmp_path)))
    for file, one in zip(reversed(files), manifest(name)["dump"]["indexFiles"], strict=True):
        numbers = [number for number, _, _ in file.entries()]
        assert numbers == list(range(1, one["indexCount"]))
        assert all(
            one["beginPhyOffset"] <= at <= one["endPhyOffset"] for _, _, at in file.entries()
        )


def test_entries_stand_where_they_are_said_to() -> None:
    keys = [f"orders#o-{number}" for number in range(5)]
    data = index(keys, 7, 20)
    file = opened(data)
    assert list(file.entries()) == [(n + 1, key_hash(key), 1000 * n) for n, key in enumerate(keys)]
    for number, hash_, offset in file.entries():
        assert INDEX_ENTRY.unpack_from(data, file.position_of(number))[:2] == (hash_, offset)


def test_files_are_named_by_digits(tmp_path: Path) -> None:
    (tmp_path / "index" / "2026").mkdir(parents=True)
    for name in ("20261115105049366", "20261115105049365", "notes"):
        (tmp_path / "index" / name).touch()
    names = index_names(RealDisk(), str(tmp_path))
    assert names == ["20261115105049365", "20261115105049366"]
    assert index_names(RealDisk(), str(tmp_path / "nothing")) == []


def test_entries_are_read_through_new_maps_as_it_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orbitmq.store.reader.index_reader._MAP_BYTES", 3 * INDEX_ENTRY.size)
    data = index([f"orders#o-{number}" for number in range(8)], 7, 20)
    maps: list[memoryview] = []

    def map_again() -> memoryview | None:
        """Give the file a number of times; then it is gone, and the old map has to do."""
        if len(maps) == 12:
            return None
        maps.append(memoryview(bytearray(data)))
        return maps[-1]

    file = IndexFile("20261115105049366", memoryview(data), map_again)
    looked_for_slots = len(maps)
    assert looked_for_slots > 1
    entries = file.entries()
    assert [number for number, _, _ in (next(entries), next(entries), next(entries))] == [1, 2, 3]
    assert len(maps) == looked_for_slots + 1
    assert next(entries)[0] == 4
    assert len(maps) == looked_for_slots + 2
    assert [number for number, _, _ in entries] == [5, 6, 7, 8]
    while len(maps) < 12:
        map_again()
    assert [offset for _, _, offset in file.entries()] == [1000 * number for number in range(8)]


def test_an_index_file_that_is_deleted_stays_readable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orbitmq.store.reader.index_reader._MAP_BYTES", 3 * INDEX_ENTRY.size)
    (tmp_path / "index").mkdir()
    path = tmp_path / "index" / "20261115105049366"
    path.write_bytes(index([f"orders#o-{number}" for number in range(8)], 7, 20))
    (file,) = index_files(RealDisk(), str(tmp_path))
    entries = file.entries()
    first = next(entries)
    path.unlink()
    assert [number for number, _, _ in (first, *entries)] == [*range(1, 9)]
