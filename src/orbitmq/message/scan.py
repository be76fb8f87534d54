"""Many records: finding them in any buffer, and a pull answer as messages."""

import enum
from collections.abc import Iterator
from types import MappingProxyType

import msgspec

from orbitmq.errors import CorruptRecord, InvalidInput
from orbitmq.message import batch, flags, properties
from orbitmq.message.buffer import Buffer
from orbitmq.message.compression import MAX_BODY_BYTES
from orbitmq.message.model import StoredMessage
from orbitmq.message.record import (
    BLANK_SIZE,
    LEAST_SIZE,
    MAGIC_BLANK,
    MAGICS,
    SIZE_AND_MAGIC,
)
from orbitmq.message.record_view import RecordView

__all__ = ["Scan", "Stop", "StopReason", "decode_all", "split_inner"]


class StopReason(enum.Enum):
    """Why a scan came to its end; the value says what the detail counts."""

    END = "the end; {} bytes left"
    BLANK = "a blank of {} bytes"
    UNWRITTEN = "nothing written; {} bytes left"
    SHORT = "cut off; {} bytes needed"
    BAD_MAGIC = "no record; its magic is {:#010x}"
    BAD_SIZE = "no record; its size field says {}, which is not the sum of its parts"
    BAD_CHECKSUM = "a record of {} bytes that a checksum shows to be damaged"


class Stop(msgspec.Struct, frozen=True, gc=False):
    """Where a scan came to its end, and why.

    >>> str(Stop(StopReason.BLANK, 4096, 512))
    'at byte 4096: a blank of 512 bytes'
    """

    reason: StopReason
    position: int
    detail: int

    def __str__(self) -> str:
        return f"at byte {self.position}: {self.reason.value.format(self.detail)}"


class Scan:
    """The records of a buffer one after the other, as views; any bytes whatever end in a stop.

    Only size and magic are looked at. With ``verify`` a view is handed out after the lengths
    inside it, the CRC of its body and its ``__CRC32#`` property, if it has one, were found right.
    Turn ``crc_property`` off for a store whose broker does not write that property itself: there
    it is whatever a client sent.

    Raises:
        InvalidInput: ``start`` and ``end`` are not within the buffer.

    >>> scan = Scan(bytes(64))
    >>> list(scan), str(scan.stop)
    ([], 'at byte 0: nothing written; 64 bytes left')

    """

    def __init__(
        self,
        buffer: Buffer,
        start: int = 0,
        end: int | None = None,
        *,
        verify: bool = False,
        crc_property: bool = True,
    ) -> None:
        view = memoryview(buffer)
        end = len(view) if end is None else end
        if not 0 <= start <= end <= len(view):
            raise InvalidInput(
                f"start {start} and end {end} are not within a buffer of {len(view)} bytes",
                field="start",
            )
        self._buffer = view
        self._start = start
        self._end = end
        self._verify = verify
        self._crc_property = crc_property
        self._stop: Stop | None = None

    def __iter__(self) -> Iterator[RecordView]:
        self._stop = None
        buffer, position, end, verify = self._buffer, self._start, self._end, self._verify
        size_and_magic = SIZE_AND_MAGIC.unpack_from
        while end - position >= LEAST_SIZE:
            size, magic = size_and_magic(buffer, position)
            if magic not in MAGICS or not LEAST_SIZE <= size <= end - position:
                break
            view = RecordView(buffer, position, size)
            if verify and (fault := self._fault(view)):
                self._stop = fault
                return
            yield view
            position += size
        self._stop = _stop_at(buffer, position, end)

    @property
    def stop(self) -> Stop:
        """Why the records ended; only there once they did.

        Raises:
            RuntimeError: the scan has not come to its end yet.

        """
        if self._stop is None:
            raise RuntimeError("the scan has not ended: read all its records first")
        return self._stop

    def _fault(self, view: RecordView) -> Stop | None:
        try:
            whole = view.is_whole(crc_property=self._crc_property)
        except CorruptRecord:
            return Stop(StopReason.BAD_SIZE, view.start, view.size)
        return None if whole else Stop(StopReason.BAD_CHECKSUM, view.start, view.size)


def _stop_at(buffer: memoryview, position: int, end: int) -> Stop:
    """Return why no record can be read at ``position``."""
    left = end - position
    if left == 0:
        return Stop(StopReason.END, position, 0)
    if left < BLANK_SIZE:
        return Stop(StopReason.SHORT, position, BLANK_SIZE)
    size, magic = SIZE_AND_MAGIC.unpack_from(buffer, position)
    if size == 0 and magic == 0:
        return Stop(StopReason.UNWRITTEN, position, left)
    if magic == MAGIC_BLANK and size >= BLANK_SIZE:
        return Stop(StopReason.BLANK, position, size)
    if magic != MAGIC_BLANK and magic not in MAGICS:
        return Stop(StopReason.BAD_MAGIC, position, magic)
    if magic == MAGIC_BLANK or size < LEAST_SIZE:
        return Stop(StopReason.BAD_SIZE, position, size)
    return Stop(StopReason.SHORT, position, size)


def decode_all(
    buffer: Buffer,
    *,
    broker_name: str = "",
    max_body: int = MAX_BODY_BYTES,
    strict: bool = True,
) -> list[StoredMessage]:
    """Return the messages of a pull answer, which is records and nothing else.

    With ``strict=False`` the first record that can't be read ends the list without a word, as in
    Java's ``MessageDecoder.decodes``. That is not the default, because a consumer goes on behind
    the last offset of the answer: what is missing from the list it would never see.

    Raises:
        CorruptRecord: a record is damaged or cut off, or the body is not records.
        CompressionFailed: a body can't be opened, or is larger than ``max_body``.
        MissingExtra: the package to open a body with is not installed; also when not strict.

    >>> decode_all(b"")
    []

    """
    messages: list[StoredMessage] = []
    scan = Scan(buffer)
    try:
        for view in scan:
            # One by one: what came before a fault is kept.
            messages.append(view.message(broker_name=broker_name, max_body=max_body))  # noqa: PERF401
        if scan.stop.reason is not StopReason.END:
            raise CorruptRecord(f"the records end {scan.stop}", position=scan.stop.position)
    except CorruptRecord:
        if strict:
            raise
    return messages


_INNER_BATCH = flags.NEED_UNWRAP | flags.INNER_BATCH


def split_inner(message: StoredMessage) -> list[StoredMessage]:
    """Return the messages of an inner batch; a message that is none comes back alone.

    Each has flag, body and properties of its own and the next queue offset; all else is that of
    the record around it, its sys flag too, as in Java: don't split a part again. CRC and size were
    the record's, and become 0.

    Raises:
        CorruptRecord: the body is not a batch; the position counts from the start of the body.

    ``[part for message in decode_all(answer) for part in split_inner(message)]`` is what a Java
    consumer is given.

    """
    if message.sys_flag & _INNER_BATCH != _INNER_BATCH:
        return [message]
    if not message.body:
        raise CorruptRecord("an inner batch without a body")
    return [
        msgspec.structs.replace(
            message,
            flag=inner.flag,
            body=bytes(inner.body),
            properties=MappingProxyType(properties.decode(bytes(inner.properties))),
            queue_offset=message.queue_offset + index,
            body_crc=0,
            store_size=0,
        )
        for index, inner in enumerate(batch.split(message.body))
    ]
