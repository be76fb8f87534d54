from pathlib import Path

import pytest

from orbitmq.message.record_view import RecordView
from orbitmq.store.commit_log import CommitLog
from orbitmq.store.disk import RealDisk
from orbitmq.store.log_rows import Checked, view_of
from orbitmq.store.recovery import ALL_VOUCHED, RecoveryWalk, first_store_ms, zero_behind
from orbitmq.store.segment_chain import SegmentChain
from orbitmq.store.settings import StoreSettings
from tests.store.counting import descriptors_of
from tests.store.logs import NOW, incoming, new_log


def written(directory: Path, count: int = 12, size: int = 900) -> SegmentChain:
    """Return a log of records of one kilobyte, three and a bit to a file, re-opened."""
    log, chain = new_log(RealDisk(), str(directory))
    for i in range(count):
        log.append([incoming(bytes([i]) * size)], NOW + i)
    chain.close()
    again = SegmentChain(RealDisk(), f"{directory}/commitlog", 4096)
    again.load()
    return again


def records(walk: RecoveryWalk) -> list[RecordView]:
    return [view_of(block.buffer, row) for block in walk for row in block.rows]


def walk(chain: SegmentChain, *, cut: bool, vouched_ms: int = 0) -> tuple[RecoveryWalk, list[int]]:
    found = RecoveryWalk(chain, 0, vouched_ms=vouched_ms if cut else ALL_VOUCHED)
    return found, [view.queue_offset for view in records(found)]


def spoil(chain: SegmentChain, offset: int, data: bytes) -> None:
    segment = chain.segment_at(offset)
    assert segment is not None
    segment.write([data], offset)


def place_of(chain: SegmentChain, queue_offset: int) -> RecordView:
    walk = RecoveryWalk(chain, 0, vouched_ms=ALL_VOUCHED)
    return next(view for view in records(walk) if view.queue_offset == queue_offset)


@pytest.mark.parametrize("cut", [True, False])
def test_a_whole_log_ends_behind_its_last_record(tmp_path: Path, cut: bool) -> None:
    log, chain = new_log(RealDisk(), str(tmp_path))
    log.append([incoming(bytes(900)) for _ in range(12)], NOW)
    found, offsets = walk(chain, cut=cut)
    assert offsets == list(range(12))
    assert (found.end, found.damages, found.last_store_ms) == (log.end, [], NOW)


def test_a_walk_has_the_map_of_one_file_at_a_time(tmp_path: Path) -> None:
    chain = written(tmp_path, 20)
    assert len(chain.segments) > 4
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


def test_after_a_crash_nothing_behind_an_unreadable_record_counts(tmp_path: Path) -> None:
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


def test_what_the_checkpoint_does_not_vouch_for_is_told(tmp_path: Path) -> None:
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
    assert [first_store_ms(segment) for segment in chain.segments] == [NOW, NOW + 4, NOW + 8]
    assert first_store_ms(chain.add(chain.next_base())) is None


def test_progress_is_told_block_by_block(tmp_path: Path) -> None:
    chain = written(tmp_path)
    lasts = [place_of(chain, queue_offset) for queue_offset in (3, 7, 11)]
    ends = [view.commit_log_offset + view.size for view in lasts]
    told: list[tuple[int, int]] = []
    list(RecoveryWalk(chain, 0, vouched_ms=0, progress=lambda *step: told.append(step)))
    assert told == [(ends[0], 12288), (ends[1], 12288), (ends[2], 12288), (12288, 12288)]


def test_an_empty_chain_ends_at_its_beginning(tmp_path: Path) -> None:
    chain = SegmentChain(RealDisk(), str(tmp_path), 4096)
    chain.load()
    found, offsets = walk(chain, cut=True)
    assert (found.end, offsets) == (0, [])


def test_older_records_behind_the_end_are_no_part_of_the_log(tmp_path: Path) -> None:
    """Java cuts a log by moving its end, and leaves what lies behind."""
    chain = written(tmp_path, 3)
    third = place_of(chain, 2)
    log = CommitLog(chain, StoreSettings(segment_bytes=4096), lambda _topic, _queue: 1)
    log.end = place_of(chain, 1).commit_log_offset
    log.append([incoming(b"shorter")], NOW + 60_000)
    assert log.end < third.commit_log_offset
    found, offsets = walk(chain, cut=False)
    assert (offsets, found.end, found.damages) == ([0, 1], log.end, [])
