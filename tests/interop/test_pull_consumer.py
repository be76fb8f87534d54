"""Our pull consumer on Java's brokers, and in one group with Java's lite pull consumer."""

from collections.abc import Iterator

import pytest

from orbitmq import embedded
from orbitmq.blocking import Admin, Producer, PullConsumer
from orbitmq.message.model import Message, MessageQueue, StoredMessage
from tests.interop.clients import Consumer
from tests.interop.java import Java
from tests.interop.java_cluster import JavaCluster
from tests.interop.team import Team, group_of
from tests.interop.waiting import until

QUEUES = 8


@pytest.fixture(params=["ours", "java"])
def team_540(
    request: pytest.FixtureRequest, java_540: Java, our_cluster: embedded.RunningCluster
) -> Iterator[Team]:
    """Java's clients on our broker, and on Java's."""
    if request.param == "ours":
        yield Team(java_540, our_cluster.nameserver, our_cluster.brokers)
    else:
        cluster: JavaCluster = request.getfixturevalue("java_cluster_540")
        addresses = str(cluster.nameserver.address), str(cluster.broker.address)
        yield Team(java_540, addresses[0], [addresses[1]])


def a_consumer(nameserver: str, topic: str, *, auto_commit: bool = True) -> PullConsumer:
    return PullConsumer(
        group_of(topic),
        nameserver=nameserver,
        consume_from="first",
        keep_open_ms=0,
        auto_commit=auto_commit,
    )


def send_numbers(nameserver: str, topic: str, numbers: range, queues: int) -> None:
    """Send numbers to the queues in turn."""
    with Producer("senders", nameserver=nameserver) as producer:
        found = sorted(producer.queues(topic))
        for number in range(queues):
            bodies = [b"%d" % one for one in numbers if one % queues == number]
            producer.send_many([Message(topic, body) for body in bodies], queue=found[number])


def polled(consumer: PullConsumer, count: int) -> list[StoredMessage]:
    messages: list[StoredMessage] = []

    def enough() -> bool:
        messages.extend(consumer.poll(timeout_ms=200))
        return len(messages) >= count

    until(lambda: enough() or None, what=f"{count} messages")
    return messages


def bodies(messages: list[StoredMessage]) -> list[int]:
    return sorted(int(one.body) for one in messages)


def test_it_reads_seeks_and_commits_on_javas_broker(java_cluster: JavaCluster) -> None:
    topic = java_cluster.create_topic("polled", queues=4)
    nameserver = str(java_cluster.nameserver.address)
    send_numbers(nameserver, topic, range(40), 4)
    with a_consumer(nameserver, topic, auto_commit=False) as consumer:
        consumer.subscribe(topic)
        assert len(consumer.assignment) == 4
        assert bodies(polled(consumer, 40)) == list(range(40))
        queue = min(consumer.assignment)
        assert (consumer.begin_offset(queue), consumer.end_offset(queue)) == (0, 10)
        assert consumer.committed(queue) is None or consumer.committed(queue) == 0
        consumer.seek(queue, 4)
        assert len(polled(consumer, 6)) == 6
        consumer.commit()
        consumer.seek_to_time(0)
        assert bodies(polled(consumer, 40)) == list(range(40))
    send_numbers(nameserver, topic, range(40, 44), 4)
    with a_consumer(nameserver, topic) as consumer:
        assert consumer.committed(queue) == 10
        consumer.assign(consumer.queues(topic))
        assert bodies(polled(consumer, 4)) == list(range(40, 44))


def test_a_group_of_a_java_member_and_ours_shares_the_queues(team_540: Team) -> None:
    team = team_540
    topic = team.topic("mixed", queues=QUEUES)
    with a_consumer(team.nameserver, topic) as ours:
        ours.subscribe(topic)
        assert len(ours.assignment) == QUEUES
        with team.consumer(topic, kind="lite") as java:
            until(lambda: len(ours.assignment) == QUEUES // 2 or None, what="half of the queues")
            send_numbers(team.nameserver, topic, range(80), QUEUES)
            mine = polled(ours, 40)
            theirs = java.wait_for(40)
            queues = {one.queue_id for one in theirs}
            assert queues.isdisjoint(one.queue_id for one in mine)
            assert sorted([*bodies(mine), *(int(one.body) for one in theirs)]) == list(range(80))
            ours.commit()
            # The other one commits after it has handed over what it got.
            until(lambda: lag(team, topic) == 0 or None, what="both have committed")
            check_what_operators_see(team, topic, ours, java)
        until(lambda: len(ours.assignment) == QUEUES or None, what="all queues again")
        send_numbers(team.nameserver, topic, range(80, 88), QUEUES)
        assert bodies(polled(ours, 8)) == list(range(80, 88))


def lag(team: Team, topic: str) -> int:
    with Admin(nameserver=team.nameserver) as admin:
        return admin.progress(group_of(topic), topic).lag


def check_what_operators_see(team: Team, topic: str, ours: PullConsumer, java: Consumer) -> None:
    """Check that mqadmin shows both members, and what ours has committed and owns."""
    shown = team.mqadmin("consumerConnection", "-g", group_of(topic))
    assert ours.client_id in shown
    assert java.client_id in shown
    progress = team.mqadmin("consumerProgress", "-g", group_of(topic))
    for queue in ours.assignment:
        row = next(line.split() for line in progress.splitlines() if is_row(line, queue))
        assert row[3:5] == ["10", "10"], row  # the broker's offset, and the consumer's
    info = team.mqadmin("consumerStatus", "-g", group_of(topic), "-i", ours.client_id)
    assert info.count(topic) >= QUEUES // 2


def is_row(line: str, queue: MessageQueue) -> bool:
    return line.split()[:3] == [queue.topic, queue.broker_name, str(queue.queue_id)]
