"""Extension fields: the typed headers of requests and answers, encoded as texts.

A header is declared once, as a struct with RocketMQ's wire names, the types, and which fields are
required. On the wire every value is a text::

    SearchOffset(topic="orders", queue_id=0, timestamp=1700000000000)
    {"topic": "orders", "queueId": "0", "timestamp": "1700000000000"}

Rules:

- Unknown fields are skipped: a later release may have more.
- A number must fit its Java type; the lenient decoder would accept an integer of any size.
- A missing required field is an error that names it. Java logs it, leaves null and fails later. To
  be no stricter than Java's servers, only fields that clients of 4.9 and later always send are
  required.
"""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Annotated, ClassVar, Final, Self, TypeVar, dataclass_transform

import msgspec
from msgspec import inspect

from orbitmq.errors import InvalidHeader
from orbitmq.wire.codes import RequestCode, name_of_request

__all__ = [
    "Header",
    "Int32",
    "Int64",
    "RpcHeader",
    "TopicHeader",
    "declares",
]

INT32_MIN, INT32_MAX = -(2**31), 2**31 - 1
INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1

Int32 = Annotated[int, msgspec.Meta(ge=INT32_MIN, le=INT32_MAX)]
Int64 = Annotated[int, msgspec.Meta(ge=INT64_MIN, le=INT64_MAX)]


_write_json: Final = msgspec.json.Encoder().encode


class _Declaration(msgspec.StructMeta):
    """Makes every header class frozen, keyword-only and camel case on the wire.

    msgspec doesn't inherit struct options; this saves repeating them in a hundred classes.
    """

    def __new__(
        mcls,
        name: str,
        bases: tuple[type, ...],
        namespace: dict[str, object],
        *,
        frozen: bool = True,
    ) -> "_Declaration":
        return super().__new__(
            mcls, name, bases, namespace, frozen=frozen, kw_only=True, rename="camel", gc=False
        )


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(msgspec.field,))
class Header(msgspec.Struct, metaclass=_Declaration, frozen=True):
    """The typed fields of one kind of request or answer.

    >>> from orbitmq.wire.headers.offset import SearchOffset
    >>> SearchOffset(topic="orders", queue_id=0, timestamp=1).to_texts()
    {'topic': 'orders', 'queueId': '0', 'timestamp': '1'}
    """

    code: ClassVar[int] = 0
    """The request code of this header, unless the caller passes another one."""

    def to_texts(self) -> dict[str, str]:
        """Return the fields that are set, as texts by their wire names."""
        # The first call compiles a writer for the class, which replaces this method.
        cls = type(self)
        write = _compile_writer(cls)
        setattr(cls, "to_texts", write)  # noqa: B010 - mypy refuses to assign a method
        return write(self)

    def to_json(self) -> bytes:
        """Return the fields that are set as a JSON object, as in the header of a frame.

        Raise UnicodeEncodeError if a text holds half of a surrogate pair.
        """
        return _write_json(self.to_texts())

    @classmethod
    def from_json(cls, raw: msgspec.Raw | bytes | memoryview) -> Self:
        """Decode the fields from the JSON object of a frame header.

        Raise InvalidHeader if a required field is missing, or a value is not of its type.
        """
        try:
            decoder: msgspec.json.Decoder[Self | None] = _decoder_of(cls)
            found = decoder.decode(raw)
            return msgspec.convert({}, cls) if found is None else found
        except (ValueError, RecursionError) as error:
            # ValueError is the base of msgspec's errors, of bad UTF-8, and of too many digits.
            raise cls._fault(error) from error

    @classmethod
    def from_texts(cls, texts: Mapping[str, str | None]) -> Self:
        """Decode the fields from texts, as in the binary header; raise as ``from_json`` does."""
        try:
            return msgspec.convert(texts, cls, strict=False)
        except (ValueError, RecursionError) as error:
            raise cls._fault(error) from error

    @classmethod
    def _fault(cls, error: Exception) -> InvalidHeader:
        """Return the error with the name of the field, which the decoder puts in back quotes."""
        text = str(error)
        quoted = text.split("`")
        name = None
        if text.startswith("Object missing required field"):
            name, what = quoted[1], "is missing"
        elif text.endswith("`") and quoted[-2].startswith("$."):
            name, what = quoted[-2][2:], text[: text.rindex(" - at ")]
        else:
            return InvalidHeader(f"{cls.__name__}: the extension fields can't be read: {text}")
        attribute = dict(zip(cls.__struct_encode_fields__, cls.__struct_fields__, strict=True))
        known_as = attribute.get(name, name)
        shown = name if known_as == name else f"{name} ({known_as})"
        return InvalidHeader(f"{cls.__name__}: field {shown}: {what}", field=name)


