"""Whether a group has consumed: by its commits, or by what its members say."""

from orbitmq.blocking import Consumer, Producer, PullConsumer
from orbitmq.message.model import Message, StoredMessage
from orbitmq.testing.broker import BrokerUnderTest, start
from orbitmq.testing.broker.progress import Behind, behind


def left(broker: BrokerUnderTest, group: str, topic: str | None = None) -> list[Behind] | None:
    return broker._submit(behind(broker._cluster.running, group, topic)).result()


def send(broker: BrokerUnderTest, topic: str, *bodies: bytes) -> None:
    with Producer("shop", nameserver=broker.nameserver) as producer:
        for body in bodies:
            producer.send(Message(topic, body))


def test_a_group_that_nobody_knows_has_consumed_nothing() -> None:
    with start() as broker:
        assert left(broker, "billing") is None


def test_it_is_behind_until_it_commits() -> None:
    with start() as broker:
        broker.create_topic("orders", queues=1)
        send(broker, "orders", b"one", b"two")
        assert left(broker, "audit", "orders") == [Behind("orders", "broker-a", 0, 0, 2)]
        consumer = PullConsumer(
            "audit", nameserver=broker.nameserver, auto_commit=False, consume_from="first"
        )
        with consumer:
            consumer.subscribe("orders")
            got: list[StoredMessage] = []
            while len(got) < 2:
                got += consumer.poll(timeout_ms=100)
            consumer.commit()
            assert left(broker, "audit") == []
            assert left(broker, "audit", "orders") == []
        send(broker, "orders", b"three")
        assert list(map(str, left(broker, "audit") or ())) == [
            "queue 0 of orders on broker-a: 2 of 3"
        ]


def test_members_are_asked_before_they_commit() -> None:
    """A commit comes every five seconds; one that never comes shows that they are asked."""
    with start() as broker:
        broker.create_topic("orders", queues=2)
        send(broker, "orders", *(b"%d" % number for number in range(10)))
        consumer = Consumer(
            "billing",
            nameserver=broker.nameserver,
            subscribe={"orders": "*"},
            consume_from="first",
            offset_interval_ms=3_600_000,
        )
        handled: list[bytes] = []
        consumer.on_message(lambda message: handled.append(message.body))
        with consumer:
            broker.wait_consumed("billing")
            assert len(handled) == 10
            state = broker._cluster.running[0].state
            assert state.offsets.of("billing", "orders") == {}
