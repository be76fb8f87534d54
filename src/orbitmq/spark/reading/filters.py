"""Filters that Spark hands down: what a read leaves out for them.

=================== =====================================
column              what is left out
=================== =====================================
topic, broker,      queues
queue_id
queue_offset        the offsets before and behind
timestamp           the same, as brokers find them by
                    the time of storing
tags                messages, by the subscription
key                 messages that the index doesn't name
=================== =====================================

Spark applies all filters once more (see ``FilteringBatchReader``). What can't be told here for
sure is its business alone. Pure: nothing here asks a broker.

>>> found = narrowed([EqualTo(("topic",), "orders"), GreaterThan(("queue_offset",), 41)])
>>> found.keeps(MessageQueue("orders", "broker-a", 0)), found.keeps(MessageQueue("x", "b", 0))
(True, False)
>>> found.offsets
Span(start=42, end=None)
"""

import operator
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

import msgspec
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)

from orbitmq.errors import InvalidTags
from orbitmq.message.model import MessageQueue
from orbitmq.message.properties import KEY_SEPARATOR
from orbitmq.message.tags import SELECT_ALL, TAG_SEPARATOR, TagFilter, check_tag

__all__ = ["Narrowing", "Span", "narrowed"]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)

# What is the same for all messages of a queue: such a filter is decided once for each queue.
_OF_QUEUES: Final[Mapping[str, tuple[type, Callable[[MessageQueue], str | int]]]] = {
    "topic": (str, lambda queue: queue.topic),
    "broker": (str, lambda queue: queue.broker_name),
    "queue_id": (int, lambda queue: queue.queue_id),
}
_COMPARISONS: Final[Mapping[type[Filter], Callable[..., bool]]] = {
    EqualTo: operator.eq,
    EqualNullSafe: operator.eq,
    GreaterThan: operator.gt,
    GreaterThanOrEqual: operator.ge,
    LessThan: operator.lt,
    LessThanOrEqual: operator.le,
    In: lambda value, among: value in among,
    StringStartsWith: str.startswith,
    StringEndsWith: str.endswith,
    StringContains: operator.contains,
}


class Span(NamedTuple):
    """Numbers from ``start`` up to, and without, ``end``; None for no limit."""

    start: int | None = None
    end: int | None = None

    def within(self, other: "Span") -> "Span":
        """Return what both spans hold."""
        starts = [start for start in (self.start, other.start) if start is not None]
        ends = [end for end in (self.end, other.end) if end is not None]
        return Span(max(starts, default=None), min(ends, default=None))


class Narrowing(msgspec.Struct, frozen=True):
    """What a read is narrowed to.

    Attributes:
        of_queues: filters that a queue meets with all its messages, or with none.
        offsets: the offsets to read, in each queue.
        times_us: the times of storing to read, in microseconds since 1970.
        tags: the tags to read; None for all messages.
        key: a word among the keys of each message to read.

    """

    of_queues: tuple[Filter, ...] = ()
    offsets: Span = Span()
    times_us: Span = Span()
    tags: frozenset[str] | None = None
    key: str | None = None

    def keeps(self, queue: MessageQueue) -> bool:
        """Return whether messages of a queue may be wanted."""
        return all(_holds(test, _OF_QUEUES[_column(test)][1](queue)) for test in self.of_queues)

    @property
    def times_ms(self) -> Span:
        """The times to read in milliseconds, as brokers count them: never less than asked for."""
        start, end = self.times_us
        return Span(
            None if start is None else start // 1000, None if end is None else -(-end // 1000)
        )

    def subscription(self, tags: str) -> str | None:
        """Return the subscription that selects what both this and another one select.

        None: no message can be selected by both.

        >>> Narrowing(tags=frozenset({"paid", "late"})).subscription("late || new")
        'late'
        """
        if self.tags is None:
            return tags
        asked = TagFilter.parse(tags)
        both = self.tags if asked.selects_all else self.tags & asked.tags
        return f" {TAG_SEPARATOR} ".join(sorted(both)) or None


def narrowed(filters: Iterable[Filter]) -> Narrowing:
    """Return what all filters together narrow a read to."""
    found = Narrowing()
    for given in filters:
        found = _narrowed_by(given, found)
    return found


