"""The layout of queue entries, and where they end."""

import struct

from hypothesis import given
from hypothesis import strategies as st

from orbitmq.store.queues.entry import ENTRY, PREFILL, QueueEntry, good_entries, unpack

INTS = st.sampled_from([-1, 0, 1, 255, 256, 1 << 24, (1 << 31) - 1, -(1 << 31)])
LONGS = st.sampled_from([-1, 0, 1, 1 << 40, (1 << 63) - 1, -(1 << 63)])


def test_an_entry_is_laid_out_as_in_java() -> None:
    data = bytes.fromhex("0000000000001234 00000056 FFFFFFFFFFFFFF9C")
    assert list(unpack(data)) == [QueueEntry(0x1234, 0x56, -100)]
    assert bytes.fromhex("0000000000000000 7FFFFFFF 0000000000000000") == PREFILL


@given(st.lists(st.tuples(LONGS, INTS, LONGS), max_size=12))
def test_entries_end_at_the_first_that_can_be_none(entries: list[tuple[int, int, int]]) -> None:
    data = b"".join(struct.pack(">qiq", *entry) for entry in entries)
    good = 0
    for commit_log_offset, size, _ in entries:
        if commit_log_offset < 0 or size <= 0:
            break
        good += 1
    assert good_entries(data) == good
    assert [tuple(entry) for entry in unpack(data)] == entries


def test_no_entries_are_good_in_nothing() -> None:
    assert good_entries(b"") == 0
    assert good_entries(bytes(60)) == 0
    assert good_entries(ENTRY.pack(0, 1, 0) * 5000) == 5000
