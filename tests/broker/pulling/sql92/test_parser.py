"""Expressions: Java's answers to a table of them, and what Java does not show."""

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbitmq.broker.pulling.sql92.numbers import Incomparable
from orbitmq.broker.pulling.sql92.parser import EXPRESSION_MAX, NESTING_MAX, parse
from orbitmq.errors import InvalidExpression
from orbitmq.message.properties import encode
from tests.golden_files import golden

WORDS = (
    *("a", "b", "5", "1.5", "'x'", "TRUE", "NULL", "NOT", "AND", "OR", "IS", "IN", "(", ")"),
    *(",", "=", "<>", "<", ">=", "-", "+", "BETWEEN", "CONTAINS", "#", "'", "--", "/*"),
)


def answers(expression: str, messages: list[dict[str, str]]) -> str | None:
    """Return our answers, in Java's letters; None if the expression is refused."""
    try:
        test = parse(expression).test
    except InvalidExpression:
        return None
    letters = {True: "T", False: "F", None: "N"}

    def letter(text: str) -> str:
        try:
            return letters[test(text)]
        except Incomparable:
            return "E"

    return "".join(letter(encode(one).decode()) for one in messages)


def test_each_expression_is_refused_or_answered_as_by_java() -> None:
    table: Any = golden("sql92")
    messages, java = table["messages"], table["answers"]
    ours = {expression: answers(expression, messages) for expression in java}
    assert {one: ours[one] for one in java if ours[one] != java[one]} == {}
    assert len(java) > 700


@pytest.mark.parametrize(
    ("expression", "position", "reason"),
    [
        ("", 1, "expected a name, a value or (, found the end"),
        ("price >", 8, "found the end"),
        ("price > > 5", 9, "found '>'"),
        ("price BETWEEN 1, 5", 16, "expected AND, found ','"),
        ("price IN (5)", 11, "expected a text in quotes, found '5'"),
        ("price IN ('5'", 14, "expected , or ), found the end"),
        ("(price = 5", 11, "expected ), found the end"),
        ("price IS 5", 10, "expected NULL or NOT NULL"),
        ("price NOT 5", 11, "expected BETWEEN, IN, CONTAINS, STARTSWITH or ENDSWITH after NOT"),
        ("price != 5", 7, "'!' begins no word; write <> for unequal"),
        ("price = 'x", 9, "a text has to end with a quote"),
        ("price > 'x'", 7, "has no order"),
        ("price = 5 AND 7", 15, "7 is not a condition"),
        ("7", 1, "7 is not a condition"),
    ],
)
def test_a_fault_is_reported_with_its_position(expression: str, position: int, reason: str) -> None:
    with pytest.raises(InvalidExpression) as error:
        parse(expression)
    assert reason in str(error.value)
    assert error.value.position == position
    assert f"character {position}" in str(error.value)


def test_what_follows_an_expression_is_ignored_and_known() -> None:
    found = parse("price = 5 garbage (")
    assert found.ignored is not None
    assert found.ignored.position == 11
    assert parse("price = 5").ignored is None


@pytest.mark.parametrize("opening", ["(", "NOT ", "-", "+", "NOT ("])
def test_deep_nesting_is_refused(opening: str) -> None:
    with pytest.raises(InvalidExpression, match=f"more than {NESTING_MAX}"):
        parse(opening * 5_000 + "price = 5")


def test_nesting_as_deep_as_allowed_is_evaluated() -> None:
    depth = NESTING_MAX
    nested = "(a = 1 OR " * depth + "a = 2" + ")" * depth
    assert parse(nested).matches("a\x012\x02")
    assert parse("NOT " * depth + "TRUE").matches("")


@pytest.mark.parametrize("between", [" BETWEEN 1 AND 2", " NOT BETWEEN 1 AND 2"])
def test_ranges_of_ranges_take_no_longer(between: str) -> None:
    depth = NESTING_MAX // 2 - 1
    nested = parse("-(" * depth + "a" + f"{between})" * depth + " IS NULL")
    assert nested.matches("")
    assert not nested.matches("a\x01x\x02")  # it still fails, deep inside


@pytest.mark.parametrize(
    "link", [" IS NULL", " = TRUE", " <> TRUE", " CONTAINS 'x'", " NOT CONTAINS 'x'"]
)
def test_a_chain_is_evaluated_or_refused_like_nesting(link: str) -> None:
    depth = NESTING_MAX + 1  # the first operator needs no nesting
    parse("a = 1" + link * (depth - 1)).matches("a\x011\x02")
    for deeper in ("a" + link * (depth + 1), "(" + "a" + link * depth + ")" + link):
        with pytest.raises(InvalidExpression, match=f"more than {NESTING_MAX}"):
            parse(deeper)


def test_the_deepest_mix_of_nesting_and_chains_is_evaluated() -> None:
    depth = NESTING_MAX
    inner = " AND TRUE OR FALSE) CONTAINS 'x' <> TRUE"
    parse("(" * depth + "a = 1" + inner * depth).matches("a\x011\x02")


def test_long_chains_are_no_nesting() -> None:
    chain = parse(" OR ".join(f"a = {number}" for number in range(2_000)))
    assert chain.matches("a\x011999\x02")
    assert not chain.matches("a\x012000\x02")
    assert chain.terms == 4_000
    assert parse("a" + " AND a" * 1_000).terms == 1_001


def test_a_huge_expression_is_refused_before_it_is_read() -> None:
    with pytest.raises(InvalidExpression, match=f"{EXPRESSION_MAX} are allowed"):
        parse("a = 1 OR " * EXPRESSION_MAX + "a = 1")


@given(
    st.lists(st.sampled_from(WORDS)),
    st.dictionaries(st.sampled_from("ab"), st.sampled_from(["5", "x", "1.5", "true"])),
)
def test_any_words_are_a_filter_or_a_fault(words: list[str], properties: dict[str, str]) -> None:
    with suppress(InvalidExpression):
        assert parse(" ".join(words)).matches(encode(properties).decode()) in (True, False)
