"""Damaged logs: the place is reported, and all the rest is read."""

from pathlib import Path
from typing import NoReturn

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbitmq.errors import StoreDamaged
from orbitmq.store.damage import Damage
from orbitmq.store.disk.stream_files import StreamFile
from orbitmq.store.queues.entry import ENTRY
from orbitmq.store.reader.reader import StoreReader
from orbitmq.store.reader.reader_walk import ReaderWalk
from tests.store.small_logs import NOW, SEGMENT, record, segment_of, write_log
from tests.store.unpacked import SEGMENT as GOLDEN_SEGMENT
from tests.store.unpacked import flip, overwrite, records_of, unpacked

SIZE = len(record(0))


def read(
    directory: str, *, verify: bool = False, start: int | None = None
) -> tuple[list[int], list[Damage]]:
    """Return the offsets of all records that can be read, and the damage."""
    damages: list[Damage] = []
    views = StoreReader(directory).records(start, verify=verify, on_damage=damages.append)
    return [view.commit_log_offset for view in views], damages


def log_file(directory: str, base: int = 0) -> Path:
    return Path(directory) / "commitlog" / f"{base:020d}"


def test_a_sound_log(tmp_path: Path) -> None:
    directory = write_log(tmp_path, segment_of(3, ended=True), segment_of(2, SEGMENT))
    offsets, damages = read(directory)
    assert offsets == [0, SIZE, 2 * SIZE, SEGMENT, SEGMENT + SIZE]
    assert damages == []


def test_a_last_segment_made_in_advance_is_the_end(tmp_path: Path) -> None:
    directory = write_log(tmp_path, segment_of(3), bytes(SEGMENT))
    assert read(directory) == ([0, SIZE, 2 * SIZE], [])


@pytest.mark.parametrize(
    ("at", "reason"),
    [
        (0, "truncated; 16777423 bytes needed"),
        (4, "not a record; its magic is 0xdba320a7"),
        (35, "a record that says it lies at byte"),
        (87, "not a record; its size field is"),
    ],
)
def test_a_flipped_byte_costs_one_record(at: int, reason: str, tmp_path: Path) -> None:
    directory = write_log(tmp_path, segment_of(5))
    flip(log_file(directory), 2 * SIZE + at)
    offsets, [damage] = read(directory)
    assert offsets == [0, SIZE, 3 * SIZE, 4 * SIZE]
    assert (damage.position, damage.skipped_bytes, damage.harmless) == (2 * SIZE, SIZE, False)
    assert damage.reason.startswith(reason)


def test_a_flipped_byte_of_a_body_is_seen_by_its_checksum(tmp_path: Path) -> None:
    directory = write_log(tmp_path, segment_of(5))
    flip(log_file(directory), 2 * SIZE + 90)
    assert read(directory)[1] == []
    offsets, damages = read(directory, verify=True)
    assert offsets == [0, SIZE, 3 * SIZE, 4 * SIZE]
    reason = f"a damaged record of {SIZE} bytes: a checksum does not match"
    assert damages == [Damage(2 * SIZE, reason, SIZE)]


def test_a_zeroed_part_is_not_taken_for_the_end(tmp_path: Path) -> None:
    directory = write_log(tmp_path, segment_of(9))
    overwrite(log_file(directory), 3 * SIZE, bytes(2 * SIZE + 8))
    offsets, [damage] = read(directory)
    assert offsets == [number * SIZE for number in (0, 1, 2, 6, 7, 8)]
    assert (damage.position, damage.skipped_bytes) == (3 * SIZE, 3 * SIZE)
    assert damage.reason.startswith("nothing written")


def test_a_zeroed_end_is_not_the_end_if_the_log_goes_on(tmp_path: Path) -> None:
    directory = write_log(tmp_path, segment_of(3), segment_of(1, SEGMENT))
    offsets, [damage] = read(directory)
    assert offsets == [0, SIZE, 2 * SIZE, SEGMENT]
    assert (damage.position, damage.skipped_bytes) == (3 * SIZE, SEGMENT - 3 * SIZE)


def test_a_blank_after_damage_ends_the_segment(tmp_path: Path) -> None:
    directory = write_log(tmp_path, segment_of(3, ended=True), segment_of(1, SEGMENT))
    flip(log_file(directory), 2 * SIZE + 4)
    offsets, [damage] = read(directory)
    assert offsets == [0, SIZE, SEGMENT]
    assert (damage.position, damage.skipped_bytes) == (2 * SIZE, SIZE)


def test_a_missing_segment(tmp_path: Path) -> None:
    segments = [segment_of(2, number * SEGMENT, ended=True) for number in range(4)]
    directory = write_log(tmp_path, *segments)
    log_file(directory, SEGMENT).unlink()
    log_file(directory, 2 * SEGMENT).unlink()
    offsets, damages = read(directory)
    assert offsets == [0, SIZE, 3 * SEGMENT, 3 * SEGMENT + SIZE]
    assert damages == [Damage(SEGMENT, "no file holds these bytes", 2 * SEGMENT)]


