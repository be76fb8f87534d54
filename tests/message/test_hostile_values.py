"""Values that careless callers and strangers' records bring, and what becomes of them."""

import base64
import copy
import pickle
import sys
from datetime import timedelta

import pytest

from orbitmq.errors import CorruptRecord, InvalidInput, InvalidProperty, LocalProtocolError
from orbitmq.message import compression, flags, ids, names, record, scan
from orbitmq.message.compression import CompressionType
from orbitmq.message.host import Host
from orbitmq.message.model import Message, StoredMessage
from orbitmq.message.record_view import RecordView
from orbitmq.message.tags import java_hash, tags_code

HERE = Host.parse("127.0.0.1:10911")
GIANT = 10**5000  # too many digits for Python to write


def encoded(
    *, body: bytes = b"b", properties: bytes = b"TAGS\x01paid\x02", sys_flag: int = 0
) -> bytes:
    return bytes(
        record.encode(
            record.Record(
                topic=b"t", body=body, properties=properties, queue_id=1, sys_flag=sys_flag,
                born_timestamp_ms=0, born_host=HERE, store_host=HERE,
            )
        )
    )  # fmt: skip


def stored(**fields: bytes | int) -> StoredMessage:
    (message,) = scan.decode_all(encoded(**fields))  # type: ignore[arg-type]
    return message


def test_a_stored_message_cannot_be_changed_through_its_properties() -> None:
    message = stored()
    again = pickle.loads(pickle.dumps(message))
    for one in (message, again, copy.deepcopy(message)):
        with pytest.raises(TypeError):
            one.properties["TAGS"] = "late"  # type: ignore[index]
        assert one == message
    assert len({message, again}) == 1


def test_a_stored_message_keeps_no_mapping_of_its_maker() -> None:
    given = {"TAGS": "paid"}
    message = stored()
    made = StoredMessage(
        **{name: getattr(message, name) for name in message.__struct_fields__}
        | {"properties": given}
    )
    given["TAGS"] = "late"
    assert made.tags == "paid"


def test_equal_messages_have_equal_hashes() -> None:
    one, other = (Message("t", b"x", properties={"a": "b"}) for _ in range(2))
    assert len({one, other}) == 1


@pytest.mark.parametrize(
    ("tail", "reason"),
    [
        (bytes(4) + encoded()[4:], scan.StopReason.BAD_SIZE),
        (bytes(4) + b"\xff" * 100, scan.StopReason.BAD_MAGIC),
        (bytes(100), scan.StopReason.UNWRITTEN),
    ],
)
def test_a_record_whose_size_was_zeroed_is_damage_and_not_the_end(
    tail: bytes, reason: scan.StopReason
) -> None:
    walk = scan.Scan(tail)
    assert list(walk) == []
    assert walk.stop.reason is reason


def test_a_strangers_delay_of_five_thousand_digits_is_no_delay() -> None:
    assert stored(properties=b"DELAY\x01" + b"9" * 5000 + b"\x02").delay_level == 0


@pytest.mark.parametrize("words", [b"v1 t b " + b"1" * 5000 + b" A", b"v1   1 A", b"v1 t b -1 A"])
def test_a_recall_handle_that_says_nothing_is_refused(words: bytes) -> None:
    with pytest.raises(InvalidInput, match="recall handle"):
        ids.parse_recall_handle(base64.urlsafe_b64encode(words).decode())


@pytest.mark.parametrize(
    ("topic", "timestamp"),
    [("a\ud800", 1), ("t", -1), ("t", 1 << 63), ("t", GIANT), ("", 1)],
    ids=["surrogate", "negative", "too late", "giant", "empty"],
)
def test_a_recall_handle_that_could_not_be_read_is_not_written(topic: str, timestamp: int) -> None:
    with pytest.raises(InvalidInput):
        ids.recall_handle(topic, "broker-a", timestamp, "A")


@pytest.mark.parametrize("port", ["00000099999", "65536", "0" * 5000])
def test_a_port_has_at_most_five_digits(port: str) -> None:
    with pytest.raises(InvalidInput, match="port"):
        Host.parse(f"1.2.3.4:{port}")
    with pytest.raises(InvalidInput, match="port"):
        names.vip_address(f"broker-a:{port}")


