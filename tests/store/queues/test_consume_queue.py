"""One queue: what it takes, what it shows, and what it makes of files after a crash."""

from collections import deque
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbitmq.errors import StoreDamaged
from orbitmq.store.disk.disk import RealDisk
from orbitmq.store.disk.open_files import OpenFiles
from orbitmq.store.dispatch import Dispatched
from orbitmq.store.queues.consume_queue import Boundary, ConsumeQueue
from orbitmq.store.queues.entry import ENTRY, ENTRY_SIZE, PREFILL, QueueEntry, unpack
from orbitmq.store.queues.files import QueueFiles
from tests.store.entries import dispatched
from tests.store.golden import contents

PER_FILE = 4


def queue_in(directory: Path) -> ConsumeQueue:
    files = QueueFiles(OpenFiles(RealDisk(), limit=4), str(directory), PER_FILE * ENTRY_SIZE)
    return ConsumeQueue("orders", 0, files, entries_per_file=PER_FILE, backlog=deque())


def filled(directory: Path, count: int, *, first: int = 0) -> ConsumeQueue:
    """Return a queue whose record n is at byte 100·n."""
    queue = queue_in(directory)
    for offset in range(first, first + count):
        queue.append(dispatched(offset, offset * 100))
    queue.write()
    return queue


def recovered(directory: Path) -> ConsumeQueue:
    queue = queue_in(directory)
    queue.load()
    queue.recover()
    return queue


def offsets(queue: ConsumeQueue) -> list[int]:
    return [offset for offset, _ in queue.iterate(0)]


def overwrite(path: Path, position: int, data: bytes) -> None:
    whole = bytearray(path.read_bytes())
    whole[position : position + len(data)] = data
    path.write_bytes(whole)


# Appending.


def test_an_entry_is_there_before_it_is_written(tmp_path: Path) -> None:
    queue = queue_in(tmp_path)
    assert queue.append(dispatched(0, 640, size=50, tags_code=7))
    assert queue.entry(0) == QueueEntry(640, 50, 7)
    assert (queue.min_offset, queue.max_offset, queue.record_end) == (0, 1, 690)
    assert contents(tmp_path) == {}
    queue.write()
    queue.write()
    assert contents(tmp_path) == {f"{0:020d}": ENTRY.pack(640, 50, 7) + bytes(60)}
    assert queue.entry(0) == QueueEntry(640, 50, 7)


@pytest.mark.parametrize(
    "known",
    [
        dispatched(2, 200),
        dispatched(3, 200),
        dispatched(3, 150),
        dispatched(1, 900),
        dispatched(0, 900),
    ],
    ids=["same", "same record", "record before the last", "offset taken", "offset 0 taken"],
)
def test_what_is_known_is_not_taken_twice(tmp_path: Path, known: Dispatched) -> None:
    queue = filled(tmp_path, 3)
    before = contents(tmp_path)
    assert not queue.append(known)
    queue.write()
    assert contents(tmp_path) == before
    assert queue.max_offset == 3


def test_a_gap_raises_and_changes_nothing(tmp_path: Path) -> None:
    queue = filled(tmp_path, 3)
    with pytest.raises(StoreDamaged, match="ends at offset 3, and the next record has offset 5"):
        queue.append(dispatched(5, 500))
    assert queue.max_offset == 3
    assert queue.append(dispatched(3, 500))


def test_a_queue_may_begin_anywhere(tmp_path: Path) -> None:
    queue = queue_in(tmp_path)
    assert queue.append(dispatched(6, 600))
    assert (queue.min_offset, queue.max_offset) == (6, 7)
    queue.correct_min_offset(0)
    assert offsets(queue) == [6]
    queue.write()
    assert contents(tmp_path) == {
        f"{PER_FILE * ENTRY_SIZE:020d}": PREFILL * 2 + ENTRY.pack(600, 100, 0) + bytes(20)
    }
    again = recovered(tmp_path)
    assert (again.min_offset, again.max_offset, again.record_end) == (6, 7, 700)
    assert again.entries(5, 1) == b""


def test_a_queue_may_begin_at_the_start_of_a_file(tmp_path: Path) -> None:
    queue = queue_in(tmp_path)
    queue.append(dispatched(8, 800))
    queue.write()
    assert list(contents(tmp_path)) == [f"{160:020d}"]
    assert offsets(recovered(tmp_path)) == [8]


