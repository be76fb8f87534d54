"""Batch queues: entries of several messages, found by any of their offsets or by their time."""

from bisect import bisect_left, bisect_right
from collections import deque
from itertools import pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbitmq.store.disk.open_files import OpenFiles
from orbitmq.store.dispatch import Dispatched
from orbitmq.store.queues.batch_entry import BATCH_ENTRY_SIZE, BatchEntry
from orbitmq.store.queues.batch_queue import BatchQueue, batch_entry_of
from orbitmq.store.queues.consume_queue import Boundary
from orbitmq.store.queues.files import QueueFiles
from orbitmq.testing.disks import SimulatedDisk
from tests.store.entries import dispatched

PER_FILE = 4
SIZE = 100


def queue_on(disk: SimulatedDisk) -> BatchQueue:
    files = QueueFiles(OpenFiles(disk, limit=4), "/queue", PER_FILE * BATCH_ENTRY_SIZE)
    return BatchQueue("orders", 0, files, entries_per_file=PER_FILE, backlog=deque())


def record(number: int, offset: int, messages: int, stored_ms: int = 0) -> Dispatched:
    """Return the record at byte 100·number."""
    plain = dispatched(offset, number * SIZE, size=SIZE)
    return msgspec.structs.replace(plain, messages=messages, store_timestamp_ms=stored_ms)


def recovered(disk: SimulatedDisk) -> BatchQueue:
    queue = queue_on(disk)
    queue.load()
    queue.recover()
    return queue


def nothing(_offset: int, _size: int) -> int | None:
    raise AssertionError("the entry has the time")


@st.composite
def _records(draw: st.DrawFn) -> list[Dispatched]:
    """Batches and messages sent alone, with gaps between them, at times that never decrease."""
    steps = st.tuples(st.integers(0, 3), st.integers(1, 5), st.integers(0, 2))
    found, offset, stored_ms = [], draw(st.integers(0, 3)), 1_000
    for number, (gap, messages, later_ms) in enumerate(draw(st.lists(steps, max_size=20))):
        offset, stored_ms = offset + gap * (number > 0), stored_ms + later_ms
        found.append(record(number, offset, messages, stored_ms))
        offset += messages
    return found


records = _records()


@given(records, st.integers(0, 20))
def test_an_entry_is_found_by_any_offset_in_it(given: list[Dispatched], written: int) -> None:
    queue = queue_on(SimulatedDisk())
    for number, one in enumerate(given):
        assert queue.append(one)
        if number == written:
            queue.write()
    entries = [batch_entry_of(one) for one in given]
    assert [entry for _, entry in queue.iterate(0)] == entries
    assert queue.min_offset == (entries[0].queue_offset if entries else 0)
    assert queue.max_offset == (entries[-1].end if entries else 0)
    for offset in range(queue.min_offset, queue.max_offset):
        wanted = next(entry for entry in entries if offset < entry.end)
        assert queue.entry(offset) == wanted
        assert queue.entries(offset, 1) == [wanted]
    assert queue.entry(queue.max_offset) is None
    assert queue.entry(queue.min_offset - 1) is None


@given(records, st.integers(995, 1_050))
def test_a_time_leads_to_the_message_that_a_consume_queue_would_return(
    given: list[Dispatched], time_ms: int
) -> None:
    queue = queue_on(SimulatedDisk())
    for one in given:
        queue.append(one)
    messages = [
        (one.queue_offset + number, one.store_timestamp_ms)
        for one in given
        for number in range(one.messages)
    ]
    times = [stored_ms for _, stored_ms in messages]
    at = bisect_left(times, time_ms)
    lower = messages[at][0] if at < len(messages) else queue.max_offset
    at = bisect_right(times, time_ms)
    upper = messages[at - 1][0] if at else queue.min_offset
    assert queue.offset_by_time(time_ms, Boundary.LOWER, nothing) == lower
    assert queue.offset_by_time(time_ms, Boundary.UPPER, nothing) == upper


