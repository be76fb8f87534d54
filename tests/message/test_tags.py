from typing import TypedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbitmq.errors import InvalidTags
from orbitmq.message import tags as tags_module
from orbitmq.message.tags import (
    TagFilter,
    check_tag,
    java_hash,
    java_hash_bits,
    java_long_hash,
    tags_code,
    tags_code_utf8,
)
from tests.golden_files import golden


class Hashed(TypedDict):
    tag: str
    java_hash: int
    tags_code_single_tag: int
    tags_code_multi_tag: int


class Subscription(TypedDict):
    expression: str
    sub_string: str
    tags_set: list[str]
    code_set: list[int]


class Selected(TypedDict):
    arg: str
    arg_type: str
    arg_hash: int


GOLDEN = golden("hashes")
HASHED: list[Hashed] = GOLDEN["tags"]
SUBSCRIPTIONS: list[Subscription] = GOLDEN["subscriptions"]
SELECTED: list[Selected] = GOLDEN["select_by_hash"]


def utf16_units(text: str) -> list[int]:
    """Take each character apart by the definition of UTF-16."""
    units = []
    for character in map(ord, text):
        if character < 0x10000:
            units.append(character)
        else:
            units += [0xD7C0 + (character >> 10), 0xDC00 + (character & 0x3FF)]
    return units


def reference_hash(text: str) -> int:
    """Sum up the powers of 31 without a bound, and wrap once at the end."""
    units = utf16_units(text)
    total = sum(unit * int(31**at) for at, unit in enumerate(reversed(units)))
    return (total + 2**31) % 2**32 - 2**31


@pytest.mark.parametrize("java", HASHED, ids=lambda java: java["tag"] or "empty")
def test_hashes_of_java(java: Hashed) -> None:
    assert java_hash(java["tag"]) == java["java_hash"]
    assert tags_code(java["tag"]) == java["tags_code_single_tag"] == java["tags_code_multi_tag"]


def test_no_tag_has_code_zero() -> None:
    assert tags_code(None) == 0


@pytest.mark.parametrize("java", SELECTED, ids=lambda java: java["arg"])
def test_hashes_that_choose_a_queue(java: Selected) -> None:
    argument, kind = java["arg"], java["arg_type"]
    if kind == "String":
        assert java_hash(argument) == java["arg_hash"]
    elif kind == "Long":
        assert java_long_hash(int(argument)) == java["arg_hash"]
    else:  # an Integer is its own hash
        assert int(argument) == java["arg_hash"]


@given(st.text(st.characters(exclude_categories=())) | st.text("\ud83d\ude80\ud800a🚀"))
def test_hash_of_any_text_surrogates_included(text: str) -> None:
    assert java_hash(text) == reference_hash(text)


@given(st.text(st.characters(max_codepoint=0x7F), max_size=300))
def test_hash_of_ascii_of_any_length(text: str) -> None:
    assert java_hash(text) == reference_hash(text)


@given(st.text(max_size=100).map(str.encode) | st.binary(max_size=100))
def test_bytes_hash_as_the_text_that_they_are(raw: bytes) -> None:
    text = raw.decode(errors="replace")
    assert java_hash_bits(raw) == java_hash(text) % 2**32
    assert tags_code_utf8(raw) == tags_code(text)


@pytest.mark.parametrize("length", [0, 1, 511, 512, 513, 5000])
def test_hash_of_long_ascii(length: int) -> None:
    text = ("order-\x7f\x00" * 1000)[:length]
    assert java_hash(text) == reference_hash(text)


@pytest.mark.parametrize("java", SUBSCRIPTIONS, ids=lambda java: java["expression"] or "empty")
def test_subscriptions_of_java(java: Subscription) -> None:
    parsed = TagFilter.parse(java["expression"])
    assert parsed.expression == java["sub_string"]
    assert parsed.tags == set(java["tags_set"])
    assert parsed.codes == set(java["code_set"])


def test_java_trims_no_more_than_ascii_blanks() -> None:
    assert TagFilter.parse("\x01A\t||\u3000B").tags == {"A", "\u3000B"}


def test_a_star_among_tags_is_a_tag() -> None:
    assert TagFilter.parse("A || *").tags == {"A", "*"}


@pytest.mark.parametrize("expression", ["||", " || ", " ", "||||"])
def test_an_expression_without_tags_is_refused(expression: str) -> None:
    with pytest.raises(InvalidTags, match="names no tag") as caught:
        TagFilter.parse(expression)
    assert caught.value.length == len(expression)


@pytest.mark.parametrize("expression", ["*", "", None])
def test_all_selects_also_what_has_no_tag(expression: str | None) -> None:
    everything = TagFilter.parse(expression)
    assert everything.selects_all
    assert everything.matches(None)
    assert everything.matches("A")
    assert everything.matches_code(0)


def test_tags_select_by_text_and_by_hash() -> None:
    some = TagFilter.parse("A || Aa")
    assert not some.selects_all
    assert [some.matches(tag) for tag in ("A", "Aa", "BB", None)] == [True, True, False, False]
    assert [some.matches_code(tags_code(tag)) for tag in ("Aa", "BB", "C", None)] == [
        True,
        True,
        False,
        False,
    ]


@pytest.mark.parametrize(
    ("tag", "why"),
    [
        ("", "tags is empty"),
        (" A", "begins or ends with a blank"),
        ("A\x1f", "begins or ends with a blank"),
        ("A\u3000", "begins or ends with a blank"),
        ("A||B", r"holds \|\|"),
        ("A\x01", r"U\+0001"),
        ("A\x02", r"U\+0002"),
        ("\udfff", "half a surrogate pair"),
    ],
)
def test_a_tag_that_could_not_be_selected_is_refused(tag: str, why: str) -> None:
    with pytest.raises(InvalidTags, match=why) as caught:
        check_tag(tag)
    assert (caught.value.field, caught.value.length) == ("tags", len(tag))


@pytest.mark.parametrize("tag", ["A", "A B", "A|B", "标签", "🚀", "*"])
def test_a_tag_that_can_be_selected_is_taken(tag: str) -> None:
    check_tag(tag)
    if tag != "*":
        assert TagFilter.parse(tag).matches(tag)


def test_the_cache_of_codes_is_bounded_and_has_no_long_tags() -> None:
    for number in range(3000):
        tags = f"tag-{number}"
        assert tags_code_utf8(tags.encode()) == java_hash(tags)
    assert tags_code_utf8(b"x" * 65) == java_hash("x" * 65)
    assert 0 < len(tags_module._codes) <= 1024
    assert b"x" * 65 not in tags_module._codes
