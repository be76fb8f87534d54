from collections.abc import Iterator
from typing import Any

import pytest

from orbitmq.errors import ConnectFailed, DataLost, GroupNotFound, InvalidOffsets, NoRoute
from orbitmq.spark.offsets import Bound, Offsets, Range, Slice
from orbitmq.spark.options.options import Topics
from orbitmq.spark.streaming.batch_limits import Limit
from orbitmq.spark.streaming.query_progress import COMMIT_PAUSE_MS, QueryProgress
from orbitmq.spark.streaming.queue_watch import ROUTE_AGE_MS
from tests.spark.fake_cluster import FakeClock, FakeCluster, options, queue

A, B = queue(0), queue(0, "broker-b")
ALL = Limit()


class Query:
    """What Spark does with a progress; a restart makes a new one from the checkpoint.

    ``ends`` is the offset log of the checkpoint, ``done`` how many of its batches are committed.
    """

    def __init__(self, cluster: FakeCluster, **said: Any) -> None:
        self.cluster = cluster
        self.clock = FakeClock()
        self.said = said
        self.ends: list[Offsets] = []
        self.done = 0
        self.start()

    def let_time_pass(self) -> None:
        """Let so much time pass that queues are asked again."""
        self.clock.pass_ms(ROUTE_AGE_MS)

    def start(self, *, available_now: bool = False) -> None:
        self.progress = QueryProgress(self.cluster, options(**self.said), self.clock)
        if available_now:
            self.progress.set_target()

    def restart(self) -> list[Slice]:
        """Kill the driver, start it again, and return what the interrupted batch reads."""
        self.start()
        return self.run() if self.done < len(self.ends) else []

    def plan(self, limit: Limit = ALL) -> bool:
        """Log where the next batch ends; return False if there is none."""
        self.clock.pass_ms(100)
        begin = self.ends[-1] if self.ends else self.progress.initial()
        end = self.progress.next_end(begin, limit)
        if self.ends and end == begin:
            return False
        self.ends.append(end)
        return True

    def run(self) -> list[Slice]:
        """Run the batch that was planned last, and return what it reads."""
        number = self.done
        begin = self.ends[number - 1] if number else self.progress.initial()
        found = self.progress.slices(begin, self.ends[number])
        self.done += 1
        return found

    def batches(self, limit: Limit = ALL) -> Iterator[list[Slice]]:
        """Run batches until there are no more, and yield what each reads."""
        while self.plan(limit):
            yield self.run()


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster({A: (0, 5), B: (2, 4)})


def test_the_first_batch_is_empty_and_records_where_the_query_begins(cluster: FakeCluster) -> None:
    query = Query(cluster)

    assert list(query.batches()) == [[], [Slice(A, 0, 5), Slice(B, 2, 4)]]
    assert query.ends[0] == {A: 0, B: 2}


@pytest.mark.parametrize("killed_in_batch", [0, 1])
def test_a_kill_loses_nothing_of_a_query_that_began_at_the_end(
    cluster: FakeCluster, killed_in_batch: int
) -> None:
    query = Query(cluster, start=Bound("latest"))
    for _ in range(killed_in_batch):
        assert query.plan()
        query.run()
        cluster.ranges[A] = Range(0, 6)
    assert query.plan()
    cluster.ranges[A] = Range(0, 9)

    read = [query.restart(), *query.batches()]

    offsets = [offset for some in read for one in some for offset in range(one.start, one.end)]
    assert offsets == [5, 6, 7, 8]


def test_a_batch_that_is_repeated_reads_the_same(cluster: FakeCluster) -> None:
    query = Query(cluster)
    list(query.batches())
    cluster.ranges[A] = Range(0, 8)
    assert query.plan()
    first = query.progress.slices(query.ends[-2], query.ends[-1])
    cluster.ranges[A] = Range(0, 20)

    assert query.restart() == first == [Slice(A, 5, 8)]


def test_a_query_with_available_now_ends(cluster: FakeCluster) -> None:
    query = Query(cluster)
    query.start(available_now=True)
    cluster.ranges[A] = Range(0, 100)

    batches = list(query.batches(Limit(most=4)))

    read = sum(one.end - one.start for some in batches for one in some)
    assert read == 7
    assert query.ends[-1] == {A: 5, B: 4}


def test_available_now_does_not_wait_for_a_minimum(cluster: FakeCluster) -> None:
    query = Query(cluster)
    query.start(available_now=True)

    assert len(list(query.batches(Limit(least=100)))) == 2


