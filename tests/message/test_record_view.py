import struct
import zlib

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbitmq.errors import CompressionFailed, CorruptRecord
from orbitmq.message import flags
from orbitmq.message.compression import CompressionType, compress
from orbitmq.message.record import CRC_PROPERTY_SIZE, LEAST_SIZE, Record, encode, seal_agrees
from orbitmq.message.record_view import Carried, Filed, RecordView
from tests.message.records import (
    ORDER,
    RECORDS,
    GoldenRecord,
    golden_host,
    records,
    sealed,
    view_of,
)


@pytest.mark.parametrize("golden", RECORDS, ids=lambda golden: golden["name"])
def test_a_message_is_what_java_decoded(golden: GoldenRecord) -> None:
    message = view_of(bytes.fromhex(golden["encoded_hex"])).message(broker_name="broker-a")

    java = golden["decoded"]
    assert message.topic == java["topic"]
    assert message.body == bytes.fromhex(java["body_hex"])
    assert message.properties == (java["properties"] or {})
    assert message.queue_id == java["queue_id"]
    assert message.queue_offset == java["queue_offset"]
    assert message.commit_log_offset == java["commit_log_offset"]
    assert message.flag == java["flag"]
    assert message.sys_flag == java["sys_flag"]
    assert message.born_timestamp_ms == java["born_timestamp"]
    assert message.born_host == golden_host(java["born_host"])
    assert message.store_timestamp_ms == java["store_timestamp"]
    assert message.store_host == golden_host(java["store_host"])
    assert message.reconsume_times == java["reconsume_times"]
    assert message.prepared_transaction_offset == java["prepared_transaction_offset"]
    assert message.body_crc == java["body_crc"]
    assert message.store_size == java["store_size"]
    assert message.broker_name == "broker-a"


@given(records, st.data())
def test_a_damaged_record_is_read_or_refused(record: Record, data: st.DataObject) -> None:
    buffer = encode(record)
    at = data.draw(st.integers(8, len(buffer) - 1))  # what comes before, a scan has checked
    buffer[at] ^= data.draw(st.integers(1, 255))
    try:
        message = view_of(buffer).message(max_body=1000)
    except CorruptRecord:
        return
    assert message.store_size == len(buffer)


@pytest.mark.parametrize(
    ("position", "layout", "value", "why"),
    [
        (84, ">i", -1, "a body of -1"),
        (84, ">i", 2**31 - 1, "a body of 2147483647"),
        (84, ">i", 6, "a topic of 97"),  # the letter "a" of "pizza" taken for a length
        (95, ">b", -1, "a topic of -1"),
        (95, ">b", 127, "a topic of 127"),
        (102, ">h", -1, "properties of -1"),
        (102, ">h", 11, "properties of 11"),
        (102, ">h", 9, "properties of 9"),
    ],
)
def test_lengths_that_contradict_are_refused(
    position: int, layout: str, value: int, why: str
) -> None:
    buffer = bytearray(b"xx") + encode(ORDER)
    struct.pack_into(layout, buffer, 2 + position, value)
    view = RecordView(memoryview(buffer), 2, len(buffer) - 2)

    for read in (view.message, view.is_whole, lambda: view.topic):
        with pytest.raises(CorruptRecord, match=f"size of 114.*{why}") as caught:
            read()
        assert caught.value.position == 2


def test_hosts_that_leave_no_room_are_refused() -> None:
    buffer = encode(msgspec.structs.replace(ORDER, topic=b"", body=b"", properties=b""))
    assert len(buffer) == LEAST_SIZE
    buffer[39] |= flags.BORN_HOST_IPV6
    view = view_of(buffer)

    for read in (view.message, lambda: view.store_host, lambda: view.body):
        with pytest.raises(CorruptRecord, match="its hosts need a head of 100 bytes"):
            read()


def test_the_body_is_a_view_and_a_message_is_not() -> None:
    buffer = encode(ORDER)
    view = view_of(buffer)
    message = view.message()
    buffer[88:95] = b"2 pizza"

    assert bytes(view.body) == b"2 pizza"
    assert message.body == b"1 pizza"
    assert not view.is_whole()


