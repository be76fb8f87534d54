"""The base of all JSON bodies: decoding in two steps, and encoding.

There are two steps, so that a program with an event loop can run the slow one on a worker::

    try:
        body = TopicRouteData.from_json_strict(data)      # in C, standard JSON only
    except NotStandardJson:
        body = TopicRouteData.from_json_tolerant(data)    # Python; on a worker if is_large(data)

`Body.from_json` does both. Rules for the classes of this package:

- Fields are in the order of their wire names, as Java writes them.
- A missing field has Java's default. Where Java would leave null, a name is empty and anything else
  is None, which is not written. A null field is None if its type allows it, else the default.
- Java's sets are tuples here, so that equal values have equal texts. Missing times are 0; Java uses
  the current time.
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
"""The largest body for tolerant decoding on an event loop: it takes 2 to 3 ms."""


class NotStandardJson(InvalidBody):
    """Strict decoding failed; tolerant decoding may succeed, or raises the actual error."""


def is_large(data: bytes | memoryview) -> bool:
    """Return whether ``data`` is too large for tolerant decoding on an event loop.

    >>> is_large(b"{}")
    False
    """
    return len(data) > INLINE_LIMIT


B = TypeVar("B", bound="Body")


class Body(msgspec.Struct, frozen=True, rename="camel"):
    """The JSON body of a request or an answer, or a part of it."""

    @classmethod
    def from_json(cls, data: bytes | memoryview) -> Self:
        """Decode a body, in standard JSON or fastjson's dialect.

        Raises `InvalidBody` with the path or the byte at fault.
        """
        try:
            return cls.from_json_strict(data)
        except NotStandardJson:
            return cls.from_json_tolerant(data)

    @classmethod
    def from_json_strict(cls, data: bytes | memoryview) -> Self:
        """Decode a body in standard JSON, with every value of its type.

        Raises `NotStandardJson` if `from_json_tolerant` may succeed, else `InvalidBody`.
        """
        try:
            if has_reference(data):
                raise InvalidBody(
                    f"{cls.__name__}: a fastjson $ref replaces a part of the body; the sender"
                    " has to turn that off (SerializerFeature.DisableCircularReferenceDetect)"
                )
            body: Self = _decoder(cls).decode(data)
            return body
        except RecursionError as error:
            raise InvalidBody(f"{cls.__name__}: nested too deeply") from error
        except ValueError as error:  # msgspec's errors, and text that is not UTF-8
            raise NotStandardJson(f"{cls.__name__}: {_brief(error)}") from error

    @classmethod
    def from_json_tolerant(cls, data: bytes | memoryview) -> Self:
        """Decode a body with everything that Java's reader tolerates.

        That is bare and object keys, null for a default, quoted numbers and booleans, and unknown
        names of an enumeration (None). Raises `InvalidBody`.
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
            raise InvalidBody(f"{cls.__name__}: nested too deeply") from error
        except ValueError as error:
            _refuse(cls, standard, error)

    def to_json(self, *, java_keys: bool = False) -> bytes:
        """Return the body as JSON that every Java version reads.

        Numeric keys are quoted, as in standard JSON. With ``java_keys`` the text is Java's, byte
        for byte, for peers that expect it. Maps of message queues always have objects as keys,
        since Java 5.4 reads nothing else.
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
    """Return ``value`` without nulls that mean a default or an empty entry of a map.

    Unknown names of an enumeration become None. The recursion is as deep as the type.
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
        raise TypeError(f"bodies can't hold a {type(value).__name__}")
    members = (_ENCODER.encode(queue) + b":" + _ENCODER.encode(value[queue]) for queue in value)
    return msgspec.Raw(b"{%b}" % b",".join(members))


_ENCODER = msgspec.json.Encoder(enc_hook=_encode_queue_map)


def _brief(error: ValueError) -> str:
    """Return the text of ``error``, shortened, since it may quote a long value."""
    words = str(error)
    return words if len(words) <= 200 else f"{words[:160]}… ({len(words)} characters)"


def _refuse(cls: type[Body], standard: StandardJson, error: ValueError) -> NoReturn:
    """Raise the `InvalidBody` for ``error``, with its byte position in the original text."""
    words, position = _brief(error), 0
    if found := re.search(r"\(byte (\d+)\)$", words):
        position = standard.original_position(int(found[1]))
        words = f"{words[: found.start()]}(byte {position})"
    raise InvalidBody(f"{cls.__name__}: {words}", position=position) from error
