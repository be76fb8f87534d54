"""The names in a store directory, and the layout of a key index file.

Numbers are big-endian and signed, as everywhere in a store.
"""

import struct
from typing import Final

from orbitmq.message.tags import java_hash, java_hash_bits

__all__ = [
    "ABORT",
    "BATCH_CONSUME_QUEUE",
    "CHECKPOINT",
    "COMMIT_LOG",
    "CONSUME_QUEUE",
    "CONSUME_QUEUE_EXT",
    "CUT_LOG",
    "EXT_ADDRESS_LIMIT",
    "INDEX",
    "INDEX_ENTRY",
    "INDEX_HEADER",
    "INDEX_SLOT",
    "QUEUE_ENDS",
    "index_key",
    "is_directory_name",
    "key_hash",
    "key_hash_utf8",
    "path_join",
]

COMMIT_LOG: Final = "commitlog"
CONSUME_QUEUE: Final = "consumequeue"
BATCH_CONSUME_QUEUE: Final = "batchconsumequeue"
CONSUME_QUEUE_EXT: Final = "consumequeue_ext"  # long tags codes and filters; only Java writes them
INDEX: Final = "index"
CHECKPOINT: Final = "checkpoint"
ABORT: Final = "abort"  # exists while a broker runs, and after a crash
CUT_LOG: Final = "cutlog"  # ours; what was cut off a replica's log
QUEUE_ENDS: Final = "queue_ends.json"  # ours; Java ignores it

# A tags code below this is an address in consumequeue_ext (Java's ConsumeQueueExt.MAX_ADDR).
EXT_ADDRESS_LIMIT: Final = -(1 << 31)

# A file of the key index: header, slots, entries. It does not contain the number of slots.
INDEX_HEADER: Final = struct.Struct(
    ">q"  # store timestamp of the first entry's record, ms
    "q"  # store timestamp of the last entry's record, ms
    "q"  # commit log offset of the first entry's record
    "q"  # commit log offset of the last entry's record
    "i"  # slots in use
    "i"  # number of the next entry; the first is 1, so an empty file has 1 (or 0, if unwritten)
)
assert INDEX_HEADER.size == 40

INDEX_SLOT: Final = struct.Struct(">i")  # number of the newest entry of the slot, 0 for none
assert INDEX_SLOT.size == 4

INDEX_ENTRY: Final = struct.Struct(
    ">i"  # hash of the key
    "q"  # commit log offset of the record
    "i"  # seconds from the header's first timestamp to the record's
    "i"  # number of the entry before it in the slot, 0 for none
)
assert INDEX_ENTRY.size == 20


_SIGN_CLEARED: Final = 0x7FFF_FFFF


def index_key(topic: str, key: str) -> str:
    """Return the text whose hash a key is indexed by.

    >>> index_key("orders", "o-42")
    'orders#o-42'
    """
    return f"{topic}#{key}"


def key_hash(text: str) -> int:
    """Return the hash in an index entry: the absolute value of Java's, 0 for the least integer.

    >>> key_hash("orders#o-42"), key_hash("polygenelubricants")
    (1823211654, 0)
    """
    return abs(java_hash(text)) & _SIGN_CLEARED


def key_hash_utf8(raw: bytes) -> int:
    """Return ``key_hash`` of a text in UTF-8.

    >>> key_hash_utf8(b"orders#o-42")
    1823211654
    """
    bits = java_hash_bits(raw)
    return bits if bits <= _SIGN_CLEARED else -bits & _SIGN_CLEARED


_NAME_BYTES_MAX = 255  # on all common file systems


def path_join(*parts: str) -> str:
    """Join the parts of a path with slashes."""
    return "/".join(parts)


def is_directory_name(name: str) -> bool:
    """Return whether a directory may have this name; topics are directory names, unescaped.

    >>> is_directory_name("%RETRY%billing"), is_directory_name("../billing")
    (True, False)
    """
    if not name or name in (".", "..") or "/" in name or "\0" in name:
        return False
    # Half a surrogate pair can't be encoded; with "?" in its place it would be another name.
    raw = name.encode(errors="replace")
    return len(raw) <= _NAME_BYTES_MAX and raw.decode() == name
