"""One record in a buffer: single fields read in place, or the whole message."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import msgspec

from orbitmq.checksum import crc32
from orbitmq.errors import CompressionFailed, CorruptRecord
from orbitmq.message import flags, properties
from orbitmq.message.compression import MAX_BODY_BYTES, CompressionType, decompress
from orbitmq.message.host import Host
from orbitmq.message.model import StoredMessage
from orbitmq.message.record import (
    BORN_TIMESTAMP_AT,
    COMMIT_LOG_OFFSET_AT,
    CRC_AT,
    FLAG_AT,
    FORMATS,
    HEADS,
    INT,
    LONG,
    MAGIC_LOW_BYTE_AT,
    PROPERTIES_LENGTH,
    PROPERTIES_LENGTH_SIZE,
    QUEUE_ID_AT,
    QUEUE_OFFSET_AT,
    SIGN_CLEARED,
    SIZE_AND_MAGIC,
    SYS_FLAG_AT,
    SYS_FLAG_LOW_BYTE_AT,
    TOPIC_LENGTH_V1,
    TOPIC_LENGTH_V2,
    V2_LOW_BYTE,
    Row,
    Version,
    reader,
    seal_agrees,
    store_timestamp_at,
)

__all__ = ["Carried", "Filed", "RecordView", "filed_of"]

# Indexes into the tuple that a head unpacks to.
_NAMES: Final = tuple(FORMATS)
_FLAG: Final = _NAMES.index("flag")
_SYS_FLAG: Final = _NAMES.index("sys_flag")
_BORN_TIMESTAMP: Final = _NAMES.index("born_timestamp_ms")
_BORN_HOST: Final = slice(_NAMES.index("born_ip"), _NAMES.index("born_port") + 1)
_STORE_HOST: Final = slice(_NAMES.index("store_ip"), _NAMES.index("store_port") + 1)
_RECONSUME_TIMES: Final = _NAMES.index("reconsume_times")
_PREPARED_TRANSACTION_OFFSET: Final = _NAMES.index("prepared_transaction_offset")

_FILED: Final = reader(
    "queue_id", "queue_offset", "commit_log_offset", "sys_flag", "store_timestamp_ms"
)


def _int_at(buffer: memoryview, position: int) -> int:
    value: int = INT.unpack_from(buffer, position)[0]
    return value


def _long_at(buffer: memoryview, position: int) -> int:
    value: int = LONG.unpack_from(buffer, position)[0]
    return value


class Filed(msgspec.Struct, frozen=True, gc=False):
    """The fields of a record that queues and indexes are built from."""

    topic: bytes
    queue_id: int
    queue_offset: int
    commit_log_offset: int
    size: int
    sys_flag: int
    store_timestamp_ms: int
    properties: bytes


class Carried(NamedTuple):
    """The fields of a record that do not depend on where it is stored."""

    body: memoryview
    properties: bytes
    flag: int
    sys_flag: int
    born_timestamp_ms: int
    born_host: Host
    store_host: Host
    reconsume_times: int


def filed_of(buffer: memoryview, row: Row) -> Filed:
    """Return the fields of the record of a row that queues and indexes are built from."""
    start, end, _, _, topic_start, topic_end = row
    queue_id, queue_offset, offset, sys_flag, stored_ms = _FILED.unpack_from(buffer, start)
    if sys_flag & flags.BORN_HOST_IPV6:
        stored_ms = _long_at(buffer, store_timestamp_at(buffer, start))
    topic = bytes(buffer[topic_start:topic_end])
    text = bytes(buffer[topic_end + PROPERTIES_LENGTH_SIZE : end])
    return Filed(topic, queue_id, queue_offset, offset, end - start, sys_flag, stored_ms, text)


class RecordView(msgspec.Struct, frozen=True, eq=False, gc=False):
    """A record inside a buffer; each field is read when it is asked for.

    :class:`~orbitmq.message.scan.Scan` makes the views, and has checked that ``size`` bytes are
    there and that the magic is right. The lengths inside are checked when a field that depends on
    them is read, which raises :class:`~orbitmq.errors.CorruptRecord` if they don't add up.

    The view keeps the whole buffer alive: to keep a record, call :meth:`message` or copy it.

    >>> from orbitmq.message.record import Record, encode
    >>> here = Host.parse("127.0.0.1:10911")
    >>> record = encode(Record(topic=b"orders", body=b"1 pizza", queue_id=3, born_timestamp_ms=0,
    ...                        born_host=here, store_host=here))
    >>> view = RecordView(memoryview(record), 0, len(record))
    >>> view.queue_id, view.topic, view.message().body
    (3, b'orders', b'1 pizza')
    """

    buffer: memoryview
    start: int
    size: int
    parts: Row | None = None
    """Where its parts are, if that is known already; their lengths are not checked again."""

    def __repr__(self) -> str:
        return f"<RecordView at byte {self.start}, {self.size} bytes>"

    @property
    def raw(self) -> memoryview:
        """The whole record, not copied."""
        return self.buffer[self.start : self.start + self.size]

    @property
    def version(self) -> Version:
        """The version of the layout, which says how long the topic may be."""
        return Version(SIZE_AND_MAGIC.unpack_from(self.buffer, self.start)[1])

    @property
    def body_crc(self) -> int:
        """The CRC-32 stored for the body; see :meth:`is_whole`."""
        return _int_at(self.buffer, self.start + CRC_AT)

    @property
    def queue_id(self) -> int:
        """The queue of the topic, on this broker."""
        return _int_at(self.buffer, self.start + QUEUE_ID_AT)

    @property
    def flag(self) -> int:
        """The flag set by the user."""
        return _int_at(self.buffer, self.start + FLAG_AT)

    @property
    def queue_offset(self) -> int:
        """The position in the queue, counted in messages."""
        return _long_at(self.buffer, self.start + QUEUE_OFFSET_AT)

    @property
    def commit_log_offset(self) -> int:
        """The position in the commit log, in bytes, as written in the record."""
        return _long_at(self.buffer, self.start + COMMIT_LOG_OFFSET_AT)

    @property
    def sys_flag(self) -> int:
        """The bits of :mod:`orbitmq.message.flags`."""
        return _int_at(self.buffer, self.start + SYS_FLAG_AT)

    @property
    def born_timestamp_ms(self) -> int:
        """When the client sent the message, by the client's clock."""
        return _long_at(self.buffer, self.start + BORN_TIMESTAMP_AT)

    @property
    def born_host(self) -> Host:
        """The client that sent the message."""
        return Host(*self._head()[_BORN_HOST])

    @property
    def store_timestamp_ms(self) -> int:
        """When the broker stored the message."""
        return _long_at(self.buffer, store_timestamp_at(self.buffer, self.start))

    @property
    def store_host(self) -> Host:
        """The broker that stored the message."""
        return Host(*self._head()[_STORE_HOST])

    @property
    def reconsume_times(self) -> int:
        """How often the message was delivered before."""
        times: int = self._head()[_RECONSUME_TIMES]
        return times

    @property
    def prepared_transaction_offset(self) -> int:
        """For a committed message, the commit log offset of its half message."""
        offset: int = self._head()[_PREPARED_TRANSACTION_OFFSET]
        return offset

    @property
    def body(self) -> memoryview:
        """The body as stored, perhaps compressed; not copied."""
        _, _, start, end, _, _ = self._row()
        return self.buffer[start:end]

    @property
    def topic(self) -> bytes:
        """The topic, UTF-8."""
        _, _, _, _, start, end = self._row()
        return bytes(self.buffer[start:end])

    @property
    def properties(self) -> bytes:
        """The text of the properties; see :func:`orbitmq.message.properties.decode`."""
        _, end, _, _, _, topic_end = self._row()
        return bytes(self.buffer[topic_end + PROPERTIES_LENGTH_SIZE : end])

    def is_whole(self, *, crc_property: bool = True) -> bool:
        """Return whether the checksums of the record agree with its bytes.

        They are the CRC of the body, and the ``__CRC32#`` property of a record that ends in one,
        unless ``crc_property`` is False. The CRC of an empty body is not compared, as in Java's
        ``CommitLog``. Raise CorruptRecord if the lengths inside the record don't add up.
        """
        start, end, body_start, body_end, _, topic_end = self._row()
        body = self.buffer[body_start:body_end]
        if body and crc32(body) & SIGN_CLEARED != self.body_crc:
            return False
        properties_start = topic_end + PROPERTIES_LENGTH_SIZE
        return not crc_property or seal_agrees(self.buffer, start, properties_start, end)

    def filed(self) -> Filed:
        """Return the fields that queues and indexes are built from, read in one go."""
        return filed_of(self.buffer, self._row())

    def carried(self) -> Carried:
        """Return the fields that a copy of the message has too, read in one go."""
        head = self._head()
        _, end, body_start, body_end, _, topic_end = self._row()
        return Carried(
            self.buffer[body_start:body_end],
            bytes(self.buffer[topic_end + PROPERTIES_LENGTH_SIZE : end]),
            head[_FLAG],
            head[_SYS_FLAG],
            head[_BORN_TIMESTAMP],
            Host(*head[_BORN_HOST]),
            Host(*head[_STORE_HOST]),
            head[_RECONSUME_TIMES],
        )

    def message(
        self,
        *,
        broker_name: str = "",
        open_body: bool = True,
        max_body: int = MAX_BODY_BYTES,
        more_properties: Mapping[str, str] = MappingProxyType({}),
    ) -> StoredMessage:
        """Return the record as a message that no longer needs the buffer.

        A compressed body is decompressed, to at most ``max_body`` bytes, unless ``open_body`` is
        False. That clears the compressed bit of the sys flag but not the type bits, as in Java's
        ``MessageDecoder``. A batch is not split; see :func:`orbitmq.message.scan.split_inner`.
        Raise CorruptRecord if the lengths inside the record don't add up, CompressionFailed if the
        body can't be decompressed or is too large, and MissingExtra if the package for it is
        missing.
        """
        (
            size,
            _,
            body_crc,
            queue_id,
            flag,
            queue_offset,
            commit_log_offset,
            sys_flag,
            born_timestamp_ms,
            born_ip,
            born_port,
            store_timestamp_ms,
            store_ip,
            store_port,
            reconsume_times,
            prepared_transaction_offset,
            _,
        ) = self._head()
        buffer = self.buffer
        _, end, body_start, body_end, topic_start, topic_end = self._row()
        body = bytes(buffer[body_start:body_end])
        if sys_flag & flags.COMPRESSED and open_body and body:
            body = self._opened(body, sys_flag, max_body)
            sys_flag &= ~flags.COMPRESSED
        return StoredMessage(
            topic=str(buffer[topic_start:topic_end], "utf-8", "replace"),
            body=body,
            properties=properties.LazyProperties(
                bytes(buffer[topic_end + PROPERTIES_LENGTH_SIZE : end]), more_properties
            ),
            queue_id=queue_id,
            queue_offset=queue_offset,
            commit_log_offset=commit_log_offset,
            flag=flag,
            sys_flag=sys_flag,
            born_timestamp_ms=born_timestamp_ms,
            born_host=Host(born_ip, born_port),
            store_timestamp_ms=store_timestamp_ms,
            store_host=Host(store_ip, store_port),
            reconsume_times=reconsume_times,
            prepared_transaction_offset=prepared_transaction_offset,
            body_crc=body_crc,
            store_size=size,
            broker_name=broker_name,
        )

    def _opened(self, body: bytes, sys_flag: int, limit: int) -> bytes:
        try:
            return decompress(body, CompressionType.of(sys_flag), limit=limit)
        except CompressionFailed as error:
            raise CompressionFailed(
                f"record at byte {self.start}: {error}", position=self.start
            ) from error

    def _head(self) -> tuple[Any, ...]:
        head = HEADS[self.buffer[self.start + SYS_FLAG_LOW_BYTE_AT]]
        if head.size > self.size:
            raise self._corrupt(f"its hosts need a head of {head.size}")
        return head.unpack_from(self.buffer, self.start)

    def _row(self) -> Row:
        return self._checked_row() if self.parts is None else self.parts

    def _checked_row(self) -> Row:
        buffer, start = self.buffer, self.start
        end = start + self.size
        head = HEADS[buffer[start + SYS_FLAG_LOW_BYTE_AT]]
        body_start = start + head.size
        if body_start > end:
            raise self._corrupt(f"its hosts need a head of {head.size}")
        (body_length,) = INT.unpack_from(buffer, body_start - INT.size)
        body_end = body_start + body_length
        is_v2 = buffer[start + MAGIC_LOW_BYTE_AT] == V2_LOW_BYTE
        topic_length_field = TOPIC_LENGTH_V2 if is_v2 else TOPIC_LENGTH_V1
        topic_start = body_end + topic_length_field.size
        if body_length < 0 or topic_start > end:
            raise self._corrupt(f"a body of {body_length}")
        (topic_length,) = topic_length_field.unpack_from(buffer, body_end)
        topic_end = topic_start + topic_length
        properties_start = topic_end + PROPERTIES_LENGTH_SIZE
        if topic_length < 0 or properties_start > end:
            raise self._corrupt(f"a body of {body_length}, a topic of {topic_length}")
        (length,) = PROPERTIES_LENGTH.unpack_from(buffer, topic_end)
        if properties_start + length != end:
            raise self._corrupt(
                f"a body of {body_length}, a topic of {topic_length}, properties of {length}"
            )
        return start, end, body_start, body_end, topic_start, topic_end

    def _corrupt(self, what: str) -> CorruptRecord:
        return CorruptRecord(
            f"record at byte {self.start} has a size of {self.size}, and {what} bytes: "
            "that does not add up",
            position=self.start,
        )
