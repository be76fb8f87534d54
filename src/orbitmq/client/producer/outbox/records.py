"""The format of an outbox file: messages that could not be sent, and their outcome since.

::

    0        8
    +--------+--------+--------+-- …          a file: its mark, then records
    | mark   | record | record |
    +--------+--------+--------+-- …

    0        4        8      9              17          8+size
    +--------+--------+------+--------------+-----------+
    | size   | crc32  | kind | sequence     | payload   |   size and checksum cover the bytes
    | u32    | u32    | u8   | u64          |           |   after the checksum
    +--------+--------+------+--------------+-----------+

    kind 1  kept      a message: the payload is a ``Kept``, as MessagePack
    kind 2  done      the message was sent, or discarded by hand: no payload
    kind 3  refused   no retry will send the message: the payload is the reason, in UTF-8

Records are only appended. A crash can leave torn records at the end of the file; they were never
reported as kept. Unreadable bytes that valid records follow are damage, and are skipped.
"""

import re
import struct
import zlib
from collections.abc import Iterator
from enum import IntEnum
from typing import Final, NamedTuple

import msgspec

from orbitmq.errors import CorruptRecord
from orbitmq.message.buffer import Buffer
from orbitmq.message.model import Message, MessageQueue

__all__ = ["HEAD_BYTES", "MARK", "Kept", "Kind", "Record", "encode", "read_kept", "scan"]

MARK: Final = b"OMQBOX1\n"

_HEAD: Final = struct.Struct(
    ">I"  # size: bytes after the checksum
    "I"  # CRC-32 of those bytes
)
_BODY: Final = struct.Struct(
    ">B"  # kind
    "Q"  # sequence
)
HEAD_BYTES: Final = _HEAD.size + _BODY.size
assert HEAD_BYTES == 17

RECORD_BYTES_MAX: Final = 32 * 1024 * 1024
"""Twice the largest frame; a larger size means that the bytes are not a record."""


class Kind(IntEnum):
    """The kind of a record."""

    KEPT = 1
    DONE = 2
    REFUSED = 3


class Kept(msgspec.Struct, frozen=True, array_like=True):
    """A message that could not be sent; ``queue`` is the one that its sender chose, if any."""

    kept_ms: int
    queue: MessageQueue | None
    reason: str
    message: Message


class Record(NamedTuple):
    """One record; ``position`` and ``size`` include its head."""

    kind: Kind
    sequence: int
    position: int
    size: int
    payload: bytes


# The properties of a message are an immutable mapping, which msgspec can't encode by itself.
_encoder: Final = msgspec.msgpack.Encoder(enc_hook=dict)
_decoder: Final = msgspec.msgpack.Decoder(Kept)


def encode(kind: Kind, sequence: int, payload: Kept | str | None = None) -> bytes:
    """Return the bytes of a record.

    >>> len(encode(Kind.DONE, 7)) == HEAD_BYTES
    True
    """
    raw = _encoder.encode(payload) if isinstance(payload, Kept) else (payload or "").encode()
    content = _BODY.pack(kind, sequence) + raw
    return _HEAD.pack(len(content), zlib.crc32(content)) + content


def read_kept(payload: bytes, *, position: int = 0) -> Kept:
    """Return the message of a ``KEPT`` record.

    Raise CorruptRecord if it can't be read: another version of orbitmq may have written it.
    """
    try:
        return _decoder.decode(payload)
    except msgspec.MsgspecError as error:
        raise CorruptRecord(
            f"the message at byte {position} of the outbox can't be read: {error}",
            position=position,
        ) from error


class Scan:
    """Iterates over the valid records of a file; the attributes are final when it is exhausted.

    ``end`` is that of the last valid record; ``broken`` counts unreadable stretches before it.
    """

    def __init__(self, raw: Buffer) -> None:
        self._raw = memoryview(raw)
        self.end = len(MARK)
        self.broken = 0

    def __iter__(self) -> Iterator[Record]:
        while (record := self._record(self.end)) or (record := self._next_valid(self.end + 1)):
            self.end = record.position + record.size
            yield record

    def _next_valid(self, start: int) -> Record | None:
        """Return the first valid record after unreadable bytes; None if the end is torn."""
        for candidate in _LIKELY_HEAD.finditer(self._raw, start):
            if record := self._record(candidate.start()):
                self.broken += 1
                return record
        return None

    def _record(self, position: int) -> Record | None:
        """Return the record at a position; None if there is no valid one."""
        if position + HEAD_BYTES > len(self._raw):
            return None
        size, crc = _HEAD.unpack_from(self._raw, position)
        end = position + _HEAD.size + size
        if not _BODY.size <= size <= RECORD_BYTES_MAX or end > len(self._raw):
            return None
        content = self._raw[position + _HEAD.size : end]
        kind, sequence = _BODY.unpack_from(content)
        if kind not in _KINDS or zlib.crc32(content) != crc:
            return None
        return Record(Kind(kind), sequence, position, end - position, bytes(content[_BODY.size :]))


_KINDS: Final = frozenset(Kind)
# A size below 32 MiB, any checksum, a kind, and a sequence below 2**40; a lookahead, since one
# candidate may overlap the next.
_LIKELY_HEAD: Final = re.compile(rb"(?=[\x00-\x02].{7}[\x01-\x03]\x00{3})", re.DOTALL)


def scan(raw: Buffer) -> Scan:
    """Return the valid records of a file's bytes, its mark included.

    Raise CorruptRecord if it does not begin with the mark; a file shorter than the mark is empty.
    """
    head = bytes(raw[: len(MARK)])
    if not MARK.startswith(head):
        raise CorruptRecord("the file doesn't begin with the mark of an outbox")
    return Scan(raw)
