"""Our transactions on a Java broker, which asks again; read back by a Java consumer."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from orbitmq.client.producer.producer import Producer
from orbitmq.client.producer.transactions import TransactionState
from orbitmq.message.model import Message, StoredMessage
from tests.interop import counterparts
from tests.interop.clients import consuming
from tests.interop.conftest import decline
from tests.interop.java import Java
from tests.interop.java_cluster import JavaCluster
from tests.interop.operations import ConsumerOptions

COMMIT, ROLLBACK, UNKNOWN = TransactionState
CURIOUS = {
    "transactionCheckInterval": 500,
    "transactionTimeOut": 500,
    "transactionCheckMax": 100,
}
"""A broker that asks after half a second; Java's own asks after six, every half minute."""


@pytest.fixture(scope="module", params=["5.4.0", "4.9.7"])
def cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[JavaCluster]:
    """A Java cluster whose broker asks soon."""
    if (why := counterparts.missing_for(request.param)) is not None:
        decline(why)
    directory: Path = tmp_path_factory.mktemp("transactions")
    with JavaCluster(request.param, directory, broker_settings=CURIOUS) as running:
        yield running


def delivered(java: Java, cluster: JavaCluster, topic: str, *wanted: bytes) -> dict[bytes, str]:
    """Return the bodies and ids that a Java consumer gets until the wanted ones have come."""
    options = ConsumerOptions(
        nameserver=str(cluster.nameserver.address), group=f"readers-of-{topic}", topic=topic
    )
    with consuming(java, options) as consumer:
        count = 1
        while not {*wanted} <= {*consumer.bodies()}:
            count = len(consumer.wait_for(count)) + 1
        return {message.body: message.message_id for message in consumer.received()}


def test_what_is_committed_is_delivered_and_nothing_else(
    cluster: JavaCluster, java_540: Java
) -> None:
    topic = cluster.create_topic("transactions")

    async def main() -> str:
        async with Producer("tx-blocks", nameserver=str(cluster.nameserver.address)) as producer:
            async with producer.transaction(Message(topic, b"committed", keys=["k"])) as begun:
                message_id = begun.message_id
            with pytest.raises(ValueError, match="no"):
                async with producer.transaction(Message(topic, b"rolled back")):
                    raise ValueError("no")
            async with producer.transaction(Message(topic, b"rolled back, too")) as other:
                await other.rollback()
            sent = await producer.send_in_transaction(
                Message(topic, b"x" * 5_000), lambda _message: COMMIT
            )
            assert sent.state is COMMIT
            await producer.send_in_transaction(
                Message(topic, b"dropped"), lambda _message: ROLLBACK
            )
            async with producer.transaction(Message(topic, b"last")):
                pass
            return message_id

    message_id = asyncio.run(main())
    committed = {b"committed", b"x" * 5_000, b"last"}
    found = delivered(java_540, cluster, topic, *committed)
    assert set(found) == committed
    assert found[b"committed"] == message_id


def test_the_broker_asks_about_what_was_left_undecided(
    cluster: JavaCluster, java_540: Java
) -> None:
    topic = cluster.create_topic("checks")
    asked: list[StoredMessage] = []
    all_asked = asyncio.Event()

    class Listener:
        """Knows nothing at first, and decides when it is asked."""

        def execute(self, message: Message) -> TransactionState:
            return UNKNOWN

        async def check(self, message: StoredMessage) -> TransactionState:
            asked.append(message)
            bodies = [one.body for one in asked]
            if bodies.count(message.body) == 1:
                return UNKNOWN  # so that it asks once more
            if len({body for body in bodies if bodies.count(body) > 1}) == 2:
                all_asked.set()
            return COMMIT if message.body == b"commit me" else ROLLBACK

    async def main() -> list[str]:
        nameserver = str(cluster.nameserver.address)
        async with Producer(
            "tx-checks", nameserver=nameserver, transaction_listener=Listener()
        ) as producer:
            first = await producer.send_in_transaction(Message(topic, b"commit me", tags="paid"))
            second = await producer.send_in_transaction(Message(topic, b"drop me"))
            assert (first.state, second.state) == (UNKNOWN, UNKNOWN)
            async with asyncio.timeout(60):
                await all_asked.wait()
            await producer.send(Message(topic, b"last"))
            return [first.receipt.message_id, second.receipt.message_id]

    ids = asyncio.run(main())
    assert {message.message_id for message in asked} == set(ids)
    assert {message.topic for message in asked} == {topic}
    assert "paid" in {message.tags for message in asked}
    found = delivered(java_540, cluster, topic, b"commit me")
    assert b"drop me" not in found


def test_another_process_of_the_group_is_asked(cluster: JavaCluster, java_540: Java) -> None:
    """The one that began it is gone; whoever else is in the group decides."""
    topic = cluster.create_topic("orphans")
    nameserver = str(cluster.nameserver.address)

    async def begin() -> None:
        async with Producer("tx-orphans", nameserver=nameserver, keep_open_ms=1) as producer:
            async with producer.transaction(Message(topic, b"orphan")) as begun:
                await begun.leave_undecided()

    async def decide() -> None:
        decided = asyncio.Event()

        def check(message: StoredMessage) -> TransactionState:
            loop.call_soon_threadsafe(decided.set)
            return COMMIT if message.body == b"orphan" else ROLLBACK

        loop = asyncio.get_running_loop()
        async with Producer(
            "tx-orphans", nameserver=nameserver, transaction_listener=check, topics=(topic,)
        ):
            async with asyncio.timeout(60):
                await decided.wait()

    asyncio.run(begin())
    asyncio.run(decide())
    assert b"orphan" in delivered(java_540, cluster, topic, b"orphan")