def test_an_ipv4_address_in_ipv6_clothes_is_ipv4_as_in_java() -> None:
    assert Host.parse("[::ffff:1.2.3.4]:5") == Host(b"\x01\x02\x03\x04", 5)


@pytest.mark.parametrize(
    ("delay", "travels"),
    [
        (timedelta.max, "86400000000000000"),
        (timedelta(microseconds=1), "1"),
        (timedelta(0), "0"),
    ],
)
def test_a_delay_is_rounded_up_to_milliseconds(delay: timedelta, travels: str) -> None:
    assert Message("t", b"x", delay=delay).wire_properties()["TIMER_DELAY_MS"] == travels


def test_a_text_is_no_truth_value() -> None:
    with pytest.raises(InvalidInput, match="wait_stored must be a bool") as caught:
        Message("t", b"x", wait_stored="false")  # type: ignore[arg-type]
    assert caught.value.field == "wait_stored"


@pytest.mark.parametrize("field", ["flag", "priority", "delay_level", "check_immunity_s"])
@pytest.mark.parametrize(
    ("value", "shown"), [(2**31, "2147483648"), (GIANT, "16610 bits")], ids=["over", "giant"]
)
def test_a_number_that_does_not_fit_is_refused_by_field(field: str, value: int, shown: str) -> None:
    with pytest.raises(InvalidInput, match=shown) as caught:
        Message("t", b"x", **{field: value})  # type: ignore[arg-type]
    assert caught.value.field == field


def test_a_property_of_control_characters_is_refused_as_java_does() -> None:
    with pytest.raises(InvalidProperty, match="only blanks"):
        Message("t", b"x", properties={"a": "\x00"})


@pytest.mark.parametrize("queue_id", [GIANT, 2**31, 1.5], ids=["giant", "over", "float"])
def test_a_record_field_that_cannot_be_packed_is_named(queue_id: int) -> None:
    with pytest.raises(LocalProtocolError, match="queue_id"):
        record.encode(
            record.Record(
                topic=b"t", body=b"b", queue_id=queue_id, born_timestamp_ms=0, born_host=HERE,
                store_host=HERE,
            )
        )  # fmt: skip


@pytest.mark.parametrize(
    ("host", "offset"),
    [(Host(b"abc", 1), 5), (HERE, GIANT), (HERE, 1 << 63)],
    ids=["host", "giant", "over"],
)
def test_an_offset_id_that_could_not_be_parsed_is_not_made(host: Host, offset: int) -> None:
    with pytest.raises(InvalidInput):
        ids.offset_id(host, offset)


def test_an_inner_batch_without_a_body_does_not_vanish() -> None:
    message = stored(body=b"", sys_flag=flags.NEED_UNWRAP | flags.INNER_BATCH)
    with pytest.raises(CorruptRecord, match="inner batch without a body"):
        scan.split_inner(message)


def test_a_view_of_a_writable_buffer_can_be_kept_in_a_set() -> None:
    buffer = memoryview(bytearray(encoded()))
    view = RecordView(buffer, 0, len(buffer))
    assert hash(view) == hash(view)
    assert view != RecordView(buffer, 0, len(buffer))  # each is itself, whatever it holds


def test_no_limit_is_a_limit_too() -> None:
    packed = compression.compress(b"spam", CompressionType.ZLIB)
    assert compression.decompress(packed, CompressionType.ZLIB, limit=sys.maxsize) == b"spam"


def test_a_compression_type_may_be_given_by_number() -> None:
    lz4_magic = b"\x04\x22\x4d\x18"
    assert compression.compress(b"spam" * 100, CompressionType(1))[:4] == lz4_magic
    with pytest.raises(ValueError, match="7"):
        compression.compress(b"spam", 7)  # type: ignore[arg-type]


@pytest.mark.parametrize("length", [1, 64, 65, 30_000])
def test_tags_of_any_length_have_the_hash_of_java(length: int) -> None:
    assert tags_code("é" * length) == java_hash("é" * length)
