"""Several messages in one body, as in SEND_BATCH_MESSAGE and in inner batches.

Each message is a head, its body, and its properties; topic, queue and hosts are those of the
request or record around them::

    ┌─────────┬──────┬────────────┬────────────┐
    │ head 20 │ body │ length 2   │ properties │  and the next message
    └─────────┴──────┴────────────┴────────────┘
"""

import struct
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from orbitmq.errors import CorruptRecord, LocalProtocolError
from orbitmq.message.buffer import Buffer
from orbitmq.message.properties import INNER_COUNT, finder

__all__ = ["INNER_BATCH_MAX", "BatchedMessage", "encode", "inner_count", "split"]

INNER_BATCH_MAX: Final = 0x7FFF
"""The most messages of an inner batch: its entry in a queue has two bytes for their number."""

_HEAD = struct.Struct(
    ">i"  # size of this message, the head included
    "i"  # magic: always 0, and never read
    "i"  # CRC of the body: always 0, and never read; the broker computes its own
    "i"  # flag, set by the user
    "i"  # body length; the body follows
)
assert _HEAD.size == 20

_PROPERTIES_LENGTH = struct.Struct(">h")  # signed in Java: properties have at most 32767 bytes
_HEAD_SIZE: Final = _HEAD.size
_LENGTH_SIZE: Final = _PROPERTIES_LENGTH.size
_LEAST: Final = _HEAD_SIZE + _LENGTH_SIZE
_unpack_head: Final = _HEAD.unpack_from
_unpack_length: Final = _PROPERTIES_LENGTH.unpack_from
_inner_count = finder(INNER_COUNT.encode())
_DIGITS_MAX = 5


class BatchedMessage(NamedTuple):
    """One message of a batch; ``properties`` is the text that ``properties.encode`` returns."""

    flag: int
    body: Buffer
    properties: Buffer


def encode(messages: Iterable[tuple[int, Buffer, Buffer]]) -> bytes:
    """Return the batch of ``messages``, each (flag, body, text of the properties).

    The caller checks that they may share a batch (one topic, no delay).

    >>> encode([BatchedMessage(0, b"one", b"")]).hex(" ", -4)
    '00000019 00000000 00000000 00000000 00000003 6f6e6500 00'
    """
    parts: list[Buffer] = []
    add, pack_head, pack_length = parts.append, _HEAD.pack, _PROPERTIES_LENGTH.pack
    flag = body_length = length = 0
    try:
        for flag, body, properties in messages:
            body_length, length = len(body), len(properties)
            add(pack_head(_LEAST + body_length + length, 0, 0, flag, body_length))
            add(body)
            add(pack_length(length))
            add(properties)
    except struct.error:
        raise LocalProtocolError(
            f"message {len(parts) // 4} of the batch does not fit the format: flag {flag}, body of "
            f"{body_length} bytes, properties of {length} bytes (at most 32767)"
        ) from None
    return b"".join(parts)


def split(body: Buffer) -> Iterator[BatchedMessage]:
    """Yield the messages of a batch as views of ``body``; nothing is copied.

    Stricter than Java's ``MessageDecoder.decodeMessages``, which never compares the size of a
    message with the lengths in it. Raise CorruptRecord if a size does not match. The messages
    before it have been yielded; use ``list(split(…))`` to get all or none.

    >>> [(each.flag, bytes(each.body)) for each in split(encode([(7, b"one", b""), (0, b"", b"")]))]
    [(7, b'one'), (0, b'')]
    """
    view, position, end = memoryview(body), 0, len(body)
    while position < end:
        left = end - position
        if left < _LEAST:
            raise _corrupt(f"{left} bytes are left, but a message has at least {_LEAST}", position)
        size, _magic, _crc, flag, body_length = _unpack_head(view, position)
        if not _LEAST <= size <= left:
            raise _corrupt(f"its size field says {size}, but {left} bytes are left", position)
        if not 0 <= body_length <= size - _LEAST:
            raise _corrupt(f"a body of {body_length} bytes in a message of {size}", position)
        body_end = position + _HEAD_SIZE + body_length
        (length,) = _unpack_length(view, body_end)
        if _LEAST + body_length + length != size:
            raise _corrupt(
                f"size {size} is not the sum of {_LEAST}, body {body_length} and properties "
                f"{length}",
                position,
            )
        text = view[body_end + _LENGTH_SIZE : position + size]
        yield BatchedMessage(flag, view[position + _HEAD_SIZE : body_end], text)
        position += size


def inner_count(text: bytes) -> int:
    r"""Return how many queue offsets an inner batch takes; ``text`` is the record's properties.

    One without a property that says so (Java's ``CommitLog.getMessageNum`` uses only that).

    >>> inner_count(b"INNER_NUM\x0112\x02"), inner_count(b""), inner_count(b"INNER_NUM\x01-2\x02")
    (12, 1, 1)
    """
    count = _inner_count(text) or b""
    if not (count.isdigit() and len(count) <= _DIGITS_MAX):
        return 1
    return min(max(int(count), 1), INNER_BATCH_MAX)


def _corrupt(why: str, position: int) -> CorruptRecord:
    return CorruptRecord(f"batched message at byte {position}: {why}", position=position)
