r"""How settings load, never which: property files, ``key=value`` arguments, typed values from both.

A file is what ``java.util.Properties.load`` reads, so that RocketMQ's own files work as they are: a
key ends at the first ``=``, ``:`` or blank that has no backslash before it; a line whose first
character is ``#`` or ``!`` is a comment; a backslash at the end of a line continues it on the next;
``\n``, ``\t``, ``\r``, ``\f`` and ``\uXXXX`` stand for themselves, any other character for itself.

Who has settings declares them as a struct, and says which property sets which field::

    properties = [*read("broker.conf"), *from_arguments(["listenPort=0"])]
    settings = build(BrokerSettings, properties, JAVA_NAMES)
    for one in unknown(properties, JAVA_NAMES):
        log.warning("%s", about_unknown(one, JAVA_NAMES))

Java takes a value it can't read for the default, without a word; here it is an error that names
file, line and key.
"""

import difflib
import enum
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

import msgspec
from msgspec import inspect

from orbitmq.errors import InvalidInput, InvalidSetting

__all__ = [
    "Property",
    "about_unknown",
    "build",
    "environment",
    "from_arguments",
    "parse",
    "read",
    "texts_of",
    "unknown",
]

_FILE_BYTES_MAX: Final = 1024 * 1024
"""RocketMQ's largest has some 20 KiB; what is larger is not a file of settings."""
_SHOWN_MAX: Final = 60

_ENTRY: Final = re.compile(
    r"(?P<key>(?:[^\\=: \t\f]|\\.)*+)"  # up to the first separator that is not escaped
    r"[ \t\f]*+[=:]?+[ \t\f]*+"
    r"(?P<value>.*)",
    re.DOTALL,
)
# Characters beyond the basic plane are two escapes, so that a run of them is read as one.
_ESCAPE: Final = re.compile(r"((?:\\u[0-9A-Fa-f]{4})++)|\\(.)", re.DOTALL)
_NAMED: Final = {"n": "\n", "t": "\t", "r": "\r", "f": "\f"}
_ARGUMENTS: Final = "--set"

S = TypeVar("S", bound=msgspec.Struct)


class Property(NamedTuple):
    """One ``key=value``, and where it was said; ``line`` is 0 where there are no lines.

    >>> print(Property("listenPort", "10911", "broker.conf", 3))
    broker.conf:3: listenPort
    """

    name: str
    value: str
    file: str
    line: int = 0

    @property
    def place(self) -> str:
        """Where it was said: a file and a line, or an argument."""
        return f"{self.file}:{self.line}" if self.line else self.file

    def __str__(self) -> str:
        return f"{self.place}: {_shown(self.name)}"


def read(path: str) -> list[Property]:
    """Return the properties of a file, in the order of its lines.

    Raises:
        InvalidSetting: there is no such file, or it is not a file of properties in UTF-8.

    """
    try:
        with Path(path).open("rb") as file:
            data = file.read(_FILE_BYTES_MAX + 1)
    except OSError as error:
        raise InvalidSetting(f"{path} can't be read: {error.strerror}", file=path) from error
    if len(data) > _FILE_BYTES_MAX:
        raise InvalidSetting(
            f"{path} has over {_FILE_BYTES_MAX} bytes; that is no file of settings", file=path
        )
    try:
        return parse(data.decode(), path)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InvalidSetting(
            f"{path}:{line}: byte {error.start} of the file is not UTF-8", file=path, line=line
        ) from error


def environment(name: str) -> str:
    """Return a variable of the environment without blanks around it; empty if it is not set.

    >>> environment("NO_SUCH_VARIABLE_HERE")
    ''
    """
    return os.environ.get(name, "").strip()


def parse(text: str, file: str) -> list[Property]:
    r"""Return the properties in a text, in the order of its lines; ``file`` is where it came from.

    A key that comes twice is there twice; the last one holds for ``build``.

    >>> parse("# a comment\nnames : a,\\\n   b\n", "broker.conf")
    [Property(name='names', value='a,b', file='broker.conf', line=2)]

    Raises:
        InvalidSetting: an escape is cut short.

    """
    found = []
    for number, line in _logical_lines(text):
        entry = _ENTRY.fullmatch(line)
        assert entry is not None  # each part of the pattern may be empty, the last takes the rest
        try:
            key, value = _unescape(entry["key"]), _unescape(entry["value"])
        except ValueError as error:
            raise InvalidSetting(f"{file}:{number}: {error}", file=file, line=number) from error
        found.append(Property(key, value, file, number))
    return found


def from_arguments(arguments: Iterable[str]) -> list[Property]:
    """Return the properties said as ``--set key=value``; nothing is escaped in them.

    >>> from_arguments(["brokerName=broker-b"])
    [Property(name='brokerName', value='broker-b', file='--set', line=0)]

    Raises:
        InvalidSetting: one has no ``=``, or no key before it.

    """
    found = []
    for argument in arguments:
        key, separator, value = argument.partition("=")
        if not separator or not key.strip():
            raise InvalidSetting(
                f"{_ARGUMENTS} {_shown(argument)}: write it as key=value, as in listenPort=10911",
                file=_ARGUMENTS,
            )
        found.append(Property(key.strip(), value, _ARGUMENTS))
    return found


