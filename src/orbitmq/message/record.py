"""The commit log record: a message as a broker stores it and as every answer carries it.

This is the one home of its layout; the store, the pull answers and Spark compute from it. Numbers
are big-endian, and records follow each other without a gap::

    ┌──────────────────────────────┬──────┬────────────┬───────┬──────────┬────────────┐
    │ head: 88, 100 or 112 bytes   │ body │ length 1/2 │ topic │ length 2 │ properties │
    └──────────────────────────────┴──────┴────────────┴───────┴──────────┴────────────┘

The head grows by 12 for each host with an IPv6 address, which the sys flag tells. The magic is the
version: V2 has a topic length of two bytes, for topics over 127 bytes. Where a record no longer
fits into a segment a blank ends it: its size and its own magic, and then whatever was there.

Here is the layout, and the writing. Reading goes in steps, each paid for only when it is wanted:
``scan.Scan`` finds the records, a ``record_view.RecordView`` reads single fields in place, and
``view.message()`` makes a message of them.
"""

import enum
import struct
from zlib import crc32

import msgspec

from orbitmq.errors import LocalProtocolError
from orbitmq.message import flags, properties
from orbitmq.message.buffer import Buffer
from orbitmq.message.host import Host
from orbitmq.message.shown import shown_int

__all__ = [
    "BLANK_SIZE",
    "CRC_PROPERTY_SIZE",
    "LEAST_SIZE",
    "Form",
    "Record",
    "Storable",
    "Version",
    "blank",
    "crc_property",
    "encode",
    "form_of",
    "parts",
    "size_of",
]


class Version(enum.Enum):
    """Which length the topic has room for: 127 bytes or 32767. The value is the magic."""

    V1 = 0xDAA320A7
    V2 = 0xDAA320AB


MAGICS = (Version.V1.value, Version.V2.value)
MAGIC_BLANK = 0xCBD43194


def _head(born_ip: int, store_ip: int) -> struct.Struct:
    """Return the layout of a head whose hosts have addresses of so many bytes."""
    return struct.Struct(
        ">i"  # 0: size of the record, this field included
        "I"  # 4: magic
        "i"  # 8: CRC-32 of the body as stored, sign bit cleared
        "i"  # 12: queue id
        "i"  # 16: flag, the user's own
        "q"  # 20: queue offset
        "q"  # 28: commit log offset
        "i"  # 36: sys flag
        "q"  # 40: born timestamp, ms
        f"{born_ip}s"  # 48: born host, address
        "i"  # born host, port
        "q"  # 56 or 68: store timestamp, ms
        f"{store_ip}s"  # store host, address
        "i"  # store host, port
        "i"  # reconsume times
        "q"  # prepared transaction offset
        "i"  # body length; the body follows
    )


# Indexed by the two IPv6 bits of the sys flag.
HEADS = (_head(4, 4), _head(16, 4), _head(4, 16), _head(16, 16))
HOSTS_SHIFT = 4
_HOSTS_CLEARED = ~(flags.BORN_HOST_IPV6 | flags.STORE_HOST_IPV6)
assert [head.size for head in HEADS] == [88, 100, 100, 112]
assert (flags.BORN_HOST_IPV6, flags.STORE_HOST_IPV6) == (1 << HOSTS_SHIFT, 2 << HOSTS_SHIFT)

SIZE_AND_MAGIC = struct.Struct(
    ">i"  # size: a record's, or what is left of the segment
    "I"  # magic; up to here a blank and a record are alike
)
BLANK_SIZE = SIZE_AND_MAGIC.size
assert BLANK_SIZE == 8

INT = struct.Struct(">i")
LONG = struct.Struct(">q")

# The positions drawn above, for reading single fields.
MAGIC_LOW_BYTE_AT = 7
V2_LOW_BYTE = Version.V2.value & 0xFF
CRC_AT = 8
QUEUE_ID_AT = 12
FLAG_AT = 16
OFFSETS_AT = 20
SYS_FLAG_AT = 36
SYS_FLAG_LOW_BYTE_AT = 39
BORN_TIMESTAMP_AT = 40
_STORE_TIMESTAMP_AT = 56
_STORE_TIMESTAMP_AT_IPV6 = 68
assert struct.calcsize(">iIiiiqqi") == BORN_TIMESTAMP_AT
assert struct.calcsize(">iIiiiqqiq4si") == _STORE_TIMESTAMP_AT
assert struct.calcsize(">iIiiiqqiq16si") == _STORE_TIMESTAMP_AT_IPV6

