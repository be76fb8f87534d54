from collections.abc import Iterator
from pathlib import Path

import pytest

from orbitmq.message.record_view import RecordView
from orbitmq.store.disk.disk import RealDisk
from orbitmq.store.log.commit_log import CommitLog
from orbitmq.store.log.record_rows import Checked, is_blank, magics, view_of
from orbitmq.store.log.segments import Segments
from orbitmq.store.recovery import log_end as recovery
from orbitmq.store.recovery.log_end import ALL_VOUCHED, RecoveryWalk, first_store_ms, zero_behind
from orbitmq.store.settings import StoreSettings
from tests.store.counting import descriptors_of
from tests.store.logs import NOW, incoming, new_log


def written(directory: Path, count: int = 12, size: int = 900) -> Segments:
    """Return a log of records of one kilobyte, three and a bit to a file, re-opened."""
    log, chain = new_log(RealDisk(), str(directory))
    for i in range(count):
        log.append([incoming(bytes([i]) * size)], NOW + i)
    chain.close()
    again = Segments(RealDisk(), f"{directory}/commitlog", 4096)
    again.load()
    return again


def records(walk: RecoveryWalk) -> list[RecordView]:
    return [view_of(block.buffer, row) for block in walk for row in block.rows]


def walk(chain: Segments, *, cut: bool, vouched_ms: int = 0) -> tuple[RecoveryWalk, list[int]]:
    found = RecoveryWalk(chain, 0, vouched_ms=vouched_ms if cut else ALL_VOUCHED)
    return found, [view.queue_offset for view in records(found)]


def spoil(chain: Segments, offset: int, data: bytes) -> None:
    segment = chain.segment_at(offset)
    assert segment is not None
    segment.write([data], offset)


def place_of(chain: Segments, queue_offset: int) -> RecordView:
    walk = RecoveryWalk(chain, 0, vouched_ms=ALL_VOUCHED)
    return next(view for view in records(walk) if view.queue_offset == queue_offset)


@pytest.mark.parametrize("cut", [True, False])
def test_a_whole_log_ends_after_its_last_record(tmp_path: Path, cut: bool) -> None:
    log, chain = new_log(RealDisk(), str(tmp_path))
    log.append([incoming(bytes(900)) for _ in range(12)], NOW)
    found, offsets = walk(chain, cut=cut)
    assert offsets == list(range(12))
    assert (found.end, found.damages, found.last_store_ms) == (log.end, [], NOW)


def test_a_walk_has_the_map_of_one_file_at_a_time(tmp_path: Path) -> None:
    chain = written(tmp_path, 20)
    assert len(chain.files) > 4
    found = RecoveryWalk(chain, 0, vouched_ms=ALL_VOUCHED)
    assert {descriptors_of(tmp_path) for _ in found} == {1}


@pytest.mark.parametrize("cut", [True, False])
def test_a_file_made_in_advance_is_no_part_of_the_log(tmp_path: Path, cut: bool) -> None:
    chain = written(tmp_path, 3)
    before, _ = walk(chain, cut=cut)
    chain.add(chain.next_base())
    after, offsets = walk(chain, cut=cut)
    assert (after.end, offsets) == (before.end, [0, 1, 2])


def test_a_torn_tail_is_where_the_log_ends_after_a_crash(tmp_path: Path) -> None:
    chain = written(tmp_path)
    last = place_of(chain, 11)
    spoil(chain, last.commit_log_offset + 400, bytes(600))
    found, offsets = walk(chain, cut=True)
    assert offsets == list(range(11))
    assert found.end == last.commit_log_offset


def test_after_a_crash_nothing_after_an_unreadable_record_counts(tmp_path: Path) -> None:
    chain = written(tmp_path)
    middle = place_of(chain, 5)
    spoil(chain, middle.commit_log_offset + 200, b"\xff")
    found, offsets = walk(chain, cut=True)
    assert offsets == [0, 1, 2, 3, 4]
    assert found.end == middle.commit_log_offset


