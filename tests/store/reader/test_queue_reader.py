from pathlib import Path

import pytest

from orbitmq.errors import StoreDamaged
from orbitmq.store.damage import Damage
from orbitmq.store.queues.entry import ENTRY, ENTRY_SIZE, PREFILL
from orbitmq.store.reader.reader import StoreReader
from tests.store.small_logs import SEGMENT, record, segment_of, write_log
from tests.store.unpacked import overwrite, unpacked

SIZE = len(record(0))
FILE = 5 * ENTRY_SIZE


def write_queue(directory: Path, entries: list[bytes], first_file: int = 0) -> StoreReader:
    """Write the queue orders/0 in files of five entries, over a log of two segments."""
    write_log(directory, segment_of(3, ended=True), segment_of(3, SEGMENT, first_number=3))
    folder = directory / "consumequeue" / "orders" / "0"
    folder.mkdir(parents=True)
    for begin in range(0, len(entries), 5):
        data = b"".join(entries[begin : begin + 5]).ljust(FILE, b"\0")
        (folder / f"{(first_file + begin) * ENTRY_SIZE:020d}").write_bytes(data)
    return StoreReader(str(directory))


def entry(number: int) -> bytes:
    offset = number * SIZE if number < 3 else SEGMENT + (number - 3) * SIZE
    return ENTRY.pack(offset, SIZE, 0)


def found(reader: StoreReader, offset: int = 0, count: int = 100) -> list[tuple[int, int]]:
    queue = reader.queue("orders", 0)
    return [(at, view.queue_offset) for at, view in queue.read(offset, count)]


def bounds(reader: StoreReader) -> tuple[int, int]:
    queue = reader.queue("orders", 0)
    return queue.min_offset, queue.max_offset


def test_a_queue_of_two_files(tmp_path: Path) -> None:
    reader = write_queue(tmp_path, [entry(number) for number in range(6)])
    assert bounds(reader) == (0, 6)
    assert found(reader, 2, 3) == [(2, 2), (3, 3), (4, 4)]
    assert found(reader, 5, 100) == [(5, 5)]
    assert found(reader, -3, 4) == [(0, 0)]
    assert found(reader, 6, 1) == []


def test_a_queue_that_fills_its_file_ends_with_it(tmp_path: Path) -> None:
    assert bounds(write_queue(tmp_path, [entry(number) for number in range(5)])) == (0, 5)


def test_a_last_file_made_in_advance(tmp_path: Path) -> None:
    entries = [*(entry(number) for number in range(5)), bytes(ENTRY_SIZE)]
    assert bounds(write_queue(tmp_path, entries)) == (0, 5)


def test_fillers_are_no_messages(tmp_path: Path) -> None:
    reader = write_queue(tmp_path, [PREFILL, PREFILL, entry(2), entry(3)])
    assert bounds(reader) == (2, 4)
    assert found(reader) == [(2, 2), (3, 3)]


def test_entries_after_the_end_of_the_log_are_stale(tmp_path: Path) -> None:
    stale = ENTRY.pack(SEGMENT + 3 * SIZE, SIZE, 0)
    reader = write_queue(tmp_path, [*(entry(number) for number in range(6)), stale, stale])
    assert bounds(reader) == (0, 6)


def test_entries_below_the_start_of_the_log_are_gone(tmp_path: Path) -> None:
    reader = write_queue(tmp_path, [entry(number) for number in range(6)])
    (tmp_path / "commitlog" / f"{0:020d}").unlink()
    assert bounds(reader) == (3, 6)
    assert found(reader) == [(3, 3), (4, 4), (5, 5)]


def test_a_queue_whose_records_are_all_gone_goes_on_where_it_was(tmp_path: Path) -> None:
    reader = write_queue(tmp_path, [entry(number) for number in range(3)])
    (tmp_path / "commitlog" / f"{0:020d}").unlink()
    assert bounds(reader) == (3, 3)


def test_an_empty_entry_in_the_middle_is_damage(tmp_path: Path) -> None:
    reader = write_queue(tmp_path, [entry(0), entry(1), bytes(ENTRY_SIZE), entry(3)])
    damages: list[Damage] = []
    queue = reader.queue("orders", 0)
    offsets = [at for at, _ in queue.read(0, 9, on_damage=damages.append)]
    assert offsets == [0, 1, 3]
    assert damages == [
        Damage(40, "the entry of offset 2 is empty", ENTRY_SIZE, where="consumequeue/orders/0")
    ]
    with pytest.raises(StoreDamaged, match="consumequeue/orders/0 at byte 40"):
        list(queue.read(0, 9))


def test_an_entry_without_its_record_is_damage(tmp_path: Path) -> None:
    reader = write_queue(tmp_path, [entry(number) for number in range(6)])
    overwrite(tmp_path / "commitlog" / f"{0:020d}", SIZE, bytes(8))
    damages: list[Damage] = []
    queue = reader.queue("orders", 0)
    assert len(list(queue.read(0, 9, on_damage=damages.append))) == 5
    assert damages[0].position == ENTRY_SIZE
    assert f"offset 1 points to byte {SIZE} of the log" in damages[0].reason


def test_a_missing_file_is_a_gap(tmp_path: Path) -> None:
    directory = unpacked("crash", tmp_path)
    (Path(directory) / "consumequeue" / "GoldenCrash" / "0" / f"{400:020d}").unlink()
    queue = StoreReader(directory).queue("GoldenCrash", 0)
    [gap] = queue.gaps()
    assert (gap.position, gap.skipped_bytes) == (400, 400)
    assert gap.reason == "no file holds offsets 20 to 39"
    damages: list[Damage] = []
    offsets = [at for at, _ in queue.read(0, 1000, on_damage=damages.append)]
    assert offsets == [*range(20), *range(40, 184)]
    assert len(damages) == 20


@pytest.mark.parametrize(
    ("offset", "claimed"), [(0, True), (SIZE, True), (SIZE + 1, False), (SEGMENT + 9 * SIZE, False)]
)
def test_which_records_a_queue_claims(offset: int, claimed: bool, tmp_path: Path) -> None:
    reader = write_queue(tmp_path, [entry(number) for number in range(6)])
    assert reader.queue("orders", 0).claims(offset) == claimed


def test_messages_that_came_since_are_seen_by_a_new_reader_of_the_queue(tmp_path: Path) -> None:
    reader = write_queue(tmp_path, [entry(number) for number in range(4)])
    assert bounds(reader) == (0, 4)
    folder = tmp_path / "consumequeue" / "orders" / "0"
    overwrite(folder / f"{0:020d}", 4 * ENTRY_SIZE, entry(4))
    (folder / f"{FILE:020d}").write_bytes(entry(5).ljust(FILE, b"\0"))
    assert bounds(reader) == (0, 6)
    assert found(reader, 5, 1) == [(5, 5)]