def test_available_now_from_latest_reads_nothing(
    cluster: FakeCluster,
) -> None:
    query = Query(cluster, start=Bound("latest"))
    query.start(available_now=True)
    cluster.ranges[A] = Range(0, 100)

    assert list(query.batches()) == [[]]


def test_a_second_query_with_available_now_continues(cluster: FakeCluster) -> None:
    query = Query(cluster)
    query.start(available_now=True)
    list(query.batches())
    cluster.ranges[A] = Range(0, 7)
    query.start(available_now=True)

    assert list(query.batches()) == [[Slice(A, 5, 7)]]


def test_a_batch_waits_for_a_minimum_up_to_a_limit(cluster: FakeCluster) -> None:
    query = Query(cluster, max_trigger_delay_ms=10_000)
    limit = Limit(least=7)
    assert len(list(query.batches(limit))) == 2
    cluster.ranges[A] = Range(0, 6)

    assert list(query.batches(limit)) == []
    query.clock.pass_ms(9_000)
    assert list(query.batches(limit)) == []
    query.clock.pass_ms(1_000)
    assert list(query.batches(limit)) == [[Slice(A, 5, 6)]]


def test_time_without_messages_counts_for_nothing(cluster: FakeCluster) -> None:
    query = Query(cluster, max_trigger_delay_ms=10_000)
    list(query.batches())
    query.clock.pass_ms(60_000)
    list(query.batches(Limit(least=7)))
    cluster.ranges[A] = Range(0, 6)

    assert list(query.batches(Limit(least=7))) == []


def test_a_new_queue_is_read_from_its_beginning(cluster: FakeCluster) -> None:
    query = Query(cluster)
    list(query.batches())
    cluster.ranges[queue(1)] = Range(0, 3)
    query.clock.pass_ms(ROUTE_AGE_MS)

    assert list(query.batches()) == [[], [Slice(queue(1), 0, 3)]]


def test_a_broker_that_comes_back_is_read_where_it_stopped(cluster: FakeCluster) -> None:
    query = Query(cluster)
    list(query.batches())
    cluster.lose("broker-b")
    cluster.ranges |= {A: Range(0, 6), B: Range(2, 9)}
    query.clock.pass_ms(ROUTE_AGE_MS)
    assert list(query.batches()) == [[Slice(A, 5, 6)]]
    cluster.away.clear()

    assert list(query.batches()) == [[Slice(B, 4, 9)]]


def test_messages_that_retention_removed_fail_the_query(cluster: FakeCluster) -> None:
    query = Query(cluster)
    assert query.plan()
    query.run()
    cluster.ranges[A] = Range(3, 5)

    with pytest.raises(DataLost, match=r"orders, queue broker-a:0: offset 0 .* has 3 up to 5"):
        query.plan()


def test_a_planned_batch_with_lost_messages_fails_too(cluster: FakeCluster) -> None:
    query = Query(cluster)
    list(query.batches())
    cluster.ranges[A] = Range(0, 9)
    assert query.plan()
    cluster.ranges[A] = Range(6, 9)

    with pytest.raises(DataLost):
        query.restart()


