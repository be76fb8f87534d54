"""Java's consumers on our broker: each kind, tags, groups that share, and offsets that stay."""

import pytest

from orbitmq import embedded
from orbitmq.net.address import Address
from orbitmq.net.blocking import BlockingConnection
from orbitmq.wire.bodies.running import ConsumerRunningInfo
from orbitmq.wire.codes import ResponseCode
from orbitmq.wire.headers.heartbeat import GetConsumerRunningInfo
from tests.interop.clients import Consumer
from tests.interop.java import Java
from tests.interop.java_server import PATIENT
from tests.interop.operations import Kind, Outgoing, Received
from tests.interop.team import Team, group_of
from tests.interop.waiting import until

BROKER = "broker-a"


def send_numbers(team: Team, topic: str, numbers: range) -> None:
    with team.producer() as producer:
        producer.send_bodies(topic, *(b"%d" % number for number in numbers))


def bodies_of(numbers: range) -> set[bytes]:
    return {b"%d" % number for number in numbers}


@pytest.mark.parametrize("kind", ["concurrent", "orderly", "lite"])
def test_what_was_sent_before_and_after_is_received_once(team: Team, kind: Kind) -> None:
    topic = team.topic(f"read-{kind}")
    send_numbers(team, topic, range(10))
    with team.consumer(topic, kind=kind) as consumer:
        consumer.wait_for(10)
        send_numbers(team, topic, range(10, 20))  # its pulls are held: they are woken
        received = consumer.wait_for(20)
    assert len(received) == 20
    assert {one.body for one in received} == bodies_of(range(20))


@pytest.mark.parametrize("kind", ["concurrent", "orderly", "lite"])
def test_a_group_goes_on_where_it_stopped(team: Team, kind: Kind) -> None:
    topic = team.topic(f"resumed-{kind}")
    send_numbers(team, topic, range(5))
    with team.consumer(topic, kind=kind) as consumer:
        consumer.wait_for(5)
    send_numbers(team, topic, range(5, 10))
    with team.consumer(topic, kind=kind) as consumer:
        received = consumer.wait_for(5)
    assert {one.body for one in received} == bodies_of(range(5, 10))


def test_tags_select(team: Team) -> None:
    topic = team.topic("tagged")
    with team.producer() as producer:
        producer.send(
            *(Outgoing(topic=topic, body=tag.encode(), tags=tag) for tag in ("a", "b", "c", "a"))
        )
        with team.consumer(topic, "a || c") as some, team.consumer(topic, group="all") as every:
            assert sorted(one.body for one in some.wait_for(3)) == [b"a", b"a", b"c"]
            assert sorted(one.body for one in every.wait_for(4)) == [b"a", b"a", b"b", b"c"]
            producer.send(Outgoing(topic=topic, body=b"b", tags="b"))
            producer.send(Outgoing(topic=topic, body=b"later", tags="c"))
            assert [one.body for one in some.wait_for(4)[3:]] == [b"later"]


def test_an_orderly_consumer_keeps_the_order_of_each_queue(team: Team) -> None:
    """What it refuses comes again before the next of its queue; the broker lends it the queues."""
    topic = team.topic("ordered")
    with team.producer() as producer:
        for number in range(10):
            for shard in ("alice", "bob"):
                message = Outgoing(topic=topic, body=b"%d" % number)
                producer.send(message, way="selector", shard=shard)
    with team.consumer(topic, kind="orderly", refusals=1) as consumer:
        received = consumer.wait_for(40)
    for queue_id in {one.queue_id for one in received}:
        offsets = [one.queue_offset for one in received if one.queue_id == queue_id]
        assert offsets == sorted(offsets)
        assert all(offsets.count(offset) == 2 for offset in offsets)


def test_broadcasting_gives_each_consumer_everything(team: Team) -> None:
    topic = team.topic("broadcast")
    with (
        team.consumer(topic, broadcasting=True) as first,
        team.consumer(topic, broadcasting=True) as second,
    ):
        send_numbers(team, topic, range(8))
        for consumer in (first, second):
            assert {one.body for one in consumer.wait_for(8)} == bodies_of(range(8))


def test_two_consumers_share_and_one_takes_over(team: Team) -> None:
    topic = team.topic("shared", queues=8)
    with team.consumer(topic) as first:
        with team.consumer(topic) as second:
            until(lambda: queues_held(team, topic, first, second) == [4, 4], what="each holds four")
            send_numbers(team, topic, range(16))
            until(
                lambda: len(first.received()) + len(second.received()) >= 16, what="all is consumed"
            )
            parts = [{one.queue_id for one in each.received()} for each in (first, second)]
            assert [len(part) for part in parts] == [4, 4]
            assert parts[0].isdisjoint(parts[1])
            before = len(first.received())
        until(lambda: queues_held(team, topic, first) == [8], what="one holds all")
        send_numbers(team, topic, range(16, 32))
        later = first.wait_for(before + 16)[before:]
    assert {one.body for one in later} == bodies_of(range(16, 32))


def test_the_broker_divides_the_queues(
    java_540: Java, our_cluster: embedded.RunningCluster
) -> None:
    team = Team(java_540, our_cluster.nameserver, our_cluster.brokers)
    topic = team.topic("divided", queues=4)
    with (
        team.consumer(topic, client_rebalance=False) as first,
        team.consumer(topic, client_rebalance=False) as second,
    ):
        until(lambda: queues_held(team, topic, first, second) == [2, 2], what="each holds two")
        send_numbers(team, topic, range(8))
        first.wait_for(4)
        second.wait_for(4)
        received = [*first.bodies(), *second.bodies()]
    assert sorted(received) == sorted(bodies_of(range(8)))


def queues_held(team: Team, topic: str, *consumers: Consumer) -> list[int]:
    """Return how many queues of a topic each consumer holds, as they tell whoever asks a broker."""
    held = []
    with BlockingConnection(Address.parse(team.brokers[0]), settings=PATIENT) as connection:
        for consumer in consumers:
            answer = connection.request(
                GetConsumerRunningInfo(consumer_group=group_of(topic), client_id=consumer.client_id)
            )
            assert answer.code == ResponseCode.SUCCESS, answer
            queues = ConsumerRunningInfo.from_json(answer.body).mq_table
            held.append(sum(queue.topic == topic for queue in queues))
    return held


def test_the_consumer_of_old_pulls_what_it_names(team: Team) -> None:
    topic = team.topic("pulled", queues=1)
    with team.producer() as producer:
        producer.send(
            *(
                Outgoing(topic=topic, body=b"%d" % number, tags="odd" if number % 2 else "even")
                for number in range(6)
            )
        )
    with team.consumer("", kind="pull", group=group_of(topic)) as consumer:
        found = consumer.pull(topic, 0, 2, broker=BROKER)
        odd = consumer.pull(topic, 0, 0, broker=BROKER, expression="odd")
        nothing = consumer.pull(topic, 0, 6, broker=BROKER)
        beyond = consumer.pull(topic, 0, 100, broker=BROKER)
    assert (found.status, found.next_offset, found.max_offset) == ("FOUND", 6, 6)
    assert bodies(found.messages) == [b"2", b"3", b"4", b"5"]
    assert bodies(odd.messages) == [b"1", b"3", b"5"]
    assert (nothing.status, nothing.next_offset) == ("NO_NEW_MSG", 6)
    assert (beyond.status, beyond.next_offset) == ("OFFSET_ILLEGAL", 6)


def bodies(messages: list[Received]) -> list[bytes]:
    return [message.body for message in messages]
