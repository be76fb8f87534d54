"""Extension fields: how the typed headers of requests and answers travel as texts.

A header is declared once, as a struct whose attributes carry RocketMQ's wire names, types and
which of them must be there. On the wire every value is a text, whatever its type::

    SearchOffset(topic="orders", queue_id=0, timestamp=1700000000000)
    {"topic": "orders", "queueId": "0", "timestamp": "1700000000000"}

Three laws:

- What a peer adds beyond the declared fields is skipped. A later release may know more than we.
- A number is bounded by its Java type. The lenient decoder would take an integer of any size.
- A missing required field is an error that names it. Java logs it, leaves null and fails later.
  To be no stricter than the servers it stands in for, a declaration marks as required only what
  clients of 4.9 and later always send.
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
    """Makes every header class frozen, keyword-only and named in camel case on the wire.

    Struct options are given class by class; said here, a hundred declarations need not repeat them.
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
    """The request code this header asks with, unless the caller names a sibling code."""

    def to_texts(self) -> dict[str, str]:
        """Return the fields that are set, each value as the text that travels."""
        # The first call of a class compiles its writer, which then takes this method's place.
        cls = type(self)
        write = _compile_writer(cls)
        setattr(cls, "to_texts", write)  # noqa: B010 - mypy holds a method for fixed
        return write(self)

    def to_json(self) -> bytes:
        """Return the same as a JSON object, which is how it stands in the header of a frame.

        Raises:
            UnicodeEncodeError: a text holds half of a surrogate pair.

        """
        return _write_json(self.to_texts())

    @classmethod
    def from_json(cls, raw: msgspec.Raw | bytes | memoryview) -> Self:
        """Read the fields out of the JSON object of a frame header.

        Raises:
            InvalidHeader: a required field is missing, or a value is not of its type.

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
        """Read the fields out of a mapping of texts, as the binary header carries them.

        Raises:
            InvalidHeader: a required field is missing, or a value is not of its type.

        """
        try:
            return msgspec.convert(texts, cls, strict=False)
        except (ValueError, RecursionError) as error:
            raise cls._fault(error) from error

    @classmethod
    def _fault(cls, error: Exception) -> InvalidHeader:
        """Say which field is at fault; the decoder names it between back quotes."""
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
    """Compile the function that turns a header of one class into texts.

    A loop over the fields costs three times as much, on every frame that leaves; straight code is
    what one would write by hand for each class.
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


# The expression that makes a field's text, by its declared type. Java writes booleans small.
_TEXT_OF: Final = {
    inspect.StrType: "{}",
    inspect.IntType: "str({})",
    inspect.BoolType: "('true' if {} else 'false')",
}


def _alternatives(declared: inspect.Type) -> list[inspect.Type]:
    return list(declared.types) if isinstance(declared, inspect.UnionType) else [declared]


@cache
def _decoder_of(header: type[_H]) -> msgspec.json.Decoder[_H | None]:
    # Some peers write null where they have no fields.
    return msgspec.json.Decoder(header | None, strict=False)


class RpcHeader(Header):
    """Fields that most requests may carry: namespace of the second kind, broker, one-way mark."""

    namespace: str | None = msgspec.field(default=None, name="ns")
    namespaced: bool | None = msgspec.field(default=None, name="nsd")
    target_broker: str | None = msgspec.field(default=None, name="bname")
    oneway: bool | None = msgspec.field(default=None, name="oway")


class TopicHeader(RpcHeader):
    """What requests about a topic may carry besides: the mark of a logical queue."""

    logical: bool | None = msgspec.field(default=None, name="lo")


class NoFields(Header):
    """The header of requests and answers that have no fields of their own."""


_HeaderT = TypeVar("_HeaderT", bound=type[Header])
REQUESTS: Final[dict[int, type[Header]]] = {}
ANSWERS: Final[dict[int, type[Header]]] = {}
"""What is declared, by request code; complete once ``orbitmq.wire.headers`` is imported."""


def declares(
    *codes: RequestCode, answer: type[Header] = NoFields
) -> Callable[[_HeaderT], _HeaderT]:
    """Mark a header class as what requests of these codes carry; the first code is its own.

    Args:
        codes: the request codes; a second one is a sibling with the same fields.
        answer: the header of a successful answer.

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
    """Declare requests that carry no fields, or whose content is all in the body."""
    for code in codes:
        if code in REQUESTS:
            raise TypeError(f"{name_of_request(code)} is declared twice")
        REQUESTS[code] = NoFields
        ANSWERS[code] = answer
