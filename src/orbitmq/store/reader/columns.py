"""Records as columns that numpy and Arrow can use without a copy; neither is imported.

A column of numbers is an ``array``. A column of texts or bodies has the layout of an Arrow binary
array: all bytes, int32 offsets (one more than rows), and a bitmap of the rows with a value, if some
have none.

>>> from array import array
>>> names = VariableColumn(b"abc", array("i", [0, 1, 1, 3]), bytes([0b101]))
>>> names[0], names[1], names[2]
(b'a', None, b'bc')
"""

import sys
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Final, TypeAlias

import msgspec

from orbitmq.errors import InvalidInput
from orbitmq.message import properties
from orbitmq.message.ids import offset_id
from orbitmq.message.record import (
    AT,
    COMMIT_LOG_OFFSET_AT,
    FORMATS,
    HEADS,
    IPV4_HEAD,
    PROPERTIES_LENGTH_SIZE,
    SYS_FLAG_LOW_BYTE_AT,
)
from orbitmq.store.log.record_rows import Block, view_of

__all__ = ["COLUMNS", "Column", "ColumnBatch", "VariableColumn", "build", "check_columns"]

# The C types behind array's codes; Arrow's int32 and int64.
assert array("i").itemsize == 4
assert array("q").itemsize == 8

# Indexes into the tuple that a head unpacks to.
_BORN_IP: Final = tuple(FORMATS).index("born_ip")
_STORE_IP: Final = tuple(FORMATS).index("store_ip")


class VariableColumn(msgspec.Struct, frozen=True, eq=False):
    """Values of any length: row n is ``data[offsets[n]:offsets[n + 1]]``.

    Bit n of ``validity``, counted from the lowest bit of the first byte, is 0 if row n has no
    value; without ``validity`` all rows have one.
    """

    data: bytes
    offsets: "array[int]"
    validity: bytes | None = None

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, row: int) -> bytes | None:
        if self.validity is not None and not self.validity[row >> 3] >> (row & 7) & 1:
            return None
        return self.data[self.offsets[row] : self.offsets[row + 1]]


Column: TypeAlias = "array[int] | VariableColumn"


class ColumnBatch(msgspec.Struct, frozen=True, eq=False):
    """Some rows, in the order of the log, as the requested columns."""

    rows: int
    columns: Mapping[str, Column]

    def __len__(self) -> int:
        return self.rows

    def __getitem__(self, name: str) -> Column:
        return self.columns[name]


# Columns of numbers: the type code of array, and the position in a head with IPv4 hosts.
_HIDDEN: Final = ("magic", "born_ip", "born_port", "store_ip", "store_port", "body_length")
_NUMBERS: Final[Mapping[str, tuple[str, int]]] = {
    name: (code, AT[name]) for name, code in FORMATS.items() if name not in _HIDDEN
}


def _topics(block: Block) -> list[memoryview]:
    buffer = block.buffer
    return [buffer[start:end] for _, _, _, _, start, end in block.rows]


def _bodies(block: Block) -> list[memoryview]:
    buffer = block.buffer
    return [buffer[start:end] for _, _, start, end, _, _ in block.rows]


def _properties(block: Block) -> list[memoryview]:
    buffer = block.buffer
    return [
        buffer[topic_end + PROPERTIES_LENGTH_SIZE : end]
        for _, end, _, _, _, topic_end in block.rows
    ]


# Columns of bytes that every record has: topic, body as stored, properties.
_PARTS: Final[Mapping[str, Callable[[Block], list[memoryview]]]] = {
    "topic": _topics,
    "body": _bodies,
    "properties": _properties,
}

# Columns of single properties, which a record may lack.
_PROPERTIES: Final[Mapping[str, Callable[[bytes], bytes | None]]] = {
    "tags": properties.finder(properties.TAGS.encode()),
    "keys": properties.finder(properties.KEYS.encode()),
    "unique_key": properties.finder(properties.UNIQUE_KEY.encode()),
}

# The id by which a broker finds a message: store host and commit log offset in hex digits.
_OFFSET_MESSAGE_ID: Final = "offset_message_id"
_STORE_HOST_AT: Final = AT["store_ip"]
_ID_BYTES: Final = 16  # IPv4 address, port, commit log offset; twice as many digits

COLUMNS: Final = (*_NUMBERS, *_PARTS, *_PROPERTIES, _OFFSET_MESSAGE_ID)


