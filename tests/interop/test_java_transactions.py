"""Java's transactional producers on our broker; and stores with open transactions, both ways."""

import asyncio
import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from orbitmq.client.producer.producer import Producer
from orbitmq.client.producer.transactions import TransactionState
from orbitmq.message.model import Message, StoredMessage
from tests.interop import counterparts
from tests.interop.clients import Consumer, TransactionProducer
from tests.interop.conftest import decline
from tests.interop.java import Java, JavaHostFailed
from tests.interop.java_cluster import JavaBroker
from tests.interop.our_servers import OurServer, a_broker, a_nameserver
from tests.interop.store_writer import JAVA_SIZES
from tests.interop.team import Team, create_topic
from tests.interop.waiting import until, until_async

COMMIT, ROLLBACK, OPEN = b"COMMIT_MESSAGE", b"ROLLBACK_MESSAGE", b"UNKNOW"
ENDS = [("stop", "kill"), *([("kill", "stop")] if os.environ.get("ORBITMQ_SOAK") == "1" else [])]
"""How a broker of ours, and Java's, ends before the other takes the store over."""
CURIOUS = {
    "transactionCheckInterval": "300",
    "transactionTimeOut": "300",
    "transactionCheckMax": "100",
    "transactionOpBatchInterval": "100",
}
"""A broker that asks after a third of a second; by default it asks after six, every half minute."""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[OurServer, str]]:
    """A broker of ours that asks soon, and the address of its nameserver; it can be restarted."""
    directory = tmp_path_factory.mktemp("transactions")
    with a_nameserver(directory) as nameserver:
        known = str(nameserver.address)
        with a_broker(directory / "store", nameservers=known, **CURIOUS) as running:
            yield running, known


@pytest.fixture
def team(java: Java, broker: tuple[OurServer, str]) -> Team:
    server, nameserver = broker
    return Team(java, nameserver, [str(server.address)])


def delivered(consumer: Consumer, *wanted: bytes) -> None:
    """Return when a consumer has got the wanted bodies; it must get each once, and no other."""
    until(lambda: {*wanted} <= {*consumer.bodies()}, what=f"{wanted} arrive")
    assert sorted(consumer.bodies()) == sorted(wanted)


def test_committed_messages_arrive_and_no_others(team: Team) -> None:
    topic = team.topic("transactions")
    with team.transactions("decided") as producer, team.consumer(topic) as consumer:
        producer.send(topic, COMMIT + b" 1", ROLLBACK + b" 2", COMMIT + b" 3")
        (sent,) = producer.send(topic, COMMIT + b" 4", city="Berlin")
        assert sent.status == "SEND_OK"
        delivered(consumer, COMMIT + b" 1", COMMIT + b" 3", COMMIT + b" 4")
        (last,) = (one for one in consumer.received() if one.body == COMMIT + b" 4")
        assert last.message_id == sent.message_id
        assert last.queue_id == sent.queue_id
        assert last.properties["city"] == "Berlin"
        assert producer.checked() == []


def test_open_transactions_are_asked_about_until_they_are_decided(team: Team) -> None:
    topic = team.topic("checked")
    late = b" ".join((OPEN, OPEN, OPEN, COMMIT))
    committed, dropped = OPEN + b" " + COMMIT, OPEN + b" " + ROLLBACK
    with team.transactions("asked") as producer, team.consumer(topic) as consumer:
        producer.send(topic, committed, dropped, late)
        delivered(consumer, committed, late)
        until(lambda: dropped in producer.checked(), what="the one to drop is asked about")
        producer.send(topic, COMMIT)
        delivered(consumer, committed, late, COMMIT)
        # A producer that is slow to answer is asked again.
        assert producer.checked().count(late) >= 3
        assert COMMIT not in producer.checked()


def test_if_a_producer_is_gone_another_one_of_its_group_is_asked(team: Team) -> None:
    topic = team.topic("orphans")
    body = OPEN + b" " + COMMIT
    with team.transactions("families") as first:
        first.send(topic, body, CHECK_IMMUNITY_TIME_IN_SECONDS="2")
    with team.transactions("families") as second, team.consumer(topic) as consumer:
        # It has to know the broker, or the broker would not know it.
        second.send(topic, ROLLBACK)
        delivered(consumer, body)
        assert first.checked() == []
        assert {*second.checked()} == {body}


