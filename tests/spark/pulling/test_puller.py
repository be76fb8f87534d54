from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbitmq import Message, embedded
from orbitmq.blocking import Admin, Producer
from orbitmq.errors import (
    ConnectFailed,
    DataLost,
    NetworkError,
    NoPermission,
    RemoteProtocolError,
)
from orbitmq.spark.cluster.cluster import Cluster
from orbitmq.spark.offsets import Slice
from orbitmq.spark.options.options import Access
from orbitmq.spark.pulling.puller import PullOptions, pull
from orbitmq.spark.pulling.record_run import Records
from orbitmq.wire.codes import ResponseCode
from orbitmq.wire.frame import Frame
from tests.spark.fake_queue import QUEUE, ContainedReplica, FakeQueue, FakeReplicas, offsets_in
from tests.spark.records import record

ALL = PullOptions(group="spark", pull_count=1_024, window=8)
PAID = PullOptions(group="spark", tags="paid", pull_count=32, window=8)
AT_LEAST_GOING_ON = PullOptions(group="spark", fail_on_data_loss=False)
PAID_GOING_ON = PullOptions(
    group="spark", tags="paid", pull_count=32, window=8, fail_on_data_loss=False
)


@pytest.fixture
def orders() -> Iterator[embedded.RunningCluster]:
    """A broker of ours with 201 orders in each of 3 queues, 402 of them paid."""
    with embedded.start() as running:
        with Admin(nameserver=running.nameserver) as admin:
            admin.create_topic("orders", queues=3)
        with Producer("shop", nameserver=running.nameserver) as producer:
            for queue in producer.queues("orders"):
                some = [
                    Message("orders", b"%d" % n, tags="paid" if n % 3 else "new")
                    for n in range(201)
                ]
                producer.send_many(some, queue=queue)
        yield running


def pulled(
    brokers: FakeReplicas,
    start: int,
    end: int,
    options: PullOptions = ALL,
    pauses: list[int] | None = None,
) -> Iterator[Records]:
    waited = [] if pauses is None else pauses
    return pull(brokers, Slice(QUEUE, start, end), options, pause_for=waited.append)


def pulled_offsets(
    brokers: FakeReplicas, start: int, end: int, options: PullOptions = ALL
) -> list[int]:
    return list(offsets_in(pulled(brokers, start, end, options)))


# What comes


@given(
    start=st.integers(0, 300),
    size=st.integers(0, 300),
    at_once=st.integers(1, 50),
    pull_count=st.integers(1, 64),
    window=st.integers(1, 6),
)
def test_a_slice_is_pulled_completely_in_order_and_once(
    start: int, size: int, at_once: int, pull_count: int, window: int
) -> None:
    brokers = FakeReplicas(FakeQueue(0, 1_000, at_once=at_once))
    options = PullOptions(group="spark", pull_count=pull_count, window=window)
    assert pulled_offsets(brokers, start, start + size, options) == [*range(start, start + size)]
    assert brokers.primary.most_in_flight <= window


@given(
    st.sets(st.integers(0, 400)),
    st.integers(0, 100),
    st.integers(0, 300),
    st.integers(1, 40),
    st.integers(1, 80),
)
def test_a_filtered_slice_has_all_matching_records(
    wanted: set[int], start: int, size: int, at_once: int, span: int
) -> None:
    queue = FakeQueue(0, 500, at_once=at_once, span=span)
    queue.wanted = wanted.__contains__
    found = pulled_offsets(FakeReplicas(queue), start, start + size, PAID)
    assert found == [offset for offset in range(start, start + size) if offset in wanted]


def test_an_empty_slice_sends_no_request() -> None:
    brokers = FakeReplicas(FakeQueue(0, 10))
    assert pulled_offsets(brokers, 5, 5) == []
    assert not brokers.primary.asked


# How it is asked for


