"""The parts of an SQL92 expression, as functions of the text of a message's properties.

An operand has a type that is known before any message is:

=========  ============================  ==================================
type       is                            its value
=========  ============================  ==================================
STRING     a property, a string          a text; None without the property
INTEGER    a number up to 2**31 - 1      an int
LONG       a greater one                 an int
DOUBLE     a number with a dot or an e   a float
BOOLEAN    TRUE, FALSE, NULL, condition  True, False; None: unknown
NOTHING    minus anything but a number   None
=========  ============================  ==================================

The rules, with their oddities, are those of the classes in Java's ``filter`` module:

- A text compared with a number becomes a number of its type. If it is none, or does not fit, the
  whole expression fails: the message does not match, whatever ``OR`` or ``NOT`` stand around it.
- ``=`` and ``<>`` compare two texts as texts; ``<``, ``<=``, ``>``, ``>=`` compare them as doubles.
- A condition compared with a text fails; with a number it is never equal.
- Logic has three values: a comparison with a missing property is unknown, but ``x = missing`` is
  false where x exists. ``CONTAINS`` and its like are false then, with and without ``NOT``.
- A property alone is a condition: false if the message has it, unknown otherwise.
"""

import enum
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import msgspec

from orbitmq.broker.pulling.sql92.numbers import (
    INT_MAX,
    LONG_MAX,
    Incomparable,
    compare,
    to_double,
    to_int,
    to_long,
)
from orbitmq.message.properties import finder

__all__ = [
    "FALSE",
    "NULL",
    "TRUE",
    "IllegalOperand",
    "Operand",
    "Test",
    "all_of",
    "any_of",
    "as_condition",
    "between",
    "double",
    "equal",
    "integer",
    "is_null",
    "minus",
    "negation",
    "one_of",
    "ordered",
    "outside",
    "property_named",
    "search",
    "string",
]

Read: TypeAlias = Callable[[str], Any]
"""Returns the value of an operand in the properties of a message; None if it has none."""
Test: TypeAlias = Callable[[str], bool | None]
"""Returns whether the properties of a message fulfil a condition; None if that is unknown."""


class IllegalOperand(ValueError):
    """An operator has an operand that it can't have."""


class Type(enum.Enum):
    """The type of an operand; see above."""

    STRING = "text"
    INTEGER = "integer"
    LONG = "long"
    DOUBLE = "double"
    BOOLEAN = "condition"
    NOTHING = "nothing"


def _double(text: str) -> float:
    """Return a double; for NaN infinity, which compares to a literal as Java's NaN does."""
    value = to_double(text)
    return value if value == value else math.inf


_NUMBERS: Final[Mapping[Type, Callable[[str], float]]] = {
    Type.INTEGER: to_int,
    Type.LONG: to_long,
    Type.DOUBLE: _double,
}
_ORDERS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
}
_SEARCHES: Final[Mapping[str, Callable[[str, str], bool]]] = {
    "CONTAINS": operator.contains,
    "STARTSWITH": str.startswith,
    "ENDSWITH": str.endswith,
}


class Operand(msgspec.Struct, frozen=True, gc=False):
    """A part of an expression."""

    type: Type
    read: Read
    shown: str
    """For errors."""
    is_literal: bool = False
    value: Any = None
    """Of a literal, or of a number with a sign."""
    name: str | None = None
    """Of a property."""

    @property
    def is_condition(self) -> bool:
        """Whether it is true, false or unknown."""
        return self.type is Type.BOOLEAN


# Values


def property_named(name: str) -> Operand:
    """Return the property of a name."""
    return Operand(Type.STRING, finder(name), name, name=name)


def _literal(kind: Type, value: Any, shown: str) -> Operand:
    return Operand(kind, lambda _text: value, shown, is_literal=True, value=value)


def string(value: str) -> Operand:
    """Return a text of the expression."""
    return _literal(Type.STRING, value, repr(value[:40]))


def integer(image: str) -> Operand:
    """Return an integer of the expression, perhaps with an L."""
    digits = image.rstrip("lL")
    if len(digits) > len(str(LONG_MAX)) or int(digits) > LONG_MAX:
        raise IllegalOperand(f"{image[:40]} is greater than {LONG_MAX}")
    value = int(digits)
    return _literal(Type.INTEGER if value <= INT_MAX else Type.LONG, value, image)