@pytest.mark.parametrize("queue_offset", [0, 3, 5, 8])
def test_after_a_crash_a_damaged_record_that_was_on_the_disk_cuts_nothing_off(
    tmp_path: Path, queue_offset: int
) -> None:
    chain = written(tmp_path)
    whole, _ = walk(chain, cut=True)
    spoil(chain, place_of(chain, queue_offset).commit_log_offset + 200, b"\xff")
    found, offsets = walk(chain, cut=True, vouched_ms=NOW + queue_offset + 1)
    assert offsets == [i for i in range(12) if i != queue_offset]
    assert (found.end, len(found.damages)) == (whole.end, 1)


def test_after_a_crash_the_first_record_of_the_unvouched_part_is_the_end_if_it_is_damaged(
    tmp_path: Path,
) -> None:
    chain = written(tmp_path)
    spoil(chain, place_of(chain, 5).commit_log_offset + 200, b"\xff")
    found, offsets = walk(chain, cut=True, vouched_ms=NOW + 5)
    assert (offsets, found.damages) == ([0, 1, 2, 3, 4], [])


def test_the_part_that_the_checkpoint_does_not_vouch_for_is_known(tmp_path: Path) -> None:
    chain = written(tmp_path)
    second_file = place_of(chain, 4).commit_log_offset
    found, _ = walk(chain, cut=True, vouched_ms=NOW + 3)
    assert found.unvouched == second_file
    found, _ = walk(chain, cut=False)
    assert found.unvouched is None


def test_a_seal_counts_only_where_the_store_writes_it(tmp_path: Path) -> None:
    log, chain = new_log(RealDisk(), str(tmp_path))
    log.append([incoming(properties=b"__CRC32#\x010123456789\x02")], NOW)
    as_told = {
        checked: len(records(RecoveryWalk(chain, 0, vouched_ms=0, checked=checked)))
        for checked in (Checked.BODY, Checked.BODY_AND_SEAL)
    }
    assert as_told == {Checked.BODY: 1, Checked.BODY_AND_SEAL: 0}


@pytest.mark.parametrize(
    ("at", "data"),
    [(200, b"\xff"), (0, bytes(8)), (4, b"\0\0\0\0"), (0, b"\x7f\xff\xff\xff"), (28, b"\x01")],
    ids=["body", "zeroed head", "magic", "size", "place"],
)
@pytest.mark.parametrize("queue_offset", [0, 1, 3, 5, 8])
def test_after_an_orderly_stop_a_damaged_record_is_reported_and_the_rest_kept(
    tmp_path: Path, at: int, data: bytes, queue_offset: int
) -> None:
    chain = written(tmp_path)
    whole, _ = walk(chain, cut=False)
    middle = place_of(chain, queue_offset)
    offset, size = middle.commit_log_offset, middle.size
    spoil(chain, offset + at, data)
    found, offsets = walk(chain, cut=False)
    assert offsets == [i for i in range(12) if i != queue_offset]
    assert found.end == whole.end
    (damage,) = found.damages
    assert damage.position == offset
    assert damage.skipped_bytes >= size


def test_a_file_without_its_blank_does_not_end_the_log_after_an_orderly_stop(
    tmp_path: Path,
) -> None:
    chain = written(tmp_path)
    last_of_first = place_of(chain, 3)
    spoil(chain, last_of_first.commit_log_offset + last_of_first.size, bytes(8))
    found, offsets = walk(chain, cut=False)
    assert offsets == list(range(12))
    assert len(found.damages) == 1
    _, cut_offsets = walk(chain, cut=True)
    assert cut_offsets == [0, 1, 2, 3]


def test_what_was_cut_off_never_comes_back(tmp_path: Path) -> None:
    chain = written(tmp_path)
    sixth = place_of(chain, 5).commit_log_offset  # now: a view shows what is written later
    segment = chain.segment_at(sixth)
    assert segment is not None
    assert zero_behind(segment, sixth) > 0
    assert zero_behind(segment, sixth) == 0
    _, offsets = walk(chain, cut=True)
    assert offsets == [0, 1, 2, 3, 4]


