"""What a run of an archive reads: from where the last one ended to the ends of now.

>>> orders = MessageQueue("orders", "broker-a", 0)
>>> plan = planned({}, {orders: Range(3, 9)}, {orders: 3}, {orders: 9}, ("orders",))
>>> plan.wanted
{MessageQueue(topic='orders', broker_name='broker-a', queue_id=0): Range(min=3, max=9, \
is_replica=False)}
"""

from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from orbitmq.errors import DataLost
from orbitmq.message.model import MessageQueue
from orbitmq.spark.jobs.archiving.manifest import Gap, QueueEnd
from orbitmq.spark.offsets import Range, Slice

__all__ = ["Plan", "dealt", "loss", "planned", "task_count"]

_ROWS_MIN: Final = 50_000
"""Offsets that are worth a task: fewer make files and tasks that cost more than their rows."""
_ROWS_MAX: Final = 4_000_000
"""Offsets of a task: what is done again if it fails."""


class Plan(NamedTuple):
    """What to read of each queue, and what is lost."""

    wanted: dict[MessageQueue, Range]
    gaps: list[Gap]


def planned(
    archived: Mapping[MessageQueue, QueueEnd],
    ranges: Mapping[MessageQueue, Range],
    start: Mapping[MessageQueue, int],
    until: Mapping[MessageQueue, int],
    topics: Collection[str],
) -> Plan:
    """Return the plan of a run.

    ``archived`` says how far queues are archived, and ``ranges`` which offsets they have.
    ``start`` is where a queue begins that the archive doesn't know, and ``until`` where the run
    ends. Queues of other ``topics`` are left alone.
    """
    wanted: dict[MessageQueue, Range] = {}
    gaps: list[Gap] = []
    for queue, has in sorted(ranges.items()):
        known = archived.get(queue)
        begin = start[queue] if known is None else known.end
        if known is not None and not has.is_replica:
            if has.max < begin:
                gaps.append(_gap(queue, begin, has.max, "recreated"))
                begin = has.min
            elif has.min > begin:
                gaps.append(_gap(queue, begin, has.min, "expired"))
                begin = has.min
        end = min(until[queue], has.max)
        if begin < end:
            wanted[queue] = Range(begin, end)
    for queue, known in sorted(archived.items()):
        if queue.topic in topics and queue not in ranges and not known.gone:
            gaps.append(_gap(queue, known.end, known.end, "gone"))
    return Plan(wanted, gaps)


def _gap(queue: MessageQueue, start: int, end: int, why: str) -> Gap:
    return Gap(
        topic=queue.topic,
        broker=queue.broker_name,
        queue_id=queue.queue_id,
        start=start,
        end=end,
        why=why,  # type: ignore[arg-type]  # one of the three above
    )


def loss(gap: Gap) -> DataLost:
    """Return the error for a gap."""
    return DataLost(
        f"{gap}. Set failOnDataLoss to false to archive what is there, and to have the gap in the "
        "manifest",
        queue=gap.queue,
        wanted=gap.start,
        available=(gap.end, gap.end),
    )


def task_count(offsets: int, parallelism: int) -> int:
    """Return how many tasks read some offsets.

    >>> task_count(0, 8), task_count(120_000, 8), task_count(10**6, 8), task_count(10**8, 8)
    (0, 3, 8, 25)
    """
    worthwhile = -(-offsets // _ROWS_MIN)
    return max(min(parallelism, worthwhile), -(-offsets // _ROWS_MAX))


def dealt(wanted: Mapping[MessageQueue, Range], tasks: int) -> list[list[Slice]]:
    """Return what each task reads: as many offsets each, of as few queues as possible.

    >>> a, b = MessageQueue("t", "x", 0), MessageQueue("t", "x", 1)
    >>> [[(one.queue.queue_id, one.start, one.end) for one in task]
    ...  for task in dealt({a: Range(0, 4), b: Range(7, 9)}, 2)]
    [[(0, 0, 3)], [(0, 3, 4), (1, 7, 9)]]
    """
    total = sum(one.max - one.min for one in wanted.values())
    borders = [total * number // tasks for number in range(1, tasks + 1)]
    found: list[list[Slice]] = [[] for _ in borders]
    number = passed = 0
    for queue, whole in sorted(wanted.items()):
        start = whole.min
        while start < whole.max:
            end = min(whole.max, start + borders[number] - passed)
            if end > start:
                found[number].append(Slice(queue, start, end))
            passed += end - start
            start = end
            if passed == borders[number]:
                number += 1
    return [task for task in found if task]
