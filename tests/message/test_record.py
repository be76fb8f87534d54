import struct
import zlib

import msgspec
import pytest
from hypothesis import given

from orbitmq.errors import LocalProtocolError
from orbitmq.message import flags, properties
from orbitmq.message.host import Host
from orbitmq.message.record import (
    BLANK_SIZE,
    HEADS,
    Record,
    Version,
    blank,
    encode,
    form_of,
    parts,
    reader,
)
from tests.golden_files import golden
from tests.message.records import (
    ORDER,
    RECORDS,
    V2_RECORDS,
    GoldenRecord,
    GoldenV2,
    golden_host,
    int64,
    raw_fields,
    records,
    sealed,
    view_of,
)


@pytest.mark.parametrize("golden", RECORDS, ids=lambda golden: golden["name"])
def test_has_the_bytes_of_java(golden: GoldenRecord) -> None:
    encoded = bytes.fromhex(golden["encoded_hex"])
    java = golden["input"]
    record = Record(
        topic=java["topic"].encode(),
        # The compressor's bytes are Java's own; its encoder compressed the body on the way.
        body=bytes(view_of(encoded).body),
        properties=java["properties_string"].encode(),
        queue_id=java["queue_id"],
        queue_offset=java["queue_offset"],
        commit_log_offset=java["commit_log_offset"],
        flag=java["flag"],
        sys_flag=java["sys_flag"],
        born_timestamp_ms=java["born_timestamp"],
        born_host=golden_host(java["born_host"]),
        store_timestamp_ms=java["store_timestamp"],
        store_host=golden_host(java["store_host"]),
        reconsume_times=java["reconsume_times"],
        prepared_transaction_offset=java["prepared_transaction_offset"],
        # This encoder takes the CRC as it is given: that of the plain body. Brokers compute it.
        body_crc=java["body_crc"],
    )

    assert encode(record) == encoded
    assert raw_fields(view_of(encoded)) == msgspec.structs.replace(record, version=Version.V1)


@pytest.mark.parametrize("golden", V2_RECORDS, ids=lambda golden: str(len(golden["topic"])))
def test_long_topics_have_the_bytes_of_the_java_broker(golden: GoldenV2) -> None:
    encoded = bytes.fromhex(golden["encoded_hex"])
    view = view_of(encoded)

    assert f"MESSAGE_VERSION_{view.version.name}" == golden["version"]
    assert view.topic == golden["topic"].encode()
    assert view.properties == golden["properties_string"].encode()
    assert view.is_whole()
    message = view.message()
    assert (message.topic, message.body) == (golden["topic"], golden["body_text"].encode())
    # The broker's CRC and version are what ours come to.
    again = msgspec.structs.replace(raw_fields(view), body_crc=None, version=None)
    assert encode(again) == encoded


@given(records)
def test_reads_what_it_wrote(record: Record) -> None:
    encoded = encode(record)
    view = view_of(encoded)
    again = raw_fields(view)

    ipv6 = flags.BORN_HOST_IPV6 * record.born_host.is_ipv6
    ipv6 |= flags.STORE_HOST_IPV6 * record.store_host.is_ipv6
    both = flags.BORN_HOST_IPV6 | flags.STORE_HOST_IPV6
    assert again == msgspec.structs.replace(
        record,
        sys_flag=record.sys_flag & ~both | ipv6,
        body_crc=zlib.crc32(record.body) & 0x7FFFFFFF,
        version=Version.V1 if len(record.topic) <= 127 else Version.V2,
    )
    assert view.is_whole()
    assert encode(again) == encoded


@given(records, int64, int64, int64)
def test_a_place_is_written_into_the_record_and_the_body_is_not_copied(
    record: Record, queue: int, log: int, time: int
) -> None:
    form = form_of(record.topic, len(record.born_host.ip), len(record.store_host.ip))
    head, body, tail = parts(record, form, queue, log, time)

    placed = msgspec.structs.replace(
        record, queue_offset=queue, commit_log_offset=log, store_timestamp_ms=time
    )
    assert head + body + tail == encode(placed)
    assert body is record.body
    assert len(head) + len(tail) == form.overhead + len(record.properties)


@given(records)
def test_a_reader_unpacks_the_fields_it_names(record: Record) -> None:
    encoded = encode(record)
    names = ("magic", "queue_id", "queue_offset", "commit_log_offset", "born_timestamp_ms")
    magic, *values = reader(*names).unpack_from(encoded)
    assert magic == view_of(encoded).version.value
    assert values == [getattr(record, name) for name in names[1:]]


def test_a_reader_takes_fields_in_the_order_of_the_layout() -> None:
    with pytest.raises(struct.error):
        reader("sys_flag", "queue_id")


@pytest.mark.parametrize("hosts", [0, *range(16, 64, 16)])
def test_a_head_is_chosen_by_the_low_byte_of_the_sys_flag(hosts: int) -> None:
    longer = (bool(hosts & flags.BORN_HOST_IPV6) + bool(hosts & flags.STORE_HOST_IPV6)) * 12
    assert {HEADS[hosts | rest].size for rest in (0, 1, 15, 64, 128)} == {88 + longer}


def test_the_crc_property_is_in_reverse_digits() -> None:
    buffer = sealed(ORDER)
    value = view_of(buffer).message().properties[properties.CRC32]

    assert int(value[::-1]) == zlib.crc32(buffer[:-20]) & 0x7FFFFFFF
    assert len(value) == 10


def test_a_blank_is_its_size_and_magic() -> None:
    assert blank(BLANK_SIZE).hex() == "00000008cbd43194"
    for size in (BLANK_SIZE - 1, 2**31):
        with pytest.raises(LocalProtocolError, match=f"not {size}"):
            blank(size)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"topic": bytes(128), "version": Version.V1}, "topic: 128 bytes"),
        ({"topic": bytes(32768)}, "topic: 32768 bytes"),
        ({"properties": bytes(32768)}, "properties: 32768 bytes"),
        ({"queue_id": 2**31}, "queue_id: 2147483648"),
        ({"queue_offset": -(2**63) - 1}, "queue_offset: -9223372036854775809"),
        ({"born_host": Host(bytes(4), 2**31)}, "born_host: port 2147483648"),
        ({"store_host": Host(bytes(5), 1)}, "store_host: an address has 4 or 16 bytes, not 5"),
    ],
)
def test_what_the_layout_cannot_hold_is_refused(changes: dict[str, object], why: str) -> None:
    with pytest.raises(LocalProtocolError, match=why):
        encode(msgspec.structs.replace(ORDER, **changes))


def test_the_version_can_be_forced() -> None:
    v2 = encode(msgspec.structs.replace(ORDER, version=Version.V2))

    assert len(v2) == len(encode(ORDER)) + 1
    assert view_of(v2).topic == b"orders"


@pytest.mark.parametrize(
    "case", golden("hashes")["crc32_sign_bit_cleared"], ids=lambda c: c["text"]
)
def test_the_checksum_of_a_body_is_that_of_java(case: dict[str, str | int]) -> None:
    body = str(case["text"]).encode()
    encoded = encode(msgspec.structs.replace(ORDER, body=body))
    assert view_of(bytes(encoded)).body_crc == case["utilall_crc32"]
