"""The keys of records as the index has them: hashes of topic and key."""

import enum
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from orbitmq.kernel import compiled
from orbitmq.message import flags, properties
from orbitmq.message.tags import POWERS_OF_31, java_hash_bits
from orbitmq.store.dispatch import Dispatched
from orbitmq.store.index.index_file import IndexKey
from orbitmq.store.layout import key_hash_utf8

__all__ = ["KeyKind", "index_keys"]

_STATE: Final = flags.TRANSACTION_MASK
_ROLLED_BACK: Final = flags.TRANSACTION_ROLLBACK
_KEY_SEPARATOR: Final = properties.KEY_SEPARATOR.encode()
_REMEMBERED_TOPICS: Final = 16_384
_REMEMBERED_TAGS: Final = 16_384
_REMEMBERED_LENGTH: Final = 64
_POWERS: Final = len(POWERS_OF_31)
_SIGN_CLEARED: Final = 0x7FFF_FFFF


class KeyKind(enum.Enum):
    """What a text is looked up as; the value is the separator between topic and text."""

    KEY = "#"
    """A unique key or one of the keys."""
    TAGS = "#T#"
    """The tags, which RocketMQ indexes since 5.4.0."""


@compiled
def index_keys(entries: Iterable[Dispatched], indexed_to: int, tag_keys: bool) -> list[IndexKey]:
    """Return the keys of the records that begin at or after a log offset.

    Those of a record are in the order unique key, keys, tags; tags only with ``tag_keys``.
    """
    keys: list[IndexKey] = []
    append, prefix, topic = keys.append, 0, None
    for entry in entries:
        offset, stored_ms = entry.commit_log_offset, entry.store_timestamp_ms
        if offset < indexed_to or entry.sys_flag & _STATE == _ROLLED_BACK:
            continue
        if entry.topic is not topic:
            topic = entry.topic
            prefix = _prefix_bits(topic)
        key, tags = entry.unique_key, entry.tags
        if key is not None:
            append((_hash_behind(prefix, key), offset, stored_ms))
        if entry.keys:
            for key in entry.keys.split(_KEY_SEPARATOR):
                if key:
                    append((_hash_behind(prefix, key), offset, stored_ms))
        if tags and tag_keys:
            hash_of = _remembered_tags_hash if len(tags) <= _REMEMBERED_LENGTH else _tags_hash
            append((hash_of(topic, tags), offset, stored_ms))
    return keys


@lru_cache(maxsize=_REMEMBERED_TOPICS)
def _prefix_bits(topic: str) -> int:
    """Return the hash of what stands before the keys of a topic."""
    return java_hash_bits(f"{topic}{KeyKind.KEY.value}".encode())


def _hash_behind(prefix: int, key: bytes) -> int:
    """Return the hash in an index entry of a key, given the hash of what stands before it."""
    size = len(key)
    if size >= _POWERS or not key.isascii():  # a hash counts UTF-16 units, not bytes
        bits = java_hash_bits(key)
        units = len(key.decode(errors="replace").encode("utf-16-le", "surrogatepass")) // 2
        bits += prefix * pow(31, units, 1 << 32)
    else:
        bits = prefix * POWERS_OF_31[size] + java_hash_bits(key)
    bits &= 0xFFFF_FFFF
    return bits if bits <= _SIGN_CLEARED else -bits & _SIGN_CLEARED


def _tags_hash(topic: str, tags: bytes) -> int:
    return key_hash_utf8(f"{topic}{KeyKind.TAGS.value}".encode() + tags)


# A topic has few tags, they are short, and most messages have one.
_remembered_tags_hash = lru_cache(maxsize=_REMEMBERED_TAGS)(_tags_hash)
