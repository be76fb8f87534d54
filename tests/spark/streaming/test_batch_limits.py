from hypothesis import given
from hypothesis import strategies as st

from orbitmq.message.model import MessageQueue
from orbitmq.spark.offsets import Offsets, Range
from orbitmq.spark.streaming.batch_limits import batch_end, lag, whole_batch
from tests.spark.fake_cluster import queue

A, B, C = queue(0), queue(1), queue(0, "broker-b")


def test_a_batch_goes_as_far_as_the_queues() -> None:
    assert batch_end({A: 3, B: 5}, {A: Range(0, 9), B: Range(0, 5)}) == {A: 9, B: 5}


def test_a_queue_without_an_answer_stays_where_it_is() -> None:
    assert batch_end({A: 3, C: 5}, {A: Range(0, 9)}) == {A: 9, C: 5}


def test_a_lagging_replica_does_not_move_a_batch_back() -> None:
    assert batch_end({A: 12}, {A: Range(0, 9, is_replica=True)}) == {A: 12}


def test_a_new_queue_enters_at_its_beginning_and_is_read_by_the_next_batch() -> None:
    first = batch_end({A: 3}, {A: Range(0, 3), C: Range(7, 20)})
    second = batch_end(first, {A: Range(0, 3), C: Range(7, 20)})

    assert whole_batch({A: 3}, first) == {}
    assert whole_batch(first, second) == {C: Range(7, 20)}


def test_a_limit_leaves_the_rest_to_later_batches() -> None:
    end = batch_end({A: 0, B: 0}, {A: Range(0, 90), B: Range(0, 10), C: Range(4, 9)}, most=10)

    assert end[A] + end[B] == 10
    assert end[B] >= 1
    assert end[C] == 4


def test_lag_counts_what_can_be_read() -> None:
    assert lag({A: 3, B: 9, C: 0}, {A: Range(0, 9), B: Range(0, 5)}) == 6


queues = st.sampled_from([A, B, C, queue(7, "broker-c")])
ranges = st.builds(
    lambda start, count: Range(start, start + count), st.integers(0, 20), st.integers(0, 20)
)


@given(
    st.dictionaries(queues, st.integers(0, 20)),
    st.dictionaries(queues, ranges),
    st.integers(1, 30),
)
def test_batches_advance_until_nothing_is_left(
    start: Offsets, has: dict[MessageQueue, Range], most: int
) -> None:
    for _ in range(200):
        end = batch_end(start, has, most)
        read = whole_batch(start, end)
        assert sum(one.max - one.min for one in read.values()) <= most
        assert end.keys() == start.keys() | has.keys()
        if end == start:
            break
        start = end

    assert all(start[one] >= has[one].max for one in has)
