"""Conversion between the dialect of Java's fastjson and standard JSON.

Java's RocketMQ writes bodies with fastjson, which deviates from RFC 8259 in two places, both of
them keys of maps (``RemotingSerializable`` in Java)::

    {0:"10.0.0.7:10911"}                                a Map<Long, …>: bare numbers as keys
    {{"brokerName":"a","queueId":0,"topic":"T"}:100}    a Map<MessageQueue, …>: objects as keys

`standard_json` quotes such keys and changes nothing else. It is one pass over the tokens, without
recursion, in linear time, and with a limit on the depth.
"""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import NamedTuple

import msgspec

from orbitmq.errors import InvalidBody

__all__ = [
    "DEPTH_LIMIT",
    "Edit",
    "StandardJson",
    "ascii_json",
    "has_reference",
    "java_json",
    "standard_json",
    "without_nulls",
]

DEPTH_LIMIT = 128
"""The most brackets open at a time; the deepest body of RocketMQ has 8."""

# All text up to the next bracket or comma outside of strings, that character, and a bare key after
# it. The quantifiers are possessive (++, *+), so that no input causes backtracking. An unterminated
# string extends to the end of the text.
_STRING = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?+'
_BARE_KEY = rb"-?[0-9]++|[A-Za-z_$][A-Za-z0-9_$]*+"
_STEP = re.compile(
    rb'(?:[^\[\]{},"]++|%b)*+(?:([\[\]{},])\s*+(?:(%b)(?=\s*+:))?+|\Z)' % (_STRING, _BARE_KEY),
    re.DOTALL,
)
_OPENING, _OBJECT = frozenset((b"{", b"[")), ord("{")


class Edit(NamedTuple):
    """A key to rewrite: its position in the original, and the string that replaces it."""

    start: int
    end: int
    key: bytes


class StandardJson(NamedTuple):
    """A text rewritten as standard JSON, and the edits, to find positions in the original."""

    text: bytes
    edits: tuple[Edit, ...] = ()

    def original_position(self, position: int) -> int:
        """Return the byte of the original text that byte ``position`` of ``text`` came from."""
        growth = 0
        for start, end, key in self.edits:
            if position < start + growth + len(key):
                return min(position - growth, end - 1)
            growth += len(key) - (end - start)
        return position - growth


def standard_json(source: bytes) -> StandardJson:
    r"""Quote the bare and the object keys of ``source``; strings are not changed.

    An object key becomes a string with the object's text. Standard JSON is returned unchanged, and
    so is any other invalid text, which the parser will refuse.

    Raises `InvalidBody` if more than `DEPTH_LIMIT` brackets are open at a time.

    >>> standard_json(b'{0:"{0:1}"}').text
    b'{"0":"{0:1}"}'
    >>> standard_json(b'{{"queueId":0}:100}').text
    b'{"{\\"queueId\\":0}":100}'
    """
    edits = tuple(_odd_keys(source))
    if not edits:
        return StandardJson(source)
    pieces: list[bytes] = []
    copied = 0
    for start, end, key in edits:
        pieces += (source[copied:start], key)
        copied = end
    pieces.append(source[copied:])
    return StandardJson(b"".join(pieces), edits)


def _odd_keys(source: bytes) -> Iterator[Edit]:
    """Yield each key that is not a string, in order, and only the outermost."""
    open_brackets = bytearray()
    key_start = key_level = -1  # of the object key being read: its first byte, brackets around it
    for step in _STEP.finditer(source):
        mark, bare_key = step.groups()
        if mark is None:
            return  # the end of the text
        if mark in _OPENING:
            _check_depth(open_brackets, step.start(1))
            open_brackets += mark
        elif mark != b",":
            del open_brackets[-1:]
            if len(open_brackets) == key_level:
                yield Edit(key_start, step.end(1), _quoted(source[key_start : step.end(1)]))
                key_level = -1
            continue
        if key_level >= 0 or not open_brackets or open_brackets[-1] != _OBJECT:
            continue  # not followed by a key, or inside of one
        if bare_key:
            yield Edit(*step.span(2), b'"%b"' % bare_key)
        elif source.startswith(b"{", step.end()):
            key_start, key_level = step.end(), len(open_brackets)


