"""Where a batch of a stream ends, given its start and the offsets of the queues.

A new queue is added at its beginning, and read from the next batch on. So no batch reads a queue
whose start is not in the checkpoint, and a batch that is repeated after a crash reads the same
messages.

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
    """How many offsets a batch may have; None: no limit.

    With fewer than ``least``, the batch waits for more, up to a time limit. Offsets above ``most``
    are left to later batches.
    """

    least: int | None = None
    most: int | None = None


def batch_end(
    start: Mapping[MessageQueue, int],
    ranges: Mapping[MessageQueue, Range],
    most: int | None = None,
) -> Offsets:
    """Return where a batch of at most ``most`` offsets ends; its start if there is nothing to read.

    ``ranges`` has the queues that answered.
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
    """Return what a batch reads; it skips queues that are not in its start."""
    return {
        queue: Range(start[queue], offset)
        for queue, offset in end.items()
        if queue in start and start[queue] < offset
    }
