"""Rules that the table of Java's answers, in test_parser.py, does not show by name."""

from collections.abc import Callable

import pytest

from orbitmq.broker.pulling.sql92 import conditions as sql
from orbitmq.broker.pulling.sql92.conditions import IllegalOperand, Operand
from orbitmq.broker.pulling.sql92.numbers import Incomparable
from orbitmq.message.properties import encode

AMOUNT = sql.property_named("amount")


def outcome(condition: Operand, **properties: str) -> bool | None:
    found: bool | None = condition.read(encode(properties).decode())
    return found


def test_the_value_of_a_property_becomes_a_number_of_the_type_it_is_compared_with() -> None:
    assert outcome(sql.equal(AMOUNT, sql.integer("5")), amount="5") is True
    assert outcome(sql.equal(AMOUNT, sql.double("5.0")), amount="5") is True
    with pytest.raises(Incomparable):
        outcome(sql.equal(AMOUNT, sql.integer("5")), amount="5.0")
    with pytest.raises(Incomparable):
        outcome(sql.ordered("<", AMOUNT, sql.integer("5")), amount="3000000000")
    assert outcome(sql.ordered("<", AMOUNT, sql.integer("5000000000")), amount="3000000000") is True


def test_a_text_that_is_no_number_fails_the_whole_expression() -> None:
    is_five = sql.equal(AMOUNT, sql.integer("5"))
    for condition in (sql.negation(is_five), sql.any_of([is_five, sql.TRUE]), sql.minus(is_five)):
        with pytest.raises(Incomparable):
            outcome(condition, amount="five")


def test_what_is_decided_is_not_looked_at() -> None:
    fails = sql.equal(AMOUNT, sql.integer("5"))
    assert outcome(sql.any_of([sql.TRUE, fails]), amount="five") is True
    assert outcome(sql.all_of([sql.FALSE, fails]), amount="five") is False


def test_unknown_and_false_is_false_unknown_or_true_is_true() -> None:
    unknown = sql.equal(AMOUNT, sql.integer("5"))
    assert outcome(sql.all_of([unknown, sql.FALSE])) is False
    assert outcome(sql.all_of([unknown, sql.TRUE])) is None
    assert outcome(sql.any_of([unknown, sql.TRUE])) is True
    assert outcome(sql.any_of([unknown, sql.FALSE])) is None
    assert outcome(sql.negation(unknown)) is None


def test_a_missing_property_is_unknown_on_the_left_and_false_on_the_right() -> None:
    other = sql.property_named("other")
    assert outcome(sql.equal(AMOUNT, other), other="5") is None
    assert outcome(sql.equal(AMOUNT, other), amount="5") is False
    assert outcome(sql.equal(AMOUNT, other)) is True


def test_not_a_number_is_greater_than_all_numbers() -> None:
    half = sql.double("0.5")
    assert outcome(sql.ordered(">", AMOUNT, half), amount="NaN") is True
    assert outcome(sql.ordered(">", half, AMOUNT), amount="NaN") is False
    assert outcome(sql.ordered("<=", AMOUNT, half), amount="NaN") is False


@pytest.mark.parametrize(
    ("build", "reason"),
    [
        (lambda: sql.integer("9223372036854775808"), "greater than 9223372036854775807"),
        (lambda: sql.integer("9" * 10_000), "greater than"),
        (lambda: sql.double("0.0"), "write 0 for zero"),
        (lambda: sql.double("1e400"), "greater than 1.79"),
        (lambda: sql.equal(AMOUNT, sql.NULL), "write IS NULL"),
        (lambda: sql.ordered("<", AMOUNT, sql.string("x")), "has no order"),
        (lambda: sql.one_of(sql.integer("5"), ["5"]), "the name of a property"),
        (lambda: sql.between(AMOUNT, sql.integer("5"), sql.integer("1")), "empty range"),
        (lambda: sql.as_condition(sql.integer("5")), "not a condition"),
    ],
)
def test_an_operand_that_can_not_be_is_refused_with_the_reason(
    build: Callable[[], Operand], reason: str
) -> None:
    with pytest.raises(IllegalOperand, match=reason):
        build()
