r"""Java properties as text: the body of GET_ and UPDATE_…_CONFIG, and of RocketMQ's own files.

A line is ``key=value``. The rules are those of ``java.util.Properties.load``: a key ends at the
first ``=``, ``:`` or blank that has no backslash before it; a line whose first character is ``#``
or ``!`` is a comment; a backslash at the end of a line continues it on the next; ``\n``, ``\t``,
``\r``, ``\f`` and ``\uXXXX`` stand for themselves, any other character for itself.
"""

import re
from collections.abc import Iterator, Mapping

from orbitmq.errors import InvalidBody

__all__ = ["properties_from_text", "properties_to_text"]

_ENTRY = re.compile(
    r"(?P<key>(?:[^\\=: \t\f]|\\.)*+)"  # up to the first separator that is not escaped
    r"[ \t\f]*+[=:]?+[ \t\f]*+"
    r"(?P<value>.*)",
    re.DOTALL,
)
# Characters beyond the basic plane are two escapes, so that a run of them is read as one.
_ESCAPE = re.compile(r"((?:\\u[0-9A-Fa-f]{4})++)|\\(.)", re.DOTALL)
_NAMED = {"n": "\n", "t": "\t", "r": "\r", "f": "\f"}
_TO_ESCAPE = {"\\": r"\\", "\n": r"\n", "\t": r"\t", "\r": r"\r", "\f": r"\f"}
_TO_ESCAPE_IN_KEY = {**_TO_ESCAPE, "=": r"\=", ":": r"\:", " ": r"\ ", "#": r"\#", "!": r"\!"}


def properties_to_text(properties: Mapping[str, str]) -> bytes:
    r"""Return one line per property, sorted by key, escaped just as far as Java needs.

    Java's servers escape nothing, and can't read back what has a backslash in it; what is not
    ASCII they would read as Latin-1 (``MixAll.string2Properties``), so it is escaped too.

    >>> properties_to_text({"listenPort": "10911", "brokerName": "a=b"})
    b'brokerName=a=b\nlistenPort=10911\n'
    """
    lines = (
        f"{_escape(key, _TO_ESCAPE_IN_KEY)}={_escape_value(value)}\n"
        for key, value in sorted(properties.items())
    )
    return "".join(lines).encode("ascii")


def properties_from_text(text: bytes | memoryview) -> dict[str, str]:
    r"""Read properties; of a key that comes twice, the last one holds.

    Raises `InvalidBody` if the text is not UTF-8 or an escape is cut short.

    >>> properties_from_text(b"# a comment\nbrokerIP1 : 10.0.0.7\nnames=a,\\\n   b\n")
    {'brokerIP1': '10.0.0.7', 'names': 'a,b'}
    """
    try:
        lines = _logical_lines(bytes(text).decode())
    except UnicodeDecodeError as error:
        raise InvalidBody(
            f"properties are not UTF-8 at byte {error.start}", position=error.start
        ) from error
    entries = {}
    for line in lines:
        entry = _ENTRY.fullmatch(line)
        assert entry is not None  # each part of the pattern may be empty, the last takes the rest
        entries[_unescape(entry["key"])] = _unescape(entry["value"])
    return entries


def _logical_lines(text: str) -> Iterator[str]:
    """Yield each line that has an entry, with the lines that continue it, blanks before it cut."""
    begun: list[str] = []
    for natural in re.split(r"\r\n|\n|\r", text):
        line = natural.lstrip(" \t\f")
        if not begun and (not line or line[0] in "#!"):
            continue
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:  # the last one stands alone, and not for a backslash
            begun.append(line[:-1])
            continue
        yield "".join((*begun, line))
        begun.clear()
    if begun:
        yield "".join(begun)


def _unescape(text: str) -> str:
    return _ESCAPE.sub(_unescaped, text) if "\\" in text else text


def _unescaped(match: re.Match[str]) -> str:
    units, char = match.groups()
    if char == "u":
        raise InvalidBody("a property has \\u with fewer than four hexadecimal digits after it")
    if char:
        return _NAMED.get(char, char)
    try:
        return bytes.fromhex(units.replace("\\u", "")).decode("utf-16-be")
    except UnicodeDecodeError as error:
        raise InvalidBody(f"a property has half a character in {units[:24]}") from error


def _escape(text: str, escapes: Mapping[str, str]) -> str:
    return "".join(escapes.get(char) or _ascii(char) for char in text)


def _escape_value(value: str) -> str:
    escaped = _escape(value, _TO_ESCAPE)
    return f"\\{escaped}" if escaped.startswith(" ") else escaped


def _ascii(char: str) -> str:
    if char.isascii():
        return char
    units = char.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))
