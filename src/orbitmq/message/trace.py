"""Trace messages: reports of clients about messages they sent or consumed.

The body of a trace message is records, as in Java's ``TraceDataEncoder``: U+0001 separates the
fields of a record, and U+0002 ends it. A field without a value is the text ``null``.

The structs below are the layout: their fields, in order, follow the name of the record.
"""

import enum
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final, TypeAlias, get_args

import msgspec
from msgspec.structs import fields

from orbitmq.errors import CorruptRecord, LocalProtocolError
from orbitmq.message.buffer import Buffer

__all__ = [
    "ConsumeOutcome",
    "EndTransaction",
    "MessageKind",
    "Publish",
    "Recall",
    "SubscribeAfter",
    "SubscribeBefore",
    "TraceRecord",
    "decode",
    "encode",
    "index_keys",
]

_FIELD_END: Final = "\x01"
_RECORD_END: Final = "\x02"
_NULL: Final = "null"


class MessageKind(enum.IntEnum):
    """The kind of a sent message; the values are the ordinals of Java's ``MessageType``."""

    NORMAL = 0
    HALF = 1
    COMMITTED = 2
    DELAYED = 3
    ORDERED = 4


class ConsumeOutcome(enum.IntEnum):
    """The outcome of a listener; the values are the ordinals of Java's ``ConsumeReturnType``."""

    SUCCESS = 0
    TIME_OUT = 1
    EXCEPTION = 2
    RETURNED_NULL = 3
    FAILED = 4


class _Fields(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """A record; its tag is its first field."""


class Publish(_Fields, frozen=True, kw_only=True, tag="Pub"):
    """A message was sent, or the send failed."""

    timestamp_ms: int
    region: str
    group: str
    topic: str
    message_id: str
    tags: str | None
    keys: str | None
    store_host: str | None
    body_length: int
    cost_ms: int
    kind: MessageKind
    offset_message_id: str | None
    success: bool
    client_host: str | None = None
    """Written by some older clients; not written if None."""


class SubscribeBefore(_Fields, frozen=True, kw_only=True, tag="SubBefore"):
    """A message is about to be passed to a listener."""

    timestamp_ms: int
    region: str
    group: str
    request_id: str
    message_id: str
    retry_times: int
    keys: str | None


class SubscribeAfter(_Fields, frozen=True, kw_only=True, tag="SubAfter"):
    """A listener has returned; ``request_id`` is that of the ``SubscribeBefore`` record."""

    request_id: str
    message_id: str
    cost_ms: int
    success: bool
    keys: str | None
    outcome: ConsumeOutcome = ConsumeOutcome.SUCCESS
    timestamp_ms: int | None = None
    group: str | None = None
    """If ``timestamp_ms`` is None, both are omitted, as by clients on the CLOUD channel."""


class EndTransaction(_Fields, frozen=True, kw_only=True, tag="EndTransaction"):
    """A transaction was committed or rolled back."""

    timestamp_ms: int
    region: str
    group: str
    topic: str
    message_id: str
    tags: str | None
    keys: str | None
    store_host: str | None
    kind: MessageKind
    transaction_id: str | None
    transaction_state: str
    from_check: bool


class Recall(_Fields, frozen=True, kw_only=True, tag="Recall"):
    """A delayed message was recalled, or the recall failed."""

    timestamp_ms: int
    region: str
    group: str
    topic: str
    message_id: str
    success: bool


TraceRecord: TypeAlias = Publish | SubscribeBefore | SubscribeAfter | EndTransaction | Recall

_KINDS: Final[Mapping[str, type[TraceRecord]]] = MappingProxyType(
    {str(kind.__struct_config__.tag): kind for kind in get_args(TraceRecord)}
)
# "null" means None only in optional fields: a topic may be called null.
_MAY_BE_NULL: Final = {
    name: [place for place, field in enumerate(fields(kind), 1) if field.type == str | None]
    for name, kind in _KINDS.items()
}


def encode(records: Iterable[TraceRecord]) -> bytes:
    r"""Return the body of a trace message with ``records``.

    Half a surrogate pair becomes a question mark, as in Java. Raise LocalProtocolError if a text
    holds a separator, which the format can't escape.

    >>> encode([Recall(timestamp_ms=5, region="eu", group="g", topic="orders",
    ...                message_id="7F01", success=True)])
    b'Recall\x015\x01eu\x01g\x01orders\x017F01\x01true\x02'
    """
    return "".join(_line(record) + _RECORD_END for record in records).encode(errors="replace")


def decode(body: Buffer) -> list[TraceRecord]:
    r"""Return the records in the body of a trace message.

    As in Java, records of unknown kinds are skipped: newer clients may write them. Bytes that are
    not UTF-8 become U+FFFD. Raise CorruptRecord, with the position of the record, if a field is
    missing or unreadable.

    >>> decode(b"Recall\x015\x01eu\x01g\x01orders\x017F01\x01true\x02")[0].topic
    'orders'
    """
    records = []
    position = 0
    for line in bytes(body).split(_RECORD_END.encode()):
        texts = str(line, "utf-8", "replace").split(_FIELD_END)
        if texts[0] in _KINDS:
            records.append(_record(texts, position))
        position += len(line) + 1
    return records


def index_keys(records: Iterable[TraceRecord]) -> list[str]:
    """Return the keys of a trace message: the ids and keys of the messages it is about.

    >>> index_keys([SubscribeBefore(timestamp_ms=5, region="eu", group="g", request_id="r",
    ...                             message_id="7F01", retry_times=0, keys="k1 k2")])
    ['7F01', 'k1', 'k2']
    """
    found: dict[str, None] = {}
    for record in records:
        keys = None if isinstance(record, Recall) else record.keys
        found.update(dict.fromkeys([record.message_id, *(keys or "").split()]))
    return list(found)


def _line(record: TraceRecord) -> str:
    name, *values = msgspec.to_builtins(record)
    texts = [name, *map(_text, record.__struct_fields__, values)]
    if isinstance(record, Publish) and record.client_host is None:
        texts.pop()
    if isinstance(record, SubscribeAfter) and record.timestamp_ms is None:
        texts[-2:] = [""]  # Java writes the separator before it checks
    return _FIELD_END.join(texts)


def _text(field: str, value: str | int | None) -> str:
    if value is None:
        return _NULL
    if isinstance(value, bool):
        return "true" if value else "false"
    text = str(value)
    if _FIELD_END in text or _RECORD_END in text:
        raise LocalProtocolError(
            f"{field}: a text of {len(text)} characters holds U+0001 or U+0002, which separate "
            "trace fields and records; take it out"
        )
    return text


def _record(texts: list[str], position: int) -> TraceRecord:
    name = texts[0]
    values: list[str | None] = [*texts]
    if name == "Pub" and len(values) == 13:
        values.insert(12, None)  # old clients wrote no offset id
    if name == "SubAfter" and values[7:] == [""]:
        values.pop()
    for place in _MAY_BE_NULL[name]:
        if place < len(values) and values[place] == _NULL:
            values[place] = None
    try:
        return msgspec.convert(values, _KINDS[name], strict=False)
    except msgspec.ValidationError as error:
        raise CorruptRecord(
            f"{name} record at byte {position} of a trace body: {error} "
            f"({len(texts)} fields, of which $[0] is the name)",
            position=position,
        ) from None
