"""Keys found by the indexes of brokers, and incomplete indexes."""

import pytest

from orbitmq import blocking, embedded
from orbitmq.message.model import Message, MessageQueue
from orbitmq.spark.cluster import key_search
from orbitmq.spark.cluster.cluster import Cluster
from orbitmq.spark.options.options import Access
from tests.spark.topics import create, fill


def test_a_key_is_found_on_all_brokers(shared_cluster: embedded.RunningCluster) -> None:
    topic = create(shared_cluster, "ka")
    a, b = MessageQueue(topic, "broker-a", 1), MessageQueue(topic, "broker-b", 0)
    fill(shared_cluster, a, [b"other", b"none"], keys=["o-1"])
    fill(shared_cluster, a, [b"one", b"two"], keys=["x", "o-42"])
    fill(shared_cluster, b, [b"three"], keys=["o-42"])
    with Cluster(Access(nameserver=shared_cluster.nameserver)) as cluster:
        queues = cluster.queues(topic)
        found = cluster.offsets_of_key(queues, "o-42")
        assert found == {**{queue: [] for queue in queues}, a: [2, 3], b: [0]}
        assert cluster.offsets_of_key([b], "o-42") == {b: [0]}


def test_a_key_without_messages_is_found_nowhere(shared_cluster: embedded.RunningCluster) -> None:
    topic = create(shared_cluster, "kb", queues=1)
    queue = MessageQueue(topic, "broker-a", 0)
    fill(shared_cluster, queue, [b"one"])
    with Cluster(Access(nameserver=shared_cluster.nameserver)) as cluster:
        both = cluster.queues(topic)
        assert cluster.offsets_of_key(both, "o-42") == {one: [] for one in both}


def test_more_messages_than_a_broker_returns_are_incomplete(
    shared_cluster: embedded.RunningCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = create(shared_cluster, "kc", queues=1)
    queue = MessageQueue(topic, "broker-a", 0)
    fill(shared_cluster, queue, [b"1", b"2", b"3"], keys=["k"])
    with Cluster(Access(nameserver=shared_cluster.nameserver)) as cluster:
        assert cluster.offsets_of_key([queue], "k") == {queue: [0, 1, 2]}
        monkeypatch.setattr(key_search, "_FOUND_MAX", 3)
        assert cluster.offsets_of_key([queue], "k") is None
        monkeypatch.setattr(key_search, "_FOUND_MAX", 64)
        monkeypatch.setattr(key_search, "_BYTES_MAX", 10)
        assert cluster.offsets_of_key([queue], "k") is None


def test_a_broker_without_an_index_is_incomplete() -> None:
    with embedded.start(settings={"messageIndexEnable": "false"}) as running:
        with blocking.Producer("g", nameserver=running.nameserver) as producer:
            queue = producer.send(Message("kd", b"x", keys=["k"])).queue
        with Cluster(Access(nameserver=running.nameserver)) as cluster:
            assert cluster.offsets_of_key([queue], "k") is None
