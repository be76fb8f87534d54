"""One index file, down to its bytes; what it makes of damage, and of clocks that jump."""

import struct
from array import array
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbitmq.errors import DiskFailed, StoreDamaged
from orbitmq.store.disk.disk import RealDisk
from orbitmq.store.disk.open_files import OpenFiles
from orbitmq.store.index.index_file import GrowingIndexFile, IndexKey, IndexShape
from tests import kernels

SHAPE = IndexShape(slots=3, entries=6)
pytestmark = pytest.mark.usefixtures("implementation")

FOREVER_MS = (1 << 63) - 1
ENTRIES_AT = 40 + 3 * 4


@pytest.fixture
def files() -> OpenFiles:
    return OpenFiles(RealDisk(), limit=4)


@pytest.fixture
def file(files: OpenFiles, tmp_path: Path) -> GrowingIndexFile:
    return GrowingIndexFile.create(files, str(tmp_path / "1"), SHAPE, previous=None)


def add(file: GrowingIndexFile, hashes: Iterable[int], offset: int, stored_ms: int) -> int:
    """Add the keys of one record."""
    return file.add([(key_hash, offset, stored_ms) for key_hash in hashes])


def select(file: GrowingIndexFile, key_hash: int) -> list[int]:
    return file.select(key_hash, 64, 0, FOREVER_MS)


def patched(file: GrowingIndexFile, files: OpenFiles, position: int, number: int) -> None:
    """Overwrite four bytes of the file directly, and drop the data in memory."""
    file.finish()
    files.write(file.path, struct.pack(">i", number), position)


def test_every_byte_is_where_java_puts_it(file: GrowingIndexFile) -> None:
    assert add(file, [7, 2, 1], 640, 5_000) == 3
    assert add(file, [4], 740, 8_999) == 1
    file.write()
    data = Path(file.path).read_bytes()
    assert len(data) == SHAPE.file_bytes == ENTRIES_AT + 6 * 20
    assert struct.unpack_from(">qqqqii", data) == (5_000, 8_999, 640, 740, 2, 5)
    assert struct.unpack_from(">3i", data, 40) == (0, 4, 2)
    assert data[ENTRIES_AT : ENTRIES_AT + 20] == bytes(20)
    assert [struct.unpack_from(">iqii", data, ENTRIES_AT + 20 * n) for n in range(1, 5)] == [
        (7, 640, 0, 0),
        (2, 640, 0, 0),
        (1, 640, 0, 1),
        (4, 740, 3, 3),
    ]


def test_an_empty_file_says_that_its_first_entry_comes(file: GrowingIndexFile) -> None:
    file.write()
    assert struct.unpack_from(">qqqqii", Path(file.path).read_bytes()) == (0, 0, 0, 0, 0, 1)
    assert select(file, 0) == []


def test_a_full_file_takes_what_fits(file: GrowingIndexFile) -> None:
    assert add(file, [1, 2, 3, 4], 100, 1) == 4
    assert not file.is_full
    assert add(file, [5, 6], 200, 2) == 1
    assert file.is_full
    assert add(file, [6], 300, 3) == 0
    assert (file.end_offset, file.end_timestamp_ms) == (200, 2)


def test_a_file_is_searched_the_same_in_memory_written_and_loaded(
    file: GrowingIndexFile, files: OpenFiles
) -> None:
    add(file, [1, 4], 100, 1)
    file.write()
    add(file, [1], 200, 2)
    expected = {1: [200, 100], 4: [100], 7: []}
    assert {key: select(file, key) for key in expected} == expected
    file.finish()
    loaded = GrowingIndexFile.load(files, file.path, SHAPE)
    assert {key: select(loaded, key) for key in expected} == expected
    assert add(loaded, [4], 300, 3) == 1
    assert select(loaded, 4) == [300, 100]


def test_many_entries_do_not_wait_in_memory(files: OpenFiles, tmp_path: Path) -> None:
    shape = IndexShape(slots=5000, entries=100_000)
    file = GrowingIndexFile.create(files, str(tmp_path / "1"), shape, previous=None)
    add(file, range(65_537), 100, 1)
    file.write_many()
    in_file = Path(file.path).read_bytes()[shape.entries_at + 20 :]
    assert struct.unpack_from(">iqii", in_file, 65_536 * 20) == (65_536, 100, 0, 60_537)
    assert select(file, 65_536) == [100]
    file.finish()
    assert select(file, 65_536) == [100]


@pytest.mark.parametrize(
    ("then_ms", "seconds"), [(999, 0), (10_999, 0), (11_000, 1), (10**15, (1 << 31) - 1)]
)
def test_seconds_stay_in_their_bounds(file: GrowingIndexFile, then_ms: int, seconds: int) -> None:
    add(file, [1], 100, 10_000)
    add(file, [1], 200, then_ms)
    file.write()
    at = ENTRIES_AT + 2 * 20 + 12
    assert struct.unpack_from(">i", Path(file.path).read_bytes(), at) == (seconds,)


@pytest.mark.parametrize("link", [3, 2, 5, -1, (1 << 31) - 1])
def test_a_link_that_leads_forward_ends_the_chain(
    file: GrowingIndexFile, files: OpenFiles, link: int
) -> None:
    for offset in (100, 200, 300):
        add(file, [1], offset, 1)
    patched(file, files, ENTRIES_AT + 2 * 20 + 16, link)
    assert select(file, 1) == [300, 200]


