"""The offset that a moment stands for, made sure of by the messages around it.

Brokers search by time, and not all alike. From 5.1.1 on they name the first message that was stored
then or later. Those before name the nearest, be it earlier or later, and any one of several that
have the very time; and they look in one file alone, which they choose by the time it was last
written. So an answer is a hint. Mostly it is right, which the two messages around it show; if not,
the search goes on from there in steps that double.

Times of storing are taken to rise in a queue, as brokers take them to.
"""

from collections.abc import Callable, Mapping
from typing import Final

from orbitmq.message.model import MessageQueue
from orbitmq.message.record_view import RecordView
from orbitmq.message.scan import Scan
from orbitmq.spark.offsets import Offsets, Range, Slice
from orbitmq.spark.pulling.puller import Brokers, Demand, pull

__all__ = ["first_since", "offsets_since"]

_AT_ONCE: Final = 2
"""Messages to a look: the one before a hint, and the one at it."""


def offsets_since(
    brokers: Brokers,
    moment_ms: int,
    ranges: Mapping[MessageQueue, Range],
    hints: Mapping[MessageQueue, int],
    *,
    group: str,
) -> Offsets:
    """Return the offset of the first message in each range that was stored at a moment or later.

    Where there is none, it is the end of the range. A message that is gone counts as older.

    Args:
        brokers: who has the messages.
        moment_ms: the moment, in milliseconds since 1970.
        ranges: where to search.
        hints: what brokers say of each queue.
        group: in whose name messages are pulled.

    Raises:
        NetworkError, NoRoute, BrokerError: a broker can't be asked.

    """
    found: Offsets = {}
    for queue, within in ranges.items():
        stored = _StoreTimes(brokers, queue, within.max, group)
        found[queue] = first_since(moment_ms, within, hints[queue], stored.at)
    return found


def first_since(
    moment_ms: int, within: Range, hint: int, stored_ms: Callable[[int], int | None]
) -> int:
    """Return the first offset of a range whose time is a moment or later; its end if none is.

    >>> first_since(1_000, Range(0, 100), 2, lambda offset: 900 + offset // 10 * 50)
    20
    """

    def is_older(offset: int) -> bool:
        stored = stored_ms(offset)
        return stored is None or stored < moment_ms

    low, high, step = within.min, within.max, 1  # it is from low to high
    look = min(max(hint, low), high)
    if low < look and not is_older(look - 1):
        high = look - 1
        while low < high:
            look = max(low, high - step)
            if is_older(look):
                low = look + 1
                break
            high, step = look, 2 * step
    else:
        low = look
        while low < high:
            look = min(low + step, high) - 1
            if not is_older(look):
                high = look
                break
            low, step = look + 1, 2 * step
    while low < high:
        look = (low + high) // 2
        low, high = (look + 1, high) if is_older(look) else (low, look)
    return low


class _StoreTimes:
    """When the messages of a queue were stored; each is asked for once."""

    def __init__(self, brokers: Brokers, queue: MessageQueue, end: int, group: str) -> None:
        self._brokers = brokers
        self._queue = queue
        self._end = end
        self._demand = Demand(group=group, fail_on_data_loss=False)
        self._known: dict[int, int | None] = {}

    def at(self, offset: int) -> int | None:
        """Return when the message at an offset was stored; None if it is gone."""
        if offset not in self._known:
            piece = Slice(self._queue, offset, min(offset + _AT_ONCE, self._end))
            views = [
                view
                for records in pull(self._brokers, piece, self._demand)
                for view in Scan(records.data)
            ]
            for one in range(piece.start, piece.end):
                self._known[one] = _time_of(one, views)
        return self._known[offset]


def _time_of(offset: int, views: list[RecordView]) -> int | None:
    """Return when the record that has an offset was stored: an inner batch has several."""
    at_or_before = [view for view in views if view.queue_offset <= offset]
    return at_or_before[-1].store_timestamp_ms if at_or_before else None
