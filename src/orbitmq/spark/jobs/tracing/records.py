"""The records of trace messages as structs, a whole Arrow batch at a time.

::

    value     Pub␁1700000000000␁…␂SubBefore␁1700000000003␁…␂
                │ split at U+0002, each record with the number of its message
    records   [Pub, 1700000000000, …]  [SubBefore, 1700000000003, …]
                │ those of one layout together; a layout is a struct of ``message.trace``
    structs   send      2023-11-14 …   billing  orders  7F01…
              delivery  2023-11-14 …   payers           7F01…

What ``message.trace.decode`` refuses becomes a struct too: ``malformed``, or ``unknown`` for a kind
of record that newer clients may write. Its text is in ``sample``.
"""

import ipaddress
from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import fields

from orbitmq.message.trace import (
    ConsumeOutcome,
    EndTransaction,
    MessageKind,
    Publish,
    Recall,
    SubscribeAfter,
    SubscribeBefore,
    TraceRecord,
)

__all__ = ["MALFORMED", "RECORD_COLUMNS", "UNKNOWN", "records_of"]

MALFORMED: Final = "malformed"
UNKNOWN: Final = "unknown"

RECORD_COLUMNS: Final = (
    *(("kind", "string"), ("at_ms", "bigint"), ("region", "string"), ("group", "string")),
    *(("topic", "string"), ("message_id", "string"), ("tags", "string"), ("keys", "string")),
    *(("store_host", "string"), ("client_host", "string"), ("body_length", "bigint")),
    *(("cost_ms", "bigint"), ("message_kind", "string"), ("offset_message_id", "string")),
    *(("success", "boolean"), ("request_id", "string"), ("retry_times", "bigint")),
    *(("outcome", "string"), ("transaction_id", "string"), ("transaction_state", "string")),
    *(("from_check", "boolean"), ("sample", "string")),
)
"""What a record says, with the types of Spark; null in the kinds that don't say it."""
_ARROW: Final = {"string": pa.string(), "bigint": pa.int64(), "boolean": pa.bool_()}
_ROW: Final = pa.struct([pa.field(name, _ARROW[kind]) for name, kind in RECORD_COLUMNS])

_FIELD_END: Final = "\x01"
_RECORD_END: Final = "\x02"
_NULL: Final = "null"
_INTEGER: Final = "^-?[0-9]{1,18}$"  # fits 64 bits
_TIME_MAX_MS: Final = 253_402_300_799_999  # the end of the year 9999, as Spark's timestamps
_SAMPLE_CHARACTERS: Final = 200
_ID_TAIL: Final = 24  # the digits of a unique id behind those of the address
_NAMES: Final = {"timestamp_ms": "at_ms", "kind": "message_kind"}
"""The columns of the fields that are named otherwise."""

Numbers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
_Read = Callable[[pa.Array], tuple[pa.Array, pa.Array]]


class _Layout(NamedTuple):
    """How the records of one kind are laid out; ``texts``: only those with so many, if not 0."""

    kind: str
    struct: type[TraceRecord]
    texts: int = 0
    lacking: frozenset[str] = frozenset()

    @property
    def tag(self) -> str:
        return str(self.struct.__struct_config__.tag)


_LAYOUTS: Final = (
    # Old clients wrote no offset id.
    _Layout("send", Publish, texts=13, lacking=frozenset({"offset_message_id"})),
    _Layout("send", Publish),
    _Layout("delivery", SubscribeBefore),
    # On the CLOUD channel Java writes the separator before a time that it then leaves out.
    _Layout("result", SubscribeAfter, texts=8, lacking=frozenset({"timestamp_ms", "group"})),
    _Layout("result", SubscribeAfter),
    _Layout("transaction_end", EndTransaction),
    _Layout("recall", Recall),
)


