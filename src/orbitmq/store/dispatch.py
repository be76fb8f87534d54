"""From the log to its indexes: what a record of the log means to queues and keys.

The same code serves records that were just appended and records that recovery reads, so that an
index rebuilt from the log is the index that was lost.
"""

from collections.abc import Iterator
from typing import Final

import msgspec

from orbitmq.message import flags, properties
from orbitmq.message.names import is_lmq
from orbitmq.message.record_view import Filed, RecordView
from orbitmq.message.tags import tags_code
from orbitmq.store.segment_chain import is_directory_name

__all__ = ["SCHEDULE_TOPIC", "Dispatched", "Dispatcher"]

SCHEDULE_TOPIC: Final = "SCHEDULE_TOPIC_XXXX"
_UNKNOWN_LEVEL_MS: Final = 1_000

_PAIR_END: Final = properties.VALUE_END


def _opening(name: str) -> str:
    """Return how the pair of a property begins, the end of the one before it included."""
    return f"{_PAIR_END}{name}{properties.NAME_END}"


_TAGS: Final = _opening(properties.TAGS)
_KEYS: Final = _opening(properties.KEYS)
_UNIQUE_KEY: Final = _opening(properties.UNIQUE_KEY)
_DELAY: Final = _opening(properties.DELAY)
_MULTI_DISPATCH: Final = _opening(properties.INNER_MULTI_DISPATCH)
_DIGITS: Final = 18  # more than that, times 20 bytes an entry, is no place in a file


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

    def entries(self, view: RecordView) -> list[Dispatched]:
        """Return what a record means: one entry, and one more for each LMQ it is dispatched to.

        Raises:
            CorruptRecord: the lengths inside the record don't add up.

        """
        return self.entries_of(view.filed(), view.size)

    def entries_of(self, filed: Filed, size: int) -> list[Dispatched]:
        """Return the same for a record of ``size`` bytes whose fields are known."""
        raw_topic, queue_id, queue_offset, offset, sys_flag, stored_ms, raw = filed
        topic = self._topics.get(raw_topic) or self._new_topic(raw_topic)
        text = _PAIR_END + str(raw, "utf-8", "replace")
        tags = _value(text, _TAGS)
        code = tags_code(tags)
        if topic == SCHEDULE_TOPIC and (level := _value(text, _DELAY)) is not None:
            code = stored_ms + self._delay_ms(level)
        entry = Dispatched(
            topic,
            queue_id,
            queue_offset,
            offset,
            size,
            code,
            stored_ms,
            sys_flag,
            _value(text, _UNIQUE_KEY),
            _value(text, _KEYS) or "",
            tags,
        )
        if _MULTI_DISPATCH not in text:
            return [entry]
        return [entry, *_multi_dispatch(entry, properties.decode(raw))]

    def _delay_ms(self, text: str) -> int:
        level = int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else 0
        level = min(level, len(self._delays_ms))
        return self._delays_ms[level - 1] if level > 0 else _UNKNOWN_LEVEL_MS

    def _new_topic(self, raw: bytes) -> str:
        topic = self._topics[raw] = raw.decode(errors="replace")
        return topic


def _value(text: str, opening: str) -> str | None:
    """Return the value of the property that begins so; what ``properties.decode`` would say.

    A record has a dozen properties and dispatch wants three: finding them takes half the time.
    """
    start = text.rfind(opening)
    if start < 0:
        return None
    start += len(opening)
    end = text.find(_PAIR_END, start)
    if value := text[start:end] if end >= 0 else text[start:]:
        return value
    # Empty values don't count, and an earlier pair of that name may.
    return properties.decode(text.encode()).get(opening[1:-1])


def _is_light(queue: str) -> bool:
    """Return whether a name is that of a light queue, and one that a directory may have.

    Java dispatches to whatever a client names (``ConsumeQueue.multiDispatchLmqQueue``), be it the
    queue of another topic; offsets there would be taken twice.
    """
    return is_lmq(queue) and is_directory_name(queue)


def _multi_dispatch(entry: Dispatched, found: dict[str, str]) -> Iterator[Dispatched]:
    """Yield the entries of the light queues (LMQ) that a record names, at the offsets it names."""
    queues = found.get(properties.INNER_MULTI_DISPATCH, "").split(",")
    offsets = found.get(properties.INNER_MULTI_QUEUE_OFFSET, "").split(",")
    if len(queues) != len(offsets) or entry.topic.startswith("%RETRY%"):
        return
    for queue, offset in zip(queues, offsets, strict=True):
        if _is_light(queue) and offset.isascii() and offset.isdecimal() and len(offset) < _DIGITS:
            yield msgspec.structs.replace(
                entry, topic=queue, queue_id=0, queue_offset=int(offset), unique_key=None, keys="",
                tags=None,
            )  # fmt: skip
