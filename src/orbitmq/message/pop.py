"""Texts of the POP protocol: the handle of a popped message, and offsets in response headers.

As in Java's ``ExtraInfoUtil``, they are words separated by one blank, and the entries of a header
are separated by ``;``::

    handle             checkpoint-offset time invisible revive-queue retry broker queue [offset]
    startOffsetInfo    retry queue offset ; …
    msgOffsetInfo      retry queue offset,offset,… ; …
    orderCountInfo     retry queue count ; …     or     retry qo<queue>%<offset> count ; …
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from reprlib import repr as elided
from typing import Final, NamedTuple, TypeVar

from orbitmq.errors import InvalidInput
from orbitmq.message.names import RETRY_PREFIX, pop_retry_topic

__all__ = [
    "NORMAL",
    "ORDERED_REVIVE_QUEUE",
    "RETRY_V1",
    "RETRY_V2",
    "PopHandle",
    "PopMessage",
    "PopQueue",
    "message_offset_info",
    "order_count_info",
    "parse_message_offset_info",
    "parse_order_count_info",
    "parse_start_offset_info",
    "real_topic",
    "retry_kind",
    "start_offset_info",
]

NORMAL: Final = 0  # the topic itself
RETRY_V1: Final = 1  # %RETRY%group_topic
RETRY_V2: Final = 2  # %RETRY%group+topic

ORDERED_REVIVE_QUEUE: Final = 999  # instead of a revive queue: popped in order

_MESSAGE_PREFIX: Final = "qo"

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


def retry_kind(topic: str) -> int:
    """Return the kind of topic that a popped message comes from: 0 normal, 1 or 2 retry.

    >>> retry_kind("orders"), retry_kind("%RETRY%g_orders"), retry_kind("%RETRY%g+orders")
    (0, 1, 2)
    """
    if not topic.startswith(RETRY_PREFIX):
        return NORMAL
    return RETRY_V2 if "+" in topic else RETRY_V1


def real_topic(kind: int, topic: str, group: str) -> str:
    """Return the topic that a popped message is stored in, given the topic its consumer sees.

    >>> real_topic(RETRY_V2, "orders", "billing")
    '%RETRY%billing+orders'
    """
    return topic if kind == NORMAL else pop_retry_topic(group, topic, version=kind)


class PopHandle(NamedTuple):
    """The handle to acknowledge a popped message, or to change how long it stays invisible.

    ``checkpoint_offset`` is the queue offset at which the broker's checkpoint begins, and
    ``revive_queue_id`` the queue of the checkpoint, 999 if popped in order. No other consumer gets
    the message for ``invisible_ms``. ``queue_offset`` is None in the handle of a whole response.

    >>> str(PopHandle(10, 1_700_000_000_000, 60_000, 3, NORMAL, "broker-a", 0, 12))
    '10 1700000000000 60000 3 0 broker-a 0 12'
    """

    checkpoint_offset: int
    pop_time_ms: int
    invisible_ms: int
    revive_queue_id: int
    retry_kind: int
    broker_name: str
    queue_id: int
    queue_offset: int | None = None

    @property
    def is_ordered(self) -> bool:
        """Whether the message was popped in order."""
        return self.revive_queue_id == ORDERED_REVIVE_QUEUE

    @classmethod
    def parse(cls, text: str) -> "PopHandle":
        """Return the handle with this text; raise InvalidInput if it is not one.

        >>> PopHandle.parse("10 1700000000000 60000 999 2 broker-a 0").is_ordered
        True
        """
        words = text.split(" ")
        if len(words) not in (7, 8):
            raise _unreadable("pop handle", text, f"it has {len(words)} words, not 7 or 8")
        broker_name = words.pop(5)
        try:
            checkpoint, popped, invisible, revive, kind, queue, *offset = map(_number, words)
        except ValueError as error:
            raise _unreadable("pop handle", text, str(error)) from None
        place = offset[0] if offset else None
        return cls(checkpoint, popped, invisible, revive, kind, broker_name, queue, place)

    def __str__(self) -> str:
        return " ".join(str(part) for part in self if part is not None)


class PopQueue(NamedTuple):
    """A queue of a topic, or of its retry topic."""

    retry_kind: int
    queue_id: int


class PopMessage(NamedTuple):
    """One message of a queue of a topic, or of its retry topic."""

    retry_kind: int
    queue_id: int
    queue_offset: int


def start_offset_info(starts: Mapping[PopQueue, int]) -> str:
    """Return the header text with the offset at which each queue was popped.

    >>> start_offset_info({PopQueue(0, 0): 100, PopQueue(1, 0): 5})
    '0 0 100;1 0 5'
    """
    return _joined((queue, str(start)) for queue, start in starts.items())


def message_offset_info(offsets: Mapping[PopQueue, Sequence[int]]) -> str:
    """Return the header text with the offsets popped from each queue.

    >>> message_offset_info({PopQueue(0, 0): [100, 101, 103]})
    '0 0 100,101,103'
    """
    return _joined((queue, ",".join(map(str, many))) for queue, many in offsets.items())


def order_count_info(counts: Mapping[PopQueue | PopMessage, int]) -> str:
    """Return the header text with the deliveries so far of queues or messages popped in order.

    >>> order_count_info({PopQueue(0, 0): 2, PopMessage(0, 0, 101): 3})
    '0 0 2;0 qo0%101 3'
    """
    return _joined((key, str(count)) for key, count in counts.items())


def parse_start_offset_info(text: str) -> dict[PopQueue, int]:
    """Parse the text of :func:`start_offset_info`; an empty text has no entries.

    >>> parse_start_offset_info("0 0 100;1 0 5")[PopQueue(1, 0)]
    5
    """
    return _entries("startOffsetInfo", text, _queue, _number)


def parse_message_offset_info(text: str) -> dict[PopQueue, tuple[int, ...]]:
    """Parse the text of :func:`message_offset_info`; an empty text has no entries.

    >>> parse_message_offset_info("0 0 100,101,103")
    {PopQueue(retry_kind=0, queue_id=0): (100, 101, 103)}
    """
    return _entries("msgOffsetInfo", text, _queue, _numbers)


def parse_order_count_info(text: str) -> dict[PopQueue | PopMessage, int]:
    """Parse the text of :func:`order_count_info`; an empty text has no entries.

    >>> parse_order_count_info("0 qo0%101 3")
    {PopMessage(retry_kind=0, queue_id=0, queue_offset=101): 3}
    """
    return _entries("orderCountInfo", text, _queue_or_message, _number)


def _joined(entries: Iterable[tuple[PopQueue | PopMessage, str]]) -> str:
    return ";".join(f"{key.retry_kind} {_key_word(key)} {value}" for key, value in entries)


def _key_word(key: PopQueue | PopMessage) -> str:
    if isinstance(key, PopQueue):
        return str(key.queue_id)
    return f"{_MESSAGE_PREFIX}{key.queue_id}%{key.queue_offset}"


def _entries(
    header: str,
    text: str,
    read_key: Callable[[str, str], _Key],
    read_value: Callable[[str], _Value],
) -> dict[_Key, _Value]:
    found: dict[_Key, _Value] = {}
    for entry in text.split(";") if text else []:
        words = entry.split(" ")
        if len(words) != 3:
            raise _unreadable(header, entry, f"it has {len(words)} words, not 3")
        try:
            key, value = read_key(words[0], words[1]), read_value(words[2])
        except ValueError as error:
            raise _unreadable(header, entry, str(error)) from None
        if key in found:
            raise _unreadable(header, entry, "its queue or message is repeated")
        found[key] = value
    return found


def _queue(kind: str, queue_id: str) -> PopQueue:
    return PopQueue(_number(kind), _number(queue_id))


def _queue_or_message(kind: str, word: str) -> PopQueue | PopMessage:
    if not word.startswith(_MESSAGE_PREFIX):
        return _queue(kind, word)
    queue_id, _, offset = word.removeprefix(_MESSAGE_PREFIX).partition("%")
    return PopMessage(_number(kind), _number(queue_id), _number(offset))


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(_number(word) for word in text.split(","))


def _number(text: str) -> int:
    # int() would also accept blanks, underscores and the digits of other scripts.
    if not (text.isascii() and text.removeprefix("-").isdecimal()):
        raise ValueError(f"{elided(text)} is not a number")
    return int(text)


def _unreadable(field: str, text: str, why: str) -> InvalidInput:
    return InvalidInput(
        f"{field} {elided(text)} can't be read: {why}", field=field, length=len(text)
    )