# Signed in Java (MessageVersion, MessageDecoder): a length with its sign bit set is no length.
TOPIC_LENGTH_V1 = struct.Struct(">b")
TOPIC_LENGTH_V2 = struct.Struct(">h")
PROPERTIES_LENGTH = struct.Struct(">h")
_LONGEST_V1_TOPIC = 127
_LONGEST_TEXT = 32767

LEAST_SIZE = HEADS[0].size + TOPIC_LENGTH_V1.size + PROPERTIES_LENGTH.size
assert LEAST_SIZE == 91  # IPv4, V1; body, topic and properties empty

SIGN_CLEARED = 0x7FFFFFFF  # Java keeps CRCs in an int and clears the sign (UtilAll.crc32)
_EMPTY = bytearray()


class Storable(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What a record has from its message, before it has a place in the log and in a queue."""

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
    """The fields of a record as they are stored: text as UTF-8 bytes, the body compressed or not.

    ``version`` follows from the length of the topic, and ``body_crc`` from the body, unless they
    are given. The IPv6 bits of ``sys_flag`` follow from the hosts, whatever it says.
    """

    topic: bytes
    queue_offset: int = 0
    commit_log_offset: int = 0
    store_timestamp_ms: int = 0
    body_crc: int | None = None
    version: Version | None = None


class Form(msgspec.Struct, frozen=True):
    """What the records of one topic have in common, given the kinds of their hosts.

    A log that appends thousands of records to a topic asks :func:`form_of` once.
    """

    head: struct.Struct
    magic: int
    hosts: int
    """The IPv6 bits of the sys flag."""
    topic: bytes
    counted_topic: bytes
    """The topic behind its length."""
    overhead: int
    """The size of a record without its body and its properties."""


def form_of(
    topic: bytes, born_ip_length: int, store_ip_length: int, version: Version | None = None
) -> Form:
    """Return the form of records of a topic, of hosts whose addresses have so many bytes.

    Raises:
        LocalProtocolError: an address has neither 4 nor 16 bytes, or the topic is too long.

    >>> form_of(b"orders", 4, 16).overhead
    109

    """
    hosts = 0
    for bit, name, length in ((1, "born_host", born_ip_length), (2, "store_host", store_ip_length)):
        if length == 16:
            hosts |= bit
        elif length != 4:
            raise LocalProtocolError(f"{name}: an address has 4 or 16 bytes, not {length}")
    if version is None:
        version = Version.V1 if len(topic) <= _LONGEST_V1_TOPIC else Version.V2
    longest = _LONGEST_V1_TOPIC if version is Version.V1 else _LONGEST_TEXT
    if len(topic) > longest:
        raise LocalProtocolError(
            f"topic: {len(topic)} bytes, and a {version.name} record has room for {longest}"
        )
    topic_length = TOPIC_LENGTH_V1 if version is Version.V1 else TOPIC_LENGTH_V2
    counted_topic = topic_length.pack(len(topic)) + topic
    overhead = HEADS[hosts].size + len(counted_topic) + PROPERTIES_LENGTH.size
    return Form(HEADS[hosts], version.value, hosts << HOSTS_SHIFT, topic, counted_topic, overhead)


def parts(
    message: Storable,
    form: Form,
    queue_offset: int,
    commit_log_offset: int,
    store_timestamp_ms: int,
    body_crc: int | None = None,
) -> tuple[bytes, Buffer, bytes]:
    r"""Return the bytes of the record that a message becomes: head, body, and what follows it.

    The body is the one given, not a copy: a log writes the parts one behind the other. Its checksum
    is made here unless it is given.

    Raises:
        LocalProtocolError: a number or a text does not fit its field; the message names it.

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
    r"""Return the bytes of ``record`` in one piece.

    Raises:
        LocalProtocolError: a number or a text does not fit its field; the message names it.

    >>> here = Host.parse("127.0.0.1:10911")
    >>> order = Record(
    ...     topic=b"orders", body=b"1 pizza", queue_id=0, born_timestamp_ms=0,
    ...     born_host=here, store_host=here,
    ... )
    >>> encode(order)[84:]
    bytearray(b'\x00\x00\x00\x071 pizza\x06orders\x00\x00')

    """
    return _EMPTY.join(
        parts(
            record,
            _form_of(record),
            record.queue_offset,
            record.commit_log_offset,
            record.store_timestamp_ms,
            record.body_crc,
        )
    )


def size_of(record: Record) -> int:
    """Return how many bytes :func:`encode` would make of ``record``.

    Raises:
        LocalProtocolError: a host's address has neither 4 nor 16 bytes, or the topic is too long.

    >>> here = Host.parse("127.0.0.1:10911")
    >>> size_of(Record(topic=b"orders", body=b"1 pizza", queue_id=0, born_timestamp_ms=0,
    ...                born_host=here, store_host=here))
    104

    """
    return _form_of(record).overhead + len(record.body) + len(record.properties)


def blank(size: int) -> bytes:
    """Return the head of a blank that fills the last ``size`` bytes of a segment.

    Raises:
        LocalProtocolError: there is no room for the head, or the size does not fit its field.

    >>> blank(100).hex()
    '00000064cbd43194'

    """
    if not BLANK_SIZE <= size <= SIGN_CLEARED:
        raise LocalProtocolError(f"a blank has {BLANK_SIZE} to {SIGN_CLEARED} bytes, not {size}")
    return SIZE_AND_MAGIC.pack(size, MAGIC_BLANK)


CRC_NAME = properties.CRC32.encode() + b"\x01"
_CRC_DIGITS = 10
CRC_PROPERTY_SIZE = len(CRC_NAME) + _CRC_DIGITS + 1
assert CRC_PROPERTY_SIZE == 20


def crc_property(*before: Buffer) -> bytes:
    r"""Return the property that seals a record, given all its bytes before the property.

    Brokers with ``enabledAppendPropCRC`` end every record with it. The digits run from the least
    significant on: Java's ``MessageDecoder.createCrc32`` does so.

    >>> crc_property(b"some ", b"record")
    b'__CRC32#\x011291243902\x02'
    """
    crc = 0
    for part in before:
        crc = crc32(part, crc)
    return CRC_NAME + f"{crc & SIGN_CLEARED:0{_CRC_DIGITS}d}"[::-1].encode() + b"\x02"


def store_timestamp_at(buffer: bytearray | memoryview, start: int) -> int:
    """Return where the store timestamp of the record at ``start`` is."""
    if buffer[start + SYS_FLAG_LOW_BYTE_AT] & flags.BORN_HOST_IPV6:
        return start + _STORE_TIMESTAMP_AT_IPV6
    return start + _STORE_TIMESTAMP_AT


def _form_of(record: Record) -> Form:
    born, store = record.born_host, record.store_host
    return form_of(record.topic, len(born.ip), len(store.ip), record.version)


_FIELD_BITS = {
    "queue_id": 32,
    "flag": 32,
    "sys_flag": 32,
    "reconsume_times": 32,
    "body_crc": 32,
    "queue_offset": 64,
    "commit_log_offset": 64,
    "born_timestamp_ms": 64,
    "store_timestamp_ms": 64,
    "prepared_transaction_offset": 64,
}


def _does_not_fit(message: Storable) -> LocalProtocolError:
    """Return the error for the first field that the layout has no room for."""
    if len(message.properties) > _LONGEST_TEXT:
        length = len(message.properties)
        return LocalProtocolError(
            f"properties: {length} bytes, and a record has room for {_LONGEST_TEXT}"
        )
    for name, bits in _FIELD_BITS.items():
        value = getattr(message, name, None) or 0
        if not isinstance(value, int):
            return LocalProtocolError(f"{name} must be an int, not {type(value).__name__}")
        if not -(1 << bits - 1) <= value < 1 << bits - 1:
            return LocalProtocolError(f"{name}: {shown_int(value)} does not fit in {bits} bits")
    for name, host in (("born_host", message.born_host), ("store_host", message.store_host)):
        if not -(1 << 31) <= host.port < 1 << 31:
            return LocalProtocolError(f"{name}: port {host.port} does not fit in 32 bits")
    return LocalProtocolError(f"body: {len(message.body)} bytes are too many for one record")
