"""Numbers in texts, as Java reads and compares them.

The value of a property is a text. Compared with a number it becomes one of the same type, by
``Integer.valueOf``, ``Long.valueOf`` or ``Double.valueOf``; they differ from Python's ``int`` and
``float`` in what they accept.
"""

import math
import re
from typing import Final

__all__ = ["INT_MAX", "LONG_MAX", "Incomparable", "compare", "to_double", "to_int", "to_long"]

INT_MAX: Final = 2**31 - 1
LONG_MAX: Final = 2**63 - 1
_PLAIN_DIGITS: Final = 9
"""That many digits fit every type."""

# Nothing is read twice (++): a producer can send thousands of digits and then a letter.
_DECIMAL: Final = re.compile(
    r"[+-]?(?:[0-9]++\.?+[0-9]*+|\.[0-9]++)(?:[eE][+-]?[0-9]++)?+(?P<suffix>[fFdD]?)"
)
_HEX: Final = re.compile(
    r"[+-]?0[xX](?:[0-9a-fA-F]+\.?|[0-9a-fA-F]*\.[0-9a-fA-F]+)[pP][+-]?[0-9]+(?P<suffix>[fFdD]?)"
)
_NAMED: Final = re.compile(r"[+-]?(?:NaN|Infinity)")
_JAVA_BLANKS: Final = "".join(map(chr, range(0x21)))  # what String.trim removes


class Incomparable(ValueError):
    """Two values can't be compared, such as a number with a text that is none."""


def to_int(text: str) -> int:
    """Return a text as a number of 32 bits.

    >>> to_int("+7"), to_int("٣")
    (7, 3)
    >>> to_int("3000000000")
    Traceback (most recent call last):
    orbitmq.broker.pulling.sql92.numbers.Incomparable: 3000000000
    """
    if text.isdecimal() and len(text) <= _PLAIN_DIGITS and text.isascii():
        return int(text)
    return _integer(text, INT_MAX)


def to_long(text: str) -> int:
    """Return a text as a number of 64 bits."""
    if text.isdecimal() and len(text) <= _PLAIN_DIGITS and text.isascii():
        return int(text)
    return _integer(text, LONG_MAX)


def to_double(text: str) -> float:
    """Return a text as a double: decimal or hexadecimal, blanks around it, NaN or Infinity.

    >>> to_double(" 1.5f "), to_double("-.5e1"), to_double("0x1p-1"), to_double("Infinity")
    (1.5, -5.0, 0.5, inf)
    """
    text = text.strip(_JAVA_BLANKS)
    if found := _DECIMAL.fullmatch(text):
        return float(text[: found.start("suffix")])
    if _NAMED.fullmatch(text):
        return float(text)
    if found := _HEX.fullmatch(text):
        try:
            return float.fromhex(text[: found.start("suffix")])
        except OverflowError:
            return -math.inf if text.startswith("-") else math.inf
    raise Incomparable(text)


def compare(left: float, right: float) -> int:
    """Return the order of two doubles by Java's: -0.0 comes before 0.0, and NaN after all others.

    >>> compare(-0.0, 0.0), compare(math.nan, math.inf), compare(math.nan, math.nan)
    (-1, 1, 0)
    """
    if left < right:
        return -1
    if left > right:
        return 1
    return _rank(left) - _rank(right)


def _rank(value: float) -> int:
    if value != value:
        return 1
    return -1 if value == 0 and math.copysign(1, value) < 0 else 0


def _integer(text: str, most: int) -> int:
    digits = text[1:] if text[:1] in ("+", "-") else text
    # Java looks at UTF-16 units, and none of a digit outside the basic plane is a digit.
    if not digits.isdecimal() or max(digits) > "\uffff":
        raise Incomparable(text)
    try:
        value = int(text)
    except ValueError:  # thousands of digits
        raise Incomparable(text) from None
    if not -most - 1 <= value <= most:
        raise Incomparable(text)
    return value
