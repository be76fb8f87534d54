r"""Settings: property files and ``key=value`` arguments, converted to typed values, and saved.

Files have the format of ``java.util.Properties.load``, so that RocketMQ's files work unchanged: a
key ends at the first ``=``, ``:`` or blank without a backslash before it; a line that begins with
``#`` or ``!`` is a comment; a backslash at the end of a line continues it on the next; ``\n``,
``\t``, ``\r``, ``\f`` and ``\uXXXX`` are escapes, and a backslash before any other character is
dropped.

A room with settings declares them as a struct, with a table of properties and fields::

    properties = [*read("broker.conf"), *from_arguments(["listenPort=0"])]
    settings = build(BrokerSettings, properties, JAVA_NAMES)
    for one in unknown(properties, JAVA_NAMES):
        log.warning("%s", about_unknown(one, JAVA_NAMES))

Java silently uses the default for an unreadable value; here it is an error with file, line and key.

``save`` writes changed values back to a file. Java's servers write all their settings, sorted; here
only the changed lines are different afterwards, so that comments and order stay::

    broker.conf.tmp ── synced, renamed ──▶ broker.conf.bak   the version before
    broker.conf.tmp ── synced, renamed ──▶ broker.conf       at no moment is there none
"""

import difflib
import enum
import fcntl
import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple, TypeVar

import msgspec
from msgspec import inspect

from orbitmq.errors import DiskFailed, InvalidInput, InvalidSetting

__all__ = [
    "Property",
    "about_unknown",
    "build",
    "content",
    "environment",
    "from_arguments",
    "parse",
    "read",
    "save",
    "texts_of",
    "to_line",
    "unknown",
    "with_changes",
]

_FILE_BYTES_MAX: Final = 1024 * 1024
"""RocketMQ's largest file has about 20 KiB; a larger one is not a file of settings."""
_SHOWN_MAX: Final = 60

_ENTRY: Final = re.compile(
    r"(?P<key>(?:[^\\=: \t\f]|\\.)*+)"  # up to the first unescaped separator
    r"[ \t\f]*+[=:]?+[ \t\f]*+"
    r"(?P<value>.*)",
    re.DOTALL,
)
# Characters beyond the basic plane are two escapes, so consecutive ones are decoded together.
_ESCAPE: Final = re.compile(r"((?:\\u[0-9A-Fa-f]{4})++)|\\(.)", re.DOTALL)
_NAMED: Final = {"n": "\n", "t": "\t", "r": "\r", "f": "\f"}
_TO_ESCAPE: Final = {"\\": r"\\", "\n": r"\n", "\t": r"\t", "\r": r"\r", "\f": r"\f"}
_TO_ESCAPE_IN_KEY: Final = {
    **_TO_ESCAPE, "=": r"\=", ":": r"\:", " ": r"\ ", "#": r"\#", "!": r"\!"
}  # fmt: skip
_LINE: Final = re.compile(r"[^\r\n]*(?:\r\n|\n|\r)|[^\r\n]+")
_BACKUP: Final = ".bak"
_UNFINISHED: Final = ".tmp"
_ARGUMENTS: Final = "--set"

S = TypeVar("S", bound=msgspec.Struct)


class Property(NamedTuple):
    """One ``key=value`` with its file and line; the line is 0 for an argument.

    >>> print(Property("listenPort", "10911", "broker.conf", 3))
    broker.conf:3: listenPort
    """

    name: str
    value: str
    file: str
    line: int = 0

    @property
    def place(self) -> str:
        """Where it comes from: file and line, or ``--set``."""
        return f"{self.file}:{self.line}" if self.line else self.file

    def __str__(self) -> str:
        is_option = self.file.startswith("--") and self.file != _ARGUMENTS
        return self.file if is_option else f"{self.place}: {_shown(self.name)}"


def read(path: str) -> list[Property]:
    """Return the properties of a file, in the order of its lines.

    Raises:
        InvalidSetting: the file is missing, or is not a property file in UTF-8.
    """
    try:
        with open(path, "rb") as file:
            data = file.read(_FILE_BYTES_MAX + 1)
    except OSError as error:
        raise InvalidSetting(f"{path} can't be read: {error.strerror}", file=path) from error
    if len(data) > _FILE_BYTES_MAX:
        raise InvalidSetting(
            f"{path} has more than {_FILE_BYTES_MAX} bytes; it is not a file of settings", file=path
        )
    try:
        return parse(data.decode(), path)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InvalidSetting(
            f"{path}:{line}: byte {error.start} of the file is not UTF-8", file=path, line=line
        ) from error


