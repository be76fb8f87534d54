import pytest
from pyspark.sql.datasource import EqualTo, Filter, GreaterThanOrEqual, LessThan

from orbitmq.errors import DataLost, InvalidOffsets
from orbitmq.spark.filters import Narrowing, Span, narrowed
from orbitmq.spark.offsets import Bound, Offsets, Slice
from orbitmq.spark.planning import batch_slices
from tests.spark.fake_cluster import FakeCluster, options, queue

A, B = queue(0), queue(1)


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster({A: (2, 10), B: (0, 4)})


def test_a_read_goes_from_the_first_to_the_last_message(cluster: FakeCluster) -> None:
    assert batch_slices(cluster, options()) == [Slice(A, 2, 10), Slice(B, 0, 4)]


def test_empty_queues_give_no_slice(cluster: FakeCluster) -> None:
    cluster.ranges[B] = cluster.ranges[B]._replace(min=4)

    assert batch_slices(cluster, options()) == [Slice(A, 2, 10)]


def test_offsets_and_times_say_where_to_begin_and_end(cluster: FakeCluster) -> None:
    cluster.times[1_700] = {A: 5, B: 4}
    end = Bound("offsets", offsets={A: 9, B: -1})

    found = batch_slices(cluster, options(start=Bound("timestamp", timestamp_ms=1_700), end=end))

    assert found == [Slice(A, 5, 9)]


def test_queues_are_cut_into_pieces(cluster: FakeCluster) -> None:
    found = batch_slices(cluster, options(max_records_per_partition=4))

    assert found == [Slice(A, 2, 6), Slice(A, 6, 10), Slice(B, 0, 4)]


@pytest.mark.parametrize(
    ("start", "end"),
    [({A: 1, B: 0}, {A: -1, B: -1}), ({A: 11, B: 0}, {A: -1, B: -1}), ({A: 2, B: 0}, {A: 9, B: 5})],
)
def test_what_is_not_there_fails_the_read(
    cluster: FakeCluster, start: Offsets, end: Offsets
) -> None:
    told = options(start=Bound("offsets", offsets=start), end=Bound("offsets", offsets=end))

    with pytest.raises(DataLost):
        batch_slices(cluster, told)


def test_or_is_left_out(cluster: FakeCluster) -> None:
    start, end = Bound("offsets", offsets={A: 1, B: 9}), Bound("offsets", offsets={A: 99, B: 99})

    assert batch_slices(cluster, options(start=start, end=end, fail_on_data_loss=False)) == [
        Slice(A, 2, 10)
    ]


def test_offsets_of_other_queues_are_refused(cluster: FakeCluster) -> None:
    with pytest.raises(InvalidOffsets, match="startingOffsets"):
        batch_slices(cluster, options(start=Bound("offsets", offsets={queue(7): 1})))


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ([EqualTo(("queue_id",), 1)], [Slice(B, 0, 4)]),
        (
            [GreaterThanOrEqual(("queue_offset",), 3), LessThan(("queue_offset",), 5)],
            [Slice(A, 3, 5), Slice(B, 3, 4)],
        ),
        ([EqualTo(("topic",), "refunds")], []),
    ],
)
def test_filters_leave_queues_and_offsets_out(
    cluster: FakeCluster, filters: list[Filter], expected: list[Slice]
) -> None:
    narrowing, _left = narrowed(filters)

    assert batch_slices(cluster, options(), narrowing) == expected


def test_offsets_are_checked_against_all_queues_whatever_the_filters(cluster: FakeCluster) -> None:
    start = Bound("offsets", offsets={A: 4, B: 1})
    narrowing, _left = narrowed([EqualTo(("queue_id",), 1)])

    assert batch_slices(cluster, options(start=start), narrowing) == [Slice(B, 1, 4)]


def test_times_are_looked_up_for_the_queues_that_are_left(cluster: FakeCluster) -> None:
    cluster.times = {5: {A: 4}, 8: {A: 7}}
    narrowing = Narrowing(of_queues=(EqualTo(("queue_id",), 0),), times_us=Span(5_000, 8_000))

    assert batch_slices(cluster, options(), narrowing) == [Slice(A, 4, 7)]


def test_an_index_names_the_offsets_of_a_key(cluster: FakeCluster) -> None:
    cluster.keys["o-42"] = {A: [0, 1, 3, 4, 9, 12], B: [2]}

    found = batch_slices(cluster, options(), Narrowing(key="o-42"))

    assert found == [Slice(A, 3, 5), Slice(A, 9, 10), Slice(B, 2, 3)]


def test_without_one_that_knows_all_is_read(cluster: FakeCluster) -> None:
    cluster.keys["o-42"] = None

    assert batch_slices(cluster, options(), Narrowing(key="o-42")) == batch_slices(
        cluster, options()
    )