def test_the_first_pull_goes_alone_and_the_others_many_in_a_write() -> None:
    brokers = FakeReplicas(FakeQueue(0, 10_000))
    assert len(pulled_offsets(brokers, 0, 6_400)) == 6_400
    assert len(brokers.primary.asked) == 200
    assert brokers.primary.most_in_flight == ALL.window
    assert brokers.primary.writes <= 2 + 200 / (ALL.window // 2)


def test_if_answers_are_alike_nothing_is_pulled_twice() -> None:
    queue = FakeQueue(0, 10_000, at_once=8)
    assert len(pulled_offsets(FakeReplicas(queue), 0, 4_000)) == 4_000
    assert len(queue.pulls) == len(set(queue.pulls))
    assert len(queue.pulls) <= 500 * 1.1


def test_a_pull_has_a_subscription_and_is_never_held() -> None:
    brokers = FakeReplicas(FakeQueue(0, 10))
    pulled_offsets(brokers, 4, 10, PAID)
    asked = brokers.primary.asked[0]
    assert (asked["consumerGroup"], asked["topic"]) == ("ns%spark", "ns%orders")
    assert (asked["subscription"], asked["expressionType"]) == ("paid", "TAG")
    assert (asked["queueId"], asked["queueOffset"], asked["maxMsgNums"]) == ("3", "4", "6")
    assert (asked["sysFlag"], asked["suspendTimeoutMillis"]) == ("4", "0")


def test_stopping_early_leaves_nothing_in_flight() -> None:
    brokers = FakeReplicas(FakeQueue(0, 10_000))
    answers = pulled(brokers, 0, 10_000)
    assert len(list(islice(answers, 3))) == 3
    assert brokers.primary.in_flight
    answers.close()  # type: ignore[attr-defined]  # it is a generator, as Spark closes them
    assert not brokers.primary.in_flight


# Replicas


def test_the_replica_that_is_suggested_is_asked() -> None:
    primary, replica = FakeQueue(0, 1_000), FakeQueue(0, 1_000)
    primary.suggested = replica.suggested = 1
    assert pulled_offsets(FakeReplicas(primary, replica), 0, 1_000) == [*range(1_000)]
    assert len(replica.pulls) > len(primary.pulls) > 0


def test_the_primary_is_asked_for_what_a_replica_lacks() -> None:
    primary, replica = FakeQueue(0, 1_000), FakeQueue(0, 300)
    primary.suggested = replica.suggested = 1
    pauses: list[int] = []
    brokers = FakeReplicas(primary, replica)
    assert list(offsets_in(pulled(brokers, 0, 1_000, pauses=pauses))) == [*range(1_000)]
    assert len([offset for offset in replica.pulls if offset >= 300]) <= ALL.window
    assert not pauses


def test_a_late_answer_of_a_replica_says_nothing_of_the_primary() -> None:
    primary, replica = FakeQueue(0, 1_000), FakeQueue(0, 300)
    primary.suggested, replica.suggested = 1, 0  # back and forth, with pulls to both in flight
    assert pulled_offsets(FakeReplicas(primary, replica), 0, 1_000) == [*range(1_000)]
    assert replica.pulls


def test_a_missing_replica_is_no_error() -> None:
    queue = FakeQueue(0, 1_000)
    queue.suggested = 7
    assert pulled_offsets(FakeReplicas(queue), 0, 1_000) == [*range(1_000)]


@pytest.mark.parametrize("options", [ALL, PAID])
@pytest.mark.parametrize("kind", [FakeQueue, ContainedReplica])
@pytest.mark.parametrize(("least", "end"), [(700, 1_000), (0, 300), (0, 301)])
def test_the_primary_is_asked_for_anything_that_a_replica_lacks(
    kind: type[FakeQueue], least: int, end: int, options: PullOptions
) -> None:
    primary, replica = FakeQueue(0, 1_000), kind(least, end)
    primary.suggested = replica.suggested = 1
    primary.wanted = replica.wanted = lambda offset: offset % 3 == 0
    wanted = [*range(0, 1_000, 3)] if options is PAID else [*range(1_000)]
    assert pulled_offsets(FakeReplicas(primary, replica), 0, 1_000, options) == wanted
    assert replica.pulls


@pytest.mark.parametrize("options", [ALL, PAID])
def test_the_primary_is_asked_for_what_a_replica_skips(options: PullOptions) -> None:
    primary, replica = FakeQueue(0, 1_000), FakeQueue(0, 1_000)
    primary.suggested = replica.suggested = 1
    replica.kept_from = 700
    assert pulled_offsets(FakeReplicas(primary, replica), 0, 1_000, options) == [*range(1_000)]
    assert replica.pulls


# A replica that replaces its primary


@pytest.mark.parametrize("options", [ALL, PAID, AT_LEAST_GOING_ON, PAID_GOING_ON])
@pytest.mark.parametrize(("least", "end"), [(50, 100), (0, 40), (0, 41)])
def test_a_loss_that_a_replica_reports_does_not_count(
    least: int, end: int, options: PullOptions
) -> None:
    brokers = FakeReplicas(FakeQueue(0, 100), FakeQueue(least, end))
    brokers.away = {0}
    waits: list[int] = []

    def wait(wait_ms: int) -> None:
        waits.append(wait_ms)
        if len(waits) == 3:
            brokers.away = set()

    found = offsets_in(pull(brokers, Slice(QUEUE, 40, 90), options, pause_for=wait))
    assert list(found) == [*range(40, 90)]
    assert len(waits) == 3
    assert brokers.links[1].queue.pulls


@pytest.mark.parametrize("options", [ALL, PAID, AT_LEAST_GOING_ON, PAID_GOING_ON])
def test_a_primary_that_stays_down_is_a_network_error(options: PullOptions) -> None:
    brokers = FakeReplicas(FakeQueue(0, 100), FakeQueue(50, 100))
    brokers.away = {0}
    pauses: list[int] = []
    with pytest.raises(ConnectFailed, match="no connection to replica 0"):
        list(pulled(brokers, 40, 90, options, pauses))
    assert sum(pauses) > 20_000


def test_a_replica_may_stand_in_again_for_a_primary_that_came_and_went() -> None:
    brokers = FakeReplicas(FakeQueue(0, 1_000), FakeQueue(100, 1_000))
    brokers.away = {0}
    first_wait = iter([brokers.away.clear])
    answers = pull(
        brokers,
        Slice(QUEUE, 0, 1_000),
        ALL,
        pause_for=lambda _ms: next(first_wait, lambda: None)(),
    )
    found = list(offsets_in(islice(answers, 5)))
    assert max(found) >= 100
    brokers.primary.broken = True
    brokers.away.add(0)
    assert found + list(offsets_in(answers)) == [*range(1_000)]
    assert brokers.away == {0}


# Failures


def test_a_broker_that_goes_down_is_asked_again_by_another_route() -> None:
    brokers = FakeReplicas(FakeQueue(0, 1_000))
    answers = pulled(brokers, 0, 1_000)
    found = list(offsets_in(islice(answers, 5)))
    brokers.primary.broken = True
    assert found + list(offsets_in(answers)) == [*range(1_000)]
    assert brokers.forgotten == 1


def test_the_first_retry_is_immediate_and_success_resets_the_count() -> None:
    pauses: list[int] = []
    brokers = FakeReplicas(FakeQueue(0, 10_000))
    answers = pulled(brokers, 0, 10_000, pauses=pauses)
    for _ in range(30):
        next(answers)
        brokers.primary.broken = True
    assert set(pauses) == {0}


def test_a_broker_that_stays_down_is_a_network_error() -> None:
    pauses: list[int] = []
    brokers = FakeReplicas(FakeQueue(0, 100))
    brokers.failures = [ConnectFailed(f"try {number}", address="x") for number in range(50)]
    with pytest.raises(ConnectFailed, match="try 10"):
        list(pulled(brokers, 0, 100, pauses=pauses))
    assert 20_000 < sum(pauses) < 60_000
    assert pauses == sorted(pauses)


class Refusing(FakeQueue):
    """Answers every pull in one way."""

    def __init__(self, code: int, *, reached: int = 0, remark: str = "") -> None:
        super().__init__(0, 1_000)
        self.code, self.reached, self.remark = code, reached, remark

    def answer(self, offset: int, count: int) -> Frame:
        return self.frame(self.code, self.reached, remark=self.remark)


def test_a_refusal_is_raised_at_once() -> None:
    brokers = FakeReplicas(Refusing(ResponseCode.NO_PERMISSION, remark="not you"))
    with pytest.raises(NoPermission, match="not you"):
        list(pulled(brokers, 0, 10))
    assert brokers.forgotten == 0


def test_a_refusal_of_a_replica_does_not_count() -> None:
    primary = FakeQueue(0, 100)
    # A replica has its topics from the primary, every ten seconds in Java.
    replica = Refusing(ResponseCode.TOPIC_NOT_EXIST, remark="no such topic")
    primary.suggested = 1
    assert pulled_offsets(FakeReplicas(primary, replica), 0, 100) == [*range(100)]


def test_an_answer_without_progress_is_a_protocol_error() -> None:
    with pytest.raises(RemoteProtocolError, match="offset 5 .* 5 as the next offset"):
        list(pulled(FakeReplicas(Refusing(ResponseCode.SUCCESS, reached=5)), 5, 10))


# Lost data


def test_offsets_that_retention_removed_are_an_error() -> None:
    pauses: list[int] = []
    with pytest.raises(DataLost, match="offset 40 is lost: the queue has 50") as caught:
        list(pulled(FakeReplicas(FakeQueue(50, 100)), 40, 90, pauses=pauses))
    assert (caught.value.wanted, caught.value.available) == (40, (50, 100))
    assert not pauses


def test_continuing_after_a_loss_gives_exactly_what_is_left() -> None:
    brokers = FakeReplicas(FakeQueue(50, 100))
    assert pulled_offsets(brokers, 40, 90, AT_LEAST_GOING_ON) == [*range(50, 90)]
    assert pulled_offsets(FakeReplicas(FakeQueue(50, 100)), 10, 40, AT_LEAST_GOING_ON) == []


def test_retention_may_overtake_a_slice() -> None:
    queue = FakeQueue(0, 10_000)
    answers = pulled(FakeReplicas(queue), 0, 10_000, AT_LEAST_GOING_ON)
    found = list(offsets_in(islice(answers, 3)))
    queue.least = 5_000
    found += offsets_in(answers)
    assert found == [*range(len(found) - 5_000), *range(5_000, 10_000)]


def test_an_end_before_that_of_the_slice_is_awaited_then_lost() -> None:
    pauses: list[int] = []
    with pytest.raises(DataLost, match="offset 30 is lost"):
        list(pulled(FakeReplicas(FakeQueue(0, 30)), 0, 90, pauses=pauses))
    assert sum(pauses) > 20_000
    assert pulled_offsets(FakeReplicas(FakeQueue(0, 30)), 0, 90, AT_LEAST_GOING_ON) == [*range(30)]


def test_a_broker_that_finds_its_end_again_is_awaited() -> None:
    queue = FakeQueue(0, 30)
    brokers = FakeReplicas(queue)

    def recover(_wait_ms: int) -> None:
        queue.end = 90

    found = offsets_in(pull(brokers, Slice(QUEUE, 0, 90), ALL, pause_for=recover))
    assert list(found) == [*range(90)]


class MovedOnce(FakeQueue):
    """An operator moved the group: the next pull reports it once, as Java's broker does."""

    is_told = False

    def answer(self, offset: int, count: int) -> Frame:
        if not self.is_told:
            self.is_told = True
            return self.frame(ResponseCode.PULL_OFFSET_MOVED, 0, remark="OFFSET_RESET")
        return super().answer(offset, count)


def test_an_operator_who_moves_the_group_does_not_move_a_slice() -> None:
    assert pulled_offsets(FakeReplicas(MovedOnce(0, 100)), 40, 90) == [*range(40, 90)]


@pytest.mark.parametrize("options", [ALL, PAID])
def test_a_file_that_is_being_deleted_is_a_loss(options: PullOptions) -> None:
    queue = Refusing(ResponseCode.PULL_RETRY_IMMEDIATELY, reached=10, remark="MESSAGE_WAS_REMOVING")
    with pytest.raises(DataLost, match="offset 5 is lost"):
        list(pulled(FakeReplicas(queue), 5, 10, options))


def test_continuing_after_a_gap() -> None:
    hole = Refusing(ResponseCode.PULL_NOT_FOUND, reached=10, remark="OFFSET_FOUND_NULL")
    assert pulled_offsets(FakeReplicas(hole), 5, 10, AT_LEAST_GOING_ON) == []


def test_an_answer_that_begins_behind_a_gap_is_a_loss() -> None:
    queue = FakeQueue(0, 1_000)
    queue.kept_from = 301  # while the queue claims to begin at 0
    pauses: list[int] = []
    with pytest.raises(DataLost, match="offset 290 is lost: the queue has 301") as lost:
        list(pulled(FakeReplicas(queue), 290, 900, pauses=pauses))
    assert (lost.value.wanted, lost.value.available) == (290, (301, 1_000))
    assert not pauses


@pytest.mark.parametrize("options", [ALL, PAID, AT_LEAST_GOING_ON, PAID_GOING_ON])
def test_files_deleted_during_a_slice_are_a_loss_or_skipped(
    options: PullOptions, caplog: pytest.LogCaptureFixture
) -> None:
    queue = FakeQueue(0, 10_000)
    queue.wanted = lambda offset: offset % 2 == 0
    answers = pulled(FakeReplicas(queue), 0, 10_000, options)
    found = list(offsets_in(islice(answers, 3)))
    queue.kept_from = 5_000
    if options.fail_on_data_loss:
        with pytest.raises(DataLost, match="is lost"):
            list(answers)
        return
    found += offsets_in(answers)
    step = 2 if options is PAID_GOING_ON else 1
    before = [offset for offset in found if offset < 5_000]
    assert found == [*range(0, before[-1] + 1, step), *range(5_000, 10_000, step)]
    assert len([line for line in caplog.messages if "is lost" in line]) == 1


@given(st.randoms(use_true_random=False), st.booleans(), st.booleans(), st.integers(1, 9))
def test_whatever_happens_a_slice_is_complete_or_fails(
    chance: Random, is_filtered: bool, fails: bool, window: int
) -> None:
    primary = FakeQueue(0, 600, at_once=7, span=40)
    replica = ContainedReplica(chance.randrange(200), chance.randrange(300, 700), at_once=9)
    primary.suggested, replica.suggested = chance.randrange(2), chance.randrange(2)
    for queue in (primary, replica):
        queue.wanted = lambda offset: offset % 5 < 3
    brokers = FakeReplicas(primary, replica)
    tags = "paid" if is_filtered else "*"
    options = PullOptions(
        group="spark", tags=tags, pull_count=16, window=window, fail_on_data_loss=fails
    )
    answers = pulled(brokers, 0, 600, options)
    found: list[int] = []
    with suppress(DataLost):
        while body := next(answers, None):
            found += offsets_in([body])
            if chance.random() < 0.2:
                brokers.links[chance.randrange(2)].broken = True
            if chance.random() < 0.05:
                primary.kept_from += chance.randrange(200)
        assert not fails or len(found) == (360 if is_filtered else 600)
    wanted = [offset for offset in range(600) if not is_filtered or offset % 5 < 3]
    if fails:
        assert found == wanted[: len(found)]
    else:  # what was kept to the end has come
        assert found == [one for one in wanted if one in {*found}]
        assert {one for one in wanted if one >= primary.kept_from} <= {*found}


def test_a_gap_inside_an_answer_is_a_loss_where_it_begins() -> None:
    class Holed(FakeQueue):
        def answer(self, offset: int, count: int) -> Frame:
            self.kept_from = 20 if 10 <= offset < 20 else 0
            if offset >= 10:
                return super().answer(offset, count)
            body = b"".join(record(number) for number in (*range(offset, 10), *range(20, 30)))
            return self.frame(ResponseCode.SUCCESS, 30, body)

    with pytest.raises(DataLost, match="offset 10 is lost: the queue has 20"):
        list(pulled(FakeReplicas(Holed(0, 100)), 0, 100))
    going_on = pulled_offsets(FakeReplicas(Holed(0, 100)), 0, 100, AT_LEAST_GOING_ON)
    assert going_on == [*range(10), *range(20, 100)]


@pytest.mark.parametrize("options", [ALL, PAID])
def test_a_compacted_topic_has_gaps_by_design(options: PullOptions) -> None:
    class Compacted(FakeQueue):
        """Of every ten messages one is kept; no tags are looked at, as in Java."""

        def answer(self, offset: int, count: int) -> Frame:
            kept = range(-(-offset // 10) * 10, self.end, 10)[: min(count, self.at_once)]
            reached = kept[-1] + 1 if kept else self.end
            return self.frame(ResponseCode.SUCCESS, reached, b"".join(map(record, kept)))

    queue = Compacted(0, 1_000)
    queue.attributes = {"cleanup.policy": "COMPACTION"}
    assert pulled_offsets(FakeReplicas(queue), 5, 900, options) == [*range(10, 900, 10)]
    queue.attributes = {"cleanup.policy": "DELETE"}
    with pytest.raises(DataLost, match="offset 5 is lost"):
        pulled_offsets(FakeReplicas(queue), 5, 900, options)


# A broker of ours


def test_a_broken_connection_is_redialled(orders: embedded.RunningCluster) -> None:
    with Cluster(Access(nameserver=orders.nameserver)) as cluster:
        for queue, bounds in cluster.bounds(cluster.queues("orders")).items():
            answers = pull(cluster, Slice(queue, 0, bounds.max), ALL)
            found = list(offsets_in(islice(answers, 1)))
            cluster.connection(queue).connection.close("cut by the test")
            assert found + list(offsets_in(answers)) == [*range(bounds.max)]


def test_the_broker_selects_by_tags(orders: embedded.RunningCluster) -> None:
    with Cluster(Access(nameserver=orders.nameserver)) as cluster:
        ranges = cluster.bounds(cluster.queues("orders"))
        paid = [
            offset
            for queue, bounds in ranges.items()
            for offset in offsets_in(pull(cluster, Slice(queue, 0, bounds.max), PAID))
        ]
        assert len(paid) == 402


def test_a_broker_that_is_gone_for_good_is_a_network_error(
    orders: embedded.RunningCluster,
) -> None:
    with Cluster(Access(nameserver=orders.nameserver)) as cluster:
        queue = cluster.queues("orders")[0]
        answers = pull(cluster, Slice(queue, 0, 201), ALL, pause_for=lambda _ms: None)
        next(answers)
        orders.close()
        with pytest.raises(NetworkError):
            list(answers)
