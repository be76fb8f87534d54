import struct
from typing import TypedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbitmq.errors import CorruptRecord, LocalProtocolError
from orbitmq.message.batch import BatchedMessage, encode, split
from tests.golden_files import golden


class GoldenMessage(TypedDict):
    flag: int
    body_hex: str
    properties_string_in_java_order: str


class GoldenBatch(TypedDict):
    messages: list[GoldenMessage]
    encoded_hex: str


BATCHES: list[GoldenBatch] = golden("messages")["client_batches"]

ONE = encode([(5, b"body", b"A\x01b\x02")])

messages = st.builds(
    BatchedMessage,
    flag=st.integers(-(2**31), 2**31 - 1),
    body=st.binary(max_size=50),
    properties=st.binary(max_size=50),
)


def java_messages(batch: GoldenBatch) -> list[BatchedMessage]:
    return [
        BatchedMessage(
            each["flag"],
            bytes.fromhex(each["body_hex"]),
            each["properties_string_in_java_order"].encode(),
        )
        for each in batch["messages"]
    ]


@pytest.mark.parametrize("batch", BATCHES, ids=lambda batch: f"{len(batch['messages'])}-messages")
def test_has_the_bytes_of_java(batch: GoldenBatch) -> None:
    encoded = bytes.fromhex(batch["encoded_hex"])

    assert encode(java_messages(batch)) == encoded
    assert list(split(encoded)) == java_messages(batch)


@given(st.lists(messages, max_size=5))
def test_splits_what_it_encoded(batch: list[BatchedMessage]) -> None:
    assert list(split(encode(batch))) == batch


def sizes(parts: list[BatchedMessage]) -> int:
    return sum(22 + len(each.body) + len(each.properties) for each in parts)


def split_until_fault(body: bytes | bytearray) -> tuple[list[BatchedMessage], int]:
    """Return the messages before the first fault, and where it is; the end if there is none."""
    parts: list[BatchedMessage] = []
    try:
        parts.extend(split(body))
    except CorruptRecord as error:
        return parts, error.position
    return parts, len(body)


@given(st.binary(max_size=200))
def test_any_bytes_are_split_or_refused(body: bytes) -> None:
    parts, stop = split_until_fault(body)

    assert sizes(parts) == stop


@given(st.lists(messages, min_size=1, max_size=3), st.data())
def test_a_damaged_batch_is_split_or_refused(
    batch: list[BatchedMessage], data: st.DataObject
) -> None:
    body = bytearray(encode(batch))
    body[data.draw(st.integers(0, len(body) - 1))] ^= data.draw(st.integers(1, 255))
    parts, stop = split_until_fault(body)

    assert sizes(parts) == stop


def test_bodies_are_views_of_what_was_given() -> None:
    buffer = bytearray(ONE)
    (message,) = split(buffer)
    buffer[20:24] = b"BODY"

    assert message.body == b"BODY"


def test_messages_before_a_cut_one_are_yielded() -> None:
    for length in range(1, len(ONE)):
        parts = split(ONE + ONE[:length])

        assert next(parts).body == b"body"
        with pytest.raises(CorruptRecord) as caught:
            next(parts)
        assert caught.value.position == len(ONE)


@pytest.mark.parametrize(
    ("position", "layout", "value", "why"),
    [
        (0, ">i", -1, "size field says -1"),
        (0, ">i", 21, "size field says 21"),
        (0, ">i", 1000, "size field says 1000"),
        (0, ">i", len(ONE) - 1, "not the sum"),
        (16, ">i", -1, "a body of -1 bytes"),
        (16, ">i", 1000, "a body of 1000 bytes"),
        (16, ">i", 3, "not the sum"),
        (24, ">h", -1, "not the sum"),
        (24, ">h", 5, "not the sum"),
    ],
)
def test_lengths_that_contradict_are_refused(
    position: int, layout: str, value: int, why: str
) -> None:
    body = bytearray(ONE)
    struct.pack_into(layout, body, position, value)

    with pytest.raises(CorruptRecord, match=why) as caught:
        list(split(body))
    assert caught.value.position == 0


def test_magic_and_crc_are_not_read() -> None:
    body = bytearray(ONE)
    struct.pack_into(">ii", body, 4, -626843481, 99)

    assert list(split(body)) == list(split(ONE))


@pytest.mark.parametrize(
    "message", [(2**31, b"", b""), (-(2**31) - 1, b"", b""), (0, b"", bytes(32768))]
)
def test_what_the_format_cannot_hold_is_refused(message: tuple[int, bytes, bytes]) -> None:
    with pytest.raises(LocalProtocolError, match="message 1 of the batch"):
        encode([(0, b"fits", b""), message])
