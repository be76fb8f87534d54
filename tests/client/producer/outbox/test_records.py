"""The bytes of an outbox: what was written is read, torn ends end it, damage is passed over."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbitmq.client.producer.outbox.records import (
    HEAD_BYTES,
    MARK,
    Kept,
    Kind,
    encode,
    read_kept,
    scan,
)
from orbitmq.errors import CorruptRecord
from orbitmq.message.model import Message, MessageQueue

MESSAGES = [
    Message("orders", b"paid", message_id="7F01"),
    Message(
        "orders",
        bytes(range(256)),
        tags="paid",
        keys=["o-42", "o-43"],
        properties={"colour": "blue"},
        flag=-3,
        sharding_key="o-42",
        delay=timedelta(seconds=3.5),
        wait_stored=False,
        message_id="7F02",
    ),
    Message("bills", b"x", deliver_at=datetime(2030, 1, 2, tzinfo=UTC), priority=3),
]


def kept(message: Message, queue: MessageQueue | None = None) -> Kept:
    return Kept(1_700_000_000_000, queue, "no broker", message)


def file_of(*records: bytes) -> bytes:
    return MARK + b"".join(records)


@pytest.mark.parametrize("message", MESSAGES)
@pytest.mark.parametrize("queue", [None, MessageQueue("orders", "broker-a", 3)])
def test_a_message_is_read_as_it_was_written(message: Message, queue: MessageQueue | None) -> None:
    raw = encode(Kind.KEPT, 7, kept(message, queue))
    (record,) = scan(file_of(raw))
    assert (record.kind, record.sequence) == (Kind.KEPT, 7)
    assert (record.position, record.size) == (len(MARK), len(raw))
    assert read_kept(record.payload) == kept(message, queue)


def test_the_layout_stays_as_it_is() -> None:
    assert encode(Kind.DONE, 7).hex() == "00000009569ba98b020000000000000007"
    refused = encode(Kind.REFUSED, 8, "zu groß")
    assert refused[HEAD_BYTES:] == "zu groß".encode()


@given(st.data())
def test_a_torn_end_ends_the_file(data: st.DataObject) -> None:
    records = [encode(Kind.KEPT, number, kept(MESSAGES[0])) for number in range(3)]
    whole = file_of(*records)
    cut = data.draw(st.integers(0, len(whole)))
    found = scan(whole[:cut])
    assert [one.sequence for one in found] == [*range((cut - len(MARK)) // len(records[0]))][:3]
    assert found.end <= max(cut, len(MARK))
    assert found.broken == 0


@given(st.data())
def test_one_broken_byte_costs_one_record(data: st.DataObject) -> None:
    records = [encode(Kind.KEPT, number, kept(MESSAGES[1])) for number in range(5)]
    whole = bytearray(file_of(*records))
    place = data.draw(st.integers(len(MARK), len(whole) - 1))
    whole[place] ^= data.draw(st.integers(1, 255))
    hit = (place - len(MARK)) // len(records[0])
    found = scan(bytes(whole))
    assert [one.sequence for one in found] == [number for number in range(5) if number != hit]
    assert found.broken == (1 if hit < 4 else 0)  # the last one can't be told from a torn end


@given(st.binary(max_size=200))
def test_any_bytes_are_no_trouble(tail: bytes) -> None:
    first = encode(Kind.DONE, 1)
    found = scan(file_of(first, tail))
    assert next(iter(found)).sequence == 1


def test_a_file_of_something_else_is_refused() -> None:
    with pytest.raises(CorruptRecord, match="doesn't begin with the mark of an outbox"):
        scan(b"%PDF-1.4")


@pytest.mark.parametrize("short", [b"", MARK[:3], MARK])
def test_a_file_too_short_for_anything_is_empty(short: bytes) -> None:
    assert list(scan(short)) == []


def test_a_payload_of_another_version_is_an_error() -> None:
    with pytest.raises(CorruptRecord, match="byte 99"):
        read_kept(b"\x01", position=99)
