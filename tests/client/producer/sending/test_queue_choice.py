"""Whose turn it is, whom a retry avoids, and what selectors select."""

import asyncio
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbitmq.client.producer.health.adaptive import AdaptiveHealth
from orbitmq.client.producer.health.health import AttemptOutcome, Health
from orbitmq.client.producer.health.java import Java4Health, Java5Health
from orbitmq.client.producer.sending.queue_choice import (
    ConsistentHash,
    Cursor,
    QueueChoice,
    QueueSelector,
    by_hash,
    by_machine_room,
    by_random,
    by_sharding_key,
    choose,
    select,
    sharded,
)
from orbitmq.errors import InvalidInput
from orbitmq.message.model import Message, MessageQueue
from orbitmq.randomness import SeededRandomness
from tests.golden_files import golden

A, B, C = "broker-a", "broker-b", "broker-c"
MESSAGE = Message("orders", b"paid")


def queues_of(*brokers: str, each: int = 4) -> tuple[MessageQueue, ...]:
    return tuple(MessageQueue("orders", name, number) for name in brokers for number in range(each))


def barred(*brokers: str) -> Java5Health:
    health = Java5Health()
    for broker in brokers:
        health.learn(broker, AttemptOutcome.NO_ANSWER, 1, 0)
    return health


# By turns


def test_turns_go_round_all_queues() -> None:
    queues = queues_of(A, B)
    turn = Cursor(5)
    chosen = [choose(queues, turn, Health(), 0) for _ in range(16)]
    assert chosen == [*queues[5:], *queues, *queues[:5]]


def test_a_retry_avoids_the_broker_that_failed() -> None:
    queues = queues_of(A, B, C)
    turn = Cursor(0)
    assert {choose(queues, turn, Health(), 0, A).broker_name for _ in range(24)} == {B, C}


def test_a_retry_stays_where_there_is_no_other_broker() -> None:
    queues = queues_of(A)
    assert choose(queues, Cursor(0), Health(), 0, A).broker_name == A


def test_queues_of_bad_brokers_are_passed_over_and_the_others_share_evenly() -> None:
    queues = queues_of(A, B, C)
    turn = Cursor(0)
    counts = Counter(choose(queues, turn, barred(A), 1) for _ in range(80))
    assert set(counts.values()) == {10}
    assert {queue.broker_name for queue in counts} == {B, C}


def test_a_reachable_broker_is_taken_before_an_unreachable_one() -> None:
    health = barred(A, B, C)
    health.learn(B, AttemptOutcome.REFUSED, 1, 0)
    assert choose(queues_of(A, B, C), Cursor(4), health, 1).broker_name == C
    assert choose(queues_of(A, B, C), Cursor(8), health, 1, avoid=C).broker_name == A


def test_where_all_are_unreachable_a_retry_still_goes_to_another() -> None:
    health = Java5Health()
    for broker in (A, B):
        health.learn(broker, AttemptOutcome.REFUSED, 1, 0)
    assert {choose(queues_of(A, B), Cursor(at), health, 1, A).broker_name for at in range(8)} == {B}
    assert {choose(queues_of(A, B), Cursor(at), health, 1).broker_name for at in range(8)} == {A, B}


def test_java4_takes_the_better_half_when_all_are_barred() -> None:
    health = Java4Health()
    for took_ms, broker in enumerate((C, B, A)):
        health.learn(broker, AttemptOutcome.NO_ANSWER, took_ms, 0)
    queues = queues_of(A, B, C)
    turn = Cursor(0)
    chosen = [choose(queues, turn, health, 1) for _ in range(8)]
    assert Counter(chosen) == Counter(2 * [queue for queue in queues if queue.broker_name == C])