def test_the_time_of_a_file_is_that_of_its_first_record(tmp_path: Path) -> None:
    chain = written(tmp_path)
    assert [first_store_ms(segment) for segment in chain.files] == [NOW, NOW + 4, NOW + 8]
    assert first_store_ms(chain.add(chain.next_base())) is None


def test_progress_is_reported_per_block(tmp_path: Path) -> None:
    chain = written(tmp_path)
    lasts = [place_of(chain, queue_offset) for queue_offset in (3, 7, 11)]
    ends = [view.commit_log_offset + view.size for view in lasts]
    told: list[tuple[int, int]] = []
    list(RecoveryWalk(chain, 0, vouched_ms=0, progress=lambda *step: told.append(step)))
    assert told == [(ends[0], 12288), (ends[1], 12288), (ends[2], 12288), (12288, 12288)]


def test_an_empty_chain_ends_at_its_beginning(tmp_path: Path) -> None:
    chain = Segments(RealDisk(), str(tmp_path), 4096)
    chain.load()
    found, offsets = walk(chain, cut=True)
    assert (found.end, offsets) == (0, [])


def test_older_records_after_the_end_are_not_part_of_the_log(tmp_path: Path) -> None:
    """Java cuts a log by moving its end, and leaves the bytes after it."""
    chain = written(tmp_path, 3)
    third = place_of(chain, 2)
    log = CommitLog(chain, StoreSettings(segment_bytes=4096), lambda _topic, _queue: 1)
    log.end = place_of(chain, 1).commit_log_offset
    log.append([incoming(b"shorter")], NOW + 60_000)
    assert log.end < third.commit_log_offset
    found, offsets = walk(chain, cut=False)
    assert (offsets, found.end, found.damages) == ([0, 1], log.end, [])


def last_of_file(chain: Segments, number: int) -> RecordView:
    return place_of(chain, 4 * number + 3)


RECORD = 1007
"""The bytes of each record; four of them fill a file, but for a blank."""

BORDERS: dict[str, tuple[list[tuple[int, int]], set[int]]] = {
    # which bytes become zeros, from where to where; and which messages can't be read then
    "last record and first": ([(3200, 3201), (4296, 4297)], {3, 4}),
    "last record, and all heads of a file": (
        [(3200, 3201), *((4096 + RECORD * i, 4104 + RECORD * i) for i in range(4))],
        {3, 4, 5, 6, 7},
    ),
    "blank and first record": ([(4 * RECORD, 4 * RECORD + 8), (4296, 4297)], {4}),
    "a hole across the border": ([(3000, 6000)], {2, 3, 4, 5}),
    "one file": ([(4096, 8192)], {4, 5, 6, 7}),
    "two files": ([(4096, 12288)], set(range(4, 12))),
    "the first two": ([(0, 8192)], set(range(8))),
    "all but the last record": ([(0, 16384 + 3 * RECORD)], set(range(19))),
}


def zero(chain: Segments, begin: int, end: int) -> None:
    """Write zeros from one offset of the log to another, in however many files."""
    for segment in chain.files:
        low, high = max(begin, segment.base), min(end, segment.end)
        if low < high:
            spoil(chain, low, bytes(high - low))


@pytest.mark.parametrize(("holes", "lost"), BORDERS.values(), ids=BORDERS)
@pytest.mark.parametrize("cut", [True, False], ids=["crash", "orderly stop"])
def test_damage_on_both_sides_of_a_border_cuts_nothing_off(
    tmp_path: Path, holes: list[tuple[int, int]], lost: set[int], cut: bool
) -> None:
    """Nor after a crash, as far as the checkpoint vouches."""
    chain = written(tmp_path, 20)
    whole, _ = walk(chain, cut=cut, vouched_ms=NOW + 19)
    assert len(chain.files) == 5
    for begin, end in holes:
        zero(chain, begin, end)
    found, offsets = walk(chain, cut=cut, vouched_ms=NOW + 19)
    assert offsets == [i for i in range(20) if i not in lost]
    assert (found.end, found.last_store_ms) == (whole.end, whole.last_store_ms)
    told = [(damage.position, damage.position + damage.skipped_bytes) for damage in found.damages]
    assert all(any(low <= begin < high for low, high in told) for begin, _ in holes)


