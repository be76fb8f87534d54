import json
from pathlib import Path
from typing import TypedDict

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from orbitmq.errors import InvalidProperty, MessageTooLarge
from orbitmq.message import properties


class Parsed(TypedDict):
    input: str
    parsed: dict[str, str]


GOLDEN_DIR = Path(__file__).parent.parent / "golden"
GOLDEN = json.loads((GOLDEN_DIR / "messages.json").read_text())
PARSED: list[Parsed] = GOLDEN["property_string_parse"]
JAVA_NAMES: dict[str, str] = json.loads((GOLDEN_DIR / "constants.json").read_text())[
    "message_properties"
]

# Constants of Java's MessageConst that are no property names.
NOT_NAMES = {
    "PROPERTY_TRANSIENT_PREFIX",
    "KEY_SEPARATOR",
    "INDEX_KEY_TYPE",
    "INDEX_UNIQUE_TYPE",
    "INDEX_TAG_TYPE",
    "TIMER_ENGINE_ROCKSDB_TIMELINE",
    "TIMER_ENGINE_FILE_TIME_WHEEL",
}

# Any text that can travel, with a bias to names that look alike.
TEXT = st.text(
    st.sampled_from("ab=") | st.characters(codec="utf-8", exclude_characters="\x01\x02"),
    min_size=1,
    max_size=6,
)
# Any bytes, with a bias to the separators.
RAW = st.lists(st.sampled_from([b"a", b"b", b"ab", b"\x01", b"\x02", b"\xff", b"\xc3"])).map(
    b"".join
)


def test_every_name_of_java_has_a_meaning() -> None:
    expected = {value for constant, value in JAVA_NAMES.items() if constant not in NOT_NAMES}
    assert set(properties.MEANING) == expected


def test_separators_are_those_of_java() -> None:
    assert JAVA_NAMES["KEY_SEPARATOR"] == properties.KEY_SEPARATOR
    assert JAVA_NAMES["PROPERTY_TRANSIENT_PREFIX"] == properties.TRANSIENT_PREFIX


def test_what_users_may_set() -> None:
    for name in ("KEYS", "__SHARDINGKEY", "_SYS_MSG_PRIORITY_", "__RMQ.TRANSIENT.ANY"):
        assert properties.is_reserved(name)
    for name in ("colour", "keys", "INNER_MULTI_DISPATCH", "TRACE_CONTEXT"):
        assert not properties.is_reserved(name)


@pytest.mark.parametrize("java", PARSED, ids=lambda java: repr(java["input"]))
def test_decode_as_java_parses(java: Parsed) -> None:
    raw = java["input"].encode()
    assert properties.decode(raw) == java["parsed"]
    assert properties.decode(memoryview(raw)) == java["parsed"]


@pytest.mark.parametrize("stored", GOLDEN["stored_messages"], ids=lambda stored: stored["name"])
def test_decode_texts_written_by_java(stored: dict[str, dict[str, str]]) -> None:
    raw = stored["input"]["properties_string"].encode()
    assert properties.decode(raw) == (stored["input"]["properties"] or {})


def test_decode_replaces_what_is_not_utf8() -> None:
    assert properties.decode(b"a\x01\xff\x02") == {"a": "\ufffd"}


def test_encode_skips_none_as_java_skips_null() -> None:
    java = GOLDEN["property_string_null_value_skipped"]
    assert properties.encode(java["input"]) == java["output"].encode()


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("", "v", "property name is empty"),
        ("n", "", "property 'n' is empty"),
        ("n\x01", "v", r"property name 'n\\x01' holds the separator U\+0001"),
        ("n", "v\x02w", r"property 'n' 'v\\x02w' holds the separator U\+0002"),
        ("n", "\x01", r"U\+0001"),
        ("n", "v\ud800", "half a surrogate pair at position 1"),
    ],
)
def test_encode_refuses_what_would_not_read_back(name: str, value: str, why: str) -> None:
    with pytest.raises(InvalidProperty, match=why):
        properties.encode({"before": "1", name: value, "after": "2"})


def test_encode_counts_bytes_up_to_what_a_record_holds() -> None:
    fits = "é" * 16382  # and three bytes more: the name and two separators
    assert len(properties.encode({"n": fits})) == 32767
    with pytest.raises(MessageTooLarge) as caught:
        properties.encode({"n": fits + "e"})
    assert (caught.value.length, caught.value.limit) == (32768, 32767)


