import struct

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbitmq.errors import CompressionFailed, CorruptRecord, InvalidInput
from orbitmq.message import batch, flags
from orbitmq.message.record import LEAST_SIZE, Record, blank, encode
from orbitmq.message.scan import Scan, Stop, StopReason, decode_all, split_inner
from tests.message import records
from tests.message.records import ORDER, sealed

RECORDS = [bytes.fromhex(each["encoded_hex"]) for each in records.RECORDS]
RECORDS += [bytes.fromhex(each["encoded_hex"]) for each in records.V2_RECORDS]
FIRST, SECOND = RECORDS[:2]


def scanned(data: bytes | bytearray, *, verify: bool = False) -> tuple[list[bytes], Stop]:
    scan = Scan(data, verify=verify)
    found = [bytes(view.raw) for view in scan]
    return found, scan.stop


def with_int(data: bytes | bytearray, position: int, value: int) -> bytes:
    changed = bytearray(data)
    struct.pack_into(">i", changed, position, value)
    return bytes(changed)


def test_finds_the_records_of_java_one_after_the_other() -> None:
    whole = b"".join(RECORDS)

    assert scanned(whole) == (RECORDS, Stop(StopReason.END, len(whole), 0))


@pytest.mark.parametrize("record", RECORDS, ids=range(len(RECORDS)))
def test_a_record_truncated_anywhere_is_short(record: bytes) -> None:
    for length in range(1, len(record)):
        found, stop = scanned(FIRST + record[:length])

        assert found == [FIRST]
        assert (stop.reason, stop.position) == (StopReason.SHORT, len(FIRST))
        assert length < stop.detail <= len(record)


@pytest.mark.parametrize(
    ("tail", "reason", "detail"),
    [
        (b"", StopReason.END, 0),
        (blank(64), StopReason.BLANK, 64),
        (blank(64) + bytes(56), StopReason.BLANK, 64),
        (bytes(64), StopReason.UNWRITTEN, 64),
        (bytes(7), StopReason.SHORT, 8),
        (with_int(FIRST, 4, 0x12345678), StopReason.BAD_MAGIC, 0x12345678),
        (with_int(FIRST, 0, LEAST_SIZE - 1), StopReason.BAD_SIZE, LEAST_SIZE - 1),
        (with_int(FIRST, 0, -1), StopReason.BAD_SIZE, -1),
        (with_int(blank(64), 0, 7), StopReason.BAD_SIZE, 7),
        (with_int(FIRST, 0, 2**31 - 1), StopReason.SHORT, 2**31 - 1),
    ],
)
def test_says_why_it_stopped(tail: bytes, reason: StopReason, detail: int) -> None:
    assert scanned(FIRST + tail) == ([FIRST], Stop(reason, len(FIRST), detail))


def test_start_and_end_bound_the_scan() -> None:
    data = b"xx" + FIRST + SECOND
    scan = Scan(data, 2, 2 + len(FIRST))

    assert [bytes(view.raw) for view in scan] == [FIRST]
    assert scan.stop == Stop(StopReason.END, 2 + len(FIRST), 0)
    short = Scan(data, 2, 2 + len(FIRST) - 1)  # the last byte is there, behind the end
    assert (list(short), short.stop) == ([], Stop(StopReason.SHORT, 2, len(FIRST)))


@pytest.mark.parametrize(("start", "end"), [(-1, 5), (0, 11), (6, 5)])
def test_bounds_outside_the_buffer_are_refused(start: int, end: int) -> None:
    with pytest.raises(InvalidInput, match="not within a buffer of 10 bytes"):
        Scan(bytes(10), start, end)


def test_there_is_no_stop_before_the_end() -> None:
    scan = Scan(FIRST + SECOND)
    views = iter(scan)
    next(views)

    with pytest.raises(RuntimeError, match="has not ended"):
        _ = scan.stop
    assert [bytes(view.raw) for view in views] == [SECOND]
    assert scan.stop.reason is StopReason.END