def test_damage_ends_at_the_blank_and_is_reported_per_file(tmp_path: Path) -> None:
    chain = written(tmp_path, 20)
    last, first = last_of_file(chain, 0), place_of(chain, 4)
    for view in (last, first):
        spoil(chain, view.commit_log_offset + 200, b"\xff")
    found, _ = walk(chain, cut=False)
    told = [(damage.position, damage.skipped_bytes) for damage in found.damages]
    assert told == [(3 * RECORD, RECORD), (4096, RECORD)]


@pytest.mark.parametrize("files_behind", [0, 1])
def test_a_blank_that_java_left_after_the_end_does_not_continue_the_log(
    tmp_path: Path, files_behind: int
) -> None:
    chain = written(tmp_path, 5)
    blank = last_of_file(chain, 0)
    assert is_blank(chain.files[0].view, blank.commit_log_offset + blank.size)
    chain.remove_last()
    log = CommitLog(chain, StoreSettings(segment_bytes=4096), lambda _topic, _queue: 1)
    log.end = place_of(chain, 1).commit_log_offset
    log.append([incoming(b"shorter")], NOW + 60_000)
    for _ in range(files_behind):
        chain.add(chain.next_base())
    found, offsets = walk(chain, cut=False)
    assert (offsets, found.end, found.damages) == ([0, 1], log.end, [])