def test_a_negative_time_ends_the_chain(file: GrowingIndexFile, files: OpenFiles) -> None:
    for offset in (100, 200, 300):
        add(file, [1], offset, 1)
    patched(file, files, ENTRIES_AT + 2 * 20 + 12, -1)
    assert select(file, 1) == [300]


@pytest.mark.parametrize("stale", [4, -1])
def test_a_slot_that_points_past_the_end_is_empty(
    file: GrowingIndexFile, files: OpenFiles, stale: int
) -> None:
    add(file, [2, 2], 100, 1)
    patched(file, files, 40 + 4, stale)
    loaded = GrowingIndexFile.load(files, file.path, SHAPE)
    assert select(loaded, 1) == []
    add(loaded, [1], 200, 1)
    assert select(loaded, 1) == [200]
    assert loaded.used_slots == 2


def test_an_impossible_count_raises(file: GrowingIndexFile, files: OpenFiles) -> None:
    patched(file, files, 36, 7)
    with pytest.raises(StoreDamaged, match="counts 7 entries, but a file has 6 at most"):
        GrowingIndexFile.load(files, file.path, SHAPE)


def test_a_header_that_was_never_written_counts_nothing(
    file: GrowingIndexFile, files: OpenFiles
) -> None:
    patched(file, files, 36, 0)
    assert GrowingIndexFile.load(files, file.path, SHAPE).next_number == 1


def test_a_failed_write_is_done_again(
    file: GrowingIndexFile, files: OpenFiles, tmp_path: Path
) -> None:
    add(file, [1], 100, 1)
    files.close()
    (tmp_path / "1").rename(tmp_path / "2")
    with pytest.raises(DiskFailed):
        file.write()
    add(file, [1], 200, 2)
    (tmp_path / "2").rename(tmp_path / "1")
    file.write()
    assert select(GrowingIndexFile.load(files, file.path, SHAPE), 1) == [200, 100]


def test_a_file_is_replayed_from_its_entries_alone(
    file: GrowingIndexFile, files: OpenFiles
) -> None:
    add(file, [7, 2, 1], 640, 5_000)
    file.write_entries()
    add(file, [4], 740, 8_999)
    file.write_entries()
    again = GrowingIndexFile.replay(files, file.path, SHAPE, 4)
    assert again is not None
    assert (again.next_number, again.end_offset, again.used_slots) == (4, 640, 2)
    assert [select(again, key_hash) for key_hash in (7, 2, 1, 4)] == [[640], [640], [640], []]
    add(again, [4], 741, 9_000)
    again.write()
    loaded = GrowingIndexFile.load(files, file.path, SHAPE)
    assert [select(loaded, key_hash) for key_hash in (7, 2, 1, 4)] == [[640], [640], [640], [741]]


@pytest.mark.parametrize(
    ("position", "number"),
    [(ENTRIES_AT + 20 + 16, 1), (ENTRIES_AT + 60 + 16, 0), (ENTRIES_AT + 60 + 8, 0)],
    ids=["a link to nowhere", "a link that is lost", "an offset that goes back"],
)
def test_entries_that_contradict_each_other_are_not_replayed(
    file: GrowingIndexFile, files: OpenFiles, position: int, number: int
) -> None:
    add(file, [7, 2, 1], 640, 5_000)
    assert GrowingIndexFile.replay(files, file.path, SHAPE, 4) is None  # it has no entries yet
    patched(file, files, position, number)
    assert GrowingIndexFile.replay(files, file.path, SHAPE, 4) is None


@kernels.needs_kernel
@given(
    keys=st.lists(
        st.tuples(st.integers(0, 2**31 - 1), st.integers(0, 2**62), st.integers(-(2**62), 2**62))
    ),
    slots=st.lists(st.integers(-(2**31), 2**31 - 1), min_size=1, max_size=5),
    number=st.integers(1, 2**30),
    begin_ms=st.integers(-(2**40), 2**40),
)
def test_both_implementations_chain_alike(
    keys: list[IndexKey], slots: list[int], number: int, begin_ms: int
) -> None:
    results = []
    for functions in (kernels.in_python(), kernels.in_kernel()):
        used = array("i", slots)
        results.append((functions["chain_entries"](keys, used, number, begin_ms), used))
    assert results[0] == results[1]


@kernels.needs_kernel
def test_the_kernel_changes_no_slot_unless_all_keys_can_be_read() -> None:
    chain_entries = kernels.in_kernel()["chain_entries"]
    slots = array("i", [0] * 4)
    for keys in ([(1, 2, 3), (2**32, 2, 3)], [(1, 2, 3), (1, 2)], [(1, 2, 3), None]):
        with pytest.raises((OverflowError, TypeError, ValueError)):
            chain_entries(keys, slots, 1, 0)
    with pytest.raises(OverflowError):
        chain_entries([(1, 2, 3)] * 2, slots, 2**31 - 1, 0)
    assert slots == array("i", [0] * 4)
    for unusable in (array("i"), bytes(8), memoryview(slots)[::2], None):
        with pytest.raises(ValueError, match="slots must be"):
            chain_entries([(1, 2, 3)], unusable, 1, 0)
