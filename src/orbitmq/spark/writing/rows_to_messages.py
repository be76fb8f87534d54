"""Converts rows of an Arrow batch to messages, and rejects those that can't be one.

::

    RecordBatch ──▶ rows ──▶ ids ──▶ message and queue of each row
                                └──▶ or a rejected row, and its dead letter

A row is rejected for its content: no value, an invalid topic, a queue that doesn't exist; or a
broker refuses the content when it is sent. A broker that can't be reached is no reason to reject a
row.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import repeat
from typing import Any, Final, NamedTuple

import msgspec
import pyarrow as pa

from orbitmq.errors import InvalidInput
from orbitmq.errors.spark import RejectedRow
from orbitmq.message import names, properties
from orbitmq.message.model import Message, MessageQueue
from orbitmq.spark.writing.stable_ids import ORBIT_ID, StableIds

__all__ = [
    "REJECT_BODY",
    "REJECT_COLUMN",
    "REJECT_REASON",
    "REJECT_TOPIC",
    "MessageBatch",
    "RowConverter",
    "WriteRow",
    "dead_letter_of",
    "refused_row",
    "without_value",
]

REJECT_REASON: Final = "ORBIT_REJECT_REASON"
"""Property of a dead letter: why the row was rejected."""
REJECT_COLUMN: Final = "ORBIT_REJECT_COLUMN"
"""Property of a dead letter: the column at fault."""
REJECT_TOPIC: Final = "ORBIT_REJECT_TOPIC"
"""Property of a dead letter: the topic of the row, if it has one."""
REJECT_BODY: Final = "ORBIT_REJECT_BODY"
"""Property of a dead letter: whether its body is the row's ``value`` or, else, the ``reason``."""

_DELAY_LEVEL_MAX: Final = 18
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_TEXT_MAX: Final = 1_000
# What a producer adds to the properties of a message: its unique id, WAIT, a namespace.
_ADDED_BYTES: Final = 256
_CHARACTER_BYTES_MAX: Final = 4
_COLUMN_OF: Final = {"body": "value", "keys": "key"}
_PROPERTY_OF: Final = {
    "key": properties.KEYS,
    "tags": properties.TAGS,
    "sharding_key": properties.SHARDING_KEY,
}
"""Columns of a write, and the properties that a message which was read has instead."""
_MAP_OF_BYTES: Final = pa.map_(pa.large_binary(), pa.large_binary())

_Faults = dict[int, InvalidInput]
"""Errors found while columns are read, by the index of the row."""


class WriteRow(NamedTuple):
    """The columns of the write schema in one row, as they are hashed; None: no value."""

    topic: str | None
    value: bytes | None
    key: str | None
    tags: str | None
    properties: list[tuple[str, str]] | None
    queue_id: int | None
    sharding_key: str | None
    delay_level: int | None
    deliver_at: int | None
    """In microseconds since 1970."""


class MessageBatch(msgspec.Struct):
    """The messages of one batch of rows, including dead letters.

    ``queues`` has the queue of each message, None if it is chosen by the sharding key or
    round-robin; ``numbers`` the row number of each in the task.
    """

    messages: list[Message] = msgspec.field(default_factory=list)
    queues: list[MessageQueue | None] = msgspec.field(default_factory=list)
    numbers: list[int] = msgspec.field(default_factory=list)
    rejected: list[RejectedRow] = msgspec.field(default_factory=list)
    row_count: int = 0