def records_of(values: pa.Array, message_ids: pa.Array) -> pa.Array:
    """Return the records of trace messages, a list of structs (``RECORD_COLUMNS``) for each.

    Args:
        values: their bodies.
        message_ids: their unique ids, which have the addresses of the clients that reported.
    """
    lists = pc.split_pattern(_text(values), _RECORD_END)
    lines, messages = pc.list_flatten(lists), pc.list_parent_indices(lists)
    filled = pc.not_equal(lines, "")
    left = _Lines.of(lines.filter(filled), messages.filter(filled))
    hosts = _hosts(message_ids)
    parts, owners = [], []
    for layout in _LAYOUTS:
        fitting = _fitting(left, layout)
        some, left = left.chosen(fitting), left.chosen(~fitting)
        parts.append(_structs(_columns(some, layout), some, hosts))
        owners.append(some.messages.to_numpy())
    unknown = {"kind": pa.repeat(UNKNOWN, len(left)), "sample": left.samples()}
    parts.append(_structs(unknown, left, hosts))
    owners.append(left.messages.to_numpy())
    return _lists(pa.concat_arrays(parts), np.concatenate(owners), len(values))


def _lists(records: pa.Array, owners: Numbers, messages: int) -> pa.Array:
    """Return the records of each message as a list; ``owners`` are the messages of the records."""
    ends = np.bincount(owners, minlength=messages).cumsum()
    offsets = pa.array(np.concatenate(([0], ends)), pa.int32())
    together = records.take(pa.array(owners.argsort(kind="stable")))
    return pa.ListArray.from_arrays(offsets, together)


class _Lines(NamedTuple):
    """Some records: their texts, those divided into fields, and the numbers of their messages."""

    texts: pa.Array
    flat: pa.Array
    starts: Numbers
    counts: Numbers
    messages: pa.Array

    @classmethod
    def of(cls, texts: pa.Array, messages: pa.Array) -> Self:
        divided = pc.split_pattern(texts, _FIELD_END)
        counts = pc.list_value_length(divided).to_numpy(zero_copy_only=False).astype(np.int64)
        return cls(texts, divided.flatten(), counts.cumsum() - counts, counts, messages)

    def __len__(self) -> int:
        return len(self.texts)

    def at(self, place: int) -> pa.Array:
        """Return the field at a place of each record; null where there are fewer fields."""
        missing = self.counts <= place
        return self.flat.take(pa.array(self.starts + place, mask=missing))

    def chosen(self, mask: Mask) -> Self:
        """Return the records of a mask."""
        picked = pa.array(mask)
        return type(self)(
            self.texts.filter(picked),
            self.flat,
            self.starts[mask],
            self.counts[mask],
            self.messages.filter(picked),
        )

    def samples(self) -> pa.Array:
        """Return the beginnings of the records, with separators that can be seen."""
        short = pc.utf8_slice_codeunits(self.texts, 0, _SAMPLE_CHARACTERS)
        return pc.replace_substring(short, _FIELD_END, "|")


def _fitting(lines: _Lines, layout: _Layout) -> Mask:
    """Return which records have a layout."""
    fitting = _mask(pc.equal(lines.at(0), layout.tag))
    if layout.texts:
        fitting &= lines.counts == layout.texts
    if layout.kind == "result" and layout.texts:
        fitting &= _mask(pc.equal(lines.at(layout.texts - 1), ""))
    return fitting


def _columns(lines: _Lines, layout: _Layout) -> Mapping[str, pa.Array]:
    """Return the columns of a layout; the records with a field that can't be read are malformed."""
    found: dict[str, pa.Array] = {}
    good = np.ones(len(lines), np.bool_)
    there = [field for field in fields(layout.struct) if field.name not in layout.lacking]
    for place, field in enumerate(there, 1):
        texts = lines.at(place)
        column, read = _READ[field.type](texts)
        absent = _mask(pc.is_null(texts))
        good &= _mask(read) | (absent & (not field.required))
        found[_NAMES.get(field.name, field.name)] = column
    if "at_ms" in found:
        good &= _mask(pc.less_equal(pc.abs(found["at_ms"]), _TIME_MAX_MS), null=True)
    readable = pa.array(good)
    return {
        **{name: pc.if_else(readable, column, None) for name, column in found.items()},
        "kind": pc.if_else(readable, layout.kind, MALFORMED),
        "sample": pc.if_else(readable, None, lines.samples()),
    }


