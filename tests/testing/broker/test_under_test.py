"""A broker under test, met by our own clients."""

import asyncio
from collections.abc import Iterator
from datetime import timedelta

import pytest

from orbitmq import Consumer as AsyncConsumer
from orbitmq import Producer as AsyncProducer
from orbitmq.blocking import Consumer, Producer
from orbitmq.client.consumer.delivery.handler import RetryLater
from orbitmq.client.producer.transactions import TransactionState
from orbitmq.errors import (
    InvalidInput,
    NotRunning,
    SendRefused,
    SendTimeout,
    SendUnreachable,
    WrongLoop,
)
from orbitmq.message.model import Message, StoredMessage
from orbitmq.testing.broker import BrokerUnderTest, start
from orbitmq.wire.codes import RequestCode, ResponseCode

HOURS_2 = 18  # a delay level


@pytest.fixture(scope="module")
def shared() -> Iterator[BrokerUnderTest]:
    with start() as broker:
        yield broker


@pytest.fixture
def broker(shared: BrokerUnderTest) -> Iterator[BrokerUnderTest]:
    yield shared
    assert shared._faults.all == [], "each test ends its faults"


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    return "".join(one if one.isalnum() else "_" for one in request.node.name)


@pytest.fixture
def producer(broker: BrokerUnderTest) -> Iterator[Producer]:
    with Producer("shop", nameserver=broker.nameserver) as producer:
        yield producer


def bodies(messages: list[StoredMessage]) -> list[bytes]:
    return [message.body for message in messages]


# Time


@pytest.mark.parametrize(
    ("message", "just_before", "rest"),
    [
        (Message("unnamed", b"x", delay_level=HOURS_2), timedelta(hours=2, seconds=-30), 30),
        (Message("unnamed", b"x", delay=timedelta(seconds=40)), 30, 10),
        (Message("unnamed", b"x", delay=timedelta(hours=40)), timedelta(hours=39), 3_600.0),
    ],
    ids=["level", "seconds", "more than the wheel holds"],
)
def test_what_is_due_is_there_when_advance_returns(
    broker: BrokerUnderTest,
    producer: Producer,
    topic: str,
    message: Message,
    just_before: float | timedelta,
    rest: float,
) -> None:
    producer.send(message.replace(topic=topic))
    broker.advance(just_before)
    assert broker.messages(topic) == []
    broker.advance(rest)
    assert bodies(broker.messages(topic)) == [b"x"]


def test_more_than_fits_into_one_turn_is_delivered_in_order(
    broker: BrokerUnderTest, producer: Producer, topic: str
) -> None:
    broker.create_topic(topic, queues=1)
    for delay in ({"delay_level": HOURS_2}, {"delay": timedelta(hours=2)}):
        sends = [producer.send_later(Message(topic, b"%d" % n, **delay)) for n in range(1_500)]
        for send in sends:
            send.result()
    broker.advance(7_200)
    assert len(broker.messages(topic)) == 3_000


def test_a_transaction_in_doubt_is_asked_about(broker: BrokerUnderTest, topic: str) -> None:
    asked: list[str | None] = []

    class Ledger:
        def execute(self, message: Message) -> TransactionState:
            return TransactionState.UNKNOWN

        def check(self, message: StoredMessage) -> TransactionState:
            asked.append(message.tags)
            return TransactionState.COMMIT

    with Producer("ledger", nameserver=broker.nameserver, transaction_listener=Ledger()) as ledger:
        ledger.send_in_transaction(Message(topic, b"paid", tags="paid"))
        assert broker.messages(topic) == []
        broker.advance(30)
        assert bodies(broker.wait_messages(topic)) == [b"paid"]
    assert asked == ["paid"]