class RowConverter:
    """Converts the rows of one task.

    ``queues_of`` returns the queues of a topic that can be written to. ``topic`` is for rows that
    have none. ``id_column`` has the ids of rows; None: ``ids`` computes them. Rejected rows go to
    the topic ``dead_letters``; None: there are no dead letters.
    """

    def __init__(
        self,
        ids: StableIds,
        queues_of: Callable[[str], Sequence[MessageQueue]],
        *,
        topic: str | None = None,
        id_column: str | None = None,
        dead_letters: str | None = None,
    ) -> None:
        self._ids = ids
        self._queues_of = queues_of
        self._topic = topic
        self._id_column = id_column
        self._dead_letters = dead_letters
        self._row_count = 0
        self._queues: dict[str, dict[int, MessageQueue]] = {}

    def convert(self, batch: pa.RecordBatch) -> MessageBatch:
        """Return the messages of the next rows of the task."""
        self._queues.clear()  # they may have changed since the last batch
        faults: _Faults = {}
        rows = list(map(WriteRow, *_columns(batch, self._topic, faults)))
        lacking = _PROPERTY_OF.keys() - set(batch.schema.names)
        converted = MessageBatch(row_count=len(rows))
        add, place, number_of = (
            converted.messages.append,
            converted.queues.append,
            converted.numbers.append,
        )
        first = self._row_count
        for number, (row, row_id) in enumerate(
            zip(rows, self._row_ids(batch, rows, faults), strict=True), start=first
        ):
            if row.properties:
                row = _with_own_properties(row, lacking)
            try:
                if number - first in faults:
                    raise faults[number - first]
                message = _message(row, row_id, self._id_column)
                queue = None if row.queue_id is None else self._queue(message.topic, row.queue_id)
            except InvalidInput as error:
                converted.rejected.append(_rejected(number, row, row_id, error))
                if self._dead_letters is None:
                    continue
                message, queue = _dead_letter(self._dead_letters, row, row_id, error), None
            add(message)
            place(queue)
            number_of(number)
        self._row_count += len(rows)
        return converted

    def _row_ids(
        self, batch: pa.RecordBatch, rows: Sequence[WriteRow], faults: _Faults
    ) -> Iterable[str | None]:
        if self._id_column is None:
            return self._ids.of(rows)
        given: list[str | None] = _values(batch.column(self._id_column), "idColumn", faults)
        return given

    def _queue(self, topic: str, queue_id: int) -> MessageQueue:
        known = self._queues.get(topic)
        if known is None:
            known = self._queues[topic] = _by_id(self._queues_of(topic))
        queue = known.get(queue_id)
        if queue is None:
            raise InvalidInput(
                f"topic {topic} has no writable queue {queue_id}; it has {len(known)}, "
                "numbered from 0 on each broker",
                field="queue_id",
            )
        return queue


def _by_id(queues: Iterable[MessageQueue]) -> dict[int, MessageQueue]:
    """Return one queue per id; if several brokers have it, always the same one.

    So rows of an id keep their order, and different ids are spread over the brokers.

    >>> queues = [MessageQueue("orders", name, id) for name in ("a", "b") for id in (0, 1)]
    >>> {id: queue.broker_name for id, queue in _by_id(queues).items()}
    {0: 'a', 1: 'b'}
    """
    of_id: dict[int, list[MessageQueue]] = {}
    for queue in sorted(queues):
        of_id.setdefault(queue.queue_id, []).append(queue)
    return {queue_id: found[queue_id % len(found)] for queue_id, found in of_id.items()}


def _columns(
    batch: pa.RecordBatch, topic: str | None, faults: _Faults
) -> Iterator[Iterable[object]]:
    """Yield the values of each column of the write schema, in the order of ``WriteRow``."""
    for name in WriteRow._fields:
        index = batch.schema.get_field_index(name)
        if index < 0:
            yield repeat(topic if name == "topic" else None, batch.num_rows)
            continue
        column = batch.column(index)
        match name:
            case "topic" if topic is not None:
                yield _values(column.fill_null(topic), name, faults)
            case "value":
                yield _as_bytes(column).to_pylist()
            case "properties":
                # Sorted, because the order of a map must not change the id.
                maps = _values(column, name, faults)
                yield [sorted(pairs) if pairs else None for pairs in maps]
            case "deliver_at":
                yield column.cast(pa.int64()).to_pylist()
            case _:
                yield _values(column, name, faults)


