import logging
from typing import Any

import pytest

from orbitmq.errors import ConnectFailed, NameserversFailed, NoRoute, RequestNotSupported
from orbitmq.spark.offsets import Range
from orbitmq.spark.options.options import Topics
from orbitmq.spark.streaming.queue_watch import (
    ABSENCE_MAX_MS,
    RANGES_AGE_MS,
    ROUTE_AGE_MS,
    QueueWatch,
)
from tests.spark.fake_cluster import FakeClock, FakeCluster, options, queue

A, B = queue(0), queue(0, "broker-b")


class Scene:
    """A watch, the cluster it looks at, and its clock."""

    def __init__(self, **said: Any) -> None:
        self.clock = FakeClock()
        self.cluster = FakeCluster({A: (0, 5), B: (0, 7)})
        self.watch = QueueWatch(
            self.cluster, options(**said), self.clock, pause_for=self.clock.pass_ms
        )


def test_queues_are_polled_at_a_limited_rate() -> None:
    scene = Scene()
    scene.watch.all_ranges()
    for _ in range(ROUTE_AGE_MS):
        scene.clock.pass_ms(1)
        scene.watch.current_ranges([A, B])

    assert scene.cluster.routes_asked == 2
    assert scene.cluster.bounds_asked <= 1 + 2 * ROUTE_AGE_MS // RANGES_AGE_MS


def test_a_new_queue_is_found() -> None:
    scene = Scene()
    scene.watch.all_ranges()
    scene.cluster.ranges[queue(1)] = Range(0, 3)
    scene.clock.pass_ms(ROUTE_AGE_MS)

    assert scene.watch.current_ranges([A, B])[queue(1)] == Range(0, 3)


def test_assigned_queues_get_no_others() -> None:
    scene = Scene(topics=Topics(assigned=(A,)))
    scene.watch.all_ranges()
    scene.clock.pass_ms(ROUTE_AGE_MS)

    assert scene.watch.current_ranges([A]) == {A: Range(0, 5)}
    assert scene.cluster.routes_asked == 1


def test_a_broker_that_is_down_does_not_stop_the_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    scene = Scene()
    scene.watch.all_ranges()
    scene.cluster.lose("broker-b")
    scene.cluster.ranges[A] = Range(0, 6)
    for _ in range(3):
        scene.clock.pass_ms(1_000)
        assert scene.watch.current_ranges([A, B]) == {A: Range(0, 6)}
    scene.cluster.away.clear()
    scene.clock.pass_ms(1_000)

    assert scene.watch.current_ranges([A, B]) == {A: Range(0, 6), B: Range(0, 7)}
    assert [record.message for record in caplog.records] == [
        "continuing without the queues that don't answer: no connection to broker-b",
        "all brokers of the stream answer again",
    ]


def test_recent_answers_leave_out_brokers_that_are_down() -> None:
    scene = Scene()
    scene.watch.all_ranges()
    scene.cluster.lose("broker-b")
    scene.clock.pass_ms(RANGES_AGE_MS)
    scene.watch.current_ranges([A, B])
    scene.clock.pass_ms(1)

    assert scene.watch.current_ranges([A, B]) == {A: Range(0, 5)}
    assert scene.watch.last_seen == {A: Range(0, 5), B: Range(0, 7)}


def test_all_brokers_down_is_no_error_at_first() -> None:
    scene = Scene()
    scene.watch.all_ranges()
    scene.cluster.lose("broker-a")
    scene.cluster.lose("broker-b")
    scene.clock.pass_ms(ROUTE_AGE_MS)

    assert scene.watch.current_ranges([A, B]) == {}


def test_a_broker_that_stays_down_for_minutes_fails_the_stream() -> None:
    scene = Scene()
    scene.watch.all_ranges()
    scene.cluster.lose("broker-b")
    scene.clock.pass_ms(ROUTE_AGE_MS)
    scene.watch.current_ranges([A, B])
    scene.clock.pass_ms(ABSENCE_MAX_MS + 1)

    with pytest.raises(ConnectFailed, match="broker-b"):
        scene.watch.current_ranges([A, B])


def test_unless_data_loss_is_accepted() -> None:
    scene = Scene(fail_on_data_loss=False)
    scene.watch.all_ranges()
    scene.cluster.lose("broker-b")
    for _ in range(3):
        scene.clock.pass_ms(ABSENCE_MAX_MS)
        assert scene.watch.current_ranges([A, B]) == {A: Range(0, 5)}