@given(records, st.data())
def test_a_torn_end_is_cut_off(given: list[Dispatched], data: st.DataObject) -> None:
    """A crash keeps any part of the bytes, and the last file perhaps not at all."""
    disk = SimulatedDisk()
    queue = queue_on(disk)
    for one in given:
        queue.append(one)
    queue.write()
    if given:
        # A start looks at the last three files; older ones were flushed when they were full.
        files = -(-len(given) // PER_FILE)
        first = max(0, files - 3) * PER_FILE
        number = data.draw(st.integers(first, len(given) - 1))
        begin = number * BATCH_ENTRY_SIZE
        path = f"/queue/{begin - begin % (PER_FILE * BATCH_ENTRY_SIZE):020d}"
        file = disk.open(path)
        at = begin % (PER_FILE * BATCH_ENTRY_SIZE)
        file.write([bytes(data.draw(st.integers(38, BATCH_ENTRY_SIZE)))], at)  # the count is gone
        given = given[:number]
    queue = recovered(disk)
    assert [entry for _, entry in queue.iterate(0)] == list(map(batch_entry_of, given))
    assert queue.end_number == len(given)
    assert queue.append(record(30, 200, 2))
    queue.write()
    assert recovered(disk).max_offset == 202


def test_old_entries_that_java_left_after_the_end_are_no_entries() -> None:
    disk = SimulatedDisk()
    queue = queue_on(disk)
    for one in (record(0, 0, 3), record(5, 3, 2), record(2, 3, 1)):
        queue._pending += batch_entry_of(one).pack()
    queue.write()
    assert recovered(disk).max_offset == 5


def test_records_that_the_queue_has_are_not_added_again() -> None:
    queue = queue_on(SimulatedDisk())
    assert queue.append(record(0, 0, 3))
    assert not queue.append(record(0, 0, 3))
    assert not queue.append(record(1, 2, 1))
    assert queue.append(record(1, 3, 1))
    assert (queue.max_offset, queue.end_number) == (4, 2)


def test_the_first_offset_in_the_log_is_that_of_its_first_record() -> None:
    queue = queue_on(SimulatedDisk())
    for number, offset in enumerate((0, 5, 8, 20)):
        queue.append(record(number, offset, 3))
    queue.correct_min_offset(SIZE + 1)
    assert (queue.min_offset, queue.max_offset) == (8, 23)
    queue.correct_min_offset(4 * SIZE)
    assert (queue.min_offset, queue.max_offset) == (23, 23)


@pytest.mark.parametrize("known", [0, 2])
def test_offsets_that_were_given_out_are_kept(known: int) -> None:
    disk = SimulatedDisk()
    queue = queue_on(disk)
    for number in range(known):
        queue.append(record(number, number * 10, 10))
    queue.keep_end(35)
    again = recovered(disk)
    assert again.max_offset == 35
    assert again.min_offset == (0 if known else 35)
    if known:
        assert again.entry(34) == BatchEntry((known - 1) * SIZE, SIZE, 0, 0, 34, 1)
    assert again.append(record(9, 35, 2))
    assert again.entry(36) == BatchEntry(9 * SIZE, SIZE, 0, 0, 35, 2)


@given(records, records)
def test_entries_are_restored_up_to_the_first_difference(
    had: list[Dispatched], wanted: list[Dispatched]
) -> None:
    disk = SimulatedDisk()
    queue = queue_on(disk)
    for one in had:
        queue.append(one)
    queue.restore(0, b"".join(batch_entry_of(one).pack() for one in wanted))
    found = [entry for _, entry in recovered(disk).iterate(0)]
    expected = list(map(batch_entry_of, wanted))
    if expected == list(map(batch_entry_of, had[: len(wanted)])):
        expected = list(map(batch_entry_of, had))
    assert found == expected
    assert all(one.end <= other.queue_offset for one, other in pairwise(found))


def test_files_whose_records_are_gone_are_removed() -> None:
    disk = SimulatedDisk()
    queue = queue_on(disk)
    for number in range(10):
        queue.append(record(number, number * 2, 2))
    queue.write()
    assert len(queue.clean(5 * SIZE)) == 1
    assert (queue.min_offset, queue.max_offset, queue.first_number) == (10, 20, 4)
    again = recovered(disk)
    again.correct_min_offset(5 * SIZE)
    assert (again.min_offset, again.max_offset) == (10, 20)
    assert again.entry(13) == BatchEntry(6 * SIZE, SIZE, 0, 0, 12, 2)