def _check_depth(open_brackets: bytearray, position: int) -> None:
    if len(open_brackets) == DEPTH_LIMIT:
        raise InvalidBody(
            f"more than {DEPTH_LIMIT} brackets are open at byte {position}", position=position
        )


_ESCAPES = ((b"\\", b"\\\\"), (b'"', b'\\"'), (b"\n", b"\\n"), (b"\r", b"\\r"), (b"\t", b"\\t"))


def _quoted(key: bytes) -> bytes:
    """Return the text of an object as a JSON string; its only control characters are blanks."""
    for char, escape in _ESCAPES:
        key = key.replace(char, escape)
    return b'"%b"' % key


_REFERENCE = re.compile(rb'\{\s*+"\$ref"\s*+:\s*+"[$@.]')


def has_reference(text: bytes | memoryview) -> bool:
    """Return whether fastjson 1 wrote a reference instead of repeating an object.

    It can't be inside a string, where the quotes would be escaped.

    >>> has_reference(b'{"first":{"counter":7},"second":{"$ref":"$.first"}}')
    True
    """
    return _REFERENCE.search(text) is not None


_NULL = b'":null'


def without_nulls(compact: bytes) -> bytes:
    """Drop the null members, as fastjson does; ``compact`` is a text written by msgspec.

    It searches for ``":null``. Inside a string the quote would follow a backslash. So would that
    of a name that ends in a backslash, and such a member would stay, but no field has such a name.

    >>> without_nulls(b'{"zoneName":null,"cluster":"c","remark":null}')
    b'{"cluster":"c"}'
    """
    pieces = []
    copied = 0
    name_end = compact.find(_NULL)
    while name_end >= 0:
        end = name_end + len(_NULL)
        if compact[name_end - 1 : name_end] != b"\\":
            start = compact.rfind(b'"', 0, name_end)
            if start > copied and compact[start - 1 : start] == b",":
                start -= 1  # with the comma before it
            elif compact[end : end + 1] == b",":
                end += 1  # the first member: with the comma after it
            pieces.append(compact[copied:start])
            copied = end
        name_end = compact.find(_NULL, end)
    pieces.append(compact[copied:])
    return b"".join(pieces) if copied else compact


def ascii_json(text: bytes) -> bytes:
    r"""Escape all characters that are not ASCII, as Java's ``BrowserCompatible`` does.

    >>> ascii_json('{"cluster":"上海"}'.encode())
    b'{"cluster":"\\u4e0a\\u6d77"}'
    """
    if text.isascii():
        return text
    return re.sub(r"[^\x00-\x7f]", _escaped, text.decode()).encode()


def _escaped(match: re.Match[str]) -> str:
    units = match[0].encode("utf-16-be")  # two units for a character beyond the basic plane
    return "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))


def java_json(value: object) -> bytes:
    """Return ``value`` as fastjson writes it: bare numbers and objects as keys, no nulls.

    ``value`` is a struct or a part of one.

    >>> java_json({"brokerAddrs": {0: "10.0.0.7:10911"}})
    b'{"brokerAddrs":{0:"10.0.0.7:10911"}}'
    """
    if isinstance(value, msgspec.Struct):
        return java_json({wire: getattr(value, name) for wire, name in _fields_of(type(value))})
    if isinstance(value, Mapping):
        members = (
            java_json(key) + b":" + java_json(item)
            for key, item in value.items()
            if item is not None
        )
        return b"{%b}" % b",".join(members)
    if isinstance(value, (tuple, list)):
        return b"[%b]" % b",".join(map(java_json, value))
    return msgspec.json.encode(value)


@cache
def _fields_of(struct: type[msgspec.Struct]) -> list[tuple[str, str]]:
    """Return the wire name and the name of each field, sorted by wire name as in Java."""
    return sorted((field.encode_name, field.name) for field in msgspec.structs.fields(struct))
