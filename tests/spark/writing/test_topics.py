"""Topics that a write creates have all their queues before the first task runs."""

import logging
from collections.abc import Iterator

import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

from orbitmq import embedded
from orbitmq.blocking import Admin
from orbitmq.client.producer.sending.queue_choice import sharded
from orbitmq.embedded import RunningCluster
from orbitmq.errors import NoRoute, OrbitError
from orbitmq.message.model import MessageQueue
from orbitmq.spark.options.options import write_options
from orbitmq.spark.writing import topics
from orbitmq.spark.writing.producers import close_producers, producer_for
from orbitmq.spark.writing.topics import ensure_topic
from orbitmq.spark.writing.writer import RocketMQWriter
from tests.interop.waiting import until
from tests.spark.stored import stored

KEYED = StructType([StructField("value", BinaryType()), StructField("sharding_key", StringType())])
QUEUES = [
    MessageQueue("orders", broker, number)
    for broker in ("broker-a", "broker-b")
    for number in range(4)
]


@pytest.fixture
def cluster() -> Iterator[RunningCluster]:
    with embedded.start(brokers=2) as running:
        yield running
        close_producers()


def queues_of(cluster: RunningCluster, topic: str) -> set[MessageQueue]:
    with Admin(nameserver=cluster.nameserver) as admin:
        try:
            return set(admin.queues(topic))
        except NoRoute:
            return set()


def test_a_missing_topic_is_created_on_all_brokers(cluster: RunningCluster) -> None:
    ensure_topic(write_options({"nameserver": cluster.nameserver, "topic": "orders"}), "orders")
    assert queues_of(cluster, "orders") == set(QUEUES)


def test_a_topic_that_is_there_stays_as_it_is(cluster: RunningCluster) -> None:
    with Admin(nameserver=cluster.nameserver) as admin:
        admin.create_topic("orders", queues=2)
    ensure_topic(write_options({"nameserver": cluster.nameserver, "topic": "orders"}), "orders")
    assert len(queues_of(cluster, "orders")) == 4


def test_tasks_that_start_one_after_another_send_a_key_to_one_queue(
    cluster: RunningCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Task:
        def partitionId(self) -> int:  # noqa: N802
            return 0

    # With the queues of its own broker alone, this key would go to another queue.
    key = next(
        key
        for key in map("customer-{}".format, range(100))
        if sharded(QUEUES, key) != sharded(QUEUES[4:], key)
        and sharded(QUEUES, key).broker_name == "broker-b"
    )
    monkeypatch.setattr(TaskContext, "get", Task)
    options = write_options({"nameserver": cluster.nameserver, "topic": "orders"})
    writer = RocketMQWriter(options, KEYED, overwrite=False)
    for _ in range(2):
        close_producers()  # the next task runs in another process
        writer.write(iter([pa.record_batch({"value": [b"paid"], "sharding_key": [key]})]))
        until(lambda: queues_of(cluster, "orders"), what="a route of the topic")
    places = {(one.broker_name, one.queue_id) for one in stored(cluster, "orders")}
    queue = sharded(QUEUES, key)
    assert places == {(queue.broker_name, queue.queue_id)}


def test_without_the_right_to_create_it_the_first_sends_do(
    cluster: RunningCluster, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class User(Admin):
        def create_topic(self, *_arguments: object, **_options: object) -> None:  # type: ignore[override]
            raise OrbitError("no permission")

    monkeypatch.setattr(topics, "Admin", User)
    options = write_options({"nameserver": cluster.nameserver, "topic": "orders"})
    with caplog.at_level(logging.WARNING, "orbitmq.spark"):
        ensure_topic(options, "orders")
    assert "create it before the write: no permission" in caplog.text
    assert len(producer_for(options).queues("orders", must_exist=False)) == 8