def check_columns(names: Iterable[str]) -> tuple[str, ...]:
    """Return the names as a tuple; raise InvalidInput if a column does not exist.

    >>> check_columns(["topic", "body"])
    ('topic', 'body')
    """
    picked = tuple(names)
    for name in picked:
        if name not in COLUMNS:
            raise InvalidInput(
                f"there is no column {name[:40]!r}; there are {', '.join(COLUMNS)}",
                field="columns",
            )
    return picked


def build(block: Block, names: Sequence[str]) -> ColumnBatch:
    """Return the records of a block as the columns ``names``; only their fields are read."""
    columns: dict[str, Column] = {}
    heads: bytes | None = None
    texts: list[bytes] | None = None
    for name in names:
        if name in _NUMBERS:
            heads = _heads(block) if heads is None else heads
            columns[name] = _number_column(heads, *_NUMBERS[name])
        elif name in _PARTS:
            columns[name] = _variable(_PARTS[name](block))
        elif name == _OFFSET_MESSAGE_ID:
            heads = _heads(block) if heads is None else heads
            columns[name] = _offset_message_ids(block, heads)
        else:
            texts = list(map(bytes, _properties(block))) if texts is None else texts
            columns[name] = _property_column(texts, _PROPERTIES[name])
    return ColumnBatch(len(block.rows), columns)


def numbers(block: Block, name: str) -> "array[int]":
    """Return one column of numbers."""
    return _number_column(_heads(block), *_NUMBERS[name])


def _heads(block: Block) -> bytes:
    """Return the heads of all records concatenated, each in the layout for IPv4 hosts."""
    buffer, size = block.buffer, IPV4_HEAD.size
    heads = [buffer[row[0] : row[0] + size] for row in block.rows]
    for number, (start, _, body_start, _, _, _) in enumerate(block.rows):
        if body_start - start != size:
            heads[number] = _without_addresses(buffer, start)
    return b"".join(heads)


def _without_addresses(buffer: memoryview, start: int) -> memoryview:
    """Return a head with IPv6 hosts in the layout for IPv4, with empty addresses."""
    layout = HEADS[buffer[start + SYS_FLAG_LOW_BYTE_AT]]
    fields = list(layout.unpack_from(buffer, start))
    fields[_BORN_IP] = fields[_STORE_IP] = b""
    return memoryview(IPV4_HEAD.pack(*fields))


def _number_column(heads: bytes, code: str, at: int) -> "array[int]":
    """Return one field of all heads, in the machine's byte order.

    It is copied byte by byte: the first byte of all rows, the second byte of all rows, and so on.
    That is a few copies in C per block, where unpacking would cost a call per row.
    """
    size = array(code).itemsize
    column = bytearray(len(heads) // IPV4_HEAD.size * size)
    for byte in range(size):
        to = size - 1 - byte if sys.byteorder == "little" else byte
        column[to::size] = heads[at + byte :: IPV4_HEAD.size]
    return array(code, bytes(column))


def _offset_message_ids(block: Block, heads: bytes) -> VariableColumn:
    """Return what ``message.ids.offset_id`` gives for each record."""
    if any(body_start - start != IPV4_HEAD.size for start, _, body_start, _, _, _ in block.rows):
        views = (view_of(block.buffer, row) for row in block.rows)
        texts = [offset_id(view.store_host, view.commit_log_offset) for view in views]
        return _variable([text.encode() for text in texts])
    ids = bytearray(len(block.rows) * _ID_BYTES)
    half = _ID_BYTES // 2
    for byte in range(half):  # all rows at once, as columns of numbers are
        ids[byte::_ID_BYTES] = heads[_STORE_HOST_AT + byte :: IPV4_HEAD.size]
        ids[half + byte :: _ID_BYTES] = heads[COMMIT_LOG_OFFSET_AT + byte :: IPV4_HEAD.size]
    digits = 2 * _ID_BYTES
    offsets = array("i", range(0, (len(block.rows) + 1) * digits, digits))
    return VariableColumn(ids.hex().upper().encode(), offsets)


def _variable(values: Sequence[memoryview | bytes]) -> VariableColumn:
    offsets = array("i", accumulate(map(len, values), initial=0))
    return VariableColumn(b"".join(values), offsets)


def _property_column(
    texts: Sequence[bytes], find: Callable[[bytes], bytes | None]
) -> VariableColumn:
    found = list(map(find, texts))
    column = _variable([value or b"" for value in found])
    if None not in found:
        return column
    return VariableColumn(column.data, column.offsets, _bitmap(found))


def _bitmap(values: Sequence[bytes | None]) -> bytes:
    """Return a bitmap, lowest bit first: 1 for each row with a value."""
    digits = "".join("0" if value is None else "1" for value in reversed(values))
    return int(digits, 2).to_bytes((len(values) + 7) // 8, "little")
