"""The commit log record: the layout of a stored message, in the log and in pull answers.

The layout is defined here and nowhere else; the store, the client and Spark derive their readers
from it. Numbers are big-endian, and records follow each other without a gap::

    ┌──────────────────────────────┬──────┬────────────┬───────┬──────────┬────────────┐
    │ head: 88, 100 or 112 bytes   │ body │ length 1/2 │ topic │ length 2 │ properties │
    └──────────────────────────────┴──────┴────────────┴───────┴──────────┴────────────┘

The head grows by 12 bytes for each host with an IPv6 address; two bits of the sys flag say which.
The magic is the version: V2 has a topic length of two bytes, for topics over 127 bytes. A blank
fills the end of a segment that has no room for the next record: a size, its own magic, and then
bytes without a meaning.

This module has the layout and the encoder. Reading is done in steps, so that a caller pays only for
what it needs: ``scan.Scan`` finds the records, a ``record_view.RecordView`` reads single fields in
place, and ``RecordView.message`` makes a message.
"""

import enum
import struct
from collections.abc import Mapping
from itertools import accumulate
from types import MappingProxyType
from typing import Final, Protocol, TypeAlias

import msgspec

from orbitmq.checksum import crc32
from orbitmq.errors import LocalProtocolError
from orbitmq.message import flags, properties
from orbitmq.message.buffer import Buffer
from orbitmq.message.host import Host
from orbitmq.message.shown import shown_int

__all__ = [
    "AT",
    "BLANK_SIZE",
    "CRC_PROPERTY_SIZE",
    "FORMATS",
    "HEADS",
    "LEAST_SIZE",
    "Form",
    "Record",
    "Row",
    "Storable",
    "Version",
    "blank",
    "crc_property",
    "dtype",
    "encode",
    "form_of",
    "parts",
    "reader",
    "seal_agrees",
    "store_timestamp_at",
]


class Version(enum.Enum):
    """How long a topic may be: 127 or 32767 bytes. The value is the magic."""

    V1 = 0xDAA320A7
    V2 = 0xDAA320AB


MAGICS: Final = (Version.V1.value, Version.V2.value)
MAGIC_BLANK: Final = 0xCBD43194

# The head

FORMATS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "size": "i",  # of the record, this field included
        "magic": "I",
        "body_crc": "i",  # CRC-32 of the body as stored, sign bit cleared
        "queue_id": "i",
        "flag": "i",  # set by the user
        "queue_offset": "q",
        "commit_log_offset": "q",
        "sys_flag": "i",
        "born_timestamp_ms": "q",
        "born_ip": "4s",  # 16s for IPv6
        "born_port": "i",
        "store_timestamp_ms": "q",
        "store_ip": "4s",  # 16s for IPv6
        "store_port": "i",
        "reconsume_times": "i",
        "prepared_transaction_offset": "q",
        "body_length": "i",  # the body follows
    }
)
"""The fields of the head in their order, each with its struct format."""

_SIZES: Final = [struct.calcsize(f">{code}") for code in FORMATS.values()]
AT: Final[Mapping[str, int]] = MappingProxyType(
    dict(zip(FORMATS, accumulate(_SIZES, initial=0), strict=False))
)
"""Where each field begins if both hosts have IPv4 addresses."""

IPV6_EXTRA: Final = 12
"""The bytes that an IPv6 address adds to the head, before all fields behind it."""


def reader(*names: str) -> struct.Struct:
    """Return a struct that unpacks some fields of a head, named in the order of the layout.

    Fields behind ``born_ip`` are read where they are if the hosts have IPv4 addresses.

    >>> reader("size", "queue_offset", "sys_flag").format
    '>i16xq8xi'
    """
    code, position = ">", 0
    for name in names:
        gap = AT[name] - position
        code += (f"{gap}x" if gap else "") + FORMATS[name]
        position = struct.calcsize(code)
    return struct.Struct(code)


def dtype(name: str) -> str:
    """Return the numpy dtype of a number in the head; numpy reads the letters of struct.

    >>> dtype("queue_offset")
    '>q'
    """
    return f">{FORMATS[name]}"


def _head(born_ip: str, store_ip: str) -> struct.Struct:
    return struct.Struct(
        ">" + "".join({**FORMATS, "born_ip": born_ip, "store_ip": store_ip}.values())
    )


