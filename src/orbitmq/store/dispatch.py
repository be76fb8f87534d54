"""From the log to its indexes: what a record of the log means to queues and keys.

The same code serves records that are appended and records that recovery reads, so that an index
rebuilt from the log is the index that was lost.
"""

from collections.abc import Iterable, Iterator
from typing import Final, TypeAlias

import msgspec

from orbitmq.message import batch, flags, properties
from orbitmq.message.names import is_lmq
from orbitmq.message.record_view import Filed, RecordView
from orbitmq.message.tags import tags_code_utf8
from orbitmq.store.layout import is_directory_name

__all__ = ["INNER", "SCHEDULE_TOPIC", "Dispatched", "Dispatcher", "Labels"]

SCHEDULE_TOPIC: Final = "SCHEDULE_TOPIC_XXXX"
_UNKNOWN_LEVEL_MS: Final = 1_000

_tags = properties.finder(properties.TAGS.encode())
_keys = properties.finder(properties.KEYS.encode())
_unique_key = properties.finder(properties.UNIQUE_KEY.encode())
_delay_level = properties.finder(properties.DELAY.encode())
INNER: Final = b"INNER_"
"""What the names begin with of properties that concern an inner batch or light queues."""
Labels: TypeAlias = tuple[int, bytes | None, bytes, bytes | None]
"""Tags code, unique key, keys and tags of a record, as in ``Dispatched``."""
_DIGITS: Final = 18  # more than that, times 20 bytes an entry, is no place in a file


class Dispatched(msgspec.Struct, gc=False):
    """What consume queues and the key index need to know about one record.

    Keys and tags are UTF-8, as the record has them.
    """

    topic: str
    queue_id: int
    queue_offset: int
    commit_log_offset: int
    size: int
    store_timestamp_ms: int
    sys_flag: int
    tags_code: int
    """What the queue entry holds: the hash of the tags, or when a delayed record is due."""
    unique_key: bytes | None
    keys: bytes
    """All keys, separated by blanks; empty without."""
    tags: bytes | None
    messages: int = 1
    """How many messages the record holds: more than one only in an inner batch."""

    @property
    def in_queue(self) -> bool:
        """Whether consumers may see it: a prepared or rolled-back message has no queue entry."""
        # The bit that these two states have in common.
        return not self.sys_flag & flags.TRANSACTION_PREPARED


class Dispatcher:
    """Reads records for what their indexes need; ``delays_ms`` are the delays of levels 1, 2, …."""

    def __init__(self, delays_ms: tuple[int, ...]) -> None:
        self._delays_ms = delays_ms
        self._topics: dict[bytes, str] = {}

    def entries(self, view: RecordView) -> list[Dispatched]:
        """Return one entry for a record, and one more for each LMQ it is dispatched to.

        Raise CorruptRecord if the lengths inside the record don't add up.
        """
        return self.entries_of((view.filed(),))

    def entries_of(self, records: Iterable[Filed]) -> list[Dispatched]:
        """Return the entries of several records, whose fields are known, in order."""
        entries: list[Dispatched] = []
        append, topics = entries.append, self._topics
        for filed in records:
            topic = topics.get(filed.topic) or self._new_topic(filed.topic)
            text, stored_ms = filed.properties, filed.store_timestamp_ms
            entry = Dispatched(
                topic,
                filed.queue_id,
                filed.queue_offset,
                filed.commit_log_offset,
                filed.size,
                stored_ms,
                filed.sys_flag,
                *self.labels(topic, text, stored_ms),
            )
            append(entry)
            if text.find(INNER) >= 0:
                entries += self.inner_entries(entry, text)
        return entries

    def labels(self, topic: str, text: bytes, store_timestamp_ms: int) -> "Labels":
        """Return what the properties of a record say to queues and keys."""
        tags = _tags(text)
        code = tags_code_utf8(tags) if tags else 0
        if topic == SCHEDULE_TOPIC and (level := _delay_level(text)) is not None:
            code = store_timestamp_ms + self._delay_ms(level)
        return code, _unique_key(text), _keys(text) or b"", tags

    def inner_entries(self, entry: Dispatched, text: bytes) -> Iterable[Dispatched]:
        """Note how many messages an inner batch has; return the entries of light queues."""
        if entry.sys_flag & flags.INNER_BATCH:
            entry.messages = batch.inner_count(text)
            return ()
        return _multi_dispatch(entry, properties.decode(text))

    def _delay_ms(self, text: bytes) -> int:
        level = int(text) if text.isdigit() and len(text) < 10 else 0
        level = min(level, len(self._delays_ms))
        return self._delays_ms[level - 1] if level > 0 else _UNKNOWN_LEVEL_MS

    def _new_topic(self, raw: bytes) -> str:
        topic = self._topics[raw] = raw.decode(errors="replace")
        return topic


def _is_light(queue: str) -> bool:
    """Return whether a name is that of a light queue, and a directory may have it.

    Java dispatches to any queue that a client names (``ConsumeQueue.multiDispatchLmqQueue``), even
    one of another topic, where offsets would then be used twice.
    """
    return is_lmq(queue) and is_directory_name(queue)


def _is_left_out(topic: str) -> bool:
    """Return whether light queues don't get a topic's messages (Java's ``MultiDispatchUtils``).

    Retries and delayed messages may still have the offsets of an earlier delivery.
    """
    return topic == SCHEDULE_TOPIC or topic.startswith(("%RETRY%", "rmq_sys_"))


def _multi_dispatch(entry: Dispatched, found: dict[str, str]) -> Iterator[Dispatched]:
    """Yield the entries of the light queues (LMQ) that a record names, at the offsets it names."""
    queues = found.get(properties.INNER_MULTI_DISPATCH, "").rstrip(",").split(",")  # as in Java
    offsets = found.get(properties.INNER_MULTI_QUEUE_OFFSET, "").split(",")
    if len(queues) != len(offsets) or _is_left_out(entry.topic):
        return
    for queue, offset in zip(queues, offsets, strict=True):
        if _is_light(queue) and offset.isascii() and offset.isdecimal() and len(offset) < _DIGITS:
            yield msgspec.structs.replace(
                entry, topic=queue, queue_id=0, queue_offset=int(offset), unique_key=None, keys=b"",
                tags=None,
            )  # fmt: skip