def test_views_share_the_buffer() -> None:
    data = bytearray(FIRST)
    (view,) = Scan(data)
    data[12:16] = (9).to_bytes(4)

    assert view.queue_id == 9


def test_lengths_inside_are_checked_before_only_with_verify() -> None:
    damaged = with_int(encode(ORDER), 84, 1000)
    (view,) = Scan(damaged)

    assert view.queue_id == 3
    with pytest.raises(CorruptRecord, match="a body of 1000"):
        _ = view.body
    assert scanned(damaged, verify=True) == ([], Stop(StopReason.BAD_SIZE, 0, len(damaged)))


def test_verify_passes_what_is_whole() -> None:
    data = encode(ORDER) + sealed(ORDER)

    assert scanned(data, verify=True)[1].reason is StopReason.END


@pytest.mark.parametrize("record", [encode(ORDER), sealed(ORDER)], ids=["plain", "sealed"])
def test_verify_sees_a_damaged_body(record: bytearray) -> None:
    damaged = bytearray(FIRST) + record
    damaged[len(FIRST) + 90] ^= 1

    assert scanned(damaged, verify=True) == (
        [FIRST],
        Stop(StopReason.BAD_CHECKSUM, len(FIRST), len(record)),
    )
    assert scanned(damaged)[1].reason is StopReason.END


def test_the_crc_property_shows_damage_outside_the_body() -> None:
    damaged = sealed(ORDER)
    damaged[12] ^= 1  # queue id

    assert scanned(damaged, verify=True)[1].reason is StopReason.BAD_CHECKSUM
    trusting = Scan(damaged, verify=True, crc_property=False)
    assert len(list(trusting)) == 1
    assert trusting.stop.reason is StopReason.END


def test_a_stop_as_text() -> None:
    _, stop = scanned(FIRST + b"no record")

    assert str(stop) == "at byte 105: not a record; its magic is 0x65636f72"


@given(st.binary(max_size=400), st.booleans())
def test_any_bytes_end_in_a_stop(data: bytes, verify: bool) -> None:
    found, stop = scanned(data, verify=verify)

    assert sum(map(len, found)) == stop.position <= len(data)


@given(st.data(), st.booleans())
def test_damaged_records_end_in_a_stop(data: st.DataObject, verify: bool) -> None:
    buffer = bytearray(FIRST + encode(ORDER) + SECOND)
    for _ in range(data.draw(st.integers(1, 4))):
        buffer[data.draw(st.integers(0, len(buffer) - 1))] = data.draw(st.integers(0, 255))
    found, stop = scanned(buffer, verify=verify)

    assert b"".join(found) == buffer[: stop.position]


@given(st.data())
def test_damaged_records_are_decoded_or_refused(data: st.DataObject) -> None:
    buffer = bytearray(FIRST + encode(ORDER))
    buffer[data.draw(st.integers(0, len(buffer) - 1))] ^= data.draw(st.integers(1, 255))
    try:
        messages = decode_all(buffer)
    except CorruptRecord:
        assert len(decode_all(buffer, strict=False)) < 2
    else:
        assert sum(message.store_size for message in messages) == len(buffer)


def test_a_pull_answer_is_messages() -> None:
    messages = decode_all(b"".join(RECORDS), broker_name="broker-a")

    assert [message.store_size for message in messages] == [len(record) for record in RECORDS]
    assert {message.broker_name for message in messages} == {"broker-a"}


@given(st.data())
def test_records_are_read_alike_one_by_one_and_in_a_row(data: st.DataObject) -> None:
    buffer = bytearray(b"".join(data.draw(st.lists(st.sampled_from(RECORDS), max_size=6))))
    for _ in range(data.draw(st.integers(0, 3)) if buffer else 0):
        buffer[data.draw(st.integers(0, len(buffer) - 1))] = data.draw(st.integers(0, 255))
    more = {"MAX_OFFSET": "9"}
    scan = Scan(buffer)
    one_by_one = None
    try:
        views = [view.message(broker_name="b", more_properties=more) for view in scan]
        if scan.stop.reason is StopReason.END:
            one_by_one = views
    except CorruptRecord:
        pass
    if one_by_one is not None:
        assert decode_all(buffer, broker_name="b", more_properties=more) == one_by_one
    else:
        with pytest.raises(CorruptRecord):
            decode_all(buffer, broker_name="b", more_properties=more)


