"""Java's producers on our broker: each way to send, what is stored, and where the limits are."""

import pytest

from tests.interop.java import JavaHostFailed
from tests.interop.operations import Outgoing, Received, Way
from tests.interop.team import Team
from tests.interop.waiting import until

LIMIT = 4 * 1024 * 1024
"""The largest body that a broker takes, unless it is told otherwise."""

NOISE = bytes(range(256))


def numbered(topic: str, count: int) -> list[Outgoing]:
    return [Outgoing(topic=topic, body=b"%d" % number) for number in range(count)]


def read_back(team: Team, topic: str, count: int) -> list[Received]:
    """Return all messages of a topic, as a consumer of Java gets them."""
    with team.consumer(topic) as consumer:
        return consumer.wait_for(count)


@pytest.mark.parametrize("way", ["sync", "async"])
def test_messages_arrive_as_they_were_sent(team: Team, way: Way) -> None:
    topic = team.topic(f"sent-{way}")
    properties = {"city": "東京", "mood": "🚀"}
    message = Outgoing(
        topic=topic, body=b"\0body\xff", tags="paid", keys="k1 k2", properties=properties
    )
    with team.producer() as producer:
        (sent,) = producer.send(message, way=way)
    (received,) = read_back(team, topic, 1)
    assert sent.status == "SEND_OK"
    assert (received.body, received.message_id) == (message.body, sent.message_id)
    assert (received.queue_id, received.queue_offset) == (sent.queue_id, sent.queue_offset)
    assert (received.properties["TAGS"], received.properties["KEYS"]) == ("paid", "k1 k2")
    assert properties.items() <= received.properties.items()


def test_many_are_in_flight_at_once(team: Team) -> None:
    topic = team.topic("in-flight")
    with team.producer() as producer:
        sent = producer.send(*numbered(topic, 200), way="async")
    assert {one.status for one in sent} == {"SEND_OK"}
    assert len({(one.queue_id, one.queue_offset) for one in sent}) == 200
    assert {one.queue_id for one in sent} == {0, 1, 2, 3}


def test_what_is_sent_one_way_arrives(team: Team) -> None:
    topic = team.topic("oneway")
    with team.producer() as producer:
        assert producer.send(*numbered(topic, 20), way="oneway") == []
        received = read_back(team, topic, 20)
    assert sorted(one.body for one in received) == sorted(b"%d" % number for number in range(20))


def test_a_batch_lies_together(team: Team) -> None:
    topic = team.topic("batch")
    with team.producer() as producer:
        (sent,) = producer.send(*numbered(topic, 10), way="batch")
    received = sorted(read_back(team, topic, 10), key=lambda one: one.queue_offset)
    assert [one.body for one in received] == [b"%d" % number for number in range(10)]
    assert [one.queue_offset for one in received] == [*range(10)]
    assert {one.queue_id for one in received} == {sent.queue_id}
    assert [one.message_id for one in received] == sent.message_id.split(",")
    assert len(sent.offset_id.split(",")) == 10


def test_a_queue_can_be_named(team: Team) -> None:
    topic = team.topic("named-queue")
    with team.producer() as producer:
        sent = producer.send(*numbered(topic, 3), way="queue", broker="broker-a", queue_id=2)
    assert [(one.queue_id, one.queue_offset) for one in sent] == [(2, 0), (2, 1), (2, 2)]


def test_a_queue_that_is_not_there_is_refused(team: Team) -> None:
    topic = team.topic("wrong-queue")
    with team.producer() as producer:
        with pytest.raises(JavaHostFailed, match=r"(?s)MQBrokerException.*queueId\[99\]"):
            producer.send(*numbered(topic, 1), way="queue", broker="broker-a", queue_id=99)


def test_a_selector_keeps_a_key_in_one_queue(team: Team) -> None:
    topic = team.topic("sharded")
    with team.producer() as producer:
        queues = {
            shard: {one.queue_id for one in sent}
            for shard in ("alice", "bob", "carol", "dave")
            if (sent := producer.send(*numbered(topic, 3), way="selector", shard=shard))
        }
    assert all(len(found) == 1 for found in queues.values())
    assert len(set.union(*queues.values())) > 1


def test_an_unknown_topic_is_made_by_the_first_send(team: Team) -> None:
    topic = f"made-by-a-send-{team.java.version}".replace(".", "_")
    with team.producer() as producer:
        (sent,) = producer.send_bodies(topic, b"first")
        assert sent.status == "SEND_OK"
        route = until(
            lambda: team.mqadmin("topicRoute", "-t", topic).partition("readQueueNums")[2],
            what="the nameserver knows the topic",
        )
        # Java's producer asks for 4 queues, our broker allows 8: the smaller number holds.
        assert "4" in route[:5]
    (received,) = read_back(team, topic, 1)
    assert received.body == b"first"


def test_a_reserved_topic_is_refused(team: Team) -> None:
    with team.producer() as producer:
        with pytest.raises(JavaHostFailed, match="SCHEDULE_TOPIC_XXXX"):
            producer.send_bodies("SCHEDULE_TOPIC_XXXX", b"forged")


def test_bodies_travel_compressed(team: Team) -> None:
    kinds = [None, "LZ4", "ZSTD", "ZLIB"] if team.java.version.startswith("5") else [None]
    topic = team.topic("compressed")
    body = b"again and again " * 1_000
    for kind in kinds:
        with team.producer(compression=kind) as producer:
            producer.send_bodies(topic, body)
    received = read_back(team, topic, len(kinds))
    assert [one.body for one in received] == [body] * len(kinds)
    assert all(one.record_bytes < len(body) // 10 for one in received)


def test_the_largest_message_fits(team: Team) -> None:
    topic = team.topic("largest", queues=1)
    largest = NOISE * (LIMIT // len(NOISE))
    never = 2 * LIMIT
    with team.producer(message_bytes_max=never, compress_over=never) as producer:
        (sent,) = producer.send_bodies(topic, largest)
        assert sent.status == "SEND_OK"
        with pytest.raises(JavaHostFailed, match=r"(?s)MQBrokerException.*CODE: 13 "):
            producer.send_bodies(topic, largest + b"!")
    (received,) = read_back(team, topic, 1)
    assert received.body == largest


def test_sends_may_jump_the_queue(team: Team) -> None:
    """A producer with a VIP channel sends to the port two below the broker's own."""
    topic = team.topic("vip")
    with team.producer(vip=True) as producer:
        sent = producer.send(*numbered(topic, 4))
        assert {one.status for one in sent} == {"SEND_OK"}
        received = read_back(team, topic, 4)
    assert {one.body for one in received} == {b"0", b"1", b"2", b"3"}