_HOSTS: Final = flags.BORN_HOST_IPV6 | flags.STORE_HOST_IPV6
_HOSTS_CLEARED: Final = ~_HOSTS
_HEADS_BY_HOSTS: Final = {
    0: _head("4s", "4s"),
    flags.BORN_HOST_IPV6: _head("16s", "4s"),
    flags.STORE_HOST_IPV6: _head("4s", "16s"),
    _HOSTS: _head("16s", "16s"),
}
HEADS: Final = tuple(_HEADS_BY_HOSTS[byte & _HOSTS] for byte in range(256))
"""The layouts of a head, indexed by the low byte of the sys flag."""

IPV4_HEAD: Final = HEADS[0]
assert [head.size for head in _HEADS_BY_HOSTS.values()] == [88, 100, 100, 112]
assert max(_HEADS_BY_HOSTS) < len(HEADS)
assert IPV4_HEAD.size + IPV6_EXTRA == HEADS[flags.BORN_HOST_IPV6].size
assert (AT["sys_flag"], AT["store_timestamp_ms"], AT["body_length"]) == (36, 56, 84)

# Positions as constants, for code that runs once per record or once per field.
SIZE_AT: Final = AT["size"]
MAGIC_AT: Final = AT["magic"]
MAGIC_LOW_BYTE_AT: Final = MAGIC_AT + 3
V2_LOW_BYTE: Final = Version.V2.value & 0xFF
CRC_AT: Final = AT["body_crc"]
QUEUE_ID_AT: Final = AT["queue_id"]
FLAG_AT: Final = AT["flag"]
QUEUE_OFFSET_AT: Final = AT["queue_offset"]
COMMIT_LOG_OFFSET_AT: Final = AT["commit_log_offset"]
SYS_FLAG_AT: Final = AT["sys_flag"]
SYS_FLAG_LOW_BYTE_AT: Final = SYS_FLAG_AT + 3
BORN_TIMESTAMP_AT: Final = AT["born_timestamp_ms"]
_STORE_TIMESTAMP_AT: Final = AT["store_timestamp_ms"]

INT: Final = struct.Struct(">i")
LONG: Final = struct.Struct(">q")

SIZE_AND_MAGIC: Final = reader("size", "magic")  # a blank begins with these two as well
BLANK_SIZE: Final = SIZE_AND_MAGIC.size
assert BLANK_SIZE == 8

# Behind the head. Lengths are signed in Java (MessageVersion, MessageDecoder): a negative one is
# damage.
TOPIC_LENGTH_V1: Final = struct.Struct(">b")
TOPIC_LENGTH_V2: Final = struct.Struct(">h")
PROPERTIES_LENGTH: Final = struct.Struct(">h")
PROPERTIES_LENGTH_SIZE: Final = PROPERTIES_LENGTH.size
LONGEST_V1_TOPIC: Final = 127
LONGEST_TEXT: Final = 32767

LEAST_SIZE: Final = IPV4_HEAD.size + TOPIC_LENGTH_V1.size + PROPERTIES_LENGTH.size
assert LEAST_SIZE == 91  # IPv4, V1; body, topic and properties empty

Row: TypeAlias = tuple[int, int, int, int, int, int]
"""Where in a buffer a record begins and ends, its body begins and ends, and its topic begins and
ends. The properties begin `PROPERTIES_LENGTH_SIZE` bytes behind the topic, and end with the record.
"""

SIGN_CLEARED: Final = 0x7FFFFFFF  # Java keeps CRCs in an int and clears the sign (UtilAll.crc32)
_EMPTY: Final = bytearray()


