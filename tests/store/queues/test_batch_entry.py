"""The 46 bytes of an entry, as Java's ``BatchConsumeQueue`` writes them."""

import pytest

from orbitmq.store.queues.batch_entry import BatchEntry, is_good, unpack

ENTRY = BatchEntry(0x0102030405060708, 0x11121314, -2, 0x2122232425262728, 7, 300)


def test_the_layout_is_java_s() -> None:
    assert ENTRY.pack().hex(" ") == (
        "01 02 03 04 05 06 07 08 "  # commit log offset
        "11 12 13 14 "  # size
        "ff ff ff ff ff ff ff fe "  # tags code
        "21 22 23 24 25 26 27 28 "  # store time
        "00 00 00 00 00 00 00 07 "  # first queue offset
        "01 2c "  # messages
        "ff ff ff ff "  # not compacted
        "00 00 00 00"  # reserved
    )
    assert list(unpack(ENTRY.pack() * 2)) == [ENTRY, ENTRY]
    assert ENTRY.end == 307


@pytest.mark.parametrize(
    "fields",
    [{"commit_log_offset": -1}, {"size": 0}, {"queue_offset": -1}, {"messages": 0}],
    ids=lambda fields: next(iter(fields)),
)
def test_an_entry_with_an_impossible_number_was_never_written(fields: dict[str, int]) -> None:
    assert is_good(ENTRY)
    assert not is_good(ENTRY._replace(**fields))