def _values(column: pa.Array, name: str, faults: _Faults) -> list[Any]:
    r"""Return the values of a column; note a fault for each text that is not UTF-8.

    Spark allows any bytes in a text. In the error and the dead letter they are written as ``\xff``.
    """
    try:
        return column.to_pylist()  # type: ignore[no-any-return]  # pyarrow has no types
    except UnicodeDecodeError:
        as_bytes = column.cast(_MAP_OF_BYTES if pa.types.is_map(column.type) else pa.large_binary())
    values = []
    for index, raw in enumerate(as_bytes.to_pylist()):
        try:
            values.append(_decoded(raw, "strict"))
        except UnicodeDecodeError as error:
            values.append(_decoded(raw, "backslashreplace"))
            fault = InvalidInput(
                f"{name} is not UTF-8: byte {error.object[error.start]:#04x} at position "
                f"{error.start}; encode bytes by hex or base64",
                field=name,
            )
            faults.setdefault(index, fault)
    return values


def _decoded(raw: object, errors: str) -> object:
    if isinstance(raw, bytes):
        return raw.decode(errors=errors)
    if isinstance(raw, list | tuple):
        return type(raw)(_decoded(one, errors) for one in raw)
    return raw


def _as_bytes(column: pa.Array) -> pa.Array:
    if pa.types.is_string(column.type):
        return column.cast(pa.binary())
    return column.cast(pa.large_binary()) if pa.types.is_large_string(column.type) else column


def _with_own_properties(row: WriteRow, lacking: Collection[str]) -> WriteRow:
    """Return a row without RocketMQ's properties, which it may have from a read.

    Producers and brokers set those again. But keys, tags and the sharding key become columns of the
    row if the data frame lacks these columns.
    """
    pairs = row.properties or []
    if properties.RESERVED.isdisjoint([name for name, _ in pairs]):
        return row
    by_name = dict(pairs)
    from_properties: dict[str, Any] = {
        column: by_name.get(_PROPERTY_OF[column]) for column in lacking
    }
    own = [(name, value) for name, value in pairs if name not in properties.RESERVED]
    return row._replace(properties=own or None, **from_properties)


def _message(row: WriteRow, row_id: str | None, id_column: str | None) -> Message:
    """Return the message of a row; an empty key, tag or sharding key counts as none.

    A row that was read may have the id of its first write in its properties. It keeps that id,
    unless ``idColumn`` is set.
    """
    topic, value, key, tags, pairs, _, sharding_key, delay_level, deliver_at = row
    if topic is None:
        raise InvalidInput("topic is null, and the option topic is not set", field="topic")
    if not row_id:
        raise InvalidInput("the id of the row is null or empty", field="idColumn")
    if delay_level and not 0 < delay_level <= _DELAY_LEVEL_MAX:
        raise InvalidInput(
            f"delay_level is {delay_level}; it must be from 1 to {_DELAY_LEVEL_MAX}, 0 or null",
            field="delay_level",
        )
    message = Message(
        topic,
        _body(value),
        tags=tags or None,
        keys=key.split() if key else (),
        properties=_properties(pairs, row_id, is_named=id_column is not None),
        sharding_key=sharding_key or None,
        delay_level=delay_level or 0,
        deliver_at=None if deliver_at is None else _moment(deliver_at),
    )
    _check_properties(message)
    return message


def _properties(
    pairs: list[tuple[str, str]] | None, row_id: str, *, is_named: bool
) -> dict[str, str]:
    if not pairs:
        return {ORBIT_ID: row_id}
    by_name = dict(pairs)
    return {**by_name, ORBIT_ID: row_id} if is_named else {ORBIT_ID: row_id, **by_name}


def _body(value: bytes | None) -> bytes:
    if not value:
        kind = "null" if value is None else "empty"
        raise InvalidInput(f"value is {kind}, and RocketMQ accepts no empty body", field="value")
    names.check_body(len(value))
    return value


def _moment(microseconds: int) -> datetime:
    try:
        return _EPOCH + timedelta(microseconds=microseconds)
    except OverflowError:
        raise InvalidInput("deliver_at is after the year 9999", field="deliver_at") from None