def test_a_queue_of_prefill_alone_begins_where_its_first_record_says(tmp_path: Path) -> None:
    (tmp_path / f"{0:020d}").write_bytes(PREFILL * 2 + bytes(40))
    queue = recovered(tmp_path)
    assert (queue.min_offset, queue.max_offset, queue.record_end) == (2, 2, -1)
    assert queue.append(dispatched(7, 700))
    queue.write()
    assert offsets(recovered(tmp_path)) == [7]
    assert list(contents(tmp_path)) == [f"{80:020d}"]


# Reading.


def test_entries_end_with_their_file(tmp_path: Path) -> None:
    queue = filled(tmp_path, 6)
    for offset in (6, 7, 8):
        queue.append(dispatched(offset, offset * 100))

    def read(offset: int, count: int) -> list[int]:
        return [entry.commit_log_offset // 100 for entry in unpack(queue.entries(offset, count))]

    assert read(0, 32) == [0, 1, 2, 3]
    assert read(1, 2) == [1, 2]
    assert read(5, 32) == [5, 6, 7]  # one that is written, two that are not
    assert read(8, 32) == [8]
    assert [read(offset, 32) for offset in (-1, 9, 100)] == [[], [], []]
    assert queue.entry(9) is None
    assert offsets(queue) == list(range(9))
    assert [offset for offset, _ in queue.iterate(7)] == [7, 8]


def test_the_next_file_begins_after_this_one(tmp_path: Path) -> None:
    queue = filled(tmp_path, 6)
    assert [queue.next_file_offset(offset) for offset in (0, 3, 4, 100)] == [4, 4, 8, 104]


TIMES = st.lists(st.integers(0, 20), max_size=12).map(sorted)


@given(TIMES, st.integers(0, 12), st.integers(-1, 22))
def test_offsets_by_time(times: list[int], written: int, moment: int) -> None:
    with TemporaryDirectory() as home:
        queue = queue_in(Path(home))
        for offset in range(len(times)):
            queue.append(dispatched(offset, offset * 100))
            if offset < written:
                queue.write()

        def search(boundary: Boundary) -> int:
            return queue.offset_by_time(moment, boundary, lambda offset, _: times[offset // 100])

        assert search(Boundary.LOWER) == sum(time < moment for time in times)
        assert search(Boundary.UPPER) == max(sum(time <= moment for time in times) - 1, 0)


def test_a_record_that_is_gone_is_older_than_any_moment(tmp_path: Path) -> None:
    queue = filled(tmp_path, 6)

    def time_of(commit_log_offset: int, size: int) -> int | None:
        assert size == 100
        return None if commit_log_offset < 300 else commit_log_offset

    assert queue.offset_by_time(0, Boundary.LOWER, time_of) == 3
    assert queue.offset_by_time(450, Boundary.UPPER, time_of) == 4


# After a crash.


def test_a_start_finds_the_end_and_clears_everything_after_it(tmp_path: Path) -> None:
    filled(tmp_path, 10)
    second = tmp_path / f"{80:020d}"
    overwrite(second, 20, bytes(20))  # the page of entry 5 did not reach the disk
    queue = recovered(tmp_path)
    assert (queue.max_offset, queue.record_end) == (5, 500)
    assert second.read_bytes() == ENTRY.pack(400, 100, 0) + bytes(60)
    assert list(contents(tmp_path)) == [f"{0:020d}", f"{80:020d}"]
    # Appended again, the last entry is the last: nothing stale follows it.
    assert queue.append(dispatched(5, 500))
    queue.write()
    assert recovered(tmp_path).max_offset == 6


def test_only_the_last_three_files_are_looked_at(tmp_path: Path) -> None:
    filled(tmp_path, 16)
    overwrite(tmp_path / f"{0:020d}", 0, bytes(20))
    assert recovered(tmp_path).max_offset == 16
    overwrite(tmp_path / f"{80:020d}", 20, bytes(20))
    assert recovered(tmp_path).max_offset == 5


def test_an_empty_last_file_keeps_the_offset(tmp_path: Path) -> None:
    (tmp_path / f"{160:020d}").write_bytes(bytes(80))
    queue = recovered(tmp_path)
    assert (queue.min_offset, queue.max_offset, queue.record_end) == (8, 8, -1)
    assert queue.append(dispatched(8, 800))


@pytest.mark.parametrize("count", [0, 1, 3, 4, 5, 8])
@pytest.mark.parametrize("kept", [0, 1, 3, 4, 5, 8])
def test_entries_after_the_end_of_the_log_are_dropped_and_zeroed(
    tmp_path: Path, count: int, kept: int
) -> None:
    queue = filled(tmp_path, count)
    queue.append(dispatched(count, count * 100))  # not written yet
    queue.truncate(kept * 100)
    left = min(kept, count + 1)
    assert offsets(queue) == list(range(left))
    assert queue.record_end == (left * 100 if left else -1)
    queue.write()
    assert offsets(recovered(tmp_path)) == list(range(left))
    behind = b"".join(contents(tmp_path).values())[left * ENTRY_SIZE :]
    assert not any(behind)
    assert queue.append(dispatched(left, left * 100))


def test_a_queue_is_cut_at_an_offset(tmp_path: Path) -> None:
    queue = filled(tmp_path, 9)
    queue.append(dispatched(9, 900))
    queue.cut(5)
    assert offsets(queue) == [0, 1, 2, 3, 4]
    assert (queue.max_offset, queue.record_end) == (5, 500)
    assert list(contents(tmp_path)) == [f"{0:020d}", f"{80:020d}"]
    assert offsets(recovered(tmp_path)) == [0, 1, 2, 3, 4]
    queue.cut(0)
    assert (queue.min_offset, queue.max_offset, queue.record_end) == (0, 0, -1)


def test_a_queue_that_lost_all_its_records_goes_on_where_its_files_begin(tmp_path: Path) -> None:
    queue = filled(tmp_path, 6, first=8)
    queue.truncate(0)
    assert (queue.min_offset, queue.max_offset) == (8, 8)


# The end of old files.


def test_the_first_entry_in_the_log_is_the_least_offset(tmp_path: Path) -> None:
    queue = filled(tmp_path, 10)
    for start, least in [(0, 0), (100, 1), (101, 2), (900, 9), (901, 10), (5000, 10)]:
        queue.correct_min_offset(start)
        assert queue.min_offset == least, start
    assert queue.entries(9, 1) == b""


def test_files_of_records_that_are_gone_are_removed_but_the_last(tmp_path: Path) -> None:
    queue = filled(tmp_path, 10)
    assert queue.clean(300) == []
    assert queue.min_offset == 3
    assert queue.clean(700) == [str(tmp_path / f"{0:020d}")]
    assert queue.min_offset == 7
    assert queue.clean(5000) == [str(tmp_path / f"{80:020d}")]
    assert (queue.min_offset, queue.max_offset) == (10, 10)
    assert queue.append(dispatched(10, 5000))
    again = recovered(tmp_path)
    again.correct_min_offset(5000)
    assert again.max_offset == 10


def packed(first: int, end: int, *, at: int = 0) -> bytes:
    return b"".join(ENTRY.pack(at + 100 * offset, 100, 0) for offset in range(first, end))


@given(
    has=st.integers(0, 11),
    agrees=st.integers(0, 11),
    begin=st.integers(0, 11),
    count=st.integers(1, 11),
)
def test_restoring_leaves_what_agrees_and_drops_what_does_not(
    has: int, agrees: int, begin: int, count: int
) -> None:
    begin, agrees = min(begin, has), min(agrees, has)
    with TemporaryDirectory() as directory:
        queue = filled(Path(directory), agrees)
        for offset in range(agrees, has):
            queue.append(dispatched(offset, 5_000 + offset * 100))
        queue.restore(begin, packed(begin, begin + count))
        end = begin + count
        if agrees >= end:
            end = has  # nothing in its way was another one's
        assert queue.max_offset == max(end, begin + count)
        entries = [entry for offset, entry in queue.iterate(begin) if offset < begin + count]
        assert entries == list(unpack(packed(begin, begin + count)))
        again = recovered(Path(directory))
        assert (again.max_offset, again.record_end) == (queue.max_offset, queue.record_end)


def test_an_empty_queue_is_restored_from_any_offset_on(tmp_path: Path) -> None:
    queue = queue_in(tmp_path)
    queue.restore(6, packed(6, 9))
    assert (queue.min_offset, queue.max_offset, queue.record_end) == (6, 9, 900)
    queue.restore(4, packed(4, 10))
    assert (queue.min_offset, queue.max_offset, offsets(queue)) == (6, 10, [6, 7, 8, 9])