def double(image: str) -> Operand:
    """Return a number with a dot or an exponent; as in Java, 0.0 is refused."""
    value = float(image)
    if value == 0:
        raise IllegalOperand(f"{image[:40]} is less than 4.9E-324; write 0 for zero")
    if value == math.inf:
        raise IllegalOperand(f"{image[:40]} is greater than 1.7976931348623157E308")
    return _literal(Type.DOUBLE, value, image)


TRUE: Final = _literal(Type.BOOLEAN, True, "TRUE")
FALSE: Final = _literal(Type.BOOLEAN, False, "FALSE")
NULL: Final = _literal(Type.BOOLEAN, None, "NULL")


def minus(operand: Operand) -> Operand:
    """Return a number with the opposite sign; anything else has no value then."""
    shown = f"-{operand.shown}"
    if operand.type in _NUMBERS:
        value = -operand.value
        return Operand(operand.type, lambda _text: value, shown, value=value)

    def nothing(text: str) -> None:
        operand.read(text)  # may fail

    return Operand(Type.NOTHING, nothing, shown)


# Conditions


def _condition(test: Test) -> Operand:
    return Operand(Type.BOOLEAN, test, "a condition")


def as_condition(operand: Operand) -> Operand:
    """Return an operand as a condition; only a property, TRUE, FALSE and NULL can be one."""
    if operand.is_condition:
        return operand
    if operand.name is None:
        raise IllegalOperand(f"{operand.shown} is not a condition")
    find = operand.read
    return _condition(lambda text: None if find(text) is None else False)


def all_of(conditions: Sequence[Operand]) -> Operand:
    """Return the condition that all conditions hold, tested from left to right."""
    if len(conditions) == 1:
        return conditions[0]
    tests = [one.read for one in conditions]

    def test(text: str) -> bool | None:
        outcome: bool | None = True
        for one in tests:
            holds = one(text)
            if holds is None:
                outcome = None
            elif not holds:
                return False
        return outcome

    return _condition(test)


def any_of(conditions: Sequence[Operand]) -> Operand:
    """Return the condition that one of several conditions holds, tested from left to right."""
    if len(conditions) == 1:
        return conditions[0]
    tests = [one.read for one in conditions]

    def test(text: str) -> bool | None:
        outcome: bool | None = False
        for one in tests:
            holds = one(text)
            if holds:
                return True
            if holds is None:
                outcome = None
        return outcome

    return _condition(test)


def negation(operand: Operand) -> Operand:
    """Return the opposite of a condition; the opposite of unknown is unknown."""
    inner = as_condition(operand).read

    def test(text: str) -> bool | None:
        holds = inner(text)
        return None if holds is None else not holds

    return _condition(test)


def is_null(operand: Operand) -> Operand:
    """Return the condition that an operand has no value."""
    read = operand.read
    return _condition(lambda text: read(text) is None)


def one_of(operand: Operand, values: Sequence[str]) -> Operand:
    """Return the condition that a property has one of several values."""
    if operand.name is None:
        raise IllegalOperand(f"IN needs the name of a property before it, not {operand.shown}")
    find, wanted = operand.read, frozenset(values)

    def test(text: str) -> bool | None:
        value = find(text)
        return None if value is None else value in wanted

    return _condition(test)


def search(how: str, operand: Operand, part: str, wanted: bool) -> Operand:
    """Return the condition that a text has a part, or hasn't; false for an empty part."""
    if not part:
        return _condition(lambda _text: False)
    read, has = operand.read, _SEARCHES[how]

    def test(text: str) -> bool:
        value = read(text)
        return isinstance(value, str) and has(value, part) is wanted

    return _condition(test)


# Comparisons


def between(value: Operand, low: Operand, high: Operand) -> Operand:
    """Return the condition that a value is in a range, both ends included."""
    if low.is_literal and high.is_literal:
        for end in (low, high):
            _check_ordered(end)
        if high.value < low.value:
            raise IllegalOperand(f"BETWEEN {low.shown} AND {high.shown} is an empty range")
    return _range(all_of((ordered(">=", value, low), ordered("<=", value, high))), value)


def outside(value: Operand, low: Operand, high: Operand) -> Operand:
    """Return the condition that a value is not in a range."""
    return _range(any_of((ordered("<", value, low), ordered(">", value, high))), value)


