"""What Spark's driver and tasks ask of a cluster, asked of Java's nameserver and brokers."""

from itertools import islice
from pathlib import Path

import pytest

from orbitmq import blocking
from orbitmq.errors import ConnectFailed, NoRoute
from orbitmq.message.model import Message, MessageQueue
from orbitmq.spark.cluster.cluster import Cluster
from orbitmq.spark.offsets import Range, Slice
from orbitmq.spark.options.options import Access, Topics
from orbitmq.spark.pulling.puller import PullOptions, pull
from orbitmq.wire.bodies.static_topic import TopicConfigAndQueueMapping
from orbitmq.wire.headers.admin import GetTopicConfig
from orbitmq.wire.headers.offset import GetMaxOffset, GetMaxOffsetAnswer
from tests.interop import counterparts
from tests.interop.conftest import decline
from tests.interop.java import Java
from tests.interop.java_cluster import JavaBroker, JavaCluster
from tests.interop.team import Team
from tests.interop.waiting import until
from tests.spark.fake_queue import offsets_in


def access(cluster: JavaCluster) -> Access:
    return Access(nameserver=str(cluster.nameserver.address))


def test_queues_offsets_and_progress(java_cluster_540: JavaCluster) -> None:
    topic = java_cluster_540.create_topic("spark-cluster")
    with Cluster(access(java_cluster_540)) as cluster:
        queues = cluster.queues(topic)
        assert queues
        assert topic in cluster.topics()
        assert cluster.resolve(Topics(pattern=f"{topic}|DefaultCluster|broker-.*")) == queues
        assert set(cluster.bounds(queues).values()) == {Range(0, 0)}
        send(java_cluster_540, queues[0], 3)
        # A broker acknowledges a message before its queue has it.
        until(
            lambda: cluster.bounds(queues)[queues[0]].max == 3, what="three messages in the queue"
        )
        assert cluster.offsets_at(queues, 0) == dict.fromkeys(queues, 0)
        assert cluster.offsets_at(queues, 2**62) == {**dict.fromkeys(queues, 0), queues[0]: 3}
        assert cluster.committed("TOOLS_CONSUMER", queues) == dict.fromkeys(queues)
        cluster.commit("TOOLS_CONSUMER", {queues[0]: 2})
        assert cluster.committed("TOOLS_CONSUMER", queues[:1]) == {queues[0]: 2}
        with pytest.raises(NoRoute, match=f"did you mean {topic}"):
            cluster.queues(f"{topic}s")


def test_tools_show_the_lag_of_a_group_without_consumers(
    java_540: Java, java_cluster_540: JavaCluster
) -> None:
    topic = java_cluster_540.create_topic("spark-lag", queues=1)
    running = java_cluster_540
    team = Team(java_540, str(running.nameserver.address), [str(running.broker.address)])
    with Cluster(access(java_cluster_540)) as cluster:
        (queue,) = cluster.queues(topic)
        send(java_cluster_540, queue, 3)
        until(lambda: cluster.bounds([queue])[queue].max == 3, what="three messages in the queue")
        cluster.commit("spark-lag", {queue: 1})  # it never pulled: the broker makes it known now
        assert cluster.committed("spark-lag", [queue]) == {queue: 1}
    until(lambda: running.nameserver.has_route("%RETRY%spark-lag"), what="the route of its retries")
    printed = team.mqadmin("consumerProgress", "-g", "spark-lag")
    (row,) = [line.split() for line in printed.splitlines() if line.startswith(topic)]
    assert row[2:6] == ["0", "3", "1", "2"]


def test_a_topic_that_keeps_the_last_message_of_each_key_says_so(
    java_cluster_540: JavaCluster,
) -> None:
    broker = java_cluster_540.broker
    broker.create_topic("spark-compacted", attributes="+cleanup.policy=COMPACTION")
    with broker.connect() as connection:
        answer = connection.request(GetTopicConfig(topic="spark-compacted"))
    config = TopicConfigAndQueueMapping.from_json(answer.body)
    assert config.attributes == {"cleanup.policy": "COMPACTION"}


def test_keys_are_found_by_the_index(java_cluster_540: JavaCluster) -> None:
    topic = java_cluster_540.create_topic("spark-keys")
    with Cluster(access(java_cluster_540)) as cluster:
        queues = cluster.queues(topic)
        send(java_cluster_540, queues[0], 3)
        nowhere = {queue: list[int]() for queue in queues}
        # The index is written behind the queue.
        found = {**nowhere, queues[0]: [1]}
        until(lambda: cluster.offsets_of_key(queues, "o-1") == found, what="the key in the index")
        assert cluster.offsets_of_key(queues, "o-99") == nowhere


def test_a_replica_serves_while_the_primary_is_down(tmp_path: Path) -> None:
    why = counterparts.missing_for("5.4.0")
    if why is not None:
        decline(why)
    settings = {"brokerRole": "ASYNC_MASTER"}
    with JavaCluster("5.4.0", tmp_path / "primary", broker_settings=settings) as running:
        with (
            JavaBroker(
                "5.4.0",
                tmp_path / "replica",
                nameserver=running.nameserver.address,
                settings={"brokerId": 1, "brokerRole": "SLAVE", "slaveReadEnable": "true"},
            ) as replica,
            Cluster(access(running)) as cluster,
        ):
            topic = running.create_topic("spark-replica")
            replica.create_topic(topic)  # which it would have from its primary, in a minute
            queue = cluster.queues(topic)[0]
            send(running, queue, 3)
            until(lambda: at_replica(cluster, queue, replica) == 3, what="a replica that is level")
            assert cluster.bounds([queue]) == {queue: Range(0, 3)}
            running.broker.kill()
            assert cluster.bounds([queue]) == {queue: Range(0, 3, is_replica=True)}
            assert cluster.connection(queue).connection.peer == str(replica.address)
            assert cluster.connection(queue).broker_id == 1
            # It serves what it has; only the primary can report a loss.
            answers = pull(
                cluster, Slice(queue, 0, 5), PullOptions(group="TOOLS_CONSUMER"), pause_for=no_pause
            )
            assert len(list(offsets_in(islice(answers, 1)))) == 3
            with pytest.raises((ConnectFailed, NoRoute)):  # the nameserver may have seen it go
                list(answers)


def no_pause(_wait_ms: int) -> None:
    """Don't wait."""


def at_replica(cluster: Cluster, queue: MessageQueue, replica: JavaBroker) -> int:
    """Return where a queue ends at the replica; 0 if that is not in the route."""
    cluster.forget(queue)
    connection = cluster.connection(queue, broker_id=1).connection
    if connection.peer != str(replica.address):
        return 0
    answer = connection.request(GetMaxOffset(topic=queue.topic, queue_id=queue.queue_id))
    return answer.read(GetMaxOffsetAnswer).offset


def send(running: JavaCluster, queue: MessageQueue, count: int) -> None:
    nameserver = str(running.nameserver.address)
    with blocking.Producer("spark-cluster", nameserver=nameserver) as producer:
        for number in range(count):
            producer.send(Message(queue.topic, b"x", keys=[f"o-{number}"]), queue=queue)