def test_a_failed_message_comes_again_when_its_retry_is_due(
    broker: BrokerUnderTest, producer: Producer, topic: str
) -> None:
    tried: list[int] = []

    def bill(message: StoredMessage) -> None:
        tried.append(message.reconsume_times)
        if len(tried) == 1:
            raise RetryLater("not now", delay_level=HOURS_2)

    producer.send(Message(topic, b"order"))
    consumer = Consumer(
        topic, nameserver=broker.nameserver, subscribe={topic: "*"}, consume_from="first"
    )
    consumer.on_message(bill)
    with consumer:
        broker.wait_consumed(topic)
        assert tried == [0]
        broker.advance(timedelta(hours=2))
        broker.wait_messages(f"%RETRY%{topic}")
        broker.wait_consumed(topic)
    assert tried == [0, 1]


def test_connected_clients_do_not_notice(
    broker: BrokerUnderTest, producer: Producer, topic: str
) -> None:
    producer.send(Message(topic, b"x"))
    consumer = Consumer(
        topic, nameserver=broker.nameserver, subscribe={topic: "*"}, consume_from="first"
    )
    consumer.on_message(lambda _message: None)
    with consumer:
        broker.wait_consumed(topic)
        state = broker._cluster.running[0].state
        assert state.members.consumers(topic) is not None
        before_ms = broker.now_ms()
        broker.advance(timedelta(hours=1))
        assert broker.now_ms() - before_ms >= 3_600_000
        broker._cluster.running[0]._expire_members()
        assert state.members.consumers(topic) is not None


def test_time_does_not_go_back(broker: BrokerUnderTest) -> None:
    with pytest.raises(InvalidInput, match="seconds is -1; time only moves on"):
        broker.advance(-1)


# Faults


def test_a_busy_broker_is_tried_again(
    broker: BrokerUnderTest, producer: Producer, topic: str
) -> None:
    with broker.busy(times=1) as fault:
        producer.send(Message(topic, b"x"))
    assert fault.hits == 1
    assert bodies(broker.messages(topic)) == [b"x"]


def test_any_answer_can_be_given(broker: BrokerUnderTest, producer: Producer, topic: str) -> None:
    with broker.answer(ResponseCode.MESSAGE_ILLEGAL, "by test", topic=topic):
        producer.send(Message(f"{topic}-beside", b"x"))
        with pytest.raises(SendRefused, match="by test"):
            producer.send(Message(topic, b"x"))
    assert broker.messages(topic) == []


def test_a_lost_request_is_not_carried_out_and_a_lost_answer_is(
    broker: BrokerUnderTest, producer: Producer, topic: str
) -> None:
    producer.send(Message(topic, b"0"))
    with broker.drop() as lost, pytest.raises(SendTimeout):
        producer.send(Message(topic, b"1"), timeout_ms=200)
    with broker.drop_answers() as unanswered, pytest.raises(SendTimeout) as caught:
        producer.send(Message(topic, b"2"), timeout_ms=200)
    assert caught.value.may_be_stored
    assert (lost.hits, unanswered.hits) == (1, 1)
    assert sorted(bodies(broker.messages(topic))) == [b"0", b"2"]


def test_a_late_request_is_carried_out_later(
    broker: BrokerUnderTest, producer: Producer, topic: str
) -> None:
    producer.send(Message(topic, b"0"))
    with broker.delay(0.3), pytest.raises(SendTimeout):
        producer.send(Message(topic, b"late"), timeout_ms=100)
    assert b"late" in bodies(broker.wait_messages(topic, 2))


def test_a_reset_connection_is_made_again(
    broker: BrokerUnderTest, producer: Producer, topic: str
) -> None:
    with broker.disconnect(times=1) as fault:
        producer.send(Message(topic, b"x"))
    assert fault.hits == 1
    assert bodies(broker.messages(topic)) == [b"x"]


def test_an_unreachable_broker_comes_back(
    broker: BrokerUnderTest, producer: Producer, topic: str
) -> None:
    producer.send(Message(topic, b"before"))
    with broker.unreachable(), pytest.raises(SendUnreachable):
        producer.send(Message(topic, b"meanwhile"))
    producer.send(Message(topic, b"after"))
    assert sorted(bodies(broker.messages(topic))) == [b"after", b"before"]


