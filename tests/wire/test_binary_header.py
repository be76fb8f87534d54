import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbitmq.errors import RemoteProtocolError
from orbitmq.wire.binary_header import BinaryHeader, read, write

TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)


def test_the_layout_is_drawn_as_it_is_written() -> None:
    assert write(310, 3, 493, 7, 2, "é", {"b": "orders"}) == (
        b"\x01\x36"  # code
        b"\x03"  # language
        b"\x01\xed"  # version
        b"\x00\x00\x00\x07"  # opaque
        b"\x00\x00\x00\x02"  # flag
        b"\x00\x00\x00\x02\xc3\xa9"  # remark
        b"\x00\x00\x00\x0d"  # size of the fields
        b"\x00\x01b\x00\x00\x00\x06orders"
    )


@given(fields=st.dictionaries(TEXT, TEXT), remark=TEXT | st.none())
def test_what_is_written_is_read(fields: dict[str, str], remark: str | None) -> None:
    header = write(-1, 255, -2, -3, -4, remark, fields)
    assert read(header) == BinaryHeader(-1, 255, -2, -3, -4, remark, dict(fields))


def test_an_empty_text_counts_as_null() -> None:
    assert read(write(1, 0, 0, 0, 0, "", {"a": "", "": "lost"})).fields == {"a": None}


def test_of_two_fields_with_one_name_the_later_wins() -> None:
    twice = b"\x00\x01a\x00\x00\x00\x01x" + b"\x00\x01a\x00\x00\x00\x01y"
    header = write(1, 0, 0, 0, 0, None, None)[:-4] + len(twice).to_bytes(4, "big") + twice
    assert read(header).fields == {"a": "y"}


@pytest.mark.parametrize(
    ("header", "words", "position"),
    [
        (bytes(20), "too short", 0),
        (bytes(13) + b"\x00\x00\x00\x09" + bytes(8), "remark of 9 bytes", 17),
        (bytes(13) + b"\xff\xff\xff\xff" + bytes(8), "remark of -1 bytes", 17),
        (bytes(13) + b"\x00\x00\x00\x01\xff" + bytes(4), "remark is not UTF-8", 17),
        (bytes(17) + b"\x00\x00\x00\x01", "fields of 1 bytes, but 0 are left", 17),
        (bytes(17) + b"\xff\xff\xff\xff", "fields of -1 bytes", 17),
        (bytes(17) + b"\x00\x00\x00\x01\x00", "5 bytes behind the fields", 21),
        (bytes(17) + b"\x00\x00\x00\x07\x00\x01a\x00\x00\x00\x02", "2 bytes behind", 21),
        (bytes(17) + b"\x00\x00\x00\x07\x00\x01a\xff\xff\xff\xff", "behind the fields", 21),
        (bytes(17) + b"\x00\x00\x00\x07\x00\x01\xff\x00\x00\x00\x00", "field is not UTF-8", 21),
        (bytes(17) + b"\x00\x00\x00\x08\x00\x01a\x00\x00\x00\x01\xff", "field is not UTF-8", 21),
    ],
)
def test_a_fault_says_what_and_where(header: bytes, words: str, position: int) -> None:
    with pytest.raises(RemoteProtocolError, match=words) as caught:
        read(header)
    assert caught.value.position == position


@given(st.binary(max_size=80))
def test_any_bytes_give_a_header_or_a_remote_protocol_error(header: bytes) -> None:
    try:
        decoded = read(header)
    except RemoteProtocolError:
        return
    fields = {name: text or "" for name, text in decoded.fields.items()}
    assert read(write(*decoded[:6], fields)) == decoded


@pytest.mark.parametrize("name", ["n" * 32768])
def test_a_name_that_is_too_long_is_not_written(name: str) -> None:
    with pytest.raises(struct.error):
        write(1, 0, 0, 0, 0, None, {name: "x"})