def test_or_the_query_continues_and_logs_it_once(
    cluster: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    query = Query(cluster, fail_on_data_loss=False)
    assert query.plan()
    query.run()
    cluster.ranges[A] = Range(3, 5)

    assert list(query.batches(Limit(most=2))) == [
        [Slice(A, 3, 4), Slice(B, 2, 3)],
        [Slice(A, 4, 5), Slice(B, 3, 4)],
    ]
    (told,) = (record.message for record in caplog.records)
    assert told.startswith("continuing although data is lost: topic orders, queue broker-a:0")


def test_a_loss_is_logged_once_under_traffic(
    cluster: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    query = Query(cluster, fail_on_data_loss=False)
    assert query.plan()
    query.run()
    cluster.ranges[A] = Range(3, 5)
    assert query.plan()
    cluster.ranges[A] = Range(20, 30)
    query.let_time_pass()
    assert query.run() == [Slice(B, 2, 4)]

    assert len(caplog.records) == 1


def test_an_emptied_queue_takes_one_batch_without_rows(
    cluster: FakeCluster,
) -> None:
    query = Query(cluster, fail_on_data_loss=False)
    list(query.batches())
    cluster.ranges[A] = Range(8, 8)
    assert list(query.batches()) == [[]]
    cluster.ranges[A] = Range(8, 9)

    assert list(query.batches()) == [[Slice(A, 8, 9)]]


def test_a_queue_that_became_shorter_continues_at_its_end(cluster: FakeCluster) -> None:
    query = Query(cluster, fail_on_data_loss=False)
    list(query.batches())
    cluster.ranges[A] = Range(0, 3)
    assert list(query.batches()) == [[]]
    cluster.ranges[A] = Range(0, 6)

    assert list(query.batches()) == [[Slice(A, 3, 6)]]


def test_a_lost_start_is_reported_before_anything_is_recorded(cluster: FakeCluster) -> None:
    with pytest.raises(DataLost):
        Query(cluster, start=Bound("offsets", offsets={A: 0, B: 0})).plan()


def test_offsets_of_missing_queues_are_refused(cluster: FakeCluster) -> None:
    with pytest.raises(InvalidOffsets):
        Query(cluster, start=Bound("offsets", offsets={queue(9): 0})).plan()


def test_a_missing_topic_is_refused() -> None:
    with pytest.raises(NoRoute):
        Query(FakeCluster({})).plan()


def test_all_batches_are_committed_including_the_last(cluster: FakeCluster) -> None:
    query = Query(cluster, group="billing", commit_offsets=True)
    list(query.batches())

    assert cluster.commits == [("billing", {A: 0, B: 2}), ("billing", {A: 5, B: 4})]


def test_only_changed_offsets_are_committed(cluster: FakeCluster) -> None:
    query = Query(cluster, group="billing", commit_offsets=True)
    list(query.batches())
    cluster.ranges[A] = Range(0, 6)
    list(query.batches())

    assert cluster.commits[-1] == ("billing", {A: 6})


def test_nothing_is_committed_unless_wanted(cluster: FakeCluster) -> None:
    list(Query(cluster, group="billing", commit_offsets=False).batches())

    assert cluster.commits == []


def test_a_failed_commit_is_logged_once_and_repeated(
    cluster: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    query = Query(cluster, group="billing", commit_offsets=True)
    cluster.lose("broker-b")
    query.progress.commit({A: 1, B: 3})
    query.progress.commit({A: 2, B: 3})
    cluster.away.clear()
    query.progress.commit({A: 2, B: 3})
    assert cluster.commits == []  # not a hundred times a second
    query.clock.pass_ms(COMMIT_PAUSE_MS)
    query.progress.commit({A: 2, B: 3})

    assert cluster.commits == [("billing", {A: 2, B: 3})]
    assert [record.message for record in caplog.records] == [
        "can't commit the offsets of group billing now: no connection to broker-b"
    ]


def test_a_group_that_has_not_pulled_yet_is_no_error(
    cluster: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    query = Query(cluster, group="billing", commit_offsets=True)
    cluster.lose("broker-b", GroupNotFound(26, "not there", address="broker-b"))

    query.progress.commit({A: 1, B: 3})
    cluster.away.clear()
    query.progress.commit({A: 1, B: 4})

    assert caplog.records == []
    assert cluster.commits == [("billing", {A: 1, B: 4})]


def test_the_latest_offsets_are_those_last_seen(cluster: FakeCluster) -> None:
    query = Query(cluster)
    assert query.progress.latest() == {}
    list(query.batches(Limit(most=1)))

    assert query.progress.latest() == {A: 5, B: 4}


# Which queues

BILL = queue(0, topic="bills")
BOTH, ORDERS = Topics(names=("bills", "orders")), Topics(names=("orders",))


@pytest.fixture(params=[False, True], ids=["on and on", "available now"])
def available_now(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


def test_a_deselected_topic_keeps_its_offsets_and_is_not_read(
    cluster: FakeCluster, available_now: bool
) -> None:
    cluster.ranges[BILL] = Range(0, 2)
    query = Query(cluster, topics=BOTH)
    list(query.batches())
    cluster.ranges |= {A: Range(0, 6), BILL: Range(0, 9)}
    query.said["topics"] = ORDERS
    query.start(available_now=available_now)
    assert list(query.batches()) == [[Slice(A, 5, 6)]]
    assert query.ends[-1][BILL] == 2
    query.said["topics"] = BOTH
    query.start(available_now=available_now)

    assert list(query.batches()) == [[Slice(BILL, 2, 9)]]


def test_a_batch_planned_before_that_is_read_as_planned(cluster: FakeCluster) -> None:
    cluster.ranges[BILL] = Range(0, 2)
    query = Query(cluster, topics=BOTH)
    list(query.batches())
    cluster.ranges[BILL] = Range(0, 9)
    assert query.plan()
    query.said["topics"] = ORDERS

    assert query.restart() == [Slice(BILL, 2, 9)]


def test_unread_messages_in_a_closed_queue_fail_the_query(
    cluster: FakeCluster, available_now: bool
) -> None:
    query = Query(cluster)
    cluster.ranges[queue(7)] = Range(0, 3)
    list(query.batches())
    cluster.ranges[queue(7)] = Range(0, 5)
    cluster.closed = {queue(7)}
    query.start(available_now=available_now)

    with pytest.raises(DataLost, match=r"broker-a:7: offsets 3 up to 5 .* at least 8"):
        list(query.batches())


def test_or_that_is_logged_once_and_its_offset_is_kept(
    cluster: FakeCluster, available_now: bool, caplog: pytest.LogCaptureFixture
) -> None:
    query = Query(cluster, fail_on_data_loss=False)
    cluster.ranges[queue(7)] = Range(0, 3)
    list(query.batches())
    cluster.ranges |= {A: Range(0, 6), queue(7): Range(0, 5)}
    cluster.closed = {queue(7)}
    query.start(available_now=available_now)
    assert list(query.batches(Limit(most=1))) == [[Slice(A, 5, 6)]]
    assert len(caplog.records) == 1
    cluster.closed.clear()
    query.start(available_now=available_now)

    assert list(query.batches()) == [[Slice(queue(7), 3, 5)]]


def test_a_closed_queue_that_was_read_to_its_end_is_no_loss(
    cluster: FakeCluster, available_now: bool
) -> None:
    query = Query(cluster)
    cluster.ranges[queue(7)] = Range(0, 3)
    list(query.batches())
    cluster.closed = {queue(7)}
    query.start(available_now=available_now)

    assert list(query.batches()) == []


def test_a_queue_that_came_and_went_unread_is_no_loss(cluster: FakeCluster) -> None:
    query = Query(cluster)
    list(query.batches())
    cluster.ranges[queue(7)] = Range(0, 3)
    query.start(available_now=True)  # it is seen here, and the checkpoint doesn't have it
    cluster.closed = {queue(7)}
    query.let_time_pass()

    assert list(query.batches()) == []


def test_a_planned_batch_with_a_closed_queue_fails_or_skips_it(
    cluster: FakeCluster,
) -> None:
    query = Query(cluster)
    cluster.ranges[queue(7)] = Range(0, 3)
    list(query.batches())
    cluster.ranges |= {A: Range(0, 6), queue(7): Range(0, 5)}
    assert query.plan()
    cluster.closed = {queue(7)}
    with pytest.raises(DataLost, match="readQueueNums"):
        query.restart()
    query.said["fail_on_data_loss"] = False

    assert query.restart() == [Slice(A, 5, 6)]


def test_a_query_that_ends_reads_queues_of_the_checkpoint_that_are_in_no_route(
    cluster: FakeCluster,
) -> None:
    query = Query(cluster)
    list(query.batches())
    cluster.ranges[B] = Range(2, 9)
    cluster.closed = {B}  # a broker that answers, and is not registered yet
    query.start(available_now=True)

    assert list(query.batches()) == [[Slice(B, 4, 9)]]


def test_a_query_that_ends_fails_without_a_broker_of_the_checkpoint(cluster: FakeCluster) -> None:
    query = Query(cluster)
    list(query.batches())
    cluster.ranges[A] = Range(0, 6)
    cluster.lose("broker-b")
    query.start(available_now=True)
    with pytest.raises(ConnectFailed, match="broker-b"):
        query.plan()
    query.said["fail_on_data_loss"] = False
    query.start(available_now=True)

    assert list(query.batches()) == [[Slice(A, 5, 6)]]


def test_no_query_begins_without_its_topic(cluster: FakeCluster, available_now: bool) -> None:
    query = Query(cluster, topics=BOTH, fail_on_data_loss=False)
    query.start(available_now=available_now)

    with pytest.raises(NoRoute, match="bills"):
        query.plan()


def test_a_missing_topic_does_not_block_commits_of_others(
    cluster: FakeCluster, available_now: bool, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.ranges[BILL] = Range(0, 2)
    said = {"group": "billing", "commit_offsets": True, "fail_on_data_loss": False}
    query = Query(cluster, topics=BOTH, **said)
    list(query.batches())
    cluster.delete("bills")
    cluster.ranges[A] = Range(0, 6)
    query.start(available_now=available_now)
    for _ in range(2):
        list(query.batches())
        query.clock.pass_ms(COMMIT_PAUSE_MS)

    assert cluster.commits[-1][1][A] == 6
    assert query.ends[-1] == {A: 6, B: 4, BILL: 2}
    assert sum("topic bills is missing" in one for one in caplog.messages) <= 2