def test_an_empty_body_has_no_crc_to_fail() -> None:
    assert view_of(encode(msgspec.structs.replace(ORDER, body=b"", body_crc=5))).is_whole()


def compressed(kind: CompressionType, body: bytes) -> bytearray:
    record = msgspec.structs.replace(
        ORDER, body=compress(body, kind), sys_flag=kind.sys_flag | flags.TRANSACTION_PREPARED
    )
    return encode(record)


@pytest.mark.parametrize("kind", list(CompressionType))
def test_of_an_opened_body_only_the_compressed_bit_is_cleared(kind: CompressionType) -> None:
    message = view_of(compressed(kind, bytes(5000))).message()

    assert message.body == bytes(5000)
    assert message.sys_flag == kind.sys_flag & ~flags.COMPRESSED | flags.TRANSACTION_PREPARED


def test_a_body_may_stay_compressed() -> None:
    view = view_of(compressed(CompressionType.ZLIB, bytes(5000)))
    message = view.message(open_body=False)

    assert (message.body, message.sys_flag) == (bytes(view.body), view.sys_flag)


def test_an_empty_body_is_not_opened() -> None:
    record = msgspec.structs.replace(ORDER, body=b"", sys_flag=flags.COMPRESSED)

    assert view_of(encode(record)).message().sys_flag == flags.COMPRESSED  # as in Java


@pytest.mark.parametrize(
    ("sys_flag", "why"), [(0x301, "more than 999 bytes"), (0x501, "compression type 5")]
)
def test_a_body_that_cannot_be_opened_is_refused_with_its_place(sys_flag: int, why: str) -> None:
    record = msgspec.structs.replace(ORDER, body=zlib.compress(bytes(1000)), sys_flag=sys_flag)
    data = b"xx" + encode(record)
    view = RecordView(memoryview(data), 2, len(data) - 2)

    with pytest.raises(CompressionFailed, match=f"record at byte 2: .*{why}") as caught:
        view.message(max_body=999)
    assert caught.value.position == 2


def test_text_that_is_not_utf8_is_read_as_java_reads_it() -> None:
    record = msgspec.structs.replace(ORDER, topic=b"or\xffders", properties=b"A\x01\xfe\x02")
    message = view_of(encode(record)).message()

    assert (message.topic, message.properties) == ("or�ders", {"A": "�"})


def test_the_crc_property_covers_every_byte_before_it() -> None:
    whole = sealed(ORDER)
    properties_start = len(encode(msgspec.structs.replace(ORDER, properties=b"")))
    assert view_of(whole).is_whole()

    lengths = {*range(84, 88), 95, 102, 103}  # damaged, they are refused before any checksum
    for at in set(range(8, len(whole) - CRC_PROPERTY_SIZE)) - lengths:
        damaged = bytearray(whole)
        damaged[at] ^= 0x40
        assert not view_of(damaged).is_whole(), f"byte {at}"
        seal = memoryview(damaged), 0, properties_start, len(damaged)
        assert not seal_agrees(*seal), f"byte {at}"


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"TAGS\x01paid\x02",
        b"__CRC32#\x010000000000\x02TAGS\x01paid\x02",  # a broker would put it at the end
    ],
)
def test_without_a_crc_property_there_is_none_to_fail(text: bytes) -> None:
    record = msgspec.structs.replace(ORDER, properties=text)

    assert view_of(encode(record)).is_whole()


@given(records)
def test_filed_has_the_fields_of_the_record(record: Record) -> None:
    view = view_of(encode(record))
    assert view.filed() == Filed(
        record.topic, record.queue_id, record.queue_offset, record.commit_log_offset, view.size,
        view.sys_flag, record.store_timestamp_ms, record.properties,
    )  # fmt: skip


@given(records)
def test_a_copy_carries_what_does_not_depend_on_its_place(record: Record) -> None:
    view = view_of(encode(record))
    assert view.carried() == Carried(
        view.body, record.properties, record.flag, view.sys_flag, record.born_timestamp_ms,
        record.born_host, record.store_host, record.reconsume_times,
    )  # fmt: skip