def test_a_probe_is_a_first_try_and_a_retry_only_for_want_of_better() -> None:
    health = AdaptiveHealth()
    health.learn(A, AttemptOutcome.NO_ANSWER, 1, 0)
    for _ in range(20):
        health.sent(C, 1)
        health.learn(C, AttemptOutcome.STORED, 1, 2)
    assert choose(queues_of(A, B, C), Cursor(0), health, 300).broker_name == A
    assert choose(queues_of(A, B, C), Cursor(0), health, 300, avoid=B).broker_name == C
    assert choose(queues_of(A, B), Cursor(0), health, 300, avoid=B).broker_name == A


@given(
    st.integers(1, 5),
    st.integers(0, 1000),
    st.sets(st.sampled_from([A, B, C])),
    st.sampled_from([None, A, B, C]),
)
def test_some_queue_is_always_chosen(
    each: int, position: int, bad: set[str], avoid: str | None
) -> None:
    queues = queues_of(A, B, each=each)
    chosen = choose(queues, Cursor(position), barred(*bad), 1, avoid)
    assert chosen in queues
    assert chosen.broker_name != avoid
    if {A, B} - bad - {avoid}:
        assert chosen.broker_name not in bad


# Tasks


def test_each_task_goes_round_on_its_own() -> None:
    queues = queues_of(A)
    choice = QueueChoice(Health(), SeededRandomness(1))

    async def send_in_step(barrier: asyncio.Barrier) -> set[MessageQueue]:
        chosen = set()
        for _ in range(4):
            await barrier.wait()  # all tasks, then all again
            chosen.add(choice.pick(queues, 0))
        return chosen

    async def main() -> tuple[set[MessageQueue], set[MessageQueue]]:
        choice.pick(queues, 0)  # what a task inherits is not its own
        barrier = asyncio.Barrier(2)
        return await asyncio.gather(send_in_step(barrier), send_in_step(barrier))

    first, second = asyncio.run(main())
    assert first == second == set(queues)


def test_tasks_of_a_single_send_spread_evenly() -> None:
    queues = queues_of(A)
    choice = QueueChoice(Health(), SeededRandomness(1))

    async def send() -> MessageQueue:
        return choice.pick(queues, 0)

    async def main() -> Counter[MessageQueue]:
        choice.pick(queues, 0)
        return Counter(await asyncio.gather(*(send() for _ in range(40))))

    assert set(asyncio.run(main()).values()) == {10}


def test_topics_have_their_own_turns() -> None:
    queues = queues_of(A)
    orders, bills = (QueueChoice(Health(), SeededRandomness(seed)) for seed in (1, 2))

    async def main() -> list[set[MessageQueue]]:
        picks = [(orders.pick(queues, 0), bills.pick(queues, 0)) for _ in range(4)]
        return [set(chosen) for chosen in zip(*picks, strict=True)]

    assert asyncio.run(main()) == [set(queues), set(queues)]


def test_a_task_of_very_many_topics_keeps_few_turns() -> None:
    queues = queues_of(A)
    choices = [QueueChoice(Health(), SeededRandomness(1)) for _ in range(3_000)]

    async def main() -> None:
        for choice in choices:
            assert choice.pick(queues, 0) in queues

    asyncio.run(main())


def test_retries_of_many_spread_over_what_is_left() -> None:
    queues = queues_of(A, B, C)
    choice = QueueChoice(barred(A), SeededRandomness(1))

    async def retry() -> str:
        return choice.pick(queues, 1, avoid=A).broker_name

    async def main() -> Counter[str]:
        return Counter(await asyncio.gather(*(retry() for _ in range(200))))

    counts = asyncio.run(main())
    assert set(counts) == {B, C}
    assert min(counts.values()) > 60


# Selectors


def queue_id(selector: QueueSelector, count: int) -> int:
    return select(selector, queues_of(A, each=count), MESSAGE).queue_id


@pytest.mark.parametrize("case", golden("hashes")["select_by_hash"], ids=lambda case: case["arg"])
def test_by_hash_is_java_s(case: dict[str, str | int]) -> None:
    text, kind = str(case["arg"]), case["arg_type"]
    selector = by_hash(text) if kind == "String" else by_hash(int(text), as_long=kind == "Long")
    assert queue_id(selector, int(case["queue_count"])) == case["selected_queue_id"]