def test_transactions_outlive_a_broker(team: Team, broker: tuple[OurServer, str]) -> None:
    """It is stopped, and killed, between the half message and the commit."""
    topic = team.topic("restarted")
    server, _ = broker
    bodies = [b" ".join((OPEN, COMMIT, b"%d" % number)) for number in range(2)]
    with team.transactions("patient") as producer, team.consumer(topic) as consumer:
        for end, body in zip((server.stop, server.kill), bodies, strict=True):
            producer.send(topic, body, CHECK_IMMUNITY_TIME_IN_SECONDS="3")
            end()
            server.start()
        delivered(consumer, *bodies)


def test_our_own_producer(team: Team, broker: tuple[OurServer, str]) -> None:
    topic = team.topic("ours")
    server, nameserver = broker
    asked: list[bytes] = []

    def check(message: StoredMessage) -> TransactionState:
        asked.append(message.body)
        return TransactionState.COMMIT

    async def main() -> None:
        async with Producer(
            "our-own", nameserver=nameserver, transaction_listener=check
        ) as producer:
            async with producer.transaction(Message(topic, b"committed")):
                await asyncio.to_thread(restart)
            with contextlib.suppress(ValueError):
                async with producer.transaction(Message(topic, b"rolled back")):
                    raise ValueError("no")
            async with producer.transaction(Message(topic, b"asked")) as begun:
                await begun.leave_undecided()
            await until_async(lambda: b"asked" in asked, what="a check")

    def restart() -> None:
        server.stop()
        server.start()

    with team.consumer(topic) as consumer:
        asyncio.run(main())
        delivered(consumer, b"committed", b"asked")


@pytest.mark.parametrize(("our_end", "java_end"), ENDS)
def test_open_transactions_change_brokers(
    java_540: Java, tmp_path: Path, our_end: str, java_end: str
) -> None:
    """Ours, Java's, ours: each goes on with the checks of the one before."""
    if (why := counterparts.missing_for("5.4.0")) is not None:
        decline(why)
    with a_nameserver(tmp_path) as nameserver:
        # Time enough for a producer to go before it is asked.
        shared = {**CURIOUS, "transactionTimeOut": "2000", "brokerName": "shared"}
        java_broker = JavaBroker(
            "5.4.0", tmp_path, nameserver=nameserver.address, settings={**JAVA_SIZES, **shared}
        )
        store = Path(str(java_broker.settings["storePathRootDir"]))
        our_broker = a_broker(
            store,
            nameservers=str(nameserver.address),
            **{name: str(value) for name, value in JAVA_SIZES.items()},
            **shared,
        )
        with contextlib.ExitStack() as running:
            running.callback(java_broker.kill)
            running.enter_context(our_broker)
            create_topic(our_broker.address, "handed-over", queues=2)
            team = Team(java_540, str(nameserver.address), [])
            leave_open(team, 0)
            getattr(our_broker, our_end)()
            java_broker.start()
            answer(team, 0)
            leave_open(team, 1)
            getattr(java_broker, java_end)()
            our_broker.start()
            answer(team, 0, 1)


def leave_open(team: Team, number: int) -> None:
    """Begin a transaction of a producer that goes, and see another one committed."""
    topic, committed = "handed-over", COMMIT + b" %d" % number
    with team.transactions("moving") as producer:
        producer.send(topic, committed, ROLLBACK, OPEN + b" " + committed)
    with team.consumer(topic, group=f"early-{number}") as consumer:
        until(lambda: committed in consumer.bodies(), what="a commit")


def answer(team: Team, *numbers: int) -> None:
    """Have a producer answer the checks, and see all that was left open delivered, once."""
    topic = "handed-over"
    committed = [COMMIT + b" %d" % number for number in numbers]
    with team.transactions("moving") as producer:
        # It has to know the broker, or the broker would not know it.
        until(lambda: sends(producer, topic), what="the route to the broker")
        with team.consumer(topic, group=f"late-{numbers[-1]}") as consumer:
            delivered(consumer, *committed, *(OPEN + b" " + one for one in committed))


def sends(producer: TransactionProducer, topic: str) -> bool:
    try:
        producer.send(topic, ROLLBACK)
    except JavaHostFailed:  # the route is that of the broker before
        return False
    return True