def test_later_files_are_searched_only_after_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a crash there is one that was made ahead: a gigabyte of zeros."""
    chain = written(tmp_path, 7)
    chain.add(chain.next_base())
    sixth = place_of(chain, 6)
    searched: list[memoryview] = []

    def noted(buffer: memoryview, position: int, stop: int) -> Iterator[int]:
        searched.append(buffer)
        return magics(buffer, position, stop)

    monkeypatch.setattr(recovery, "magics", noted)
    end = sixth.commit_log_offset + sixth.size
    for reached in (0, end):
        list(RecoveryWalk(chain, 0, vouched_ms=NOW + 60_000, reached=reached))
    assert {buffer is chain.files[1].view for buffer in searched} == {True}
    searched.clear()
    list(RecoveryWalk(chain, 0, vouched_ms=NOW + 60_000, reached=end + 1))
    assert len(searched) == 2


def test_zeros_across_the_last_border_do_not_end_a_log_that_is_known_to_go_on(
    tmp_path: Path,
) -> None:
    """A last file that begins with zeros looks like one that was made ahead."""
    chain = written(tmp_path)
    whole, _ = walk(chain, cut=False)
    zero(chain, 4096 + 3 * RECORD, 8192 + RECORD)
    found = RecoveryWalk(chain, 0, vouched_ms=NOW + 11, reached=whole.end)
    assert [view.queue_offset for view in records(found)] == [*range(7), 9, 10, 11]
    assert found.end == whole.end


def test_a_walk_over_long_damage_has_few_maps_and_looks_ahead_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chain = written(tmp_path, 40)
    for segment in chain.files[1:-1]:
        spoil(chain, segment.base, bytes(segment.size))
        segment.drop()
    searched: list[int] = []

    def noted(buffer: memoryview, position: int, stop: int) -> Iterator[int]:
        searched.append(descriptors_of(tmp_path))
        return magics(buffer, position, stop)

    monkeypatch.setattr(recovery, "magics", noted)
    found = RecoveryWalk(chain, 0, vouched_ms=ALL_VOUCHED)
    assert sum(len(block.rows) for block in found) == 8
    assert max(searched) <= 3  # of the block given out last, of the damaged file, of a later one
    assert len(searched) <= 3 * len(chain.files)  # for a record here, further on, for a blank


def test_of_some_files_alone_the_damage_can_be_asked(tmp_path: Path) -> None:
    chain = written(tmp_path, 20)
    for queue_offset in (2, 5, 9):
        spoil(chain, place_of(chain, queue_offset).commit_log_offset + 200, b"\xff")
    found = RecoveryWalk(chain, 1, vouched_ms=ALL_VOUCHED, files=1)
    assert [view.queue_offset for view in records(found)] == [4, 6, 7]
    assert [damage.position for damage in found.damages] == [4096 + RECORD]


def test_bytes_after_the_last_record_can_be_reported_as_damage(tmp_path: Path) -> None:
    chain = written(tmp_path)
    last = place_of(chain, 11).commit_log_offset
    spoil(chain, last + 200, b"\xff")
    found, _ = walk(chain, cut=False)
    assert (found.end, found.damages) == (last, [])
    found.step_over(last + RECORD)
    assert found.end == last + RECORD
    (damage,) = found.damages
    assert (damage.position, damage.skipped_bytes) == (last, RECORD)


@pytest.mark.parametrize(("holes", "lost"), BORDERS.values(), ids=BORDERS)
def test_before_the_vouched_offset_damage_cuts_nothing_off_whatever_the_time(
    tmp_path: Path, holes: list[tuple[int, int]], lost: set[int]
) -> None:
    chain = written(tmp_path, 20)
    whole, _ = walk(chain, cut=False)
    for begin, end in holes:
        zero(chain, begin, end)
    found = RecoveryWalk(chain, 0, vouched_ms=0, vouched_end=whole.end)
    assert [view.queue_offset for view in records(found)] == [
        number for number in range(20) if number not in lost
    ]
    assert (found.end, found.unvouched) == (whole.end, None)


@pytest.mark.parametrize("damaged", [range(9, 10), range(8, 10), range(6, 10)])
def test_records_written_after_damage_are_kept(tmp_path: Path, damaged: range) -> None:
    """As after a start that has found it, and has stepped over it."""
    chain = written(tmp_path)
    whole, _ = walk(chain, cut=False)
    vouched_end = place_of(chain, 10).commit_log_offset
    for number in damaged:
        spoil(chain, place_of(chain, number).commit_log_offset + 200, b"\xff")
    found = RecoveryWalk(chain, 0, vouched_ms=NOW, vouched_end=vouched_end)
    offsets = [view.queue_offset for view in records(found)]
    assert offsets == [number for number in range(12) if number not in damaged]
    assert (found.end, found.unvouched) == (whole.end, vouched_end)


@pytest.mark.parametrize("vouched", [4, 6, 8])
def test_an_unreadable_record_after_the_vouched_offset_ends_the_log(
    tmp_path: Path, vouched: int
) -> None:
    chain = written(tmp_path)
    damaged = place_of(chain, 8).commit_log_offset
    vouched_end = place_of(chain, vouched).commit_log_offset
    spoil(chain, damaged + 200, b"\xff")
    found = RecoveryWalk(chain, 0, vouched_ms=NOW + 60_000, vouched_end=vouched_end)
    assert [view.queue_offset for view in records(found)] == [*range(8)]
    assert (found.end, found.damages) == (damaged, [])


@pytest.mark.parametrize("behind", ["a damaged record", "zeros", "an older record"])
def test_a_log_that_is_damaged_up_to_the_vouched_offset_ends_there(
    tmp_path: Path, behind: str
) -> None:
    chain = written(tmp_path)
    last, end = place_of(chain, 9).commit_log_offset, place_of(chain, 10).commit_log_offset
    spoil(chain, last + 200, b"\xff")
    if behind == "a damaged record":
        spoil(chain, end + 200, b"\xff")
    elif behind == "zeros":
        zero(chain, end, 3 * 4096)
    else:
        spoil(chain, end + 56, (NOW - 1).to_bytes(8))  # the store timestamp
    found = RecoveryWalk(chain, 0, vouched_ms=0, vouched_end=end)
    assert [view.queue_offset for view in records(found)] == [*range(9)]
    assert found.end == end
    assert [(place.position, place.skipped_bytes) for place in found.damages] == [(last, RECORD)]