def test_a_full_disk_refuses_sends_and_serves_consumers(
    broker: BrokerUnderTest, producer: Producer, topic: str
) -> None:
    producer.send(Message(topic, b"before"))
    consumer = Consumer(
        topic, nameserver=broker.nameserver, subscribe={topic: "*"}, consume_from="first"
    )
    handled: list[bytes] = []
    consumer.on_message(lambda message: handled.append(message.body))
    with broker.disk_full():
        with pytest.raises(SendRefused, match="the disk is full"):
            producer.send(Message(topic, b"meanwhile"))
        with consumer:
            broker.wait_consumed(topic)
    producer.send(Message(topic, b"after"))
    assert handled == [b"before"]
    assert sorted(bodies(broker.messages(topic))) == [b"after", b"before"]


def test_pulls_can_be_struck_too(broker: BrokerUnderTest, producer: Producer, topic: str) -> None:
    producer.send(Message(topic, b"x"))
    consumer = Consumer(
        topic, nameserver=broker.nameserver, subscribe={topic: "*"}, consume_from="first"
    )
    consumer.on_message(lambda _message: None)
    with broker.disconnect(RequestCode.PULL_MESSAGE, times=2) as fault, consumer:
        broker.wait_consumed(topic)
    assert fault.hits == 2


# Waiting


def test_waits_end_with_what_is_missing(broker: BrokerUnderTest, topic: str) -> None:
    with pytest.raises(TimeoutError, match=f"topic {topic} had 0 of 2 such messages after 0.05 s"):
        broker.wait_messages(topic, 2, timeout_s=0.05)
    with pytest.raises(TimeoutError, match="0.05 s: no consumer of it has connected"):
        broker.wait_consumed(topic, timeout_s=0.05)
    with Producer("shop", nameserver=broker.nameserver) as producer:
        broker.create_topic(topic, queues=1)
        producer.send(Message(topic, b"x"))
    with pytest.raises(TimeoutError, match=f"queue 0 of {topic} on broker-a: 0 of 1"):
        broker.wait_consumed("nobody", topic=topic, timeout_s=0.05)


def test_on_an_event_loop_a_wait_is_awaited(broker: BrokerUnderTest, topic: str) -> None:
    async def main() -> list[bytes]:
        handled: list[bytes] = []
        async with AsyncProducer("shop", nameserver=broker.nameserver) as producer:
            await producer.send(Message(topic, b"x", delay_level=HOURS_2))
        consumer = AsyncConsumer(
            topic, nameserver=broker.nameserver, subscribe={topic: "*"}, consume_from="first"
        )
        consumer.on_message(lambda message: handled.append(message.body))
        async with consumer:
            with pytest.raises(WrongLoop):
                broker.wait_consumed(topic)
            with pytest.raises(WrongLoop):
                broker.wait_messages(topic)
            broker.advance(7_200)  # short, so it may block
            assert len(await broker.wait_messages_async(topic)) == 1
            await broker.wait_consumed_async(topic)
        return handled

    assert asyncio.run(main()) == [b"x"]


# Life


def test_several_brokers_share_time_and_faults() -> None:
    with start(brokers=2, settings={"defaultTopicQueueNums": "1"}) as broker:
        assert len(broker.brokers) == 2
        broker.create_topic("orders", queues=1)
        with Producer("shop", nameserver=broker.nameserver) as producer:
            for number in range(4):
                producer.send(Message("orders", b"%d" % number, delay_level=HOURS_2))
            with broker.busy() as fault, pytest.raises(SendRefused):
                producer.send(Message("orders", b"4"))
            assert fault.hits > 1
        broker.advance(7_200)
        found = broker.messages("orders")
        assert {message.broker_name for message in found} == {"broker-a", "broker-b"}
        assert len(found) == 4


def test_a_fault_may_outlive_its_broker() -> None:
    with start() as broker:
        fault = broker.unreachable()
    fault.end()
    with pytest.raises(NotRunning):
        broker.advance(1)
