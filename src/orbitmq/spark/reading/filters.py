"""Filters that Spark pushes down: what a read can skip because of them.

=================== =====================================
column              what is skipped
=================== =====================================
topic, broker,      queues
queue_id
queue_offset        offsets outside of a range
timestamp           the same, found by store time
tags                messages, by the subscription
key                 messages that are not in the index
=================== =====================================

Spark applies all filters again (see ``FilteringBatchReader``), so what can't be decided here is
simply not skipped.

>>> found = pushed_filters([EqualTo(("topic",), "orders"), GreaterThan(("queue_offset",), 41)])
>>> found.keeps(MessageQueue("orders", "broker-a", 0)), found.keeps(MessageQueue("x", "b", 0))
(True, False)
>>> found.offsets
Interval(start=42, end=None)
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

__all__ = ["Interval", "PushedFilters", "pushed_filters"]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)

# Columns with one value per queue: a filter on them is decided once per queue.
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


class Interval(NamedTuple):
    """Numbers from ``start`` to before ``end``; None: no limit."""

    start: int | None = None
    end: int | None = None

    def intersect(self, other: "Interval") -> "Interval":
        """Return the intersection of two intervals."""
        starts = [start for start in (self.start, other.start) if start is not None]
        ends = [end for end in (self.end, other.end) if end is not None]
        return Interval(max(starts, default=None), min(ends, default=None))


class PushedFilters(msgspec.Struct, frozen=True):
    """What a read is limited to; ``tags`` and ``key`` are None without a limit.

    ``of_queues`` are filters that are true for all messages of a queue, or for none. ``times_us``
    are store times in microseconds since 1970. All messages to read have the ``key``.
    """

    of_queues: tuple[Filter, ...] = ()
    offsets: Interval = Interval()
    times_us: Interval = Interval()
    tags: frozenset[str] | None = None
    key: str | None = None

    def keeps(self, queue: MessageQueue) -> bool:
        """Return whether a queue may have messages to read."""
        return all(_holds(test, _OF_QUEUES[_column(test)][1](queue)) for test in self.of_queues)

    @property
    def times_ms(self) -> Interval:
        """The store times to read in milliseconds, as brokers count them, rounded outwards."""
        start, end = self.times_us
        return Interval(
            None if start is None else start // 1000, None if end is None else -(-end // 1000)
        )

    def subscription(self, tags: str) -> str | None:
        """Return a subscription for the tags that both these filters and another one select.

        None if there are none.

        >>> PushedFilters(tags=frozenset({"paid", "late"})).subscription("late || new")
        'late'
        """
        if self.tags is None:
            return tags
        asked = TagFilter.parse(tags)
        both = self.tags if asked.selects_all else self.tags & asked.tags
        return f" {TAG_SEPARATOR} ".join(sorted(both)) or None


def pushed_filters(filters: Iterable[Filter]) -> PushedFilters:
    """Return what a read can skip by all filters together."""
    found = PushedFilters()
    for given in filters:
        found = _with_filter(given, found)
    return found


def _with_filter(given: Filter, found: PushedFilters) -> PushedFilters:
    """Return pushed filters with one more."""
    column = _column(given)
    if column in _OF_QUEUES and _is_decidable(given, _OF_QUEUES[column][0]):
        return msgspec.structs.replace(found, of_queues=(*found.of_queues, given))
    if column == "queue_offset":
        interval = _interval(given, _as_offset)
        return msgspec.structs.replace(found, offsets=found.offsets.intersect(interval))
    if column == "timestamp":
        interval = _interval(given, _as_microseconds)
        return msgspec.structs.replace(found, times_us=found.times_us.intersect(interval))
    if column == "tags" and (tags := _selectable_tags(given)) is not None:
        both = tags if found.tags is None else tags & found.tags
        return msgspec.structs.replace(found, tags=both)
    if column == "key" and found.key is None:
        return msgspec.structs.replace(found, key=_first_key(given))
    return found


def _column(given: Filter) -> str:
    """Return the column of a filter; empty if it is about a field inside of a column."""
    path = _column_path(given)
    return path[0] if len(path) == 1 else ""


def _column_path(given: Filter) -> tuple[str, ...]:
    if isinstance(given, Not):
        return _column_path(given.child)
    path: tuple[str, ...] = getattr(given, "attribute", ())
    return path


# Queues


def _is_decidable(given: Filter, kind: type) -> bool:
    """Return whether a filter is true or false for any value of a column without nulls."""
    if isinstance(given, Not):
        return _is_decidable(given.child, kind)
    if isinstance(given, IsNull | IsNotNull):
        return True
    if type(given) not in _COMPARISONS:
        return False
    if isinstance(given, In):  # with a null in the list, it may be neither
        return all(type(value) is kind for value in given.value)
    return type(getattr(given, "value", None)) is kind


def _holds(given: Filter, value: str | int) -> bool:
    if isinstance(given, Not):
        return not _holds(given.child, value)
    if isinstance(given, IsNull | IsNotNull):
        return isinstance(given, IsNotNull)
    return _COMPARISONS[type(given)](value, getattr(given, "value", None))


# Offsets and times


def _interval(given: Filter, number: Callable[[object], int | None]) -> Interval:
    """Return an interval outside of which a filter is never true; unlimited if there is none.

    For a list of values, it is from the least to the greatest.
    """
    if isinstance(given, In):
        numbers = [number(value) for value in given.value]
        known = [value for value in numbers if value is not None]
        whole = bool(numbers) and len(known) == len(numbers)
        return Interval(min(known), max(known) + 1) if whole else Interval()
    value = number(getattr(given, "value", None))
    if value is None:
        return Interval()
    intervals: Mapping[type[Filter], Interval] = {
        EqualTo: Interval(value, value + 1),
        EqualNullSafe: Interval(value, value + 1),
        GreaterThan: Interval(value + 1, None),
        GreaterThanOrEqual: Interval(value, None),
        LessThan: Interval(None, value),
        LessThanOrEqual: Interval(None, value + 1),
    }
    return intervals.get(type(given), Interval())


def _as_offset(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _as_microseconds(value: object) -> int | None:
    if not isinstance(value, datetime) or value.utcoffset() is None:
        return None
    return (value - _EPOCH) // _MICROSECOND


# Tags and keys


def _selectable_tags(given: Filter) -> frozenset[str] | None:
    """Return the tags that a filter selects; None if no subscription selects exactly these."""
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


def _first_key(given: Filter) -> str | None:
    """Return the first key in the value of a filter: brokers index each key separately.

    Only spaces separate keys. A tab or another white space is part of a key.
    """
    if isinstance(given, EqualTo | EqualNullSafe) and isinstance(given.value, str):
        return next(filter(None, given.value.split(KEY_SEPARATOR)), None)
    return None
