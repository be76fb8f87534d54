"""Makes records plain: decompresses bodies and splits inner batches; the results are records.

So code that reads thousands of records at once handles only plain ones. Few records are not plain,
and decompressing a body costs more than building a record again.
"""

from collections.abc import Iterator
from typing import Final

from orbitmq.errors import CorruptRecord
from orbitmq.message import batch, flags
from orbitmq.message.buffer import Buffer
from orbitmq.message.compression import CompressionType, decompress
from orbitmq.message.record import (
    CRC_AT,
    FLAG_AT,
    HEADS,
    INT,
    LONG,
    PROPERTIES_LENGTH,
    QUEUE_OFFSET_AT,
    SIZE_AT,
    SYS_FLAG_AT,
)
from orbitmq.message.record_view import RecordView

__all__ = ["NOT_PLAIN", "plain_records"]

_INNER_BATCH: Final = flags.NEED_UNWRAP | flags.INNER_BATCH
NOT_PLAIN: Final = flags.COMPRESSED | _INNER_BATCH
"""A record with one of these bits of the sys flag may have to be made plain."""


def plain_records(view: RecordView) -> Iterator[tuple[int, bytes]]:
    """Yield the plain records that replace a record: the queue offset and the bytes of each.

    As in Java's ``MessageDecoder``: only the compressed bit of the sys flag is cleared. A part of a
    batch has the next offset, the part's flag, body and properties, and no checksum; everything
    else is from the record around it. A decompressed body keeps the checksum of the stored body.

    Raise CorruptRecord if the record, or the batch in it, does not add up, CompressionFailed if the
    body can't be decompressed or is too large, and MissingExtra if the package for that is not
    installed.
    """
    sys_flag, body = view.sys_flag, view.body
    head = bytearray(view.raw[: HEADS[sys_flag & 0xFF].size])
    behind = view.raw[len(head) + len(body) :]
    opened: Buffer = body
    if sys_flag & flags.COMPRESSED and body:
        opened = decompress(body, CompressionType.of(sys_flag))
        sys_flag &= ~flags.COMPRESSED
        INT.pack_into(head, SYS_FLAG_AT, sys_flag)
    if sys_flag & _INNER_BATCH != _INNER_BATCH:
        yield view.queue_offset, _record(head, opened, behind)
        return
    if not opened:
        raise CorruptRecord(f"record at byte {view.start} is an inner batch without a body")
    topic = behind[: len(behind) - len(view.properties) - PROPERTIES_LENGTH.size]
    INT.pack_into(head, CRC_AT, 0)
    for offset, inner in enumerate(batch.split(opened), view.queue_offset):
        INT.pack_into(head, FLAG_AT, inner.flag)
        LONG.pack_into(head, QUEUE_OFFSET_AT, offset)
        tail = b"".join((topic, PROPERTIES_LENGTH.pack(len(inner.properties)), inner.properties))
        yield offset, _record(head, inner.body, tail)


def _record(head: bytearray, body: Buffer, behind: Buffer) -> bytes:
    """Return a record with the right sizes in its head."""
    INT.pack_into(head, SIZE_AT, len(head) + len(body) + len(behind))
    INT.pack_into(head, len(head) - INT.size, len(body))  # the last field of the head
    return b"".join((head, body, behind))