class Storable(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The fields of a record that are known before it has its place in the log and in a queue."""

    body: Buffer
    properties: bytes = b""
    queue_id: int
    flag: int = 0
    sys_flag: int = 0
    born_timestamp_ms: int
    born_host: Host
    store_host: Host
    reconsume_times: int = 0
    prepared_transaction_offset: int = 0


class Record(Storable, frozen=True, kw_only=True, gc=False):
    """The fields of a record as stored: texts in UTF-8, the body compressed or not.

    ``version`` follows from the length of the topic, and ``body_crc`` from the body, unless they
    are given. The IPv6 bits of ``sys_flag`` always follow from the hosts.
    """

    topic: bytes
    queue_offset: int = 0
    commit_log_offset: int = 0
    store_timestamp_ms: int = 0
    body_crc: int | None = None
    version: Version | None = None


class Form(msgspec.Struct, frozen=True):
    """The part of the encoding that all records of a topic share, given the kinds of their hosts.

    A log that appends thousands of records to a topic calls :func:`form_of` once.
    """

    head: struct.Struct
    magic: int
    hosts: int
    """The IPv6 bits of the sys flag."""
    topic: bytes
    counted_topic: bytes
    """The length of the topic, then the topic."""
    overhead: int
    """The size of a record without its body and its properties."""


def form_of(
    topic: bytes, born_ip_length: int, store_ip_length: int, version: Version | None = None
) -> Form:
    """Return the form of the records of a topic, given the lengths of the hosts' addresses.

    >>> form_of(b"orders", 4, 16).overhead
    109
    """
    hosts = 0
    for bit, name, length in (
        (flags.BORN_HOST_IPV6, "born_host", born_ip_length),
        (flags.STORE_HOST_IPV6, "store_host", store_ip_length),
    ):
        if length == 16:
            hosts |= bit
        elif length != 4:
            raise LocalProtocolError(f"{name}: an address has 4 or 16 bytes, not {length}")
    if version is None:
        version = Version.V1 if len(topic) <= LONGEST_V1_TOPIC else Version.V2
    longest = LONGEST_V1_TOPIC if version is Version.V1 else LONGEST_TEXT
    if len(topic) > longest:
        raise LocalProtocolError(
            f"topic: {len(topic)} bytes, but a {version.name} record has room for {longest}"
        )
    topic_length = TOPIC_LENGTH_V1 if version is Version.V1 else TOPIC_LENGTH_V2
    counted_topic = topic_length.pack(len(topic)) + topic
    overhead = HEADS[hosts].size + len(counted_topic) + PROPERTIES_LENGTH.size
    return Form(HEADS[hosts], version.value, hosts, topic, counted_topic, overhead)


class Stored(Protocol):
    """What :func:`parts` reads of a message: the fields of ``Storable``, in a type of any kind."""

    @property
    def body(self) -> Buffer: ...
    @property
    def properties(self) -> bytes: ...
    @property
    def queue_id(self) -> int: ...
    @property
    def flag(self) -> int: ...
    @property
    def sys_flag(self) -> int: ...
    @property
    def born_timestamp_ms(self) -> int: ...
    @property
    def born_host(self) -> Host: ...
    @property
    def store_host(self) -> Host: ...
    @property
    def reconsume_times(self) -> int: ...
    @property
    def prepared_transaction_offset(self) -> int: ...


def parts(
    message: Stored,
    form: Form,
    queue_offset: int,
    commit_log_offset: int,
    store_timestamp_ms: int,
    body_crc: int | None = None,
) -> tuple[bytes, Buffer, bytes]:
    r"""Return the bytes of a message's record in three parts: head, body, and what follows it.

    The body is not copied; a log writes the parts one after the other. ``body_crc`` is computed
    unless it is given. Raise LocalProtocolError, which names the field, if a number or a text does
    not fit its field.

    >>> here = Host.parse("127.0.0.1:10911")
    >>> order = Storable(
    ...     body=b"1 pizza", queue_id=0, born_timestamp_ms=0, born_host=here, store_host=here
    ... )
    >>> parts(order, form_of(b"orders", 4, 4), 41, 9000, 0)[1:]
    (b'1 pizza', b'\x06orders\x00\x00')
    """
    body, text = message.body, message.properties
    born, store = message.born_host, message.store_host
    try:
        head = form.head.pack(
            form.overhead + len(body) + len(text),
            form.magic,
            crc32(body) & SIGN_CLEARED if body_crc is None else body_crc,
            message.queue_id,
            message.flag,
            queue_offset,
            commit_log_offset,
            message.sys_flag & _HOSTS_CLEARED | form.hosts,
            message.born_timestamp_ms,
            born.ip,
            born.port,
            store_timestamp_ms,
            store.ip,
            store.port,
            message.reconsume_times,
            message.prepared_transaction_offset,
            len(body),
        )
        return head, body, form.counted_topic + PROPERTIES_LENGTH.pack(len(text)) + text
    except struct.error:
        raise _does_not_fit(message) from None


def encode(record: Record) -> bytearray:
    r"""Return the bytes of ``record`` in one piece; raise as ``parts`` does.

    >>> here = Host.parse("127.0.0.1:10911")
    >>> order = Record(
    ...     topic=b"orders", body=b"1 pizza", queue_id=0, born_timestamp_ms=0,
    ...     born_host=here, store_host=here,
    ... )
    >>> encode(order)[84:]
    bytearray(b'\x00\x00\x00\x071 pizza\x06orders\x00\x00')
    """
    born, store = record.born_host, record.store_host
    return _EMPTY.join(
        parts(
            record,
            form_of(record.topic, len(born.ip), len(store.ip), record.version),
            record.queue_offset,
            record.commit_log_offset,
            record.store_timestamp_ms,
            record.body_crc,
        )
    )


def blank(size: int) -> bytes:
    """Return the head of a blank that fills the last ``size`` bytes of a segment, at least 8.

    >>> blank(100).hex()
    '00000064cbd43194'
    """
    if not BLANK_SIZE <= size <= SIGN_CLEARED:
        raise LocalProtocolError(f"a blank has {BLANK_SIZE} to {SIGN_CLEARED} bytes, not {size}")
    return SIZE_AND_MAGIC.pack(size, MAGIC_BLANK)


# The seal

_SEAL_NAME: Final = f"{properties.CRC32}{properties.NAME_END}".encode()
_SEAL_DIGITS: Final = 10
CRC_PROPERTY_SIZE: Final = len(_SEAL_NAME) + _SEAL_DIGITS + len(properties.VALUE_END)
assert CRC_PROPERTY_SIZE == 20


def crc_property(*before: Buffer) -> bytes:
    r"""Return the property that seals a record, given all its bytes before that property.

    Brokers with ``enabledAppendPropCRC`` end every record with it. The digits begin with the least
    significant one, as in Java's ``MessageDecoder.createCrc32``.

    >>> crc_property(b"some ", b"record")
    b'__CRC32#\x011291243902\x02'
    """
    crc = 0
    for part in before:
        crc = crc32(part, crc)
    digits = f"{crc & SIGN_CLEARED:0{_SEAL_DIGITS}d}"[::-1]
    return _SEAL_NAME + f"{digits}{properties.VALUE_END}".encode()


def seal_agrees(buffer: memoryview, start: int, properties_start: int, end: int) -> bool:
    """Return whether a record's seal is that of its bytes; True for a record without a seal."""
    at = end - CRC_PROPERTY_SIZE
    if at < properties_start or buffer[at : at + len(_SEAL_NAME)] != _SEAL_NAME:
        return True
    return buffer[at:end] == crc_property(buffer[start:at])


def store_timestamp_at(buffer: bytearray | memoryview, start: int) -> int:
    """Return the position of the store timestamp of the record at ``start``."""
    if buffer[start + SYS_FLAG_LOW_BYTE_AT] & flags.BORN_HOST_IPV6:
        return start + _STORE_TIMESTAMP_AT + IPV6_EXTRA
    return start + _STORE_TIMESTAMP_AT


def _does_not_fit(message: Stored) -> LocalProtocolError:
    """Return the error for the first field whose value does not fit the layout."""
    if len(message.properties) > LONGEST_TEXT:
        length = len(message.properties)
        return LocalProtocolError(
            f"properties: {length} bytes, but a record has room for {LONGEST_TEXT}"
        )
    for name, code in FORMATS.items():
        value, bits = getattr(message, name, None) or 0, 8 * struct.calcsize(f">{code}")
        if not isinstance(value, int):
            return LocalProtocolError(f"{name} must be an int, not {type(value).__name__}")
        if not -(1 << bits - 1) <= value < 1 << bits - 1:
            return LocalProtocolError(f"{name}: {shown_int(value)} does not fit in {bits} bits")
    for name, host in (("born_host", message.born_host), ("store_host", message.store_host)):
        if not -(1 << 31) <= host.port < 1 << 31:
            return LocalProtocolError(f"{name}: port {host.port} does not fit in 32 bits")
    return LocalProtocolError(f"body: {len(message.body)} bytes do not fit into one record")
