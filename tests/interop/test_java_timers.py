"""Messages with a delivery time: Java's producers on our broker, and stores that change hands."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from orbitmq.clock import SystemClock
from orbitmq.message import properties
from orbitmq.net.address import Address
from orbitmq.net.blocking import BlockingConnection
from orbitmq.wire.codes import ResponseCode
from orbitmq.wire.headers.send import RecallMessage, SendMessageAnswer, SendMessageV2
from tests.interop.java import JavaHostFailed
from tests.interop.java_cluster import JavaBroker, JavaNameserver
from tests.interop.java_server import PATIENT
from tests.interop.operations import Outgoing
from tests.interop.our_servers import OurServer, a_broker
from tests.interop.store_parties import JavaStore
from tests.interop.store_writer import JAVA_SIZES
from tests.interop.team import Team, create_topic
from tests.interop.waiting import until

VERSION = "5.4.0"
TIMERS = {
    "timerWheelEnable": "true",
    "timerPrecisionMs": "100",
    "recallMessageEnable": "true",
    "mappedFileSizeTimerLog": "65536",
}
_now_ms = SystemClock().now_ms


def timed(team: Team, topic: str, body: bytes, delay_ms: int) -> Outgoing:
    """Return a message with a delay; 4.9 has no method for it, and sends what it is told."""
    if team.java.version == VERSION:
        return Outgoing(topic=topic, body=body, delay_ms=delay_ms)
    return Outgoing(topic=topic, body=body, properties={"TIMER_DELAY_MS": str(delay_ms)})


def test_java_s_messages_come_in_their_second_and_recalled_ones_not_at_all(team: Team) -> None:
    topic = team.topic("timed")
    with team.producer() as producer, team.consumer(topic) as consumer:
        began_ms = _now_ms()
        sent = producer.send(
            timed(team, topic, b"later", 3_000),
            timed(team, topic, b"soon", 1_000),
            timed(team, topic, b"recalled", 2_000),
            Outgoing(topic=topic, body=b"at once"),
        )
        if team.java.version == VERSION:
            assert producer.recall(topic, sent[2].recall_handle) == sent[2].message_id
            with pytest.raises(JavaHostFailed, match="recall handle is invalid|topic not match"):
                producer.recall(team.topic("other"), sent[0].recall_handle)
            past = Outgoing(topic=topic, body=b"past", deliver_ms=began_ms - 1_000)
            (receipt,) = producer.send(past)
            assert receipt.recall_handle == ""
        with pytest.raises(JavaHostFailed, match="timer message illegal, the delay time should"):
            producer.send(timed(team, topic, b"never", 3 * 86_400_000 + 60_000))
        expected = {b"later": 3_000, b"soon": 1_000, b"at once": 0}
        expected |= {b"past": 0} if team.java.version == VERSION else {b"recalled": 2_000}
        received = {one.body: one for one in consumer.wait_for(len(expected))}
        assert received.keys() == expected.keys()
        for body, delay_ms in expected.items():
            assert received[body].stored_ms >= began_ms + delay_ms
        assert received[b"later"].properties["TIMER_OUT_MS"].isdigit()
        info = team.mqadmin("brokerStatus", "-b", team.brokers[0])
        assert "timerCongestNum" in info


# A store that changes hands


@pytest.fixture
def java_broker(nameserver: JavaNameserver, tmp_path: Path) -> Iterator[JavaBroker]:
    """A broker that is not started yet, and is killed in the end."""
    settings = {**JAVA_SIZES, **TIMERS, "brokerName": "broker-a"}
    broker = JavaBroker(VERSION, tmp_path, nameserver=nameserver.address, settings=settings)
    yield broker
    broker.kill()


@pytest.fixture
def our_broker(nameserver: JavaNameserver, java_broker: JavaBroker) -> OurServer:
    """A broker of ours on the same directory, not started yet."""
    directory = Path(str(java_broker.settings["storePathRootDir"]))
    settings = {name: str(value) for name, value in {**JAVA_SIZES, **TIMERS}.items()}
    return a_broker(directory, nameservers=str(nameserver.address), **settings)


def send(broker: Address, body: bytes, delay_ms: int) -> SendMessageAnswer:
    found = {properties.UNIQUE_KEY: f"U-{body.decode()}", properties.TIMER_DELAY_MS: str(delay_ms)}
    header = SendMessageV2(
        producer_group="senders",
        topic="timed",
        default_topic="TBW102",
        default_topic_queue_nums=1,
        queue_id=0,
        sys_flag=0,
        born_timestamp=_now_ms(),
        flag=0,
        properties=properties.encode(found).decode(),
    )
    with BlockingConnection(broker, settings=PATIENT) as connection:
        answer = connection.request(header, body)
    assert answer.code == ResponseCode.SUCCESS, answer
    return answer.read(SendMessageAnswer)


def recall(broker: Address, handle: str | None) -> None:
    assert handle is not None
    header = RecallMessage(topic="timed", producer_group="senders", recall_handle=handle)
    with BlockingConnection(broker, settings=PATIENT) as connection:
        answer = connection.request(header)
    assert answer.code == ResponseCode.SUCCESS, answer


def delivered(broker: Address) -> list[bytes]:
    with BlockingConnection(broker, settings=PATIENT) as connection:
        party = JavaStore(connection)
        if not party.span("timed", 0):
            return []
        return [message.body for message in party.queue("timed", 0)]


def await_delivery(broker: Address, body: bytes) -> None:
    until(lambda: body in delivered(broker), what=f"{body!r} delivered")


def leave_messages(broker: Address, party: str) -> None:
    """Have one message delivered, and leave one, a recalled one, and a distant one."""
    send(broker, f"{party}-first".encode(), 200)
    await_delivery(broker, f"{party}-first".encode())
    recall(broker, send(broker, f"{party}-recalled".encode(), 6_000).recall_handle)
    send(broker, f"{party}-pending".encode(), 6_000)
    send(broker, f"{party}-distant".encode(), 3_600_000)


def test_each_delivers_what_the_other_left_once(
    java_broker: JavaBroker, our_broker: OurServer
) -> None:
    our_broker.start()
    create_topic(our_broker.address, "timed", queues=1)
    leave_messages(our_broker.address, "our")
    our_broker.stop()
    java_broker.start()
    await_delivery(java_broker.address, b"our-pending")
    leave_messages(java_broker.address, "java")
    java_broker.stop()
    our_broker.start()
    await_delivery(our_broker.address, b"java-pending")
    send(our_broker.address, b"last", 200)
    await_delivery(our_broker.address, b"last")
    every = [b"our-first", b"our-pending", b"java-first", b"java-pending", b"last"]
    assert delivered(our_broker.address) == every
    our_broker.kill()
    our_broker.start()
    send(our_broker.address, b"after a kill", 200)
    await_delivery(our_broker.address, b"after a kill")
    assert delivered(our_broker.address) == [*every, b"after a kill"]
    our_broker.stop()