def content(path: str, key: str) -> bytes:
    """Return what is in the file that the setting ``key`` names, such as a certificate.

    Raises:
        InvalidInput: the file can't be read.
    """
    try:
        with open(path, "rb") as file:
            return file.read(_FILE_BYTES_MAX)
    except OSError as error:
        raise InvalidInput(f"{key}: {path} can't be read: {error.strerror}", field=key) from error


def environment(name: str) -> str:
    """Return an environment variable without blanks around it; empty if it is not set.

    >>> environment("NO_SUCH_VARIABLE_HERE")
    ''
    """
    return os.environ.get(name, "").strip()


def parse(text: str, file: str) -> list[Property]:
    r"""Return the properties of a text, in the order of its lines; ``file`` is only for errors.

    A repeated key is returned each time; ``build`` uses the last one.

    >>> parse("# a comment\nnames : a,\\\n   b\n", "broker.conf")
    [Property(name='names', value='a,b', file='broker.conf', line=2)]

    Raises:
        InvalidSetting: an escape is incomplete.
    """
    found = []
    for number, line in _logical_lines(text):
        entry = _ENTRY.fullmatch(line)
        assert entry is not None  # each part may be empty, and the last matches anything
        try:
            key, value = _unescape(entry["key"]), _unescape(entry["value"])
        except ValueError as error:
            raise InvalidSetting(f"{file}:{number}: {error}", file=file, line=number) from error
        found.append(Property(key, value, file, number))
    return found


def from_arguments(arguments: Iterable[str]) -> list[Property]:
    """Return the properties of ``--set key=value`` arguments; these have no escapes.

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


def to_line(name: str, value: str) -> str:
    r"""Return a property as a line, escaped only where Java needs it.

    Java's servers escape nothing, and misread their own backslashes. They would read other
    characters than ASCII as Latin-1 (``MixAll.string2Properties``), so those are escaped.

    >>> to_line("brokerName", "a=b")
    'brokerName=a=b\n'
    """
    escaped = _escape(value, _TO_ESCAPE)
    blank = "\\" if escaped.startswith(" ") else ""
    return f"{_escape(name, _TO_ESCAPE_IN_KEY)}={blank}{escaped}\n"


def with_changes(text: str, changes: Mapping[str, str]) -> str:
    r"""Return the text of a property file with other values; new names are added at its end.

    >>> with_changes("# queues\nqueues=8\nname=a\n", {"queues": "4", "port": "1"})
    '# queues\nqueues=4\nname=a\nport=1\n'
    """
    lines = _LINE.findall(text)
    if lines and not lines[-1].endswith(("\n", "\r")):
        lines[-1] += "\n"
    if lines and _continues(lines[-1]):  # an added line would be part of its value
        lines.append("\n\n")
    added = dict(changes)
    for one in parse(text, "settings"):
        if one.name not in changes:
            continue
        added.pop(one.name, None)
        first = last = one.line - 1
        while _continues(lines[last]) and last + 1 < len(lines):
            lines[last] = ""
            last += 1
        lines[last] = ""
        lines[first] = to_line(one.name, changes[one.name])
    return "".join((*lines, *(to_line(*item) for item in added.items())))


def save(path: str, changes: Mapping[str, str]) -> None:
    """Write changed properties to a file; return when it is on disk. It blocks.

    A crash leaves the old version or the new one. The old one is kept as ``.bak``. Raise DiskFailed
    if the file can't be read or written, and InvalidSetting if it is not a property file any more.
    """
    real = os.path.realpath(path)  # a link stays a link
    try:
        if not stat.S_ISREG(os.stat(real).st_mode):  # a new file would take the place of a device
            raise InvalidSetting(f"{path} is no regular file, so changes can't be saved", file=path)
        directory = os.open(os.path.dirname(real), os.O_RDONLY | os.O_DIRECTORY)
        try:
            # Several brokers may have the same file, and mqadmin changes all at once.
            fcntl.flock(directory, fcntl.LOCK_EX)
            with open(real, "rb") as file:
                mode, data = os.fstat(file.fileno()).st_mode, file.read()
            text = _changed(path, data, changes).encode()
            _replace(real + _BACKUP, data, mode, directory)
            _replace(real, text, mode, directory)
        finally:
            os.close(directory)
    except OSError as error:
        raise DiskFailed(
            f"{path} can't be changed: {error.strerror}", path=path, errno=error.errno or 0
        ) from error


def _changed(path: str, data: bytes, changes: Mapping[str, str]) -> str:
    try:
        text = with_changes(data.decode(), changes)
    except UnicodeDecodeError as error:
        raise InvalidSetting(f"{path} is not UTF-8 any more", file=path) from error
    if len(text) > _FILE_BYTES_MAX:  # the next start would refuse it
        raise InvalidSetting(f"{path} would have more than {_FILE_BYTES_MAX} bytes", file=path)
    return text


def _replace(path: str, data: bytes, mode: int, directory: int) -> None:
    unfinished = path + _UNFINISHED
    with open(unfinished, "wb") as file:
        os.fchmod(file.fileno(), stat.S_IMODE(mode))
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.replace(unfinished, path)
    os.fsync(directory)


def build(
    kind: type[S],
    properties: Iterable[Property],
    names: Mapping[str, str],
    *,
    base: S | None = None,
) -> S:
    """Return a struct of settings, with the values of properties.

    Args:
        kind: the struct.
        properties: the properties; the last one of a name counts, and names that are not in
            ``names`` are ignored, see ``unknown``.
        names: property → the field it sets.
        base: the values of all other fields; their defaults if None.

    Raises:
        InvalidSetting: a value has the wrong type, is out of range, or contradicts another one.
    """
    declared = {field.name: field.type for field in msgspec.structs.fields(kind)}
    given = {names[one.name]: one for one in properties if one.name in names}
    values = {field: _typed(one, declared[field]) for field, one in given.items()}
    before = {} if base is None else msgspec.structs.asdict(base)
    try:
        return kind(**{**before, **values})
    except InvalidInput as error:
        cause = given.get(error.field)
        if cause is None:  # a default that contradicts a given value
            files = ", ".join(dict.fromkeys(one.file for one in given.values()))
            raise InvalidSetting(f"{files}: {error}", file=files, field=error.field) from error
        # The property is named; the field may have another name, and would be a second one.
        raise _invalid(cause, str(error).removeprefix(f"{error.field}: ")) from error


def texts_of(settings: msgspec.Struct, names: Mapping[str, str]) -> dict[str, str]:
    """Return settings as properties that ``build`` can read.

    A field with several properties is returned under the first; one that is None is left out.
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
    """Return the properties whose names are in none of ``names``, and so have no effect.

    >>> unknown(from_arguments(["listenPort=1", "listenPrt=2"]), ["listenPort"])
    [Property(name='listenPrt', value='2', file='--set', line=0)]
    """
    known = {name for some in names for name in some}
    return [one for one in properties if one.name not in known]