@pytest.mark.parametrize("topics", [Topics(names=("orders",)), Topics(names=("orders", "bills"))])
def test_without_nameservers_known_queues_are_read_for_any_time(
    topics: Topics, caplog: pytest.LogCaptureFixture
) -> None:
    scene = Scene(topics=topics)
    scene.cluster.ranges[BILL] = Range(0, 9)
    known = scene.watch.all_ranges()
    scene.cluster.nameservers_away = NameserversFailed("nobody answers", answers={})
    for _ in range(3):
        scene.clock.pass_ms(ABSENCE_MAX_MS)
        assert scene.watch.current_ranges(known) == known
    asked = scene.cluster.routes_asked
    scene.clock.pass_ms(RANGES_AGE_MS)
    scene.watch.current_ranges(known)
    assert scene.cluster.routes_asked == asked  # each may take until its time is over
    scene.cluster.nameservers_away = None
    scene.cluster.ranges[queue(1)] = Range(0, 3)
    scene.clock.pass_ms(ROUTE_AGE_MS)
    assert scene.watch.current_ranges(known)[queue(1)] == Range(0, 3)
    assert [record.levelname for record in caplog.records] == ["WARNING", "WARNING"]


def test_a_permanent_error_is_raised_at_once() -> None:
    scene = Scene()
    scene.watch.all_ranges()
    scene.cluster.lose("broker-b", RequestNotSupported(3, "no", address="broker-b"))
    scene.clock.pass_ms(RANGES_AGE_MS)

    with pytest.raises(RequestNotSupported):
        scene.watch.current_ranges([A, B])


def test_a_stream_does_not_begin_without_its_brokers() -> None:
    scene = Scene()
    scene.cluster.lose("broker-a")
    scene.cluster.lose("broker-b")

    with pytest.raises(NoRoute):
        scene.watch.all_ranges()


def test_required_queues_are_polled_until_the_broker_is_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    scene = Scene()
    scene.cluster.lose("broker-b")
    caplog.set_level(logging.DEBUG)

    def pause(duration_ms: int) -> None:
        scene.clock.pass_ms(duration_ms)
        if scene.clock.ms > 5_000:
            scene.cluster.away.clear()

    watch = QueueWatch(scene.cluster, options(), scene.clock, pause_for=pause)

    assert watch.ranges_of([B]) == {B: Range(0, 7)}


def test_but_not_forever() -> None:
    scene = Scene()
    scene.cluster.lose("broker-b")

    with pytest.raises(ConnectFailed):
        scene.watch.ranges_of([A, B])


def test_recent_answers_are_reused() -> None:
    scene = Scene()
    scene.watch.all_ranges()
    scene.watch.ranges_of([A])

    assert scene.cluster.bounds_asked == 1


# Which queues


@pytest.mark.parametrize(
    "topics",
    [Topics(names=("orders",)), Topics(pattern="ord.*"), Topics(assigned=(A, B))],
    ids=["subscribe", "subscribePattern", "assign"],
)
def test_deselected_queues_are_not_polled(topics: Topics) -> None:
    scene = Scene(topics=topics)
    other = queue(0, topic="bills")
    scene.cluster.ranges[other] = Range(0, 9)

    assert scene.watch.current_ranges([A, B, other]).keys() == {A, B}
    assert scene.watch.final_ranges([A, B, other]).keys() == {A, B}
    assert (scene.watch.is_read(A), scene.watch.is_read(other)) == (True, False)


def test_a_queue_that_is_assigned_later_is_polled() -> None:
    scene = Scene(topics=Topics(assigned=(A, B)))

    assert scene.watch.current_ranges([A]).keys() == {A, B}


def test_queues_beyond_the_number_of_a_topic_are_closed() -> None:
    scene = Scene()
    scene.cluster.ranges |= {queue(1): Range(0, 3), queue(1, "broker-b"): Range(0, 3)}
    scene.cluster.closed = {queue(1)}
    known = [A, B, queue(1), queue(1, "broker-b")]

    assert scene.watch.current_ranges(known).keys() == {*known}
    assert scene.watch.closed(known) == {queue(1)}
    scene.cluster.closed.clear()
    scene.clock.pass_ms(ROUTE_AGE_MS)
    assert scene.watch.closed(known) == set()


def test_queues_of_a_broker_that_is_down_are_not_closed() -> None:
    scene = Scene()
    scene.cluster.lose("broker-b")

    assert scene.watch.closed([A, B]) == set()


# A topic that is gone

BILL = queue(0, topic="bills")


def two_topics(**said: Any) -> Scene:
    scene = Scene(topics=Topics(names=("bills", "orders")), **said)
    scene.cluster.ranges[BILL] = Range(0, 9)
    scene.watch.all_ranges()
    scene.cluster.delete("bills")
    scene.clock.pass_ms(ROUTE_AGE_MS)
    return scene


