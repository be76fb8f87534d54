"""Java's properties, read by its rules."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbitmq.errors import InvalidBody
from orbitmq.wire.json.properties_text import properties_from_text, properties_to_text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", {}),
        ("a=1\nb=2", {"a": "1", "b": "2"}),
        ("a=1\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
        ("  a = 1 \n", {"a": "1 "}),
        ("a:1\nb 2\nc\t=\t3\nd", {"a": "1", "b": "2", "c": "3", "d": ""}),
        ("# a=1\n ! b=2\n\n \nc=#3", {"c": "#3"}),
        ("a=1,\\\n   2,\\\r\n 3", {"a": "1,2,3"}),
        ("a=1\\\\\nb=2", {"a": "1\\", "b": "2"}),
        ("a=1\\\n# no comment", {"a": "1# no comment"}),
        ("a=1\\", {"a": "1"}),
        ("\\\n# no comment=1", {"#": "no comment=1"}),
        (r"a\=b\:c\ d=e", {"a=b:c d": "e"}),
        (r"a=\t\n\r\f\z\"", {"a": '\t\n\r\fz"'}),
        (r"a=\u4e0A\ud83d\ude80\\u4e0a", {"a": "上🚀\\u4e0a"}),
        ("a=上", {"a": "上"}),
        ("a=b=c:d", {"a": "b=c:d"}),
        ("a==b", {"a": "=b"}),
        ("=b", {"": "b"}),
        ("a=1\na=2", {"a": "2"}),
    ],
)
def test_text_is_read_as_java_reads_it(text: str, expected: dict[str, str]) -> None:
    assert properties_from_text(text.encode()) == expected


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"a=\xff", "not UTF-8 at byte 2"),
        (rb"a=\u12", "four hexadecimal digits"),
        (rb"a=\uzzzz", "four hexadecimal digits"),
        (rb"a=\ud83d!", "half of a surrogate pair"),
    ],
)
def test_broken_text_is_refused(text: bytes, words: str) -> None:
    with pytest.raises(InvalidBody, match=words):
        properties_from_text(memoryview(text))


@given(st.dictionaries(st.text(), st.text()))
def test_any_properties_are_read_as_they_were_written(properties: dict[str, str]) -> None:
    assert properties_from_text(properties_to_text(properties)) == properties


@given(st.binary() | st.text(alphabet="a=:\\ \n\r#u0").map(str.encode))
def test_any_bytes_give_properties_or_invalid_body(data: bytes) -> None:
    with suppress(InvalidBody):
        properties = properties_from_text(data)
        assert properties_from_text(properties_to_text(properties)) == properties


def test_lines_are_sorted_by_key() -> None:
    assert properties_to_text({"b": " 2", "a": "1"}) == b"a=1\nb=\\ 2\n"
