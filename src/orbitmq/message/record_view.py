"""One record where it lies: fields read in place, and the message it stands for."""

import zlib
from types import MappingProxyType
from typing import Any

import msgspec

from orbitmq.errors import CompressionFailed, CorruptRecord
from orbitmq.message import flags, properties
from orbitmq.message.compression import MAX_BODY_BYTES, CompressionType, decompress
from orbitmq.message.host import Host
from orbitmq.message.model import StoredMessage
from orbitmq.message.record import (
    BORN_TIMESTAMP_AT,
    CRC_AT,
    CRC_NAME,
    CRC_PROPERTY_SIZE,
    FLAG_AT,
    HEADS,
    HOSTS_SHIFT,
    INT,
    LONG,
    MAGIC_LOW_BYTE_AT,
    OFFSETS_AT,
    PROPERTIES_LENGTH,
    QUEUE_ID_AT,
    SIGN_CLEARED,
    SIZE_AND_MAGIC,
    SYS_FLAG_AT,
    SYS_FLAG_LOW_BYTE_AT,
    TOPIC_LENGTH_V1,
    TOPIC_LENGTH_V2,
    V2_LOW_BYTE,
    Version,
    crc_property,
    store_timestamp_at,
)

__all__ = ["Filed", "RecordView"]

# Where the fields whose position varies stand in the tuple that a head unpacks to.
_BORN_HOST = slice(9, 11)
_STORE_HOST = slice(12, 14)
_RECONSUME_TIMES = 14
_PREPARED_TRANSACTION_OFFSET = 15


def _int_at(buffer: memoryview, position: int) -> int:
    value: int = INT.unpack_from(buffer, position)[0]
    return value


def _long_at(buffer: memoryview, position: int) -> int:
    value: int = LONG.unpack_from(buffer, position)[0]
    return value


class Filed(msgspec.Struct, frozen=True, gc=False):
    """Where a record is, where it belongs, and what it can be found by."""

    topic: bytes
    queue_id: int
    queue_offset: int
    commit_log_offset: int
    size: int
    sys_flag: int
    store_timestamp_ms: int
    properties: bytes


