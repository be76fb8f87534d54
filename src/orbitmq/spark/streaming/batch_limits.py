"""How far one batch of a stream goes: decided from where it begins and what the queues have. Pure.

A queue that the stream has not met before enters at its beginning, and is read from the next batch
on. So no batch reads a queue whose start the checkpoint doesn't hold, and a batch that is repeated
after a crash reads the same again, whatever the queues have by then.

>>> old, new = MessageQueue("orders", "broker-a", 0), MessageQueue("orders", "broker-a", 1)
>>> batch_end({old: 5}, {old: Range(0, 9), new: Range(2, 3)}) == {old: 9, new: 2}
True
"""

from collections.abc import Mapping
from typing import NamedTuple

from orbitmq.message.model import MessageQueue
from orbitmq.spark.offsets import Offsets, Range, shared_out

__all__ = ["Limit", "batch_end", "lag", "whole_batch"]


class Limit(NamedTuple):
    """How many offsets a batch has; None for any number.

    Attributes:
        least: with fewer there is no batch, unless they have waited for long.
        most: the rest is left to later batches.

    """

    least: int | None = None
    most: int | None = None


def batch_end(
    start: Mapping[MessageQueue, int],
    ranges: Mapping[MessageQueue, Range],
    most: int | None = None,
) -> Offsets:
    """Return where a batch ends; where it begins if there is nothing to read.

    Args:
        start: where it begins.
        ranges: what the queues have, as far as is known: one that is not there has no news.
        most: how many offsets it may have.

    """
    latest = {
        queue: max(offset, ranges[queue].max) for queue, offset in start.items() if queue in ranges
    }
    entering = {queue: found.min for queue, found in ranges.items() if queue not in start}
    end = {**start, **latest} if most is None else shared_out(start, latest, most)
    return {**end, **entering}


def lag(start: Mapping[MessageQueue, int], ranges: Mapping[MessageQueue, Range]) -> int:
    """Return how many offsets there are to read.

    >>> lag({MessageQueue("orders", "broker-a", 0): 5}, {MessageQueue("orders", "broker-a", 0): \
Range(0, 9)})
    4
    """
    return sum(max(0, ranges[queue].max - start[queue]) for queue in start if queue in ranges)


def whole_batch(
    start: Mapping[MessageQueue, int], end: Mapping[MessageQueue, int]
) -> dict[MessageQueue, Range]:
    """Return what a batch reads: nothing of a queue that it doesn't begin with."""
    return {
        queue: Range(start[queue], offset)
        for queue, offset in end.items()
        if queue in start and start[queue] < offset
    }
