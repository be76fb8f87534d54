"""The target of copies: its ends, the ids in it, and sends that are not repeated."""

import pytest

from orbitmq import Message
from orbitmq.blocking import Admin, Producer
from orbitmq.embedded import RunningCluster
from orbitmq.errors import DataLost, PartlySent, SendFailed
from orbitmq.message.model import MessageQueue
from orbitmq.spark.jobs.replaying.target import ClusterTarget, target_queues
from orbitmq.spark.options.options import WriteOptions, write_options


@pytest.fixture
def options(shared_cluster: RunningCluster) -> WriteOptions:
    return write_options({"nameserver": shared_cluster.nameserver, "sendTimeoutMs": "3000"})


def test_a_missing_topic_is_made(options: WriteOptions, shared_cluster: RunningCluster) -> None:
    found = target_queues(options, "made", 3)
    assert sorted(found) == [
        MessageQueue("made", name, number)
        for name in ("broker-a", "broker-b")
        for number in range(3)
    ]
    with Admin(nameserver=shared_cluster.nameserver) as admin:
        assert set(admin.queues("made")) == set(found)
    assert target_queues(options, "made", 9) == found


def test_ends_and_ids(options: WriteOptions, shared_cluster: RunningCluster) -> None:
    queue = target_queues(options, "ids", 2)[1]
    target = ClusterTarget(options)
    assert target.end(queue) == 0
    with Producer("other", nameserver=shared_cluster.nameserver) as producer:
        producer.send_many([Message("ids", b"x")] * 4, queue=queue)
    copies = [Message("ids", b"y", properties={"ORBIT_ID": f"id-{at}"}) for at in range(50)]
    assert target.send(copies[:30], queue) == 34
    assert target.send(copies[30:], queue) == target.end(queue) == 54
    assert target.ids(queue, 0) == {f"id-{at}" for at in range(50)}
    assert target.ids(queue, 34) == {f"id-{at}" for at in range(30, 50)}
    assert target.ids(queue, 54) == set()
    with pytest.raises(DataLost, match="another ledger"):
        target.ids(queue, 55)


def test_a_send_that_fails_is_not_repeated(options: WriteOptions) -> None:
    gone = MessageQueue("ids", "broker-z", 0)
    with pytest.raises((SendFailed, PartlySent)):
        ClusterTarget(options).send([Message("ids", b"x")], gone)
