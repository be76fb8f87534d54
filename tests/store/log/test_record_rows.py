import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbitmq.errors import CorruptRecord
from orbitmq.message.record import (
    CRC_PROPERTY_SIZE,
    LEAST_SIZE,
    Version,
    blank,
    crc_property,
)
from orbitmq.message.record_view import RecordView
from orbitmq.store.log.record_rows import (
    Checked,
    fault_at,
    is_blank,
    magics,
    next_sound,
    sound_row,
    sound_rows,
    view_of,
    written_end,
)
from tests.store.small_logs import SEGMENT, record, segment_of

SIZE = len(record(0))


def test_rows_tell_where_the_parts_of_a_record_are() -> None:
    data = record(0, body=b"1 pizza", properties=b"TAGS\x01paid\x02")
    row = sound_row(memoryview(data), 0, 0)
    assert row is not None
    start, end, body_start, body_end, topic_start, topic_end = row
    assert (start, end) == (0, len(data))
    assert data[body_start:body_end] == b"1 pizza"
    assert data[topic_start:topic_end] == b"orders"
    assert data[topic_end + 2 : end] == b"TAGS\x01paid\x02"


def test_a_head_with_long_addresses() -> None:
    data = record(0, body=b"1 pizza", ipv6=True)
    row = sound_row(memoryview(data), 0, 0)
    assert row is not None
    assert data[row[2] : row[3]] == b"1 pizza"
    assert bytes(view_of(memoryview(data), row).body) == b"1 pizza"


def test_a_block_ends_at_its_limit_and_at_the_stop() -> None:
    segment = memoryview(segment_of(5))
    rows, position = sound_rows(segment, 0, 0, SEGMENT, 2)
    assert ([row[0] for row in rows], position) == ([0, SIZE], 2 * SIZE)
    rows, position = sound_rows(segment, 0, position, 2 * SIZE + 1, 9)
    assert ([row[0] for row in rows], position) == ([2 * SIZE], 3 * SIZE)
    rows, position = sound_rows(segment, 0, position, SEGMENT, 9)
    assert (len(rows), position) == (2, 5 * SIZE)


def test_a_record_is_only_sound_at_its_own_place() -> None:
    data = memoryview(record(5000))
    assert sound_row(data, 5000, 0)
    assert not sound_row(data, 5001, 0)
    assert not sound_row(data, 5000, -1)


@given(st.binary(min_size=LEAST_SIZE, max_size=300), st.sampled_from(Version), st.integers(0, 400))
def test_sound_is_what_a_view_can_read(tail: bytes, version: Version, size: int) -> None:
    data = size.to_bytes(4) + version.value.to_bytes(4) + tail[8:28] + bytes(8) + tail[36:]
    row = sound_row(memoryview(data), 0, 0)
    view = RecordView(memoryview(data), 0, size)
    try:
        if not LEAST_SIZE <= size <= len(data):
            raise CorruptRecord("no such record can be there")
        body = bytes(view.body)
    except CorruptRecord:
        assert row is None
    else:
        assert row is not None
        assert data[row[2] : row[3]] == body


@given(st.integers(0, SIZE - 1), st.integers(0, 255))
def test_a_changed_byte_never_breaks_the_scan(at: int, value: int) -> None:
    data = bytearray(record(0))
    data[at] = value
    row = sound_row(memoryview(data), 0, 0)
    assert row is None or row[1] == SIZE


def test_a_blank_fills_the_rest_exactly() -> None:
    assert is_blank(memoryview(blank(100).ljust(100, b"\0")), 0)
    assert not is_blank(memoryview(blank(99).ljust(100, b"\0")), 0)
    assert not is_blank(memoryview(blank(100)[:7]), 0)


def test_the_next_record_is_found_behind_junk_with_a_magic_in_it() -> None:
    magic = Version.V1.value.to_bytes(4)
    junk = b"junk" + magic * 3 + b"!"
    data = memoryview(junk + record(len(junk)))
    assert next_sound(data, 0, 0, len(data)) == len(junk)
    assert next_sound(data, 0, len(junk) + 1, len(data)) is None


def test_the_next_record_is_found_across_the_parts_searched() -> None:
    for at in range((1 << 20) - 9, (1 << 20) + 2):
        data = memoryview(b"\x01" * at + record(at))
        assert next_sound(data, 0, 0, len(data)) == at