@given(st.dictionaries(TEXT, TEXT))
def test_decode_gives_what_encode_took(given_properties: dict[str, str]) -> None:
    assert properties.decode(properties.encode(given_properties)) == given_properties


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("TAGS\x01paid\x02KEYS\x01a\x02", "paid"),
        ("KEYS\x01a\x02TAGS\x01paid", "paid"),  # the last separator is missing
        ("TAGS\x01new\x02TAGS\x01paid\x02", "paid"),  # the last one wins
        ("TAGS\x01paid\x02TAGS\x01\x02", "paid"),  # but an empty value is dropped
        ("TAGS\x01paid\x02TAGS\x01", "paid"),
        ("TAGS\x01paid\x01TAGS\x01new\x02", "paid\x01TAGS\x01new"),  # a value with a separator
        ("TAGS\x01paidTAGS\x01new\x02", "paidTAGS\x01new"),
        ("TAGS\x01paid\x02MYTAGS\x01a\x02", "paid"),  # a longer name
        ("TAGS\x01paid\x02\x01TAGS\x01a\x02", "paid"),  # an empty name
        ("TAGS\x01paid\x02TAGS\x02", "paid"),  # no value
        ("\x02\x02TAGS\x01paid\x02\x02", "paid"),
        ("TAGS\x01\x02", None),
        ("\x01TAGS\x01paid\x02", None),
        ("TAGS", None),
        ("", None),
    ],
)
def test_odd_texts_have_one_meaning_for_all_readers(text: str, value: str | None) -> None:
    assert properties.decode(text.encode()).get("TAGS") == value
    assert properties.finder("TAGS")(text) == value
    assert properties.finder(b"TAGS")(text.encode()) == (value and value.encode())


@pytest.mark.parametrize("java", PARSED, ids=lambda java: repr(java["input"]))
def test_a_finder_finds_what_java_parses(java: Parsed) -> None:
    for name in "abckx":
        assert properties.finder(name)(java["input"]) == java["parsed"].get(name)


@given(RAW, st.sampled_from([b"a", b"b", b"ab"]))
@example(b"a\x01b\x02a\x01\x02", b"a")
@example(b"ba\x01b\x02\x01a\x01b", b"a")
def test_a_finder_finds_what_decode_finds(raw: bytes, name: bytes) -> None:
    expected = properties.decode(raw).get(name.decode())
    found = properties.finder(name)(raw)
    assert (found and found.decode(errors="replace")) == expected
    text = raw.decode(errors="replace")
    assert properties.finder(name.decode())(text) == expected


@pytest.mark.parametrize("name", ["", "a\x01b", "a\x02b"])
def test_there_is_no_finder_for_a_name_that_no_property_can_have(name: str) -> None:
    with pytest.raises(InvalidProperty, match="property name"):
        properties.finder(name)
    with pytest.raises(InvalidProperty, match="property name"):
        properties.finder(name.encode())


@given(RAW)
def test_join_takes_whatever_decode_returned(raw: bytes) -> None:
    found = properties.decode(raw)
    assert properties.decode(properties.join(found)) == found


def test_read_only_copy_keeps_nothing_of_the_original() -> None:
    original = {"colour": "blue"}
    copy = properties.read_only_copy(original)
    original["colour"] = "red"
    assert copy == {"colour": "blue"}
    with pytest.raises(TypeError):
        copy["colour"] = "red"  # type: ignore[index]


@pytest.mark.parametrize(
    ("given_properties", "why"),
    [
        ([("n", "v")], "must be a mapping of str to str, not list"),
        ({"n": 1}, "property 'n' must be a str, not int"),
        ({1: "v"}, "property name must be a str, not int"),
        ({"n": " \t"}, "only blanks"),
        ({" ": "v"}, "only blanks"),
        ({"UNIQ_KEY": "v"}, "'UNIQ_KEY' is reserved by RocketMQ: message id"),
        ({"__RMQ.TRANSIENT.x": "v"}, "never stored"),
    ],
)
def test_read_only_copy_refuses(given_properties: dict[str, str], why: str) -> None:
    with pytest.raises(InvalidProperty, match=why) as caught:
        properties.read_only_copy(given_properties)
    assert caught.value.field == "properties"


def test_lazy_properties_are_those_of_the_text_and_more() -> None:
    lazy = properties.LazyProperties(b"a\x011\x02b\x012\x02", {"b": "3"})
    assert lazy == {"a": "1", "b": "3"}
    assert list(lazy) == ["a", "b"]
    assert (len(lazy), lazy.get("c"), lazy.get("c", "4"), "a" in lazy) == (2, None, "4", True)
    assert repr(lazy) == "LazyProperties({'a': '1', 'b': '3'})"
    with pytest.raises(KeyError):
        lazy["c"]
    with pytest.raises(TypeError):
        lazy["a"] = "2"  # type: ignore[index]