def build(
    kind: type[S],
    properties: Iterable[Property],
    names: Mapping[str, str],
    *,
    base: S | None = None,
) -> S:
    """Return settings of ``kind``, with the fields that ``properties`` name set to their values.

    Args:
        kind: the struct of settings.
        properties: what was said; the last one of a name holds, those not in ``names`` are passed
            over, see ``unknown``.
        names: the name of a property → the field it sets.
        base: what holds where nothing was said; the defaults of ``kind`` if None.

    Raises:
        InvalidSetting: a value is not of its type or range, or contradicts another one.

    """
    declared = {field.name: field.type for field in msgspec.structs.fields(kind)}
    said = {names[one.name]: one for one in properties if one.name in names}
    values = {field: _typed(one, declared[field]) for field, one in said.items()}
    before = {} if base is None else msgspec.structs.asdict(base)
    try:
        return kind(**{**before, **values})
    except InvalidInput as error:
        guilty = said.get(error.field)
        if guilty is None:  # a default that doesn't go with what was said
            files = ", ".join(dict.fromkeys(one.file for one in said.values()))
            raise InvalidSetting(f"{files}: {error}", file=files, field=error.field) from error
        raise _invalid(guilty, str(error)) from error


def texts_of(settings: msgspec.Struct, names: Mapping[str, str]) -> dict[str, str]:
    """Return the values of settings as ``build`` would read them, by the names of properties.

    Of several names for one field the first is taken; nothing is said of an optional that is None.
    """
    found: dict[str, str] = {}
    taken: set[str] = set()
    for name, field in names.items():
        value: object = getattr(settings, field)
        if field not in taken and value is not None:
            taken.add(field)
            found[name] = _text(value)
    return found


def unknown(properties: Iterable[Property], *names: Iterable[str]) -> list[Property]:
    """Return the properties whose names are in none of ``names``: nobody reads them.

    >>> unknown(from_arguments(["listenPort=1", "listenPrt=2"]), ["listenPort"])
    [Property(name='listenPrt', value='2', file='--set', line=0)]
    """
    known = {name for some in names for name in some}
    return [one for one in properties if one.name not in known]


def about_unknown(one: Property, *names: Iterable[str]) -> str:
    """Return the sentence that warns of a property that nobody reads.

    >>> about_unknown(Property("listenPrt", "1", "broker.conf", 7), ["listenPort", "brokerId"])
    'broker.conf:7: listenPrt is not known here and has no effect; did you mean listenPort?'
    """
    known = {name.lower(): name for some in names for name in some}
    nearest = difflib.get_close_matches(one.name.lower(), sorted(known), n=1)
    hint = f"; did you mean {known[nearest[0]]}?" if nearest else ""
    return f"{one} is not known here and has no effect{hint}"


def _typed(one: Property, declared: object) -> object:
    """Return the value of a property as its field's type wants it; blanks around it are cut."""
    text = one.value.strip()
    kind = inspect.type_info(declared)
    optional = isinstance(kind, inspect.UnionType)  # only ever: one type, or None
    if isinstance(kind, inspect.UnionType):
        kind = kind.types[0]
    try:
        match kind:
            case inspect.StrType():
                return msgspec.convert(text, declared) if text or not optional else None
            case inspect.BoolType():
                return {"true": True, "false": False}[text.lower()]
            case inspect.EnumType(cls=names):
                return _member(names, text)
            case inspect.IntType() if not re.fullmatch(r"[+-]?[0-9]{1,19}", text):
                raise ValueError("not a whole number of up to 19 digits")
        value: object = msgspec.convert(text, declared, strict=False)
    except (ValueError, KeyError) as error:
        raise _invalid(one, f"{_shown(one.value)!r} is not {_allowed(kind)}") from error
    return value


def _text(value: object) -> str:
    if isinstance(value, enum.Enum):
        value = value.value
    return str(value).lower() if isinstance(value, bool) else str(value)


def _member(names: type[enum.Enum], text: str) -> enum.Enum:
    return next((one for one in names if one.name == text), None) or names(text)


def _allowed(kind: inspect.Type) -> str:
    match kind:
        case inspect.BoolType():
            return "true or false"
        case inspect.EnumType(cls=names):
            return f"one of {', '.join(str(one.value) for one in names)}"
        case inspect.IntType(ge=None, le=None):
            return "a whole number"
        case inspect.IntType(ge=low, le=high):
            return f"a whole number from {low} to {high}"
        case inspect.FloatType():
            return "a number"
        case _:
            return "allowed here"


def _invalid(one: Property, what: str) -> InvalidSetting:
    return InvalidSetting(f"{one}: {what}", file=one.file, line=one.line, field=one.name)


def _shown(text: str) -> str:
    return text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}…"


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield each line that has an entry, with the lines that continue it, blanks before it cut.

    The number is that of its first line.
    """
    begun: list[str] = []
    first = 0
    for number, natural in enumerate(re.split(r"\r\n|\n|\r", text), start=1):
        line = natural.lstrip(" \t\f")
        if not begun:
            if not line or line[0] in "#!":
                continue
            first = number
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:  # the last one stands alone, and not for a backslash
            begun.append(line[:-1])
            continue
        yield first, "".join((*begun, line))
        begun.clear()
    if begun:
        yield first, "".join(begun)


def _unescape(text: str) -> str:
    return _ESCAPE.sub(_unescaped, text) if "\\" in text else text


def _unescaped(match: re.Match[str]) -> str:
    units, char = match.groups()
    if char == "u":
        raise ValueError("a property has \\u with fewer than four hexadecimal digits after it")
    if char:
        return _NAMED.get(char, char)
    try:
        return bytes.fromhex(units.replace("\\u", "")).decode("utf-16-be")
    except UnicodeDecodeError as error:
        raise ValueError(f"a property has half a character in {units[:24]}") from error
