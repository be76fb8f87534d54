"""Our producer on RocketMQ 5.5.0, the newest release: a smoke test, and a broker that goes."""

import asyncio
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from orbitmq.client.producer.producer import Producer
from orbitmq.client.producer.transactions import TransactionState
from orbitmq.message.model import Message, SendReceipt, SendStatus
from orbitmq.wire.bodies.route import TopicRouteData
from orbitmq.wire.headers.route import GetRouteInfo
from tests.interop import counterparts
from tests.interop.conftest import decline
from tests.interop.java import Java
from tests.interop.java_cluster import JavaBroker, JavaCluster
from tests.interop.java_server import Settings
from tests.interop.team import Team
from tests.interop.waiting import until

VERSION = counterparts.NEWEST_VERSION
PACE_S = 0.005
"""Between messages: they flow all the time, and are not a load."""
PATIENT_MS = 20_000
"""A machine that runs several of these at once may take its time."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaCluster]:
    """A nameserver and a broker of the newest release."""
    why = counterparts.missing_for(VERSION)
    if why is not None:
        decline(why)
    with JavaCluster(VERSION, tmp_path_factory.mktemp(f"cluster-{VERSION}")) as running:
        yield running


def test_each_way_to_send_reaches_the_newest_consumer(cluster: JavaCluster, java_550: Java) -> None:
    nameserver = str(cluster.nameserver.address)
    team = Team(java_550, nameserver, [str(cluster.broker.address)])
    topic = cluster.create_topic("newest-ways")

    async def main() -> list[SendReceipt]:
        async with Producer("ours", nameserver=nameserver, send_timeout_ms=PATIENT_MS) as producer:
            receipts = [
                await producer.send(Message(topic, b"plain", tags="paid", keys=["o-42"])),
                await producer.send(Message(topic, b"large" * 5_000)),
                await producer.send(Message(topic, b"keyed"), sharding_key="alice"),
                *await producer.send_many([Message(topic, b"one"), Message(topic, b"two")]),
            ]
            await producer.send_oneway(Message(topic, b"oneway"))
            async with producer.transaction(Message(topic, b"committed")) as transaction:
                pass
            assert transaction.state is TransactionState.COMMIT
            return receipts

    receipts = asyncio.run(main())
    assert {receipt.status for receipt in receipts} == {SendStatus.SEND_OK}
    with team.consumer(topic) as consumer:
        received = {one.body: one for one in consumer.wait_for(7)}
    assert received.keys() == {
        *(b"plain", b"large" * 5_000, b"keyed", b"one", b"two", b"oneway", b"committed")
    }
    assert received[b"plain"].message_id == receipts[0].message_id
    assert received[b"two"].message_id == receipts[-1].message_id


def test_a_broker_that_stops_gracefully_costs_no_send(
    cluster: JavaCluster, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "orbitmq.net")
    nameserver = cluster.nameserver.address
    # The broker goes on answering for so long, with GO_AWAY; off by default.
    settings: Settings = {
        "brokerName": "java-b",
        "enableShutdownGracefully": "true",
        "shutdownWaitTimeSeconds": 1,
    }
    topic = cluster.create_topic("newest-goes", queues=2)

    async def main(going: JavaBroker) -> None:
        async with Producer(
            "ours", nameserver=str(nameserver), topics=[topic], send_timeout_ms=PATIENT_MS
        ) as producer:
            before = {(await producer.send(Message(topic, b"x"))).queue for _ in range(4)}
            assert {queue.broker_name for queue in before} == {"java-a", "java-b"}
            stopping = asyncio.create_task(asyncio.to_thread(going.stop))
            while not stopping.done():
                await producer.send(Message(topic, b"x"))
                await asyncio.sleep(PACE_S)
            await stopping

    with JavaBroker(VERSION, tmp_path, nameserver=nameserver, settings=settings) as going:
        going.create_topic(topic, queues=2)
        until(lambda: going.name in routed(cluster, topic), what=f"{topic} on both brokers")
        asyncio.run(main(going))
    assert f"{going.address} is about to stop (GO_AWAY)" in caplog.text


def routed(cluster: JavaCluster, topic: str) -> set[str]:
    """Return the names of the brokers that have a topic."""
    with cluster.nameserver.connect() as connection:
        answer = connection.request(GetRouteInfo(topic=topic))
    return {one.broker_name for one in TopicRouteData.from_json(answer.body).queue_datas}