def _structs(columns: Mapping[str, pa.Array], lines: _Lines, hosts: pa.Array) -> pa.Array:
    """Return some columns as structs with all; a record that names no client has its host."""
    given = columns.get("client_host", pa.nulls(len(lines), pa.string()))
    whole = {**columns, "client_host": pc.coalesce(given, hosts.take(lines.messages))}
    return pa.StructArray.from_arrays(
        [whole.get(field.name, pa.nulls(len(lines), field.type)) for field in _ROW],
        fields=list(_ROW),
    )


# Fields: the values of texts, and which could be read


def _integers(texts: pa.Array) -> tuple[pa.Array, pa.Array]:
    read = pc.match_substring_regex(texts, _INTEGER)
    return pc.if_else(read, texts, None).cast(pa.int64()), read


def _booleans(texts: pa.Array) -> tuple[pa.Array, pa.Array]:
    lower = pc.utf8_lower(texts)
    return pc.equal(lower, "true"), pc.is_in(lower, pa.array(["true", "false"]))


def _texts(texts: pa.Array) -> tuple[pa.Array, pa.Array]:
    return texts, pc.is_valid(texts)


def _nullable(texts: pa.Array) -> tuple[pa.Array, pa.Array]:
    return pc.if_else(pc.equal(texts, _NULL), None, texts), pc.is_valid(texts)


def _ordinals(names: Iterable[str]) -> _Read:
    """Return the reader of an enum: its names in lower case; newer ordinals stay numbers."""
    words = [name.lower().replace("_", " ") for name in names]

    def read(texts: pa.Array) -> tuple[pa.Array, pa.Array]:
        numbers, valid = _integers(texts)
        known = pc.and_(pc.greater_equal(numbers, 0), pc.less(numbers, len(words)))
        named = pa.array(words).take(pc.if_else(known, numbers, None))
        return pc.coalesce(named, texts), valid

    return read


_READ: Final[Mapping[object, _Read]] = {
    int: _integers,
    int | None: _integers,
    bool: _booleans,
    str: _texts,
    str | None: _nullable,
    MessageKind: _ordinals(MessageKind.__members__),
    ConsumeOutcome: _ordinals(ConsumeOutcome.__members__),
}


# Messages


def _text(values: pa.Array) -> pa.Array:
    """Return bodies as texts; bytes that are not UTF-8 become U+FFFD."""
    try:
        return pc.fill_null(values.cast(pa.string()), "")
    except pa.ArrowInvalid:
        return pa.array([str(one or b"", "utf-8", "replace") for one in values.to_pylist()])


def _hosts(ids: pa.Array) -> pa.Array:
    """Return the addresses in the unique ids of messages; null where there is none."""
    digits = pc.utf8_slice_codeunits(ids, 0, -_ID_TAIL).dictionary_encode()
    addresses = pa.array([_address(text) for text in digits.dictionary.to_pylist()], pa.string())
    return addresses.take(digits.indices)


def _address(digits: str) -> str | None:
    """Return the address of some hexadecimal digits; None if they are none.

    >>> _address("7F000001"), _address("7F")
    ('127.0.0.1', None)
    """
    try:
        return str(ipaddress.ip_address(bytes.fromhex(digits)))
    except ValueError:
        return None


def _mask(flags: pa.Array, *, null: bool = False) -> Mask:
    found: Mask = pc.fill_null(flags, null).to_numpy(zero_copy_only=False)
    return found