class RecordView(msgspec.Struct, frozen=True, eq=False, gc=False):
    """A record where it lies: each field is read from the buffer when asked for.

    :class:`~orbitmq.message.scan.Scan` makes them, and has seen that ``size`` bytes are there and
    that the magic is right. The lengths inside are checked when a field is read that depends on
    them; :class:`~orbitmq.errors.CorruptRecord` says that they don't add up.

    The view keeps the whole buffer alive; take :meth:`message`, or copies, of what is to stay.

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

    def __repr__(self) -> str:
        return f"<RecordView at byte {self.start}, {self.size} bytes>"

    @property
    def raw(self) -> memoryview:
        """The whole record, not copied."""
        return self.buffer[self.start : self.start + self.size]

    @property
    def version(self) -> Version:
        """How long the topic's length field is."""
        return Version(SIZE_AND_MAGIC.unpack_from(self.buffer, self.start)[1])

    @property
    def body_crc(self) -> int:
        """The CRC-32 of the body as the record gives it; see :meth:`check_crc`."""
        return _int_at(self.buffer, self.start + CRC_AT)

    @property
    def queue_id(self) -> int:
        """The queue of the topic, on this broker."""
        return _int_at(self.buffer, self.start + QUEUE_ID_AT)

    @property
    def flag(self) -> int:
        """The user's own number."""
        return _int_at(self.buffer, self.start + FLAG_AT)

    @property
    def queue_offset(self) -> int:
        """The place in the queue, counted in messages."""
        return _long_at(self.buffer, self.start + OFFSETS_AT)

    @property
    def commit_log_offset(self) -> int:
        """The place in the commit log, in bytes; in a whole store it is where the record lies."""
        return _long_at(self.buffer, self.start + OFFSETS_AT + LONG.size)

    @property
    def sys_flag(self) -> int:
        """The bits of :mod:`orbitmq.message.flags`."""
        return _int_at(self.buffer, self.start + SYS_FLAG_AT)

    @property
    def born_timestamp_ms(self) -> int:
        """When the client made the message, by its own clock."""
        return _long_at(self.buffer, self.start + BORN_TIMESTAMP_AT)

    @property
    def born_host(self) -> Host:
        """Where the message came from."""
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
        """How often it was delivered in vain before."""
        times: int = self._head()[_RECONSUME_TIMES]
        return times

    @property
    def prepared_transaction_offset(self) -> int:
        """For a committed message, the commit log offset of the half message it came from."""
        offset: int = self._head()[_PREPARED_TRANSACTION_OFFSET]
        return offset

    @property
    def body(self) -> memoryview:
        """The body as stored, perhaps compressed; not copied."""
        start, end, _, _, _ = self._parts()
        return self.buffer[start:end]

    @property
    def topic(self) -> bytes:
        """The topic, UTF-8."""
        _, _, start, end, _ = self._parts()
        return bytes(self.buffer[start:end])

    @property
    def properties(self) -> bytes:
        """The text of the properties; see :func:`orbitmq.message.properties.decode`."""
        _, _, _, _, start = self._parts()
        return bytes(self.buffer[start : self.start + self.size])

    def check_crc(self) -> bool:
        """Return whether the body is the one the record was written with.

        An empty body always is: Java's ``CommitLog`` does not look at its CRC either.

        Raises:
            CorruptRecord: the lengths inside the record don't add up.

        """
        body = self.body
        return not body or zlib.crc32(body) & SIGN_CLEARED == self.body_crc

    def check_crc_property(self) -> bool:
        """Return whether the ``__CRC32#`` property agrees with the record, if it ends in one.

        Raises:
            CorruptRecord: the lengths inside the record don't add up.

        """
        tail = self.properties[-CRC_PROPERTY_SIZE:]
        if len(tail) < CRC_PROPERTY_SIZE or not tail.startswith(CRC_NAME):
            return True
        return tail == crc_property(self.raw[:-CRC_PROPERTY_SIZE])

    def is_whole(self, *, crc_property: bool = True) -> bool:
        """Return what both checks say together, for less than the two cost.

        Raises:
            CorruptRecord: the lengths inside the record don't add up.

        """
        body_start, body_end, _, _, properties_start = self._parts()
        body = self.buffer[body_start:body_end]
        if body and zlib.crc32(body) & SIGN_CLEARED != self.body_crc:
            return False
        at = self.start + self.size - CRC_PROPERTY_SIZE
        sealed = at >= properties_start and self.buffer[at : at + len(CRC_NAME)] == CRC_NAME
        return not (crc_property and sealed) or self.check_crc_property()

    def filed(self) -> "Filed":
        """Return what an index needs of the record, read in one go.

        Raises:
            CorruptRecord: the lengths inside the record don't add up.

        """
        head = self._head()
        _, _, topic_start, topic_end, properties_start = self._parts()
        buffer = self.buffer
        return Filed(
            bytes(buffer[topic_start:topic_end]),
            head[3],
            head[5],
            head[6],
            self.size,
            head[7],
            head[11],
            bytes(buffer[properties_start : self.start + self.size]),
        )

    def message(
        self, *, broker_name: str = "", open_body: bool = True, max_body: int = MAX_BODY_BYTES
    ) -> StoredMessage:
        """Return the record as a message that no longer needs the buffer.

        A compressed body is opened, at most to ``max_body`` bytes, unless ``open_body`` is False.
        Of the sys flag only the compressed bit is then cleared and the type bits stay, as Java's
        ``MessageDecoder`` leaves them. A batch stays in one piece; see
        :func:`orbitmq.message.scan.split_inner`.

        Raises:
            CorruptRecord: the lengths inside the record don't add up.
            CompressionFailed: the body can't be opened, or is too large.
            MissingExtra: the package to open the body with is not installed.

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
        body_start, body_end, topic_start, topic_end, properties_start = self._parts()
        body = bytes(buffer[body_start:body_end])
        if sys_flag & flags.COMPRESSED and open_body and body:
            body = self._opened(body, sys_flag, max_body)
            sys_flag &= ~flags.COMPRESSED
        return StoredMessage(
            topic=str(buffer[topic_start:topic_end], "utf-8", "replace"),
            body=body,
            properties=MappingProxyType(
                properties.decode(buffer[properties_start : self.start + size])
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
        head = HEADS[self.buffer[self.start + SYS_FLAG_LOW_BYTE_AT] >> HOSTS_SHIFT & 3]
        if head.size > self.size:
            raise self._corrupt(f"its hosts need a head of {head.size}")
        return head.unpack_from(self.buffer, self.start)

    def _parts(self) -> tuple[int, int, int, int, int]:
        """Return where body and topic begin and end, and where the properties begin."""
        buffer, end = self.buffer, self.start + self.size
        head = HEADS[buffer[self.start + SYS_FLAG_LOW_BYTE_AT] >> HOSTS_SHIFT & 3]
        body_start = self.start + head.size
        if body_start > end:
            raise self._corrupt(f"its hosts need a head of {head.size}")
        (body_length,) = INT.unpack_from(buffer, body_start - INT.size)
        body_end = body_start + body_length
        v2 = buffer[self.start + MAGIC_LOW_BYTE_AT] == V2_LOW_BYTE
        topic_length_field = TOPIC_LENGTH_V2 if v2 else TOPIC_LENGTH_V1
        topic_start = body_end + topic_length_field.size
        if body_length < 0 or topic_start > end:
            raise self._corrupt(f"a body of {body_length}")
        (topic_length,) = topic_length_field.unpack_from(buffer, body_end)
        topic_end = topic_start + topic_length
        properties_start = topic_end + PROPERTIES_LENGTH.size
        if topic_length < 0 or properties_start > end:
            raise self._corrupt(f"a body of {body_length}, a topic of {topic_length}")
        (length,) = PROPERTIES_LENGTH.unpack_from(buffer, topic_end)
        if properties_start + length != end:
            raise self._corrupt(
                f"a body of {body_length}, a topic of {topic_length}, properties of {length}"
            )
        return body_start, body_end, topic_start, topic_end, properties_start

    def _corrupt(self, what: str) -> CorruptRecord:
        return CorruptRecord(
            f"record at byte {self.start} has a size of {self.size}, and {what} bytes: "
            "that does not add up",
            position=self.start,
        )