def _check_properties(message: Message) -> None:
    """Check the size of all properties now: an error in the producer would fail the task."""
    given = message.properties
    texts = (*given, *given.values(), *message.keys, message.tags or "", message.sharding_key or "")
    if _CHARACTER_BYTES_MAX * sum(map(len, texts)) + _ADDED_BYTES < names.PROPERTIES_SIZE_LIMIT:
        return
    names.check_properties(len(properties.encode(message.wire_properties())) + _ADDED_BYTES)


def _rejected(number: int, row: WriteRow, row_id: str | None, error: InvalidInput) -> RejectedRow:
    return RejectedRow(
        number=number,
        column=_COLUMN_OF.get(error.field, error.field),
        reason=_printable(str(error)),
        row_id=_printable(row_id or ""),
        key=_printable(row.key or ""),
    )


def _dead_letter(topic: str, row: WriteRow, row_id: str | None, error: InvalidInput) -> Message:
    """Return the dead letter of a row, with as much of the row as is valid."""
    reason = _printable(str(error))
    value = row.value
    keeps_value = value is not None and 0 < len(value) <= names.BODY_SIZE_LIMIT
    reject_properties = {
        ORBIT_ID: _printable(row_id or ""),
        REJECT_REASON: reason,
        REJECT_COLUMN: _COLUMN_OF.get(error.field, error.field),
        REJECT_TOPIC: _printable(row.topic or ""),
        REJECT_BODY: "value" if keeps_value else "reason",
    }
    extras: dict[str, object] = {
        "keys": (row.key or "").split(),
        "tags": row.tags or None,
        "properties": dict(row.properties or ()),
    }
    body = value if value is not None and keeps_value else reason.encode()
    return _letter(topic, body, reject_properties, extras)


def refused_row(number: int, message: Message, reason: str) -> RejectedRow:
    """Return the rejected row of a message whose content a broker refuses."""
    return RejectedRow(
        number=number,
        column="",
        reason=_printable(reason),
        row_id=_printable(message.properties.get(ORBIT_ID, "")),
        key=_printable(properties.KEY_SEPARATOR.join(message.keys)),
    )


def dead_letter_of(topic: str, message: Message, reason: str) -> Message:
    """Return the dead letter of a message that a broker refuses; it has no delay."""
    reject_properties = {
        REJECT_REASON: _printable(reason),
        REJECT_TOPIC: message.topic,
        REJECT_BODY: "value",
    }
    extras: dict[str, object] = {
        "keys": message.keys,
        "tags": message.tags,
        "properties": dict(message.properties),
    }
    return _letter(topic, message.body, reject_properties, extras)


def without_value(letter: Message) -> Message:
    """Return a dead letter with the reason as its body: the row's value may be too large."""
    by_name = letter.properties
    return letter.replace(
        body=by_name[REJECT_REASON].encode(), properties={**by_name, REJECT_BODY: "reason"}
    )


def _letter(
    topic: str, body: bytes, reject_properties: Mapping[str, str], extras: Mapping[str, object]
) -> Message:
    """Return a dead letter with some properties, and each of the extra fields that is valid."""
    reject_properties = {name: text for name, text in reject_properties.items() if text}
    letter = Message(topic, body, properties=reject_properties)
    for field, value in extras.items():
        if isinstance(value, dict):
            value = {**value, **reject_properties}
        letter = _with(letter, field, value)
    return letter


def _with(letter: Message, field: str, value: object) -> Message:
    """Return a letter with one more field; the same letter if the field is invalid."""
    try:
        fuller = letter.replace(**{field: value})
        _check_properties(fuller)
    except InvalidInput:
        return letter
    return fuller


def _printable(text: str) -> str:
    """Return a text that is valid in a property: short, and without separators."""
    shown = text if len(text) <= _TEXT_MAX else f"{text[:_TEXT_MAX]}…"
    return shown if shown.isprintable() else "".join(c if c.isprintable() else "�" for c in shown)
