import pytest

from orbitmq.errors import InvalidInput
from orbitmq.message.shown import BodyForm, shown_body, shown_int


@pytest.mark.parametrize("value", [0, -1, 2**128 - 1, -(2**128) + 1])
def test_a_number_of_a_sensible_size_is_shown_as_it_is(value: int) -> None:
    assert shown_int(value) == str(value)


def test_a_number_that_python_would_not_write_is_shown_by_its_size() -> None:
    assert shown_int(2**128) == "a number of 129 bits"
    assert shown_int(-(10**5000)) == "a number of 16610 bits"


@pytest.mark.parametrize(
    ("body", "form", "shown"),
    [
        (b"two\nlines\t.", "auto", "two\nlines\t."),
        ("größe".encode(), "auto", "größe"),
        (b"\xff\xfe", "auto", "ff fe"),
        (b"bell\x07", "auto", "62 65 6c 6c 07"),
        (b"bell\x07 \xff", "text", "bell\\x07 \\xff"),
        ("\u202eevil".encode(), "text", "\\u202eevil"),
        (bytes(range(17)), "hex", "00 01 02 03 04 05 06 07 08 09 0a 0b 0c 0d 0e 0f\n10"),
        (b"", "hex", ""),
        (b'[1,{"a":"\xc2\x9b"}]', "json", '[\n  1,\n  {\n    "a": "\\x9b"\n  }\n]'),
    ],
)
def test_a_body_is_shown_without_anything_that_moves_a_terminal(
    body: bytes, form: BodyForm, shown: str
) -> None:
    assert shown_body(body, form) == shown


@pytest.mark.parametrize("body", [b"", b"paid", b'{"a":}', b"[" * 5000, b"\xff"])
def test_a_body_that_is_not_json_is_not_shown_as_json(body: bytes) -> None:
    with pytest.raises(InvalidInput, match="the body is not JSON"):
        shown_body(body, "json")


def test_an_unknown_form_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InvalidInput, match="'xml'; it must be one of auto, text, json, hex"):
        shown_body(b"x", "xml")  # type: ignore[arg-type]
