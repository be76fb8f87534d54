"""Messages that come later on our broker: delayed by Java's producer, or refused by its consumer.

Each delay level of the cluster is a second.
"""

from tests.interop.operations import Outgoing
from tests.interop.team import Team, group_of
from tests.interop.waiting import until

LEVEL_MS = 1_000


def test_a_delayed_message_comes_when_it_is_due(team: Team) -> None:
    topic = team.topic("delayed")
    with team.consumer(topic) as consumer, team.producer() as producer:
        producer.send(Outgoing(topic=topic, body=b"later", tags="t", keys="k", delay_level=2))
        producer.send_bodies(topic, b"now")
        found = {one.body: one for one in consumer.wait_for(2)}
    now, later = found[b"now"], found[b"later"]
    assert later.stored_ms >= later.born_ms + LEVEL_MS
    assert later.stored_ms > now.stored_ms
    assert later.topic == topic
    assert (later.properties["TAGS"], later.properties["KEYS"]) == ("t", "k")
    assert later.properties["REAL_TOPIC"] == topic


def test_a_refused_message_comes_again(team: Team) -> None:
    topic = team.topic("refused")
    with team.consumer(topic, refusals=2) as consumer, team.producer() as producer:
        (sent,) = producer.send_bodies(topic, b"not yet")
        received = consumer.wait_for(3)
    assert [one.reconsume_times for one in received] == [0, 1, 2]
    assert {one.body for one in received} == {b"not yet"}
    assert {one.message_id for one in received} == {sent.message_id}
    assert {one.topic for one in received} == {topic}  # the client shows the topic it subscribed


def test_what_is_refused_too_often_is_a_dead_letter(team: Team) -> None:
    topic = team.topic("hopeless")
    group = group_of(topic)
    with team.producer() as producer:
        (sent,) = producer.send_bodies(topic, b"never")
    with team.consumer(topic, refusals=99, max_reconsume_times=1) as consumer:
        assert [one.reconsume_times for one in consumer.wait_for(2)] == [0, 1]
        dead_letters = f"%DLQ%{group}"
        until(lambda: dead_letters in team.mqadmin("topicList"), what="a topic for dead letters")
        with team.consumer(dead_letters, group=f"{group}-undertaker") as undertaker:
            (dead,) = undertaker.wait_for(1)
    assert (dead.body, dead.topic, dead.message_id) == (b"never", dead_letters, sent.message_id)
    assert dead.properties["RETRY_TOPIC"] == topic
    assert dead.properties["ORIGIN_MESSAGE_ID"] == sent.offset_id


def test_an_orderly_consumer_gives_up_in_order(team: Team) -> None:
    topic = team.topic("hopeless-ordered", queues=1)
    with team.producer() as producer:
        producer.send_bodies(topic, b"bad", b"good")
    with team.consumer(topic, kind="orderly", refusals=99, max_reconsume_times=1) as consumer:
        received = consumer.wait_for(4)
    assert [one.body for one in received] == [b"bad", b"bad", b"good", b"good"]