_H = TypeVar("_H", bound=Header)


def _compile_writer(header: type[_H]) -> Callable[[_H], dict[str, str]]:
    """Compile the function that encodes headers of one class as texts.

    A loop over the fields takes three times as long, and this runs for every frame sent.
    """
    always, sometimes = [], []
    for field in inspect.type_info(header).fields:  # type: ignore[attr-defined]
        plain = [
            kind for kind in _alternatives(field.type) if not isinstance(kind, inspect.NoneType)
        ]
        text = _TEXT_OF[type(plain[0])]
        if plain == _alternatives(field.type):
            always.append(f"{field.encode_name!r}: {text.format(f'header.{field.name}')}")
        else:
            sometimes.append(
                f"    if (value := header.{field.name}) is not None:\n"
                f"        texts[{field.encode_name!r}] = {text.format('value')}\n"
            )
    body = f"    texts = {{{', '.join(always)}}}\n{''.join(sometimes)}    return texts\n"
    scope: dict[str, Callable[[_H], dict[str, str]]] = {}
    exec(f"def write(header):\n{body}", scope)
    return scope["write"]


# The expression for a field's text, by its declared type. Java writes booleans in lower case.
_TEXT_OF: Final = {
    inspect.StrType: "{}",
    inspect.IntType: "str({})",
    inspect.BoolType: "('true' if {} else 'false')",
}


def _alternatives(declared: inspect.Type) -> list[inspect.Type]:
    return list(declared.types) if isinstance(declared, inspect.UnionType) else [declared]


@cache
def _decoder_of(header: type[_H]) -> msgspec.json.Decoder[_H | None]:
    # Some peers write null if they have no fields.
    return msgspec.json.Decoder(header | None, strict=False)


class RpcHeader(Header):
    """Fields that most requests may have: namespace (version 2), broker, one-way mark."""

    namespace: str | None = msgspec.field(default=None, name="ns")
    namespaced: bool | None = msgspec.field(default=None, name="nsd")
    target_broker: str | None = msgspec.field(default=None, name="bname")
    oneway: bool | None = msgspec.field(default=None, name="oway")


class TopicHeader(RpcHeader):
    """A further field that requests about a topic may have: the mark of a logical queue."""

    logical: bool | None = msgspec.field(default=None, name="lo")


class NoFields(Header):
    """The header of requests and answers without fields."""


_HeaderT = TypeVar("_HeaderT", bound=type[Header])
REQUESTS: Final[dict[int, type[Header]]] = {}
ANSWERS: Final[dict[int, type[Header]]] = {}
"""The declared headers by request code; complete after importing ``orbitmq.wire.headers``."""


def declares(
    *codes: RequestCode, answer: type[Header] = NoFields
) -> Callable[[_HeaderT], _HeaderT]:
    """Declare a class as the header of requests with these codes; the first is the default.

    All codes have the same fields; ``answer`` is the header of a successful answer.
    """

    def mark(header: _HeaderT) -> _HeaderT:
        header.code = int(codes[0])
        for code in codes:
            if code in REQUESTS:
                raise TypeError(f"{name_of_request(code)} is declared twice")
            REQUESTS[code] = header
            ANSWERS[code] = answer
        return header

    return mark


def without_fields(*codes: RequestCode, answer: type[Header] = NoFields) -> None:
    """Declare requests without fields; they may have a body."""
    for code in codes:
        if code in REQUESTS:
            raise TypeError(f"{name_of_request(code)} is declared twice")
        REQUESTS[code] = NoFields
        ANSWERS[code] = answer
