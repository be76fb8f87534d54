"""The newest Java client on our broker: it sends and consumes like its elders."""

import pytest

from orbitmq import embedded
from tests.interop.java import Java
from tests.interop.operations import Kind, Outgoing
from tests.interop.team import Team


@pytest.fixture
def newest(java_550: Java, our_cluster: embedded.RunningCluster) -> Team:
    return Team(java_550, our_cluster.nameserver, our_cluster.brokers)


@pytest.mark.parametrize("kind", ["concurrent", "orderly", "lite"])
def test_the_newest_client_sends_and_consumes(newest: Team, kind: Kind) -> None:
    topic = newest.topic(f"newest-{kind}")
    messages = [Outgoing(topic=topic, body=b"%d" % number, tags="t") for number in range(8)]
    with newest.producer() as producer:
        assert {one.status for one in producer.send(*messages)} == {"SEND_OK"}
        producer.send(*messages, way="batch")
    with newest.consumer(topic, "t", kind=kind) as consumer:
        received = consumer.wait_for(16)
    assert sorted(one.body for one in received) == sorted(2 * [one.body for one in messages])


def test_the_newest_client_is_given_again_what_it_refused(newest: Team) -> None:
    topic = newest.topic("newest-refused")
    with newest.producer() as producer, newest.consumer(topic, refusals=1) as consumer:
        producer.send(Outgoing(topic=topic, body=b"later", delay_level=1))
        assert [one.reconsume_times for one in consumer.wait_for(2)] == [0, 1]
