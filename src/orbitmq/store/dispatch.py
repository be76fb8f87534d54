"""From the log to its indexes: what a record of the log means to queues and keys.

The same code serves records that were just appended and records that recovery reads, so that an
index rebuilt from the log is the index that was lost.
"""

from collections.abc import Iterator
from typing import Final

import msgspec

from orbitmq.message import flags, properties
from orbitmq.message.record_view import RecordView
from orbitmq.message.tags import tags_code

__all__ = ["SCHEDULE_TOPIC", "Dispatched", "Dispatcher"]

SCHEDULE_TOPIC: Final = "SCHEDULE_TOPIC_XXXX"
_UNKNOWN_LEVEL_MS: Final = 1_000


class Dispatched(msgspec.Struct, gc=False):
    """What consume queues and the key index need to know of one record."""

    topic: str
    queue_id: int
    queue_offset: int
    commit_log_offset: int
    size: int
    tags_code: int
    """What the queue entry holds: the hash of the tags, or when a delayed record is due."""
    store_timestamp_ms: int
    sys_flag: int
    unique_key: str | None
    keys: str
    """All keys, separated by blanks; empty without."""
    tags: str | None

    @property
    def in_queue(self) -> bool:
        """Whether consumers may see it: a prepared or rolled-back message has no queue entry."""
        state = self.sys_flag & flags.TRANSACTION_MASK
        return state in (flags.TRANSACTION_NONE, flags.TRANSACTION_COMMIT)


class Dispatcher:
    """Reads records for what their indexes need.

    Args:
        delays_ms: the delays of levels 1, 2, …; see ``settings.delay_levels``.

    """

    def __init__(self, delays_ms: tuple[int, ...]) -> None:
        self._delays_ms = delays_ms
        self._topics: dict[bytes, str] = {}

    def entries(self, view: RecordView) -> Iterator[Dispatched]:
        """Yield what a record means: one entry, and one more for each LMQ it is dispatched to.

        Raises:
            CorruptRecord: the lengths inside the record don't add up.

        """
        filed = view.filed()
        found = properties.decode(filed.properties)
        tags = found.get(properties.TAGS)
        topic = self._topic(filed.topic)
        entry = Dispatched(
            topic,
            filed.queue_id,
            filed.queue_offset,
            filed.commit_log_offset,
            view.size,
            tags_code(tags),
            filed.store_timestamp_ms,
            filed.sys_flag,
            found.get(properties.UNIQUE_KEY),
            found.get(properties.KEYS, ""),
            tags,
        )
        if topic == SCHEDULE_TOPIC and properties.DELAY in found:
            entry.tags_code = entry.store_timestamp_ms + self._delay_ms(found[properties.DELAY])
        yield entry
        if properties.INNER_MULTI_DISPATCH in found:
            yield from _multi_dispatch(entry, found)

    def _delay_ms(self, text: str) -> int:
        level = int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else 0
        level = min(level, len(self._delays_ms))
        return self._delays_ms[level - 1] if level > 0 else _UNKNOWN_LEVEL_MS

    def _topic(self, raw: bytes) -> str:
        topic = self._topics.get(raw)
        if topic is None:
            topic = self._topics[raw] = raw.decode(errors="replace")
        return topic


def _multi_dispatch(entry: Dispatched, found: dict[str, str]) -> Iterator[Dispatched]:
    """Yield the entries of the light queues (LMQ) that a record names, at the offsets it names."""
    queues = found[properties.INNER_MULTI_DISPATCH].split(",")
    offsets = found.get(properties.INNER_MULTI_QUEUE_OFFSET, "").split(",")
    if len(queues) != len(offsets) or entry.topic.startswith("%RETRY%"):
        return
    for queue, offset in zip(queues, offsets, strict=True):
        # A name with a slash can't be a directory; Java passes it over too (MultiDispatchUtils).
        if queue and "/" not in queue and offset.isascii() and offset.isdecimal():
            yield msgspec.structs.replace(
                entry, topic=queue, queue_id=0, queue_offset=int(offset), unique_key=None, keys="",
                tags=None,
            )  # fmt: skip