PLAIN = st.builds(
    msgspec.structs.replace,
    st.just(ORDER),
    topic=st.sampled_from([b"", b"a", b"ab", b"orders", b"o" * 127, b"o" * 128, b"\xff"]),
    body=st.binary(max_size=9),
    properties=st.sampled_from([b"", b"TAGS\x01paid\x02", b"TAGS\x01paid", b"\x01\x02", b"\xff"]),
    queue_offset=records.int64,
    sys_flag=st.sampled_from([0, flags.COMPRESSED, flags.NEED_UNWRAP | flags.INNER_BATCH]),
)


@given(st.lists(PLAIN | records.records, max_size=8))
def test_any_records_are_read_alike_one_by_one_and_in_a_row(some: list[Record]) -> None:
    buffer = b"".join(map(encode, some))
    more = {"MIN_OFFSET": "0"}
    one_by_one = [
        view.message(broker_name="b", open_body=False, more_properties=more)
        for view in Scan(buffer)
    ]
    in_a_row = decode_all(buffer, broker_name="b", open_bodies=False, more_properties=more)
    assert len(in_a_row) == len(some)
    assert in_a_row == one_by_one
    assert [one.properties for one in in_a_row] == [dict(one.properties) for one in one_by_one]


def test_compressed_bodies_may_stay_as_they_are() -> None:
    (message,) = decode_all(RECORDS[6], open_bodies=False)
    assert message.sys_flag & flags.COMPRESSED
    assert len(message.body) < len(decode_all(RECORDS[6])[0].body)


@pytest.mark.parametrize("tail", [SECOND[:-1], blank(8), bytes(8), with_int(SECOND, 84, 1000)])
def test_a_bad_end_is_refused_unless_asked_otherwise(tail: bytes) -> None:
    with pytest.raises(CorruptRecord) as caught:
        decode_all(FIRST + tail)
    assert caught.value.position == len(FIRST)
    assert [each.store_size for each in decode_all(FIRST + tail, strict=False)] == [len(FIRST)]


def test_a_body_that_opens_too_far_is_refused() -> None:
    compressed = RECORDS[6]
    with pytest.raises(CompressionFailed):
        decode_all(compressed, max_body=100)
    assert decode_all(FIRST + compressed, max_body=100, strict=False) == decode_all(FIRST)


def test_an_inner_batch_is_split() -> None:
    body = batch.encode([(1, b"one", b"K\x01a\x02"), (2, b"two", b"")])
    inner = flags.NEED_UNWRAP | flags.INNER_BATCH
    (outer,) = decode_all(encode(msgspec.structs.replace(ORDER, body=body, sys_flag=inner)))
    first, second = split_inner(outer)

    assert (first.flag, first.body, first.properties) == (1, b"one", {"K": "a"})
    assert (second.flag, second.body, second.properties) == (2, b"two", {})
    assert [first.queue_offset, second.queue_offset] == [40, 41]
    for name in ("topic", "queue_id", "sys_flag", "born_host", "store_host", "commit_log_offset"):
        assert getattr(first, name) == getattr(second, name) == getattr(outer, name)


@pytest.mark.parametrize("bits", [0, flags.NEED_UNWRAP, flags.INNER_BATCH])
def test_a_message_that_is_no_inner_batch_stays_alone(bits: int) -> None:
    (message,) = decode_all(encode(msgspec.structs.replace(ORDER, sys_flag=bits)))

    assert split_inner(message) == [message]


def test_an_invalid_inner_batch_is_refused() -> None:
    inner = flags.NEED_UNWRAP | flags.INNER_BATCH
    (message,) = decode_all(encode(msgspec.structs.replace(ORDER, sys_flag=inner)))

    with pytest.raises(CorruptRecord, match="batched message at byte 0"):
        split_inner(message)
