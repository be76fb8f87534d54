"""Plans: where queues continue, what is lost, and how the work is shared."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbitmq.message.model import MessageQueue
from orbitmq.spark.jobs.archiving.manifest import QueueEnd
from orbitmq.spark.jobs.archiving.plan import Plan, dealt, loss, planned, task_count
from orbitmq.spark.offsets import Range

QUEUE = MessageQueue("orders", "a", 0)


def plan(archived: int | None, has: Range | None, *, start: int = 0, until: int = 10**9) -> Plan:
    known = {}
    if archived is not None:
        known[QUEUE] = QueueEnd(topic="orders", broker="a", queue_id=0, end=archived)
    ranges = {} if has is None else {QUEUE: has}
    return planned(known, ranges, {QUEUE: start}, {QUEUE: until}, {"orders"})


@pytest.mark.parametrize(
    ("archived", "has", "wanted", "gap"),
    [
        (None, Range(3, 9), (3, 9), None),
        (5, Range(0, 9), (5, 9), None),
        (5, Range(5, 9), (5, 9), None),
        (9, Range(0, 9), None, None),
        (5, Range(7, 9), (7, 9), ("expired", 5, 7)),
        (5, Range(9, 9), None, ("expired", 5, 9)),
        (50, Range(0, 9), (0, 9), ("recreated", 50, 9)),
        (5, Range(0, 0), None, ("recreated", 5, 0)),
        (5, None, None, ("gone", 5, 5)),
        (5, Range(0, 3, is_replica=True), None, None),  # it lags behind
        (5, Range(7, 9, is_replica=True), (5, 9), None),  # its primary may keep more
    ],
)
def test_where_a_queue_continues(
    archived: int | None,
    has: Range | None,
    wanted: tuple[int, int] | None,
    gap: tuple[str, int, int] | None,
) -> None:
    found = plan(archived, has, start=has.min if has else 0)
    assert {queue: (one.min, one.max) for queue, one in found.wanted.items()} == (
        {QUEUE: wanted} if wanted else {}
    )
    assert [(one.why, one.start, one.end) for one in found.gaps] == ([gap] if gap else [])
    if found.gaps:
        assert "failOnDataLoss" in str(loss(found.gaps[0]))


def test_a_run_may_begin_later_and_end_earlier() -> None:
    assert plan(None, Range(0, 9), start=4, until=6).wanted == {QUEUE: Range(4, 6)}
    assert plan(8, Range(0, 9), until=6).wanted == {}


def test_what_is_known_to_be_gone_and_other_topics_are_left_alone() -> None:
    gone = QueueEnd(topic="orders", broker="a", queue_id=0, end=5, gone=True)
    assert planned({QUEUE: gone}, {}, {}, {}, {"orders"}) == Plan({}, [])
    other = QueueEnd(topic="orders", broker="a", queue_id=0, end=5)
    assert planned({QUEUE: other}, {}, {}, {}, {"refunds"}) == Plan({}, [])


@given(
    st.dictionaries(st.integers(0, 20), st.tuples(st.integers(0, 50), st.integers(0, 90))),
    st.integers(1, 9),
)
def test_tasks_share_all_offsets_evenly(sizes: dict[int, tuple[int, int]], tasks: int) -> None:
    wanted = {
        MessageQueue("t", "b", number): Range(low, low + size)
        for number, (low, size) in sizes.items()
        if size
    }
    found = dealt(wanted, tasks)
    offsets = [
        (one.queue, offset)
        for task in found
        for one in task
        for offset in range(one.start, one.end)
    ]
    assert sorted(offsets) == [
        (queue, offset) for queue in sorted(wanted) for offset in range(*wanted[queue][:2])
    ]
    counts = [sum(one.end - one.start for one in task) for task in found]
    assert len(found) == min(tasks, len(offsets))
    assert not counts or max(counts) - min(counts) <= 1


@given(st.integers(0, 10**9), st.integers(1, 500))
def test_tasks_are_neither_tiny_nor_huge(offsets: int, parallelism: int) -> None:
    count = task_count(offsets, parallelism)
    assert offsets <= count * 4_000_000
    assert count <= max(parallelism, offsets // 4_000_000 + 1)
    assert bool(count) == bool(offsets)