def test_a_start_in_a_missing_segment(tmp_path: Path) -> None:
    segments = [segment_of(2, number * SEGMENT, ended=True) for number in range(3)]
    directory = write_log(tmp_path, *segments)
    log_file(directory, SEGMENT).unlink()
    offsets, damages = read(directory, start=SEGMENT + 96)
    assert offsets == [2 * SEGMENT, 2 * SEGMENT + SIZE]
    assert damages == [Damage(SEGMENT + 96, "no file holds these bytes", SEGMENT - 96)]


def test_missing_first_segments_are_retention_and_no_damage(tmp_path: Path) -> None:
    directory = write_log(tmp_path, segment_of(2, ended=True), segment_of(2, SEGMENT))
    log_file(directory).unlink()
    assert read(directory) == ([SEGMENT, SEGMENT + SIZE], [])


def test_a_last_segment_cut_off_between_records(tmp_path: Path) -> None:
    last = segment_of(5, SEGMENT)[: 3 * SIZE]
    directory = write_log(tmp_path, segment_of(2, ended=True), last)
    offsets, [damage] = read(directory)
    assert offsets[2:] == [SEGMENT, SEGMENT + SIZE, SEGMENT + 2 * SIZE]
    assert (damage.position, damage.skipped_bytes) == (SEGMENT + 3 * SIZE, SEGMENT - 3 * SIZE)


def test_a_segment_cut_off_within_a_record(tmp_path: Path) -> None:
    directory = write_log(tmp_path, segment_of(5)[: 3 * SIZE + 50], segment_of(1, SEGMENT))
    offsets, damages = read(directory)
    assert offsets == [0, SIZE, 2 * SIZE, SEGMENT]
    assert [damage.position for damage in damages] == [3 * SIZE, 3 * SIZE + 50]
    assert sum(damage.skipped_bytes for damage in damages) == SEGMENT - 3 * SIZE


def test_stale_bytes_after_the_end_are_legal(tmp_path: Path) -> None:
    # A recovery cut the log after two records; a shorter one was then written over the third.
    old = segment_of(6)
    new = record(2 * SIZE, 2, stored_ms=NOW + 1000, body=b"short")
    segment = old[: 2 * SIZE] + new + old[2 * SIZE + len(new) :]
    offsets, [damage] = read(write_log(tmp_path, segment))
    assert offsets == [0, SIZE, 2 * SIZE]
    assert damage.harmless
    assert damage.position == 2 * SIZE + len(new)
    assert damage.position + damage.skipped_bytes == len(old.rstrip(b"\0"))


def test_a_record_of_another_place_is_none(tmp_path: Path) -> None:
    directory = write_log(tmp_path, (segment_of(2)[: 2 * SIZE] + record(0)).ljust(SEGMENT, b"\0"))
    offsets, [damage] = read(directory)
    assert offsets == [0, SIZE]
    assert damage.harmless
    assert damage.reason.startswith("a record that says it lies at byte 0 of the log")


def test_a_damaged_last_record_that_a_queue_knows_is_no_stale_one(tmp_path: Path) -> None:
    directory = write_log(tmp_path, segment_of(3))
    flip(log_file(directory), 2 * SIZE + 4)
    assert read(directory)[1][0].harmless
    queue = tmp_path / "consumequeue" / "orders" / "0"
    queue.mkdir(parents=True)
    entries = b"".join(ENTRY.pack(number * SIZE, SIZE, 0) for number in range(3))
    (queue / f"{0:020d}").write_bytes(entries.ljust(400, b"\0"))
    offsets, [damage] = read(directory)
    assert offsets == [0, SIZE]
    assert (damage.position, damage.harmless) == (2 * SIZE, False)


def test_a_record_finished_while_the_walk_looks_at_it(tmp_path: Path) -> None:
    live = bytearray(segment_of(2))
    unfinished = bytes(live[SIZE + 50 : 2 * SIZE])
    live[SIZE + 50 : 2 * SIZE] = bytes(len(unfinished))
    file = StreamFile("", 0, SEGMENT)
    buffer = memoryview(live)

    def unexpected(place: object) -> NoReturn:
        raise AssertionError(f"the record is whole by then: {place}")

    walk = ReaderWalk([file], open_file=lambda _: buffer, claimed=unexpected, on_damage=unexpected)
    found: list[int] = []
    for block in walk.records(0, SEGMENT):
        found += [row[0] for row in block.rows]
        live[SIZE + 50 : 2 * SIZE] = unfinished  # the writer goes on
    assert found == [0, SIZE]