def test_a_number_that_is_no_integer_of_java_is_a_long() -> None:
    assert queue_id(by_hash(123456789012), 7) == queue_id(by_hash(123456789012, as_long=True), 7)


@pytest.mark.parametrize("argument", [True, 1.5, b"bytes", None])
def test_by_hash_takes_what_java_would_hash_alike(argument: object) -> None:
    with pytest.raises(InvalidInput, match="by_hash takes a str or an int"):
        by_hash(argument)  # type: ignore[arg-type]


def test_by_random_takes_all() -> None:
    selector = by_random(SeededRandomness(1))
    assert {queue_id(selector, 4) for _ in range(60)} == {0, 1, 2, 3}


def test_by_machine_room_takes_brokers_of_the_rooms() -> None:
    queues = queues_of("north@a", "south@b", "west@c")
    selector = by_machine_room({"north", "west"}, SeededRandomness(1))
    chosen = {select(selector, queues, MESSAGE).broker_name for _ in range(60)}
    assert chosen == {"north@a", "west@c"}
    with pytest.raises(InvalidInput, match="room@broker"):
        select(by_machine_room({"east"}, SeededRandomness(1)), queues, MESSAGE)


# Hashing.consistentHash of Guava 31, of the key's hashCode, for these numbers of queues.
COUNTS = (1, 2, 4, 8, 16, 100)
SHARDED = {
    "o-42": (0, 1, 1, 1, 1, 16),
    "order-1": (0, 0, 3, 3, 3, 3),
    "polygenelubricants": (0, 1, 2, 2, 2, 58),
    "标签": (0, 1, 2, 4, 4, 65),
    "": (0, 0, 0, 0, 0, 0),
    "a": (0, 0, 0, 0, 0, 29),
    "user/17": (0, 0, 2, 2, 2, 71),
}


@pytest.mark.parametrize("key", SHARDED)
def test_a_sharding_key_goes_where_java_s_proxy_sends_it(key: str) -> None:
    found = tuple(sharded(queues_of(A, each=count), key).queue_id for count in COUNTS)
    assert found == SHARDED[key]
    assert queue_id(by_sharding_key(key), COUNTS[-1]) == found[-1]


@given(st.text(max_size=20), st.integers(1, 50))
def test_a_queue_more_moves_keys_to_it_alone(key: str, count: int) -> None:
    before = sharded(queues_of(A, each=count), key).queue_id
    assert sharded(queues_of(A, each=count + 1), key).queue_id in (before, count)


def test_a_ring_moves_only_the_keys_of_a_queue_that_goes() -> None:
    ring = ConsistentHash()
    all_queues, fewer = queues_of(A, B), queues_of(A, B)[:-1]
    keys = [f"key-{number}" for number in range(400)]
    before = {key: select(ring.by(key), all_queues, MESSAGE) for key in keys}
    after = {key: select(ring.by(key), fewer, MESSAGE) for key in keys}
    assert {before[key] for key in keys if before[key] != after[key]} == {all_queues[-1]}
    assert min(Counter(before.values()).values()) > 400 / 8 / 3


def test_a_ring_has_some_points() -> None:
    for points in (0, 1_001):
        with pytest.raises(InvalidInput, match="points_per_queue"):
            ConsistentHash(points)


@pytest.mark.parametrize(
    ("returned", "told"),
    [(None, "NoneType"), ("broker-a", "str"), (MessageQueue("bills", A, 0), "bills")],
)
def test_what_is_no_queue_of_the_topic_is_an_error(returned: object, told: str) -> None:
    with pytest.raises(InvalidInput, match=told):
        select(lambda _queues, _message: returned, queues_of(A), MESSAGE)  # type: ignore[arg-type,return-value]
