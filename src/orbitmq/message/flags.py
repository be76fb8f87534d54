"""The system flag of a stored message: 32 bits, of which RocketMQ uses the low eleven.

They are plain ints, not an ``IntFlag``: the flag is read for every record of every pull, and
testing a bit of an int takes a tenth of the time.

The bits, as in Java's ``MessageSysFlag``::

    bit   0      body compressed
    bit   1      several tags
    bits  2–3    transaction state
    bit   4      born host is IPv6
    bit   5      store host is IPv6
    bits  6, 7   the body is a batch to be split
    bits  8–10   compression type
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from orbitmq.errors import CompressionFailed

COMPRESSED: Final = 0x1
MULTI_TAGS: Final = 0x2

TRANSACTION_NONE: Final = 0x0
TRANSACTION_PREPARED: Final = 0x4
TRANSACTION_COMMIT: Final = 0x8
TRANSACTION_ROLLBACK: Final = 0xC
TRANSACTION_MASK: Final = 0xC

BORN_HOST_IPV6: Final = 0x10
STORE_HOST_IPV6: Final = 0x20

NEED_UNWRAP: Final = 0x40
INNER_BATCH: Final = 0x80

COMPRESSION_NONE: Final = 0x0
COMPRESSION_LZ4: Final = 0x100
COMPRESSION_ZSTD: Final = 0x200
COMPRESSION_ZLIB: Final = 0x300
COMPRESSION_MASK: Final = 0x700

_BIT_NAMES: Final[Mapping[int, str]] = MappingProxyType(
    {
        MULTI_TAGS: "several tags",
        BORN_HOST_IPV6: "born host IPv6",
        STORE_HOST_IPV6: "store host IPv6",
        NEED_UNWRAP: "needs unwrap",
        INNER_BATCH: "inner batch",
    }
)
_STATE_NAMES: Final[Mapping[int, str]] = MappingProxyType(
    {
        TRANSACTION_PREPARED: "prepared",
        TRANSACTION_COMMIT: "committed",
        TRANSACTION_ROLLBACK: "rolled back",
    }
)
_COMPRESSION_NAMES: Final[Mapping[int, str]] = MappingProxyType(
    {
        0: "zlib",  # written before the type bits existed
        COMPRESSION_LZ4: "lz4",
        COMPRESSION_ZSTD: "zstd",
        COMPRESSION_ZLIB: "zlib",
    }
)
_KNOWN: Final = COMPRESSED | TRANSACTION_MASK | COMPRESSION_MASK | sum(_BIT_NAMES)


def compression_type(sys_flag: int) -> int:
    """Return how the body is compressed: one of the ``COMPRESSION_…`` constants.

    The type bits count only while the compressed bit is set, since a reader that decompressed the
    body clears that bit alone. Type 0 means zlib, as in Java's ``CompressionType``: old records
    have no type bits. An unknown type raises CompressionFailed.

    >>> compression_type(COMPRESSED | COMPRESSION_LZ4) == COMPRESSION_LZ4
    True
    >>> compression_type(COMPRESSION_LZ4) == COMPRESSION_NONE
    True
    """
    if not sys_flag & COMPRESSED:
        return COMPRESSION_NONE
    kind = sys_flag & COMPRESSION_MASK
    if kind > COMPRESSION_ZLIB:
        raise CompressionFailed(
            f"sys flag {sys_flag:#x} names compression type {kind >> 8}; known are "
            "0 and 3 (zlib), 1 (lz4) and 2 (zstd)"
        )
    return kind or COMPRESSION_ZLIB


def transaction_state(sys_flag: int) -> int:
    """Return the transaction state: one of the ``TRANSACTION_…`` constants.

    >>> transaction_state(COMPRESSED | TRANSACTION_PREPARED) == TRANSACTION_PREPARED
    True
    """
    return sys_flag & TRANSACTION_MASK


def with_transaction_state(sys_flag: int, state: int) -> int:
    """Return ``sys_flag`` with another transaction state.

    >>> with_transaction_state(COMPRESSED | TRANSACTION_PREPARED, TRANSACTION_COMMIT)
    9
    """
    return sys_flag & ~TRANSACTION_MASK | state


def describe(sys_flag: int) -> str:
    """Return the flag in words, unknown bits included.

    >>> describe(COMPRESSED | COMPRESSION_ZSTD | TRANSACTION_PREPARED)
    'compressed (zstd), prepared'
    >>> describe(0)
    'none'
    """
    words = []
    kind = sys_flag & COMPRESSION_MASK
    kind_name = _COMPRESSION_NAMES.get(kind, f"unknown type {kind >> 8}")
    if sys_flag & COMPRESSED:
        words.append(f"compressed ({kind_name})")
    elif kind:
        words.append(f"was compressed ({kind_name})")
    if state := transaction_state(sys_flag):
        words.append(_STATE_NAMES[state])
    words += [name for bit, name in _BIT_NAMES.items() if sys_flag & bit]
    if unknown := sys_flag & 0xFFFF_FFFF & ~_KNOWN:
        words.append(f"unknown bits {unknown:#x}")
    return ", ".join(words) or "none"
