import pytest
from pyspark.sql.datasource import EqualTo, Filter, GreaterThanOrEqual, LessThan

from orbitmq.errors import DataLost, InvalidOffsets
from orbitmq.spark.offsets import Bound, Offsets, Slice
from orbitmq.spark.reading.batch_plan import batch_slices
from orbitmq.spark.reading.filters import Interval, PushedFilters, pushed_filters
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


def test_offsets_and_times_set_start_and_end_of_slices(cluster: FakeCluster) -> None:
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
def test_missing_offsets_fail_the_read(cluster: FakeCluster, start: Offsets, end: Offsets) -> None:
    told = options(start=Bound("offsets", offsets=start), end=Bound("offsets", offsets=end))

    with pytest.raises(DataLost):
        batch_slices(cluster, told)


def test_missing_offsets_are_skipped_if_loss_is_accepted(cluster: FakeCluster) -> None:
    start, end = Bound("offsets", offsets={A: 1, B: 9}), Bound("offsets", offsets={A: 99, B: 99})

    assert batch_slices(cluster, options(start=start, end=end, fail_on_data_loss=False)) == [
        Slice(A, 2, 10)
    ]


def test_offsets_that_a_replica_lacks_are_still_read(cluster: FakeCluster) -> None:
    cluster.ranges[A] = cluster.ranges[A]._replace(is_replica=True)
    start, end = Bound("offsets", offsets={A: 1, B: 0}), Bound("offsets", offsets={A: 12, B: 4})
    for fails in (True, False):
        found = batch_slices(cluster, options(start=start, end=end, fail_on_data_loss=fails))
        assert found == [Slice(A, 1, 12), Slice(B, 0, 4)]


def test_offsets_from_a_replica_are_logged(
    cluster: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    batch_slices(cluster, options())
    assert caplog.messages == []
    cluster.ranges[A] = cluster.ranges[A]._replace(is_replica=True)
    batch_slices(cluster, options(start=Bound("earliest"), end=Bound("latest")))
    assert [text.split()[0] for text in caplog.messages] == ["earliest", "latest"]
    assert all(text.endswith("may have more: broker-a") for text in caplog.messages)


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
    narrowing = pushed_filters(filters)

    assert batch_slices(cluster, options(), narrowing) == expected


def test_offsets_are_checked_against_all_queues_whatever_the_filters(cluster: FakeCluster) -> None:
    start = Bound("offsets", offsets={A: 4, B: 1})
    narrowing = pushed_filters([EqualTo(("queue_id",), 1)])

    assert batch_slices(cluster, options(start=start), narrowing) == [Slice(B, 1, 4)]


def test_times_are_looked_up_for_the_queues_that_are_left(cluster: FakeCluster) -> None:
    cluster.times = {5: {A: 4}, 8: {A: 7}}
    narrowing = PushedFilters(
        of_queues=(EqualTo(("queue_id",), 0),), times_us=Interval(5_000, 8_000)
    )

    assert batch_slices(cluster, options(), narrowing) == [Slice(A, 4, 7)]


OLD = [100, 100, 200, 300, 300, 300, 400, 500, 500, 600]
"""When the messages of A were stored, from offset 0 on; it begins with the third."""


@pytest.mark.parametrize(
    ("since_ms", "until_ms", "hints", "expected"),
    [
        (300, 500, {300: 3, 500: 7}, Slice(A, 3, 7)),  # what brokers answer from 5.1.1 on
        (300, 500, {300: 5, 500: 8}, Slice(A, 3, 7)),  # any of several, before that
        (290, 490, {290: 3, 490: 7}, Slice(A, 3, 7)),  # or the nearest: here later ones,
        (310, 410, {310: 5, 410: 6}, Slice(A, 6, 7)),  # here earlier ones,
        (250, 700, {250: 2, 700: 9}, Slice(A, 3, 10)),  # here the last one of all,
        (300, 601, {300: 0, 601: 0}, Slice(A, 3, 10)),  # or 0 if a record can't be read
        (300, 500, {300: 9, 500: 2}, Slice(A, 3, 7)),  # or what another file would have
    ],
)
def test_a_broker_s_answer_by_time_is_only_a_hint(
    cluster: FakeCluster,
    since_ms: int,
    until_ms: int,
    hints: dict[int, int],
    expected: Slice,
) -> None:
    cluster.times = {moment: {A: hint, B: 4} for moment, hint in hints.items()}
    cluster.stored = {A: OLD, B: [0] * 4}
    start, end = (Bound("timestamp", timestamp_ms=moment) for moment in (since_ms, until_ms))
    narrowing = PushedFilters(times_us=Interval(since_ms * 1000, until_ms * 1000))

    assert batch_slices(cluster, options(start=start, end=end)) == [expected]
    assert batch_slices(cluster, options(), narrowing) == [expected]


def test_filters_that_leave_nothing_ask_for_no_times(cluster: FakeCluster) -> None:
    narrowing = PushedFilters(offsets=Interval(50, 60), times_us=Interval(5_000, 8_000))
    cluster.times = {5: {}, 8: {}}

    assert batch_slices(cluster, options(), narrowing) == []
    assert cluster.looked_at == []


def test_an_index_names_the_offsets_of_a_key(cluster: FakeCluster) -> None:
    cluster.keys["o-42"] = {A: [0, 1, 3, 4, 9, 12], B: [2]}

    found = batch_slices(cluster, options(), PushedFilters(key="o-42"))

    assert found == [Slice(A, 3, 5), Slice(A, 9, 10), Slice(B, 2, 3)]


def test_without_a_complete_index_all_is_read(cluster: FakeCluster) -> None:
    cluster.keys["o-42"] = None

    assert batch_slices(cluster, options(), PushedFilters(key="o-42")) == batch_slices(
        cluster, options()
    )
