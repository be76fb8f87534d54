"""Tags: which are allowed, the hash that a broker selects by, and subscriptions.

A broker compares hashes only, so a consumer has to compare the tags again: ``"Aa"`` and ``"BB"``
have the same hash.
"""

import struct
from functools import lru_cache
from reprlib import repr as elided
from typing import Final

import msgspec

from orbitmq.errors import InvalidTags
from orbitmq.message.properties import JAVA_BLANKS, check_text

__all__ = [
    "POWERS_OF_31",
    "SELECT_ALL",
    "TAG_SEPARATOR",
    "TagFilter",
    "check_tag",
    "java_hash",
    "java_hash_bits",
    "java_long_hash",
    "tags_code",
    "tags_code_utf8",
]

SELECT_ALL: Final = "*"
TAG_SEPARATOR: Final = "||"

# A hash is a number whose digits, in base 31, are the code units. An ASCII unit is 16·high + low,
# and ``int`` parses the high and the low digits much faster than a loop.
# Long texts use the loop, because ``int`` takes quadratic time, and may refuse them: the lowest
# limit that ``sys.set_int_max_str_digits`` allows is 640.
_HEX_DIGITS: Final = b"0123456789abcdef"
_HIGH_DIGIT: Final = bytes(_HEX_DIGITS[unit >> 4] for unit in range(256))
_LOW_DIGIT: Final = bytes(_HEX_DIGITS[unit & 15] for unit in range(256))
_DIGITS_MAX: Final = 512
# Units from "0" to "N", such as those of unique keys, are 48 + one digit: they need one number.
_LEAST_UNIT: Final = ord("0")
_ONE_DIGIT: Final = bytes(
    b"0123456789abcdefghijklmnopqrstu"[unit - _LEAST_UNIT]
    if _LEAST_UNIT <= unit < _LEAST_UNIT + 31
    else ord("!")
    for unit in range(256)
)
POWERS_OF_31: Final[tuple[int, ...]] = tuple(pow(31, n, 1 << 32) for n in range(_DIGITS_MAX + 1))
"""The powers modulo 2^32: the hash of two texts in a row is that of the first, times the power of
the length of the second, plus that of the second."""
_LEAST_HASHES: Final[tuple[int, ...]] = tuple(
    _LEAST_UNIT * ((31**n - 1) // 30) & 0xFFFF_FFFF for n in range(_DIGITS_MAX + 1)
)


def java_hash(text: str) -> int:
    """Return what Java's ``String.hashCode`` returns: signed, 32 bits, over UTF-16 code units.

    >>> java_hash("TagA")
    2598919
    >>> java_hash("polygenelubricants")
    -2147483648
    """
    return _signed32(java_hash_bits(text.encode()) if text.isascii() else _hash_of_units(text))


def java_hash_bits(raw: bytes) -> int:
    """Return the hash of a text in UTF-8 as an unsigned number of 32 bits.

    Bytes that are not UTF-8 are read as U+FFFD.

    >>> java_hash_bits(b"TagA"), java_hash_bits(b"polygenelubricants")
    (2598919, 2147483648)
    """
    size = len(raw)
    if 0 < size <= _DIGITS_MAX and (digits := raw.translate(_ONE_DIGIT)).isalnum():
        return int(digits, 31) + _LEAST_HASHES[size] & 0xFFFF_FFFF
    if not raw.isascii() or not 0 < size <= _DIGITS_MAX:
        return _hash_of_units(raw.decode(errors="replace"))
    return (
        16 * int(raw.translate(_HIGH_DIGIT), 31) + int(raw.translate(_LOW_DIGIT), 31)
    ) & 0xFFFF_FFFF


def java_long_hash(value: int) -> int:
    """Return what Java's ``Long.hashCode`` returns.

    >>> java_long_hash(123456789012), java_long_hash(-5)
    (-1097262584, 4)
    """
    unsigned = value & 0xFFFF_FFFF_FFFF_FFFF
    return _signed32((unsigned ^ unsigned >> 32) & 0xFFFF_FFFF)


def tags_code(tags: str | None) -> int:
    """Return the hash that a consume queue stores for these tags; 0 without tags.

    >>> tags_code("TagA"), tags_code(None)
    (2598919, 0)
    """
    if not tags:
        return 0
    return _remembered_hash(tags) if len(tags) <= _REMEMBERED_LENGTH else java_hash(tags)


def tags_code_utf8(tags: bytes) -> int:
    """Return the tags code of tags in UTF-8, as a record stores them.

    >>> tags_code_utf8(b"TagA"), tags_code_utf8(b"")
    (2598919, 0)
    """
    return _codes[tags]


# A topic has few tags, they are short, and every message has one. Long ones are not cached.
_REMEMBERED_LENGTH: Final = 64
_REMEMBERED_MAX: Final = 1024
_remembered_hash = lru_cache(maxsize=_REMEMBERED_MAX)(java_hash)


class _Codes(dict[bytes, int]):
    """The cached codes of tags in UTF-8; a lookup takes half the time of ``lru_cache``."""

    def __missing__(self, tags: bytes) -> int:
        code = _signed32(java_hash_bits(tags))
        if len(tags) <= _REMEMBERED_LENGTH:
            if len(self) >= _REMEMBERED_MAX:
                self.clear()
            self[tags] = code
        return code


_codes: Final = _Codes()


def check_tag(tag: str) -> None:
    """Check that a message may have ``tag``, and that subscriptions can select it.

    >>> check_tag("paid")
    >>> check_tag("paid||late")
    Traceback (most recent call last):
    orbitmq.errors.InvalidTags: tags 'paid||late' holds ||, which a subscription writes between \
tags; a message has one tag (length 10)
    """
    check_text(tag, "tags", field="tags", error=InvalidTags)
    if TAG_SEPARATOR in tag:
        fault = "holds ||, which a subscription writes between tags; a message has one tag"
    elif tag != tag.strip() or tag != tag.strip(JAVA_BLANKS):
        fault = "begins or ends with a blank, which a subscription would cut off"
    else:
        return
    raise InvalidTags(f"tags {elided(tag)} {fault}", field="tags", length=len(tag))


class TagFilter(msgspec.Struct, frozen=True):
    """The messages of a topic that a subscription selects by their tags.

    ``codes`` are the hashes of ``tags``; both are empty if all messages are selected.

    >>> paid_or_late = TagFilter.parse("paid || late")
    >>> paid_or_late.matches("paid"), paid_or_late.matches("new"), paid_or_late.matches(None)
    (True, False, False)
    """

    expression: str
    tags: frozenset[str]
    codes: frozenset[int]

    @classmethod
    def parse(cls, expression: str | None) -> "TagFilter":
        """Return the filter of an expression: ``*``, or tags separated by ``||``.

        None and the empty text mean ``*``. As in Java's ``FilterAPI``, a ``*`` among other tags is
        a tag of that name. Raise InvalidTags if there is no tag between the separators: Java
        accepts some of these expressions and selects nothing.

        >>> sorted(TagFilter.parse(" A || B ||").tags)
        ['A', 'B']
        """
        if not expression or expression == SELECT_ALL:
            return cls(SELECT_ALL, frozenset(), frozenset())
        pieces = [piece.strip(JAVA_BLANKS) for piece in expression.split(TAG_SEPARATOR)]
        tags = frozenset(piece for piece in pieces if piece)
        if not tags:
            raise InvalidTags(
                f"subscription {elided(expression)} names no tag; write * to select all messages",
                field="expression",
                length=len(expression),
            )
        return cls(expression, tags, frozenset(map(java_hash, tags)))

    @property
    def selects_all(self) -> bool:
        """Whether every message is selected, tagged or not."""
        return not self.tags

    def matches_code(self, code: int) -> bool:
        """Return whether a message with this tags code may be selected; compare the tags as well.

        >>> TagFilter.parse("Aa").matches_code(tags_code("BB"))
        True
        """
        return not self.tags or code in self.codes

    def matches(self, tags: str | None) -> bool:
        """Return whether a message with these tags is selected.

        >>> TagFilter.parse("Aa").matches("BB")
        False
        """
        return not self.tags or tags in self.tags


def _hash_of_units(text: str) -> int:
    unsigned = 0
    for unit in _utf16_units(text):
        unsigned = (31 * unsigned + unit) & 0xFFFF_FFFF
    return unsigned


def _utf16_units(text: str) -> tuple[int, ...]:
    raw = text.encode("utf-16-le", "surrogatepass")
    return struct.unpack(f"<{len(raw) // 2}H", raw)


def _signed32(unsigned: int) -> int:
    return unsigned - 0x1_0000_0000 if unsigned & 0x8000_0000 else unsigned