def about_unknown(one: Property, *names: Iterable[str]) -> str:
    """Return a warning about an unknown property, with a similar name if there is one.

    >>> about_unknown(Property("listenPrt", "1", "broker.conf", 7), ["listenPort", "brokerId"])
    'broker.conf:7: listenPrt is not known here and has no effect; did you mean listenPort?'
    """
    known = {name.lower(): name for some in names for name in some}
    nearest = difflib.get_close_matches(one.name.lower(), sorted(known), n=1)
    hint = f"; did you mean {known[nearest[0]]}?" if nearest else ""
    return f"{one} is not known here and has no effect{hint}"


def _typed(one: Property, declared: object) -> object:
    """Return the value of a property, stripped and converted to the type of its field."""
    text = one.value.strip()
    kind = inspect.type_info(declared)
    optional = isinstance(kind, inspect.UnionType)  # unions here are one type or None
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
            words = (one.name if isinstance(one.value, int) else one.value for one in names)
            return f"one of {', '.join(words)}"
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
    """Yield each entry with its first line number, continuation lines joined."""
    begun: list[str] = []
    first = 0
    for number, natural in enumerate(re.split(r"\r\n|\n|\r", text), start=1):
        line = natural.lstrip(" \t\f")
        if not begun:
            if not line or line[0] in "#!":
                continue
            first = number
        if _continues(line):
            begun.append(line[:-1])
            continue
        yield first, "".join((*begun, line))
        begun.clear()
    if begun:
        yield first, "".join(begun)


def _continues(line: str) -> bool:
    """Return whether an entry goes on in the next line: the last backslash is not escaped."""
    line = line.rstrip("\r\n")
    return bool((len(line) - len(line.rstrip("\\"))) % 2)


def _escape(text: str, escapes: Mapping[str, str]) -> str:
    return "".join(escapes.get(char) or _ascii(char) for char in text)


def _ascii(char: str) -> str:
    if char.isascii():
        return char
    units = char.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))


def _unescape(text: str) -> str:
    return _ESCAPE.sub(_unescaped, text) if "\\" in text else text


def _unescaped(match: re.Match[str]) -> str:
    units, char = match.groups()
    if char == "u":
        raise ValueError("\\u must be followed by four hexadecimal digits")
    if char:
        return _NAMED.get(char, char)
    try:
        return bytes.fromhex(units.replace("\\u", "")).decode("utf-16-be")
    except UnicodeDecodeError as error:
        raise ValueError(f"{units[:24]} contains half of a surrogate pair") from error