def test_a_missing_topic_does_not_hide_others_or_their_new_queues(
    caplog: pytest.LogCaptureFixture,
) -> None:
    scene = two_topics(fail_on_data_loss=False)
    scene.cluster.ranges |= {A: Range(0, 6), queue(1): Range(0, 3)}
    for _ in range(10):
        assert scene.watch.current_ranges([A, B, BILL]).keys() == {A, B, queue(1)}
        scene.clock.pass_ms(ABSENCE_MAX_MS)

    assert not scene.watch.is_read(BILL)
    assert [record.message for record in caplog.records] == [
        "continuing without the queues that don't answer: topic bills is missing"
    ]


def test_it_fails_the_stream_after_minutes_and_the_error_says_what_to_do() -> None:
    scene = two_topics()
    scene.watch.current_ranges([A, B, BILL])
    scene.clock.pass_ms(ABSENCE_MAX_MS)
    scene.watch.current_ranges([A, B, BILL])
    scene.clock.pass_ms(ROUTE_AGE_MS)

    with pytest.raises(
        NoRoute, match="bills is missing.* remove it from .* failOnDataLoss"
    ) as told:
        scene.watch.current_ranges([A, B, BILL])
    assert (told.value.topic, told.value.is_missing) == ("bills", True)


def test_a_missing_topic_of_a_pattern_is_reported_too() -> None:
    scene = Scene(topics=Topics(pattern=".*"))
    scene.watch.current_ranges([A, B, BILL])
    scene.clock.pass_ms(ABSENCE_MAX_MS + 1)

    with pytest.raises(NoRoute, match="bills"):
        scene.watch.current_ranges([A, B, BILL])


@pytest.mark.parametrize("topics", [Topics(names=("bills", "orders")), Topics(pattern=".*")])
def test_an_empty_queue_of_a_missing_topic_is_not_a_loss(
    topics: Topics,
) -> None:
    scene = Scene(topics=topics)
    scene.cluster.ranges[BILL] = Range(0, 0)  # as brokers answer for any name
    scene.cluster.closed = {BILL}

    assert scene.watch.current_ranges([A, B, BILL]).keys() == {A, B}
    scene.clock.pass_ms(ABSENCE_MAX_MS + 1)
    with pytest.raises(NoRoute, match="topic bills is missing"):
        scene.watch.current_ranges([A, B, BILL])


def test_queues_that_nameservers_do_not_know_yet_are_read() -> None:
    scene = Scene(topics=Topics(names=("bills", "orders")))
    scene.cluster.ranges[BILL] = Range(0, 9)
    scene.cluster.closed = {BILL}

    assert scene.watch.current_ranges([A, B, BILL])[BILL] == Range(0, 9)


ALL_WAYS = [
    Topics(names=("bills", "orders")),
    Topics(pattern=".*"),
    Topics(assigned=(A, B, BILL)),
]


def emptied(topics: Topics, **said: Any) -> Scene:
    """Return a scene in which a broker has no topic bills any more, which it had just now."""
    scene = Scene(topics=topics, **said)
    scene.cluster.ranges[BILL] = Range(0, 9)
    scene.watch.all_ranges()
    scene.cluster.ranges[BILL] = Range(0, 0)
    scene.clock.pass_ms(RANGES_AGE_MS)
    return scene


@pytest.mark.parametrize("topics", ALL_WAYS)
def test_a_topic_that_was_just_deleted_is_missing_not_emptied(topics: Topics) -> None:
    scene = emptied(topics)
    scene.cluster.closed = {BILL}  # the routes that were found before have it

    assert scene.watch.current_ranges([A, B, BILL]).keys() == {A, B}
    for _ in range(3):
        scene.clock.pass_ms(ROUTE_AGE_MS)
        assert scene.watch.current_ranges([A, B, BILL]).keys() == {A, B}
    scene.clock.pass_ms(ABSENCE_MAX_MS)
    with pytest.raises(NoRoute, match="topic bills is missing"):
        scene.watch.current_ranges([A, B, BILL])


@pytest.mark.parametrize("topics", ALL_WAYS)
def test_nameservers_may_learn_of_it_after_the_broker(topics: Topics) -> None:
    scene = emptied(topics)

    assert scene.watch.current_ranges([A, B, BILL]).keys() == {A, B}
    scene.cluster.closed = {BILL}
    scene.clock.pass_ms(ROUTE_AGE_MS)
    assert scene.watch.current_ranges([A, B, BILL]).keys() == {A, B}
    scene.cluster.closed = set()
    scene.cluster.ranges[BILL] = Range(0, 1)
    scene.clock.pass_ms(ROUTE_AGE_MS)
    assert scene.watch.current_ranges([A, B, BILL])[BILL] == Range(0, 1)


