from bisect import bisect_left
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbitmq.errors import ConnectFailed
from orbitmq.spark.offsets import Range
from orbitmq.spark.reading.offsets_by_time import Search, first_since, offsets_since
from tests.spark.fake_cluster import FakeCluster, queue

A, B = queue(0), queue(0, "broker-b")


def result_of(search: Search, stored_ms: Callable[[int], int | None]) -> int:
    """Run a search to its end."""
    try:
        look = next(search)
        while True:
            look = search.send(stored_ms(look))
    except StopIteration as stop:
        return int(stop.value)


@given(st.data(), st.lists(st.integers(0, 20), max_size=60).map(sorted), st.integers(0, 22))
def test_the_first_message_is_found_from_any_hint(
    data: st.DataObject, times: list[int], moment: int
) -> None:
    least = data.draw(st.integers(0, len(times)))
    hint = data.draw(st.integers(-3, len(times) + 3))

    found = result_of(first_since(moment, Range(least, len(times)), hint), times.__getitem__)

    assert found == max(least, bisect_left(times, moment))


def test_a_right_hint_takes_two_looks_and_a_wrong_one_few() -> None:
    looks: list[int] = []

    def stored_ms(offset: int) -> int:
        looks.append(offset)
        return offset

    within = Range(0, 1_000_000)
    assert result_of(first_since(500_000, within, 500_000), stored_ms) == 500_000
    assert looks == [499_999, 500_000]
    looks.clear()
    assert result_of(first_since(500_000, within, 0), stored_ms) == 500_000
    assert len(looks) < 50


def test_messages_that_are_gone_count_as_older() -> None:
    search = first_since(5, Range(0, 10), 3)
    assert result_of(search, lambda offset: None if offset < 7 else 9) == 7


def test_the_messages_around_a_hint_come_in_one_pull() -> None:
    cluster = FakeCluster({A: (0, 10), B: (0, 0)})
    cluster.stored = {A: range(100, 110)}

    found = offsets_since(cluster, 105, cluster.ranges, {A: 5, B: 0}, group="billing")

    assert found == {A: 5, B: 0}
    assert cluster.looked_at == [4, 5]


MANY = [queue(number, broker) for broker in ("broker-a", "broker-b") for number in range(20)]


@pytest.fixture
def large() -> FakeCluster:
    """Return two brokers with twenty queues each; queue N begins N milliseconds later."""
    cluster = FakeCluster(dict.fromkeys(MANY, (0, 64)))
    cluster.stored = {one: range(one.queue_id, one.queue_id + 64) for one in MANY}
    return cluster


EXPECTED = {one: 40 - one.queue_id for one in MANY}


def test_the_queues_of_a_broker_are_asked_about_in_one_round_trip(large: FakeCluster) -> None:
    assert offsets_since(large, 40, large.ranges, EXPECTED, group="billing") == EXPECTED
    assert [link.writes for link in large.brokers.values()] == [1, 1]
    assert [link.most_in_flight for link in large.brokers.values()] == [20, 20]


def test_wrong_hints_cost_rounds_and_not_queues(large: FakeCluster) -> None:
    hints = dict.fromkeys(MANY, 0)
    assert offsets_since(large, 40, large.ranges, hints, group="billing") == EXPECTED
    assert all(link.writes < 12 for link in large.brokers.values())


def test_more_queues_than_may_be_in_flight_are_asked_about_in_portions() -> None:
    queues = [queue(number) for number in range(70)]
    cluster = FakeCluster(dict.fromkeys(queues, (0, 10)))
    cluster.stored = dict.fromkeys(queues, range(10))
    found = offsets_since(cluster, 5, cluster.ranges, dict.fromkeys(queues, 5), group="billing")
    assert found == dict.fromkeys(queues, 5)
    assert cluster.brokers["broker-a"].writes == 3
    assert cluster.brokers["broker-a"].most_in_flight == 32


def test_a_pull_without_an_answer_is_repeated_alone(large: FakeCluster) -> None:
    large.connection(MANY[3])
    link = large.brokers["broker-a"]
    link.silent = {"3"}
    assert offsets_since(large, 40, large.ranges, EXPECTED, group="billing") == EXPECTED
    assert link.writes == 2
    assert not link.in_flight


def test_a_broker_that_can_not_be_reached_fails_the_search(
    large: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orbitmq.spark.pulling.puller._PAUSES_MS", ())
    large.lose("broker-b")
    with pytest.raises(ConnectFailed, match="broker-b"):
        offsets_since(large, 40, large.ranges, EXPECTED, group="billing")


def test_a_message_that_is_gone_is_pulled_the_long_way() -> None:
    cluster = FakeCluster({A: (0, 10)})
    cluster.stored = {A: range(100, 110)}
    cluster.connection(A)
    cluster.brokers["broker-a"].queues["orders", "0"].least = 4  # since the range was asked for

    assert offsets_since(cluster, 102, cluster.ranges, {A: 2}, group="billing") == {A: 4}