def _range(condition: Operand, value: Operand) -> Operand:
    """Return a condition that reads ``value`` twice, unless that has no value anyway.

    Ranges of ranges, such as ``-(-(a) BETWEEN 1 AND 2) BETWEEN 1 AND 2``, would double the time at
    each level.
    """
    return _condition(value.read) if value.type is Type.NOTHING else condition


def ordered(symbol: str, left: Operand, right: Operand) -> Operand:
    """Return the comparison of two numbers by ``<``, ``<=``, ``>`` or ``>=``."""
    for operand in (left, right):
        _check_ordered(operand)
    read_left, read_right, order = left.read, right.read, _ORDERS[symbol]
    if left.type is right.type is Type.STRING:

        def test(text: str) -> bool | None:
            if (one := read_left(text)) is None or (other := read_right(text)) is None:
                return None
            return order(compare(to_double(one), to_double(other)), 0)

    elif left.type is Type.STRING and right.type in _NUMBERS:
        limit, convert = right.value, _NUMBERS[right.type]

        def test(text: str) -> bool | None:
            value = read_left(text)
            return None if value is None else order(convert(value), limit)

    elif right.type is Type.STRING and left.type in _NUMBERS:
        limit, convert = left.value, _NUMBERS[left.type]

        def test(text: str) -> bool | None:
            value = read_right(text)
            return None if value is None else order(limit, convert(value))

    else:  # without a property, or with one whose sign was changed

        def test(text: str) -> bool | None:
            if (one := read_left(text)) is None or (other := read_right(text)) is None:
                return None
            return order(*_as_numbers(one, other))

    return _condition(test)


def equal(left: Operand, right: Operand) -> Operand:
    """Return the condition that two operands are equal."""
    for operand in (left, right):
        if operand.is_literal and operand.value is None:
            raise IllegalOperand("NULL can't be compared; write IS NULL or IS NOT NULL")
    if left.is_literal and right.is_literal and left.is_condition and not right.is_condition:
        raise IllegalOperand(f"{left.shown} can't be compared with {right.shown}")
    read_left, read_right = left.read, right.read
    if left.name is not None and right.value is not None and right.type is not Type.BOOLEAN:
        return _property_equals(read_left, right)
    agree = _equality(left.type, right.type)

    def test(text: str) -> bool | None:
        one, other = read_left(text), read_right(text)
        if one is None:
            return True if other is None else None
        return other is not None and agree(one, other)

    return _condition(test)


def _property_equals(find: Read, right: Operand) -> Operand:
    """Return the condition that a property has a value; most comparisons are of this kind."""
    wanted = right.value
    if right.type is Type.STRING:

        def test(text: str) -> bool | None:
            value = find(text)
            return None if value is None else value == wanted

    else:
        convert = _NUMBERS[right.type]

        def test(text: str) -> bool | None:
            value = find(text)
            return None if value is None else convert(value) == wanted

    return _condition(test)


def _equality(left: Type, right: Type) -> Callable[[Any, Any], bool]:
    """Return the function that compares two values of these types."""
    if left is right:
        return operator.eq
    if left in _NUMBERS and right in _NUMBERS:
        return lambda one, other: operator.eq(*_as_numbers(one, other))
    if left is Type.STRING and right in _NUMBERS:
        convert = _NUMBERS[right]
        return lambda one, other: convert(one) == other
    if right is Type.STRING and left in _NUMBERS:
        convert = _NUMBERS[left]
        return lambda one, other: one == convert(other)
    if left is Type.STRING and right is Type.BOOLEAN:
        return lambda one, other: (one.lower() == "true") is other
    if left is Type.BOOLEAN and right is Type.STRING:
        return _fail
    return lambda _one, _other: False


def _check_ordered(operand: Operand) -> None:
    if operand.is_condition or (operand.is_literal and operand.type not in _NUMBERS):
        raise IllegalOperand(f"{operand.shown} has no order; <, <=, > and >= compare numbers")


def _as_numbers(one: float, other: float) -> tuple[float, float]:
    """Return two numbers of one type: doubles, if one of them is a double."""
    if isinstance(one, float) or isinstance(other, float):
        return float(one), float(other)
    return one, other


def _fail(one: object, other: object) -> bool:
    raise Incomparable(f"{one} and {other}")
