import logging
from typing import Any

import pytest

from orbitmq.errors import ConnectFailed, NoRoute, RequestNotSupported
from orbitmq.spark.offsets import Range
from orbitmq.spark.options import Topics
from orbitmq.spark.queue_watch import ABSENCE_MAX_MS, RANGES_AGE_MS, ROUTE_AGE_MS, QueueWatch
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


def test_queues_are_asked_no_more_often_than_they_change() -> None:
    scene = Scene()
    scene.watch.see()
    for _ in range(ROUTE_AGE_MS):
        scene.clock.pass_ms(1)
        scene.watch.news([A, B])

    assert scene.cluster.routes_asked == 2
    assert scene.cluster.bounds_asked <= 1 + 2 * ROUTE_AGE_MS // RANGES_AGE_MS


def test_a_new_queue_is_found() -> None:
    scene = Scene()
    scene.watch.see()
    scene.cluster.ranges[queue(1)] = Range(0, 3)
    scene.clock.pass_ms(ROUTE_AGE_MS)

    assert scene.watch.news([A, B])[queue(1)] == Range(0, 3)


def test_who_assigns_queues_gets_no_others() -> None:
    scene = Scene(topics=Topics(assigned=(A,)))
    scene.watch.see()
    scene.clock.pass_ms(ROUTE_AGE_MS)

    assert scene.watch.news([A]) == {A: Range(0, 5)}
    assert scene.cluster.routes_asked == 1


def test_a_broker_that_is_away_has_no_news_and_the_others_do(
    caplog: pytest.LogCaptureFixture,
) -> None:
    scene = Scene()
    scene.watch.see()
    scene.cluster.lose("broker-b")
    scene.cluster.ranges[A] = Range(0, 6)
    for _ in range(3):
        scene.clock.pass_ms(1_000)
        assert scene.watch.news([A, B]) == {A: Range(0, 6)}
    scene.cluster.away.clear()
    scene.clock.pass_ms(1_000)

    assert scene.watch.news([A, B]) == {A: Range(0, 6), B: Range(0, 7)}
    assert [record.message for record in caplog.records] == [
        "reading on without the queues that don't answer: no connection to broker-b",
        "all brokers of the stream answer again",
    ]


def test_news_of_a_moment_ago_leave_out_who_is_away() -> None:
    scene = Scene()
    scene.watch.see()
    scene.cluster.lose("broker-b")
    scene.clock.pass_ms(RANGES_AGE_MS)
    scene.watch.news([A, B])
    scene.clock.pass_ms(1)

    assert scene.watch.news([A, B]) == {A: Range(0, 5)}
    assert scene.watch.last_seen == {A: Range(0, 5), B: Range(0, 7)}


def test_all_brokers_away_is_no_error_yet() -> None:
    scene = Scene()
    scene.watch.see()
    scene.cluster.lose("broker-a")
    scene.cluster.lose("broker-b")
    scene.clock.pass_ms(ROUTE_AGE_MS)

    assert scene.watch.news([A, B]) == {}


def test_who_stays_away_for_minutes_fails_the_stream() -> None:
    scene = Scene()
    scene.watch.see()
    scene.cluster.lose("broker-b")
    scene.clock.pass_ms(ROUTE_AGE_MS)
    scene.watch.news([A, B])
    scene.clock.pass_ms(ABSENCE_MAX_MS + 1)

    with pytest.raises(ConnectFailed, match="broker-b"):
        scene.watch.news([A, B])


def test_unless_data_may_be_lost() -> None:
    scene = Scene(fail_on_data_loss=False)
    scene.watch.see()
    scene.cluster.lose("broker-b")
    for _ in range(3):
        scene.clock.pass_ms(ABSENCE_MAX_MS)
        assert scene.watch.news([A, B]) == {A: Range(0, 5)}


def test_an_error_that_time_does_not_cure_is_raised_at_once() -> None:
    scene = Scene()
    scene.watch.see()
    scene.cluster.lose("broker-b", RequestNotSupported(3, "no", address="broker-b"))
    scene.clock.pass_ms(RANGES_AGE_MS)

    with pytest.raises(RequestNotSupported):
        scene.watch.news([A, B])


def test_a_stream_does_not_begin_without_its_brokers() -> None:
    scene = Scene()
    scene.cluster.lose("broker-a")
    scene.cluster.lose("broker-b")

    with pytest.raises(NoRoute):
        scene.watch.see()


def test_what_has_to_be_known_is_asked_for_until_the_broker_is_back(
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

    assert watch.of([B]) == {B: Range(0, 7)}


def test_and_not_for_ever() -> None:
    scene = Scene()
    scene.cluster.lose("broker-b")

    with pytest.raises(ConnectFailed):
        scene.watch.of([A, B])


def test_news_of_a_moment_ago_need_no_asking() -> None:
    scene = Scene()
    scene.watch.see()
    scene.watch.of([A])

    assert scene.cluster.bounds_asked == 1