def test_a_segment_ended_while_the_walk_looks_at_it() -> None:
    live = bytearray(segment_of(2) + bytes(SEGMENT))
    files = [StreamFile("", 0, SEGMENT), StreamFile("", SEGMENT, SEGMENT)]

    def open_file(file: StreamFile) -> memoryview:
        if file.base:  # asked whether the log goes on there: by now it does
            live[:] = segment_of(2, ended=True) + segment_of(1, SEGMENT, first_number=2)
        return memoryview(live)[file.base : file.end]

    damages: list[Damage] = []
    walk = ReaderWalk(files, open_file=open_file, claimed=lambda _: False, on_damage=damages.append)
    assert sum(len(block.rows) for block in walk.records(0, 2 * SEGMENT)) == 3
    assert damages == []


def test_a_walk_takes_new_maps_as_it_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orbitmq.store.log.log_walk.MAP_BYTES", 3 * SIZE)
    monkeypatch.setattr("orbitmq.store.log.log_walk.BLOCK_ROWS", 2)
    directory = write_log(tmp_path, segment_of(12), bytes(SEGMENT))
    views = StoreReader(directory).records()
    first = next(views)
    log_file(directory).unlink()  # from here on the old map has to do
    assert [first.queue_offset, *(view.queue_offset for view in views)] == [*range(12)]


def test_a_start_within_a_record_begins_at_the_next(tmp_path: Path) -> None:
    directory = write_log(tmp_path, segment_of(5))
    flip(log_file(directory), SIZE + 4)
    # Damage before the start is not reported.
    assert read(directory, start=2 * SIZE + 1) == ([3 * SIZE, 4 * SIZE], [])


def test_without_a_callback_damage_raises(tmp_path: Path) -> None:
    directory = write_log(tmp_path, segment_of(5))
    flip(log_file(directory), 2 * SIZE + 4)
    with pytest.raises(StoreDamaged, match="its magic is 0xdba320a7") as caught:
        list(StoreReader(directory).records())
    assert caught.value.position == 2 * SIZE


@given(st.integers(0, 3 * SEGMENT - 1), st.binary(min_size=1, max_size=600))
def test_whatever_is_written_over_a_log_the_rest_is_read(at: int, junk: bytes) -> None:
    segments = [segment_of(10, number * SEGMENT, ended=True) for number in range(3)]
    log = bytearray(b"".join(segments))
    junk = junk[: len(log) - at]
    log[at : at + len(junk)] = junk
    files = [StreamFile("", number * SEGMENT, SEGMENT) for number in range(3)]
    damages: list[Damage] = []
    walk = ReaderWalk(
        files,
        open_file=lambda file: memoryview(log)[file.base : file.end],
        claimed=lambda _: True,
        on_damage=damages.append,
    )
    found = set()
    for block in walk.records(0, len(log)):
        for row in block.rows:
            found.add(int.from_bytes(block.buffer[row[0] + 28 : row[0] + 36]))
    untouched = {
        base + number * SIZE
        for base in (0, SEGMENT, 2 * SEGMENT)
        for number in range(10)
        if base + (number + 1) * SIZE <= at or base + number * SIZE >= at + len(junk)
    }
    assert untouched <= found
    assert damages or len(found) == 30


@pytest.mark.parametrize("record_number", [0, 50, 138, 139, 199])
def test_a_golden_log_with_a_flipped_magic(record_number: int, tmp_path: Path) -> None:
    directory = unpacked("normal", tmp_path)
    broken = records_of("normal")[record_number]["physicalOffset"]
    base = broken // GOLDEN_SEGMENT * GOLDEN_SEGMENT
    flip(log_file(directory, base), broken - base + 4)
    offsets, [damage] = read(directory)
    others = [listed["physicalOffset"] for listed in records_of("normal")]
    others.remove(broken)
    assert offsets == others
    assert (damage.position, damage.harmless) == (broken, False)


def test_a_golden_log_with_a_zeroed_page(tmp_path: Path) -> None:
    directory = unpacked("crash", tmp_path)
    overwrite(log_file(directory, GOLDEN_SEGMENT), 8192, bytes(4096))
    begin, end = GOLDEN_SEGMENT + 8192, GOLDEN_SEGMENT + 8192 + 4096
    listed = records_of("crash")
    whole = [
        entry["physicalOffset"]
        for entry in listed
        if entry["physicalOffset"] >= end or entry["physicalOffset"] + entry["size"] <= begin
    ]
    offsets, damages = read(directory, verify=True)
    assert offsets == whole
    first = min(e["physicalOffset"] for e in listed if e["physicalOffset"] + e["size"] > begin)
    assert damages[0].position == first
    lost = sum(e["size"] for e in listed if e["physicalOffset"] not in whole)
    assert sum(damage.skipped_bytes for damage in damages) == lost