def _narrowed_by(given: Filter, found: Narrowing) -> Narrowing:
    """Return the narrowing with one filter more."""
    column = _column(given)
    if column in _OF_QUEUES and _is_decidable(given, _OF_QUEUES[column][0]):
        return msgspec.structs.replace(found, of_queues=(*found.of_queues, given))
    if column == "queue_offset":
        span = _span(given, _as_offset)
        return msgspec.structs.replace(found, offsets=found.offsets.within(span))
    if column == "timestamp":
        span = _span(given, _as_microseconds)
        return msgspec.structs.replace(found, times_us=found.times_us.within(span))
    if column == "tags" and (tags := _selectable_tags(given)) is not None:
        both = tags if found.tags is None else tags & found.tags
        return msgspec.structs.replace(found, tags=both)
    if column == "key" and found.key is None:
        return msgspec.structs.replace(found, key=_word(given))
    return found


def _column(given: Filter) -> str:
    """Return the column that a filter is about; an empty text for a field inside of one."""
    path = _column_path(given)
    return path[0] if len(path) == 1 else ""


def _column_path(given: Filter) -> tuple[str, ...]:
    if isinstance(given, Not):
        return _column_path(given.child)
    path: tuple[str, ...] = getattr(given, "attribute", ())
    return path


# Queues


def _is_decidable(given: Filter, kind: type) -> bool:
    """Return whether a filter is true or false for each value of a column that is never null."""
    if isinstance(given, Not):
        return _is_decidable(given.child, kind)
    if isinstance(given, IsNull | IsNotNull):
        return True
    if type(given) not in _COMPARISONS:
        return False
    if isinstance(given, In):  # with a null among the values, it may be neither true nor false
        return all(type(value) is kind for value in given.value)
    return type(getattr(given, "value", None)) is kind


def _holds(given: Filter, value: str | int) -> bool:
    if isinstance(given, Not):
        return not _holds(given.child, value)
    if isinstance(given, IsNull | IsNotNull):
        return isinstance(given, IsNotNull)
    return _COMPARISONS[type(given)](value, getattr(given, "value", None))


# Offsets and times


def _span(given: Filter, number: Callable[[object], int | None]) -> Span:
    """Return the span outside of which a filter can't be true; without limits if it says nothing.

    Of a list of values that is all from the least to the greatest.
    """
    if isinstance(given, In):
        numbers = [number(value) for value in given.value]
        known = [value for value in numbers if value is not None]
        whole = bool(numbers) and len(known) == len(numbers)
        return Span(min(known), max(known) + 1) if whole else Span()
    value = number(getattr(given, "value", None))
    if value is None:
        return Span()
    spans: Mapping[type[Filter], Span] = {
        EqualTo: Span(value, value + 1),
        EqualNullSafe: Span(value, value + 1),
        GreaterThan: Span(value + 1, None),
        GreaterThanOrEqual: Span(value, None),
        LessThan: Span(None, value),
        LessThanOrEqual: Span(None, value + 1),
    }
    return spans.get(type(given), Span())


def _as_offset(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _as_microseconds(value: object) -> int | None:
    if not isinstance(value, datetime) or value.utcoffset() is None:
        return None
    return (value - _EPOCH) // _MICROSECOND


# Tags and keys


def _selectable_tags(given: Filter) -> frozenset[str] | None:
    """Return the tags that a filter asks for; None if a subscription can't ask for just these."""
    if isinstance(given, In):
        values = list(given.value)
    elif isinstance(given, EqualTo | EqualNullSafe):
        values = [given.value]
    else:
        return None
    return frozenset(values) if values and all(map(_is_selectable, values)) else None


def _is_selectable(tag: object) -> bool:
    if not isinstance(tag, str) or tag == SELECT_ALL:
        return False
    try:
        check_tag(tag)
    except InvalidTags:
        return False
    return True


def _word(given: Filter) -> str | None:
    """Return the first word of the keys that a filter asks for: brokers index them by word.

    Only blanks separate keys. A tab, or a blank of another script, is part of one.
    """
    if isinstance(given, EqualTo | EqualNullSafe) and isinstance(given.value, str):
        return next(filter(None, given.value.split(KEY_SEPARATOR)), None)
    return None
