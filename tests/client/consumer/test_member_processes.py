"""Consumers killed at random, and ordered ones under rebalance and broker restarts.

``ORBITMQ_SOAK=1`` runs the full numbers.
"""

import os
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path

from orbitmq import Message, embedded
from orbitmq.blocking import Producer
from orbitmq.net.address import Address
from tests.client.consumer.member_processes import Consumed, Member, member
from tests.interop.our_servers import a_broker, a_nameserver
from tests.interop.team import create_topic
from tests.interop.waiting import until

SOAK = os.environ.get("ORBITMQ_SOAK") == "1"
MESSAGES = 100_000 if SOAK else 5_000
KILLS = 20 if SOAK else 3
ORDERED_ROUNDS = 12 if SOAK else 3
ORDERED_MESSAGES = 150  # a round
RESTART_ROUNDS = 100  # they take a second or two: rounds and renewals are in it
QUEUES = 8
TOPIC = "numbers"
GROUP = "counters"


def consumed_by(members: Iterable[Member]) -> list[Consumed]:
    return [one for each in members for one in list(each.consumed)]


def await_count(members: list[Member], count: int) -> None:
    until(lambda: len(consumed_by(members)) >= count, what=f"{count} are consumed")


def send(producer: Producer, numbers: range) -> None:
    queues = producer.queues(TOPIC)
    of_queue = [queues[number % len(queues)] for number in numbers]
    producer.send_many(
        [Message(TOPIC, b"%d" % number) for number in numbers], queues=of_queue, timeout_ms=30_000
    )


def test_nothing_is_lost_when_consumers_are_killed() -> None:
    """At least once: each message is consumed, and what comes twice is counted."""
    chance = random.Random(17)
    with embedded.start() as cluster, ExitStack() as all_:
        create_topic(Address.parse(cluster.brokers[0]), TOPIC, queues=QUEUES)
        producer = all_.enter_context(Producer("senders", nameserver=cluster.nameserver))

        def joining() -> Member:
            return all_.enter_context(member(cluster.nameserver, GROUP, TOPIC))

        members = [joining() for _ in range(3)]
        alive = list(members)
        step = MESSAGES // (KILLS + 1)
        for begin in range(0, MESSAGES, step):
            send(producer, range(begin, min(begin + step, MESSAGES)))
            await_count(members, begin * 3 // 4)
            killed = alive.pop(chance.randrange(len(alive)))
            killed.kill()
            alive.append(joining())
            members.append(alive[-1])
        wanted = {str(number) for number in range(MESSAGES)}
        until(
            lambda: wanted <= {one.body for one in consumed_by(members)},
            what="all are consumed",
            seconds=300,
        )
        for one in alive:
            one.stop()
        counts = Counter(one.body for one in consumed_by(members))
    twice = sum(counts.values()) - len(counts)
    print(f"{len(counts)} messages, {len(members) - 3} kills, {twice} deliveries twice")
    assert counts.keys() == wanted


def test_order_is_kept_under_rebalance_and_broker_restarts(tmp_path: Path) -> None:
    """Members join and leave, the broker restarts: no gap, only repeats from the last commit."""
    chance = random.Random(4)
    with ExitStack() as all_:
        names = all_.enter_context(a_nameserver(tmp_path / "names"))
        broker = all_.enter_context(a_broker(tmp_path / "broker", nameservers=str(names.address)))
        create_topic(broker.address, TOPIC, queues=QUEUES)
        producer = all_.enter_context(Producer("senders", nameserver=str(names.address)))

        def joining() -> Member:
            return all_.enter_context(member(str(names.address), GROUP, TOPIC, "--ordered"))

        def leave() -> None:
            alive.pop(chance.randrange(len(alive))).stop()

        def restart() -> None:
            broker.stop()
            broker.start()

        members = [joining(), joining()]
        alive = list(members)
        sent = 0
        turns: list[Callable[[], object]] = [leave, restart, lambda: None]
        for number in range(ORDERED_ROUNDS):
            send(producer, range(sent, sent + ORDERED_MESSAGES))
            sent += ORDERED_MESSAGES
            turns[number % len(turns)]()
            alive.append(joining())
            members.append(alive[-1])
        until(
            lambda: len({one.body for one in consumed_by(members)}) == sent,
            what="all are consumed",
            seconds=240,
        )
        for one in alive:
            one.stop()
        of_queue: dict[str, list[Consumed]] = defaultdict(list)
        for consumed in consumed_by(members):
            of_queue[consumed.queue].append(consumed)
    assert len(of_queue) == QUEUES
    for queue, deliveries in of_queue.items():
        deliveries.sort(key=lambda one: one.began_ns)
        offsets = [one.offset for one in deliveries]
        reached = -1
        for offset in offsets:
            assert offset <= reached + 1, f"{queue} has a gap before {offset}: {offsets}"
            reached = max(reached, offset)


def test_a_broker_restart_moves_no_ordered_queue(tmp_path: Path) -> None:
    """The broker has forgotten the locks, but each member goes on with its own queues."""
    with ExitStack() as all_:
        names = all_.enter_context(a_nameserver(tmp_path / "names"))
        broker = all_.enter_context(a_broker(tmp_path / "broker", nameservers=str(names.address)))
        create_topic(broker.address, TOPIC, queues=QUEUES)
        producer = all_.enter_context(Producer("senders", nameserver=str(names.address)))
        members = [
            all_.enter_context(member(str(names.address), GROUP, TOPIC, "--ordered"))
            for _ in range(2)
        ]
        sent = 0

        def shares() -> list[set[str]]:
            """Send to all queues; return those of each member when all is consumed."""
            nonlocal sent
            new = range(sent, sent + QUEUES)
            send(producer, new)
            sent += QUEUES
            bodies = {str(number) for number in new}
            until(
                lambda: bodies <= {one.body for one in consumed_by(members)},
                what="all are consumed",
            )
            return [{one.queue for one in each.consumed if one.body in bodies} for each in members]

        until(lambda: [len(one) for one in shares()] == [QUEUES // 2] * 2, what="even shares")
        before = shares()
        broker.stop()
        broker.start()
        after = [shares() for _ in range(RESTART_ROUNDS)]
        assert after == [before] * RESTART_ROUNDS
