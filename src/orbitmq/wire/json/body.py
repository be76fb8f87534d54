"""What all JSON bodies share: how one is read from any bytes whatever, and how it is written.

Reading has two steps, so that a program with an event loop can hand the slow one to a worker::

    try:
        body = TopicRouteData.from_json_strict(data)      # C speed, standard JSON only
    except NotStandardJson:
        body = TopicRouteData.from_json_tolerant(data)    # Python; on a worker if is_large(data)

`Body.from_json` does both. Rules for the classes of this package:

- Fields stand in the order of their wire names, the order in which Java writes them.
- A field that is missing has Java's default. Where Java would leave null, a text that names
  something is empty, anything else is None, and None is not written. A field that is null is
  None if it may be, and has its default otherwise.
- Java's sets are tuples here: they keep their order, so that the same value is always the same
  text. Times that Java takes from its clock when they are missing are 0.
"""

import enum
import re
from functools import cache
from typing import NoReturn, Self, TypeVar

import msgspec
from msgspec import inspect

from orbitmq.errors import InvalidBody
from orbitmq.wire.json.fastjson import (
    StandardJson,
    has_reference,
    java_json,
    standard_json,
    without_nulls,
)
from orbitmq.wire.json.queue_map import QueueMap, queue_map_from_builtins

__all__ = ["INLINE_LIMIT", "Body", "NotStandardJson", "is_large"]

INLINE_LIMIT = 16 * 1024
"""Bytes up to which the tolerant reading is quick enough for an event loop: 2 to 3 ms.

What is larger would hold it up for longer than a send should wait.
"""


class NotStandardJson(InvalidBody):
    """The strict reading failed; the tolerant one may succeed, or will say what is wrong."""


def is_large(data: bytes | memoryview) -> bool:
    """Tell whether the tolerant reading of ``data`` belongs on a worker, not on an event loop.

    >>> is_large(b"{}")
    False
    """
    return len(data) > INLINE_LIMIT


B = TypeVar("B", bound="Body")


class Body(msgspec.Struct, frozen=True, rename="camel"):
    """A JSON body of a request or an answer, or a part of one."""

    @classmethod
    def from_json(cls, data: bytes | memoryview) -> Self:
        """Read a body, in standard JSON or as fastjson writes it.

        Raises `InvalidBody` with the path or the byte at fault, whatever the bytes are.
        """
        try:
            return cls.from_json_strict(data)
        except NotStandardJson:
            return cls.from_json_tolerant(data)

    @classmethod
    def from_json_strict(cls, data: bytes | memoryview) -> Self:
        """Read a body in standard JSON, each value of its own type.

        Raises `NotStandardJson` if `from_json_tolerant` should be tried, `InvalidBody` if that
        would fail too.
        """
        try:
            if has_reference(data):
                raise InvalidBody(
                    f"{cls.__name__}: a fastjson $ref stands for a part of the body; the sender"
                    " has to turn it off (SerializerFeature.DisableCircularReferenceDetect)"
                )
            body: Self = _decoder(cls).decode(data)
            return body
        except RecursionError as error:
            raise InvalidBody(f"{cls.__name__}: nested too deep to be read") from error
        except ValueError as error:  # msgspec's errors, and text that is not UTF-8
            raise NotStandardJson(f"{cls.__name__}: {_brief(error)}") from error

    @classmethod
    def from_json_tolerant(cls, data: bytes | memoryview) -> Self:
        """Read a body with everything that Java's reader forgives.

        These are bare and object keys, null for a default, numbers and truth values in quotes, and
        names that an enumeration doesn't have (None). Raises `InvalidBody`.
        """
        standard = standard_json(bytes(data))
        try:
            try:
                body: Self = _decoder(cls).decode(standard.text)
            except msgspec.ValidationError:
                forgiven = _forgive(msgspec.json.decode(standard.text), _type_info(cls))
                body = msgspec.convert(forgiven, cls, strict=False, dec_hook=_queue_map_forgiving)
            return body
        except RecursionError as error:
            raise InvalidBody(f"{cls.__name__}: nested too deep to be read") from error
        except ValueError as error:
            _refuse(cls, standard, error)

    def to_json(self, *, java_keys: bool = False) -> bytes:
        """Return the body as JSON that every Java version reads.

        Numeric keys are quoted, as standard JSON wants, unless ``java_keys``: then the text is
        that of Java, byte for byte, for peers that wait for it. Maps of message queues have
        objects as keys in either case, since Java 5.4 reads nothing else.
        """
        if java_keys:
            return java_json(self)
        return without_nulls(_ENCODER.encode(self))


@cache
def _decoder(cls: type[B]) -> msgspec.json.Decoder[B]:
    return msgspec.json.Decoder(cls, dec_hook=_queue_map_strict)


def _queue_map_strict(kind: object, value: object) -> object:
    return queue_map_from_builtins(kind, value, msgspec.convert)


def _queue_map_forgiving(kind: object, value: object) -> object:
    return queue_map_from_builtins(kind, value, _convert_forgiving)


def _convert_forgiving(value: object, kind: type) -> object:
    # The values of a map of queues are structs and numbers, never such maps again.
    converted: object = msgspec.convert(_forgive(value, _type_info(kind)), kind, strict=False)
    return converted


_type_info = cache(inspect.type_info)


def _forgive(value: object, kind: inspect.Type) -> object:
    """Return ``value`` without nulls that stand for a default or an empty entry of a map.

    Each name that its enumeration doesn't have becomes None. Goes no deeper than the type does.
    """
    match kind, value:
        case inspect.UnionType(types=types), _:  # only ever: one type, or None
            return _forgive(value, types[0])
        case inspect.EnumType(cls=names), str():
            return value if _has_name(names, value) else None
        case inspect.StructType(fields=fields), dict():
            known = {field.encode_name: field.type for field in fields}
            return {
                name: _forgive(item, known[name])
                for name, item in value.items()
                if name in known and (item is not None or _allows_none(known[name]))
            }
        case inspect.DictType(value_type=item_kind), dict():
            return {
                key: _forgive(item, item_kind) for key, item in value.items() if item is not None
            }
        case inspect.VarTupleType(item_type=item_kind), list():
            return [_forgive(item, item_kind) for item in value]
    return value


def _has_name(names: type[enum.Enum], text: str) -> bool:
    return any(member.value == text for member in names)


def _allows_none(kind: inspect.Type) -> bool:
    return isinstance(kind, inspect.UnionType) and kind.includes_none


def _encode_queue_map(value: object) -> msgspec.Raw:
    if not isinstance(value, QueueMap):
        raise TypeError(f"bodies hold no {type(value).__name__}")
    members = (_ENCODER.encode(queue) + b":" + _ENCODER.encode(value[queue]) for queue in value)
    return msgspec.Raw(b"{%b}" % b",".join(members))


_ENCODER = msgspec.json.Encoder(enc_hook=_encode_queue_map)


def _brief(error: ValueError) -> str:
    """Return the words of ``error``, which may quote a value of any length, cut to a line."""
    words = str(error)
    return words if len(words) <= 200 else f"{words[:160]}… ({len(words)} characters)"


def _refuse(cls: type[Body], standard: StandardJson, error: ValueError) -> NoReturn:
    """Raise the `InvalidBody` for ``error``, with the byte it names counted in the original."""
    words, position = _brief(error), 0
    if found := re.search(r"\(byte (\d+)\)$", words):
        position = standard.original_position(int(found[1]))
        words = f"{words[: found.start()]}(byte {position})"
    raise InvalidBody(f"{cls.__name__}: {words}", position=position) from error
