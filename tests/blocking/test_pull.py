"""The pull consumer for threads: the same names and errors, without await."""

from datetime import UTC, datetime

import pytest

from orbitmq.blocking import Admin, Producer, PullConsumer
from orbitmq.client.consumer import pull
from orbitmq.embedded import RunningCluster
from orbitmq.errors import InvalidInput, NotRunning
from orbitmq.message.model import Message, MessageQueue

QUEUE = MessageQueue("pulled", "broker-a", 1)


@pytest.fixture(scope="module")
def stocked(cluster: RunningCluster) -> RunningCluster:
    """The cluster, with ten messages in one queue."""
    with Admin(nameserver=cluster.nameserver) as admin:
        admin.create_topic("pulled", queues=2)
    with Producer("shop", nameserver=cluster.nameserver) as producer:
        producer.send_many([Message("pulled", b"%d" % n) for n in range(10)], queue=QUEUE)
    return cluster


def a_consumer(cluster: RunningCluster, group: str) -> PullConsumer:
    return PullConsumer(group, nameserver=cluster.nameserver, consume_from="first", keep_open_ms=0)


def test_it_has_all_of_the_async_one() -> None:
    ours = {name for name in dir(pull.PullConsumer) if not name.startswith("_")}
    assert ours - {"wait"} <= set(dir(PullConsumer))


def test_it_polls_seeks_and_commits(stocked: RunningCluster) -> None:
    with a_consumer(stocked, "audit") as consumer:
        consumer.subscribe("pulled")
        assert consumer.assignment == set(consumer.queues("pulled"))
        assert len(consumer.poll(timeout_ms=10_000, max_messages=4)) == 4
        consumer.commit()
        assert (consumer.committed(QUEUE), consumer.position(QUEUE)) == (4, 4)
        assert (consumer.begin_offset(QUEUE), consumer.end_offset(QUEUE)) == (0, 10)
        assert consumer.offsets_for_time(QUEUE, datetime(2020, 1, 1, tzinfo=UTC)) == 0
        consumer.seek(QUEUE, 8)
        consumer.pause()
        assert consumer.poll(timeout_ms=0) == []
        assert consumer.paused == consumer.assignment
        consumer.resume()
        assert [one.queue_offset for one in consumer.poll(timeout_ms=10_000)] == [8, 9]
    with pytest.raises(NotRunning, match="Pull consumer audit is closed; use 'with' or start"):
        consumer.poll()


def test_an_iteration_that_fails_leaves_its_message(stocked: RunningCluster) -> None:
    def fail(consumer: PullConsumer) -> None:
        with consumer:
            consumer.assign([QUEUE])
            for message in consumer:
                if message.queue_offset == 3:
                    raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail(a_consumer(stocked, "failing"))
    with a_consumer(stocked, "failing") as consumer:
        assert consumer.committed(QUEUE) == 3


def test_a_listener_may_seek(stocked: RunningCluster) -> None:
    consumer = a_consumer(stocked, "seeking")

    @consumer.on_assignment
    def seek(given: frozenset[MessageQueue], _taken: frozenset[MessageQueue]) -> None:
        if QUEUE in given:
            consumer.seek(QUEUE, 9)

    with consumer:
        with pytest.raises(InvalidInput, match="reads no queue"):
            consumer.poll()
        consumer.subscribe("pulled")
        assert [one.queue_offset for one in consumer.poll(timeout_ms=10_000)] == [9]
