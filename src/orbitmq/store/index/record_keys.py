"""The keys that a record can be found by: unique key, keys, tags."""

from typing import Final

from orbitmq.message import flags, properties
from orbitmq.message.record_view import RecordView
from orbitmq.store.index.key_index import KeyKind
from orbitmq.store.layout import key_hash

__all__ = ["has_key", "hashes_of", "is_keyed"]

_keys = properties.finder(properties.KEYS.encode())
_unique_key = properties.finder(properties.UNIQUE_KEY.encode())
_tags = properties.finder(properties.TAGS.encode())
_SEPARATOR: Final = properties.KEY_SEPARATOR.encode()


def has_key(view: RecordView, topic: str, key: str, kind: KeyKind = KeyKind.KEY) -> bool:
    """Return whether a record is of a topic, and has a key: not only one with the same hash."""
    return view.topic == topic.encode() and key.encode() in _keys_of(view, kind)


def hashes_of(view: RecordView) -> frozenset[int]:
    """Return the hashes under which an index may know a record.

    Those of tags are among them, although only RocketMQ 5.4.0 and later indexes tags.
    """
    topic = str(view.topic, "utf-8", "replace")
    return frozenset(
        key_hash(f"{topic}{kind.value}{str(key, 'utf-8', 'replace')}")
        for kind in KeyKind
        for key in _keys_of(view, kind)
    )


def is_keyed(view: RecordView) -> bool:
    """Return whether every index has a record: one with keys that was not rolled back.

    Tags are no such keys: brokers before RocketMQ 5.4.0 did not index them.
    """
    is_rolled_back = view.sys_flag & flags.TRANSACTION_MASK == flags.TRANSACTION_ROLLBACK
    return not is_rolled_back and bool(_keys_of(view, KeyKind.KEY))


def _keys_of(view: RecordView, kind: KeyKind) -> list[bytes]:
    text = view.properties
    if kind is KeyKind.TAGS:
        found = [_tags(text)]
    else:
        keys = _keys(text) or b""
        found = [_unique_key(text), *keys.split(_SEPARATOR)]
    return [key for key in found if key]