def test_the_blank_is_found() -> None:
    data = memoryview(b"junk" + blank(96).ljust(96, b"\0"))
    assert next_sound(data, 0, 0, len(data)) == 4


@given(st.binary(max_size=20), st.integers(0, 3 << 20), st.integers(0, 20))
def test_where_the_zeros_begin(data: bytes, zeros: int, position: int) -> None:
    position = min(position, len(data))
    written = len(data.rstrip(b"\0"))
    assert written_end(memoryview(data + bytes(zeros)), position) == max(position, written)


def test_checksums_count_as_far_as_they_are_checked() -> None:
    sealed = b"TAGS\x01paid\x02" + bytes(CRC_PROPERTY_SIZE)
    data = bytearray(record(0, properties=sealed))
    data[-CRC_PROPERTY_SIZE:] = crc_property(data[:-CRC_PROPERTY_SIZE])
    row = sound_row(memoryview(data), 0, 0, Checked.BODY_AND_SEAL)
    assert row is not None
    data[row[4]] ^= 1  # the topic, which only the seal covers
    assert sound_row(memoryview(data), 0, 0, Checked.BODY)
    assert not sound_row(memoryview(data), 0, 0, Checked.BODY_AND_SEAL)
    data[row[2]] ^= 1
    assert sound_row(memoryview(data), 0, 0)
    assert not sound_row(memoryview(data), 0, 0, Checked.BODY)


def test_an_empty_body_is_whole_whatever_its_checksum() -> None:
    data = bytearray(record(0, body=b""))
    data[8:12] = b"\1\2\3\4"
    assert sound_row(memoryview(data), 0, 0, Checked.BODY_AND_SEAL)


def test_a_fault_is_told_in_words() -> None:
    segment = bytearray(segment_of(2))
    segment[2 * SIZE :] = b"\xff" * (SEGMENT - 2 * SIZE)
    assert fault_at(memoryview(segment), 2 * SIZE).startswith("not a record; its magic is 0xffff")
    assert fault_at(memoryview(record(5000)), 0) == (
        "a record that says it lies at byte 5000 of the log"
    )
    assert fault_at(memoryview(b""), 0) == "the end of the file"


def test_places_where_a_record_may_begin_are_found_by_their_magic() -> None:
    segment = memoryview(segment_of(3, ended=True))
    assert list(magics(segment, 0, SEGMENT)) == [0, SIZE, 2 * SIZE, 3 * SIZE]
    assert list(magics(segment, 1, SEGMENT)) == [SIZE, 2 * SIZE, 3 * SIZE]


def test_a_record_that_lost_all_behind_its_body_is_not_sound() -> None:
    data = bytearray(record(0, properties=b""))
    data[-4:] = bytes(4)  # "orders" and a length of 0
    assert sound_row(memoryview(data), 0, 0)
    assert not sound_row(memoryview(data), 0, 0, Checked.BODY)
    assert fault_at(memoryview(data), 0) == "a record that was not written to its end"


@pytest.mark.parametrize("lost", [range(400, 512), range(512, 1024), range(1030, 1100)])
@pytest.mark.parametrize("sealed", [False, True])
def test_a_record_that_lost_a_part_of_its_properties_is_not_sound(
    lost: range, sealed: bool
) -> None:
    """A power loss takes bytes away as far as the end of a sector, or of what was written."""
    others = len(record(0, properties=b""))
    whole = bytearray(record(0, properties=b"note\x01".ljust(1100 - others, b"x")))
    if sealed:
        whole[-CRC_PROPERTY_SIZE:] = crc_property(memoryview(whole)[:-CRC_PROPERTY_SIZE])
    assert len(whole) == 1100
    assert sound_row(memoryview(whole), 0, 0, Checked.BODY_AND_SEAL)
    for at in lost:
        whole[at] = 0
    for checked in (Checked.BODY, Checked.BODY_AND_SEAL):
        assert not sound_row(memoryview(whole), 0, 0, checked)
    if not sealed:
        assert fault_at(memoryview(whole), 0) == "a record that was not written to its end"


def test_zeros_that_no_power_loss_leaves_are_left_alone() -> None:
    text = b"note\x01" + b"x" * 300 + b"\0" + b"x" * 300 + b"\x02"
    assert sound_row(memoryview(record(0, properties=text)), 0, 0, Checked.BODY_AND_SEAL)
