"""The JSON that Java's fastjson writes, turned into the JSON that everybody else reads, and back.

RocketMQ's Java writes bodies with fastjson, which departs from RFC 8259 in two places, both of
them keys of maps (``RemotingSerializable`` in Java)::

    {0:"10.0.0.7:10911"}                                a Map<Long, …>: bare numbers as keys
    {{"brokerName":"a","queueId":0,"topic":"T"}:100}    a Map<MessageQueue, …>: objects as keys

`standard_json` quotes such keys and touches nothing else. It is one pass over the tokens of the
text: no recursion, linear time, and a bound on the depth.
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
"""How many brackets may be open at once: the deepest body we know has 8, a hostile one millions."""

# All text up to the next bracket or comma outside of strings, that one, and a bare key after it.
# Each part takes all it can and gives nothing back (++, *+), so that no text, however broken, is
# looked at twice. A string that never ends is taken up to the end of the text.
_STRING = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?+'
_BARE_KEY = rb"-?[0-9]++|[A-Za-z_$][A-Za-z0-9_$]*+"
_STEP = re.compile(
    rb'(?:[^\[\]{},"]++|%b)*+(?:([\[\]{},])\s*+(?:(%b)(?=\s*+:))?+|\Z)' % (_STRING, _BARE_KEY),
    re.DOTALL,
)
_OPENING, _OBJECT = frozenset((b"{", b"[")), ord("{")


class Edit(NamedTuple):
    """A key to rewrite: where it stands in the original, and the string it becomes."""

    start: int
    end: int
    key: bytes


class StandardJson(NamedTuple):
    """A text rewritten as standard JSON, and how to find a place of it in the original."""

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
    r"""Quote the bare and the object keys of ``source``; what stands in strings is never touched.

    An object key becomes a string that holds the object's own text. Standard JSON comes back as
    it is, and so does what no rule here mends: it is the parser's to refuse.

    Raises `InvalidBody` if more than `DEPTH_LIMIT` brackets are open at once.

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
    """Yield each key that is not a string, outermost ones only, from first to last."""
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
            continue  # what comes next is no key, or is inside of one already
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
    """Return the text of an object as a string; of control characters only blanks are in it."""
    for char, escape in _ESCAPES:
        key = key.replace(char, escape)
    return b'"%b"' % key


_REFERENCE = re.compile(rb'\{\s*+"\$ref"\s*+:\s*+"[$@.]')


def has_reference(text: bytes | memoryview) -> bool:
    """Tell whether fastjson 1 wrote a reference in place of an object it had written before.

    Inside a string the quotes would be escaped, so this can't be the text of a string.

    >>> has_reference(b'{"first":{"counter":7},"second":{"$ref":"$.first"}}')
    True
    """
    return _REFERENCE.search(text) is not None


_NULL = b'":null'


def without_nulls(compact: bytes) -> bytes:
    """Drop the members that are null, as fastjson does; ``compact`` is as msgspec writes it.

    Only ``":null`` is searched for. In a string its quote would come after a backslash; so might
    the quote at the end of a name, and such a member stays, but no field of ours has such a name.

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
                start -= 1  # the comma before it goes with it
            elif compact[end : end + 1] == b",":
                end += 1  # it is the first of what is left: the comma after it goes
            pieces.append(compact[copied:start])
            copied = end
        name_end = compact.find(_NULL, end)
    pieces.append(compact[copied:])
    return b"".join(pieces) if copied else compact


def ascii_json(text: bytes) -> bytes:
    r"""Escape all that is not ASCII, as Java's ``BrowserCompatible`` does.

    >>> ascii_json('{"cluster":"上海"}'.encode())
    b'{"cluster":"\\u4e0a\\u6d77"}'
    """
    if text.isascii():
        return text
    return re.sub(r"[^\x00-\x7f]", _escaped, text.decode()).encode()


def _escaped(match: re.Match[str]) -> str:
    units = match[0].encode("utf-16-be")  # two of them beyond the basic plane, as JSON wants
    return "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))


def java_json(value: object) -> bytes:
    """Return ``value`` as fastjson writes it: bare numbers and objects as keys, no nulls.

    ``value`` is a struct, or what structs are made of; its depth is that of its type.

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
    """Return the wire name and the name of each field, in the order of the former, as in Java."""
    return sorted((field.encode_name, field.name) for field in msgspec.structs.fields(struct))