@pytest.mark.parametrize("topics", ALL_WAYS)
def test_a_topic_that_stays_known_is_empty_after_seconds(topics: Topics) -> None:
    scene = emptied(topics)
    for _ in range(10):
        assert BILL not in scene.watch.current_ranges([A, B, BILL])
        scene.clock.pass_ms(RANGES_AGE_MS)
    assert scene.cluster.routes_asked <= 3  # not all the time
    scene.clock.pass_ms(ROUTE_AGE_MS)

    assert scene.watch.current_ranges([A, B, BILL])[BILL] == Range(0, 0)


@pytest.mark.parametrize("topics", ALL_WAYS)
def test_if_data_loss_is_accepted_it_is_empty_at_once(topics: Topics) -> None:
    scene = emptied(topics, fail_on_data_loss=False)

    assert scene.watch.current_ranges([A, B, BILL])[BILL] == Range(0, 0)
    assert scene.cluster.routes_asked == 1


def test_nameservers_are_not_asked_about_it_all_the_time() -> None:
    scene = two_topics(fail_on_data_loss=False)
    scene.watch.current_ranges([A, B, BILL])
    routes, bounds = scene.cluster.routes_asked, scene.cluster.bounds_asked
    for _ in range(20):
        scene.clock.pass_ms(RANGES_AGE_MS)
        scene.watch.current_ranges([A, B, BILL])

    assert scene.cluster.routes_asked == routes
    assert scene.cluster.bounds_asked == bounds + 20 * 2  # once for each broker


def test_it_is_read_again_when_it_is_back(caplog: pytest.LogCaptureFixture) -> None:
    scene = two_topics()
    scene.watch.current_ranges([A, B, BILL])
    scene.cluster.ranges[BILL] = Range(0, 1)
    scene.clock.pass_ms(ROUTE_AGE_MS)

    assert scene.watch.current_ranges([A, B, BILL])[BILL] == Range(0, 1)
    assert caplog.messages[-1] == "all brokers of the stream answer again"


def test_a_planned_batch_skips_it_if_data_loss_is_accepted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    scene = two_topics(fail_on_data_loss=False)
    before_ms = scene.clock.ms

    assert scene.watch.ranges_of([A, BILL]) == {A: Range(0, 5)}
    assert scene.clock.ms - before_ms > ABSENCE_MAX_MS  # it may be that of a broker that restarts
    assert caplog.messages == ["continuing although data is lost: topic bills is missing"]


def test_or_it_fails() -> None:
    scene = two_topics()

    with pytest.raises(NoRoute, match="bills is missing.* If it was deleted"):
        scene.watch.ranges_of([A, BILL])


def test_a_broker_that_is_down_loses_no_rows_of_a_planned_batch() -> None:
    scene = Scene(fail_on_data_loss=False)
    scene.cluster.lose("broker-b")

    with pytest.raises(ConnectFailed):
        scene.watch.ranges_of([A, B])


# A stream that is to end


def test_a_stream_that_ends_does_not_wait() -> None:
    scene = Scene()
    scene.cluster.lose("broker-b")

    with pytest.raises(ConnectFailed, match="broker-b"):
        scene.watch.final_ranges([A, B])


def test_answering_ranges_has_the_brokers_that_answer() -> None:
    scene = Scene()
    scene.cluster.lose("broker-b")

    assert scene.watch.answering_ranges() == {A: Range(0, 5)}


def test_and_continues_without_them_if_data_loss_is_accepted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    scene = Scene(fail_on_data_loss=False)
    scene.cluster.lose("broker-b")

    for _ in range(2):
        assert scene.watch.final_ranges([A, B]) == {A: Range(0, 5)}
    assert len(caplog.records) == 1


# How long brokers are down


def test_the_time_that_a_broker_is_down_is_counted_per_broker(
    caplog: pytest.LogCaptureFixture,
) -> None:
    scene = Scene()
    scene.watch.all_ranges()
    scene.cluster.lose("broker-b")
    minute = 60_000
    for _ in range(4):
        scene.clock.pass_ms(minute)
        scene.watch.current_ranges([A, B])
    scene.cluster.lose("broker-a")
    scene.watch.current_ranges([A, B])
    scene.clock.pass_ms(minute)
    scene.watch.current_ranges([A, B])
    del scene.cluster.away["broker-b"]
    for _ in range(5):
        scene.clock.pass_ms(minute)
        assert scene.watch.current_ranges([A, B]) == {B: Range(0, 7)}
    assert [record.message.split()[-1] for record in caplog.records] == ["broker-b", "broker-a"]
    scene.clock.pass_ms(minute)

    with pytest.raises(ConnectFailed, match="broker-a"):
        scene.watch.current_ranges([A, B])
