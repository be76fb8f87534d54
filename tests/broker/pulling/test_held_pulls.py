from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from orbitmq.broker.pulling.held_pulls import HeldPull, HeldPulls, Wants
from orbitmq.broker.pulling.sql92.parser import parse
from orbitmq.message import flags
from orbitmq.store.dispatch import Dispatched
from tests.broker.fake_clients import Client, frame


def arrived(topic: str = "orders", queue_id: int = 0, tags_code: int = 0) -> Dispatched:
    return Dispatched(
        topic=topic,
        queue_id=queue_id,
        tags_code=tags_code,
        queue_offset=0,
        commit_log_offset=0,
        size=1,
        store_timestamp_ms=0,
        sys_flag=0,
        unique_key=None,
        keys=b"",
        tags=None,
    )


def a_pull(
    client: Client | None = None,
    *,
    topic: str = "orders",
    queue_id: int = 0,
    until_ms: int = 15_000,
    wants: Wants | None = None,
) -> HeldPull:
    connection = (client or Client()).connection
    return HeldPull(connection, frame(), topic, queue_id, until_ms, wants)


def holding(*pulls: HeldPull) -> HeldPulls:
    held = HeldPulls(100)
    for pull in pulls:
        assert held.hold(pull)
    return held


def test_a_message_releases_the_pulls_of_its_queue_in_order() -> None:
    first, second = a_pull(), a_pull()
    held = holding(first, a_pull(queue_id=1), second, a_pull(topic="bills"))
    assert held.arrived([arrived()]) == [first, second]
    assert len(held) == 2
    assert held.arrived([arrived()]) == []


def test_of_many_messages_one_is_enough() -> None:
    pull = a_pull()
    assert holding(pull).arrived([arrived(), arrived(), arrived("bills")]) == [pull]


def test_a_message_that_does_not_match_releases_no_pull() -> None:
    pull = a_pull(wants={7}.__contains__)
    held = holding(pull)
    assert held.arrived([arrived(tags_code=8)]) == []
    assert held.arrived([arrived(tags_code=7)]) == [pull]


def test_a_filter_by_properties_is_asked_with_those_of_the_message() -> None:
    pull, all_of_it = a_pull(), a_pull()
    pull.record_filter = parse("a > 1")
    held = holding(pull)
    assert held.arrived([arrived()], lambda _: "a\x011\x02") == []
    assert held.passed_over() == [pull]
    held = holding(pull, all_of_it)
    assert held.arrived([arrived()], lambda _: "a\x012\x02") == [pull, all_of_it]
    held = holding(pull)
    assert held.arrived([arrived()], lambda _: None) == [pull]  # it can't be read: look again


def test_an_inner_batch_releases_pulls_whatever_their_tags() -> None:
    pull = a_pull(wants={7}.__contains__)
    held = holding(pull)
    batch = replace(arrived(tags_code=0), sys_flag=flags.INNER_BATCH)
    assert held.arrived([batch]) == [pull]


def test_pulls_with_only_other_messages_are_released_now_and_then() -> None:
    passed, woken, waiting = (a_pull(wants={code}.__contains__) for code in (1, 2, 3))
    held = holding(passed, woken)
    held.arrived([arrived(tags_code=9), arrived(tags_code=9)])
    assert held.hold(waiting)
    held.arrived([arrived(tags_code=2)])
    assert held.passed_over() == [passed, waiting]  # and not the one that got its message
    assert held.passed_over() == []
    assert len(held) == 0


def test_those_of_a_queue_come_back_when_a_group_is_moved_in_it() -> None:
    first, other, second = a_pull(), a_pull(queue_id=1), a_pull(wants={7}.__contains__)
    held = holding(first, other, second)
    # The first of them gets the new offset, and an older one may be of a member that left.
    assert held.of_queue("orders", 0) == [second, first]
    assert held.of_queue("orders", 0) == []
    assert len(held) == 1


def test_what_is_due_comes_back_the_earliest_first() -> None:
    late, soon, sooner = a_pull(until_ms=20), a_pull(until_ms=10), a_pull(until_ms=5)
    held = holding(late, soon, sooner)
    assert held.due(4) == []
    assert held.due(10) == [sooner, soon]


def test_what_was_woken_is_not_due_any_more() -> None:
    pull = a_pull(until_ms=5)
    held = holding(pull)
    held.arrived([arrived()])
    assert held.due(10) == []


def test_a_client_that_is_gone_waits_for_nothing() -> None:
    gone, there = Client("gone"), Client("there")
    held = holding(a_pull(gone), a_pull(gone, queue_id=1), a_pull(there))
    gone.abort("the peer closed it")
    assert len(held) == 1
    assert [pull.connection for pull in held.arrived([arrived(), arrived(queue_id=1)])] == [
        there.connection
    ]


def test_the_number_of_held_pulls_is_limited() -> None:
    held = HeldPulls(1)
    assert held.hold(a_pull())
    assert not held.hold(a_pull())
    held.arrived([arrived()])
    assert held.hold(a_pull())


def test_a_stop_gives_all_back_and_holds_no_more() -> None:
    held = holding(a_pull(until_ms=9), a_pull(until_ms=3))
    assert [pull.until_ms for pull in held.close()] == [3, 9]
    assert not held.hold(a_pull())


def test_memory_does_not_grow_with_what_has_passed() -> None:
    held, client = HeldPulls(10), Client()
    for _ in range(5_000):
        held.hold(a_pull(client, until_ms=10**9))
        held.arrived([arrived()])
    assert len(held._by_time) <= 2_000
    assert held._by_queue == {}


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("hold"), st.integers(0, 2), st.integers(0, 30)),
        st.tuples(st.just("arrive"), st.integers(0, 2), st.integers(0, 1)),
        st.tuples(st.just("time"), st.integers(0, 30), st.just(0)),
        st.tuples(st.just("passed"), st.just(0), st.just(0)),
        st.tuples(st.just("moved"), st.integers(0, 2), st.just(0)),
        st.tuples(st.just("gone"), st.integers(0, 2), st.just(0)),
    ),
    max_size=60,
)


@given(STEPS)
def test_each_pull_is_released_once_or_dropped_with_its_client(
    steps: list[tuple[str, int, int]],
) -> None:
    held = HeldPulls(8)
    clients = [Client(str(number)) for number in range(3)]
    waiting: list[HeldPull] = []
    for kind, one, other in (*steps, ("stop", 0, 0)):
        back: list[HeldPull] = []
        if kind == "hold":
            pull = a_pull(clients[one], queue_id=one, until_ms=other, wants=bool)
            waiting += [pull] if held.hold(pull) else []
        elif kind == "arrive":
            back = held.arrived([arrived(queue_id=one, tags_code=other)])
        elif kind == "time":
            back = held.due(one)
        elif kind == "passed":
            back = held.passed_over()
        elif kind == "moved":
            back = held.of_queue("orders", one)
        elif kind == "gone":
            gone, clients[one] = clients[one], Client(str(one))
            gone.abort("the peer closed it")
            waiting = [pull for pull in waiting if pull.connection is not gone.connection]
        else:
            back = held.close()
        for pull in back:
            waiting.remove(pull)  # fails on one that was given back before, or dropped
        assert len(held) == len(waiting)
    assert waiting == []
