"""Java properties as text: the body of GET_ and UPDATE_…_CONFIG, and RocketMQ's files.

They are parsed by ``orbitmq.settings``, with Java's rules.
"""

from collections.abc import Mapping

from orbitmq.errors import InvalidBody, InvalidSetting
from orbitmq.settings import Property, parse

__all__ = ["properties_from_text", "properties_of_body", "properties_to_text"]

_TO_ESCAPE = {"\\": r"\\", "\n": r"\n", "\t": r"\t", "\r": r"\r", "\f": r"\f"}
_TO_ESCAPE_IN_KEY = {**_TO_ESCAPE, "=": r"\=", ":": r"\:", " ": r"\ ", "#": r"\#", "!": r"\!"}
_SOURCE = "properties"


def properties_to_text(properties: Mapping[str, str]) -> bytes:
    r"""Return one line per property, sorted by key, escaped only where Java needs it.

    Java's servers escape nothing, and misread their own backslashes. They would read other
    characters than ASCII as Latin-1 (``MixAll.string2Properties``), so those are escaped.

    >>> properties_to_text({"listenPort": "10911", "brokerName": "a=b"})
    b'brokerName=a=b\nlistenPort=10911\n'
    """
    lines = (
        f"{_escape(key, _TO_ESCAPE_IN_KEY)}={_escape_value(value)}\n"
        for key, value in sorted(properties.items())
    )
    return "".join(lines).encode("ascii")


def properties_from_text(text: bytes | memoryview) -> dict[str, str]:
    r"""Parse properties; of a repeated key the last one wins.

    Raises `InvalidBody` if the text is not UTF-8 or an escape is incomplete.

    >>> properties_from_text(b"# a comment\nbrokerIP1 : 10.0.0.7\nnames=a,\\\n   b\n")
    {'brokerIP1': '10.0.0.7', 'names': 'a,b'}
    """
    return {one.name: one.value for one in properties_of_body(text)}


def properties_of_body(text: bytes | memoryview) -> list[Property]:
    """Parse properties with their line numbers, for `orbitmq.settings.build`.

    Raises `InvalidBody` if the text is not UTF-8 or an escape is incomplete.
    """
    try:
        return parse(bytes(text).decode(), _SOURCE)
    except UnicodeDecodeError as error:
        raise InvalidBody(
            f"properties are not UTF-8 at byte {error.start}", position=error.start
        ) from error
    except InvalidSetting as error:
        raise InvalidBody(str(error)) from error


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
