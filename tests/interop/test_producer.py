"""Our producer on Java's brokers, old and new; what it sent is read by Java's consumers."""

import asyncio
import zlib
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import pytest

from orbitmq.client.producer.producer import Producer
from orbitmq.client.producer.sending.queue_choice import by_hash
from orbitmq.errors import NoRoute, SendIllegal, SendRefused
from orbitmq.message.compression import CompressionType
from orbitmq.message.model import Message, MessageQueue, SendReceipt, SendStatus
from tests.interop import counterparts
from tests.interop.conftest import decline
from tests.interop.java import Java
from tests.interop.java_cluster import JavaCluster
from tests.interop.operations import Outgoing
from tests.interop.team import Team
from tests.interop.waiting import until

T = TypeVar("T")

BODY = b"".join(zlib.crc32(b"%d" % number).to_bytes(4, "big") for number in range(2_000)) * 3


@pytest.fixture
def cluster(java_cluster: JavaCluster) -> JavaCluster:
    """A Java nameserver and broker of each version in turn."""
    return java_cluster


@pytest.fixture
def team(request: pytest.FixtureRequest, cluster: JavaCluster) -> Team:
    """Java clients of the version of the cluster."""
    java: Java = request.getfixturevalue(f"java_{cluster.version.replace('.', '')}")
    return Team(java, str(cluster.nameserver.address), [str(cluster.broker.address)])


def producing(
    cluster: JavaCluster, use: Callable[[Producer], Awaitable[T]], **options: object
) -> T:
    """Run something with a producer of ours, and return what it returns."""

    async def main() -> T:
        nameserver = str(cluster.nameserver.address)
        async with Producer("ours", nameserver=nameserver, **options) as producer:  # type: ignore[arg-type]
            return await use(producer)

    return asyncio.run(main())


def test_content_arrives_whole(cluster: JavaCluster, team: Team) -> None:
    topic = cluster.create_topic("ours-content")
    messages = [
        Message(topic, b"plain"),
        Message(topic, b"full", tags="paid", keys=["o-42", "o-43"], properties={"farbe": "blau è"}),
        Message(topic, BODY, tags="large"),
    ]

    async def use(producer: Producer) -> list[SendReceipt]:
        return [await producer.send(message) for message in messages]

    receipts = producing(cluster, use)
    with team.consumer(topic) as consumer:
        received = {one.body: one for one in consumer.wait_for(3)}
    for receipt, message in zip(receipts, messages, strict=True):
        read = received[message.body]
        assert receipt.status is SendStatus.SEND_OK
        assert read.message_id == receipt.message_id
        assert (read.queue_id, read.queue_offset) == (receipt.queue.queue_id, receipt.queue_offset)
        assert read.properties.get("TAGS") == message.tags
        assert read.properties.get("KEYS", "") == " ".join(message.keys)
        assert read.properties.get("farbe") == message.properties.get("farbe")


def test_sends_of_one_turn_arrive_whole(cluster: JavaCluster, team: Team) -> None:
    topic = cluster.create_topic("ours-together")
    messages = [
        Message(
            topic,
            b"%d" % number,
            tags=(None, "paid", "é%d")[number % 3],
            keys=[f"o-{number}", '"k"\\'][: number % 4],
            properties={"farbe": f"blau è {number}"} if number % 2 else {},
            flag=number,
        )
        for number in range(60)
    ]

    async def use(producer: Producer) -> list[SendReceipt]:
        return await asyncio.gather(*map(producer.send, messages))

    receipts = producing(cluster, use, topics=[topic])
    with team.consumer(topic) as consumer:
        received = {one.body: one for one in consumer.wait_for(len(messages))}
    for receipt, message in zip(receipts, messages, strict=True):
        read = received[message.body]
        assert read.message_id == receipt.message_id
        assert (read.queue_id, read.queue_offset) == (receipt.queue.queue_id, receipt.queue_offset)
        assert read.properties.get("TAGS") == message.tags
        assert read.properties.get("KEYS", "") == " ".join(message.keys)
        assert read.properties.get("farbe") == message.properties.get("farbe")


def test_compressed_bodies_are_opened(cluster: JavaCluster, team: Team) -> None:
    topic = cluster.create_topic("ours-packed")
    # Before 5.0 consumers know zlib alone.
    kinds = list(CompressionType) if cluster.version != "4.9.7" else [CompressionType.ZLIB]
    bodies = {kind: BODY + kind.name.encode() for kind in kinds}
    for kind, body in bodies.items():
        producing(
            cluster,
            lambda producer, body=body: producer.send(Message(topic, body)),  # type: ignore[misc]
            compression_type=kind,
        )
    with team.consumer(topic) as consumer:
        received = consumer.wait_for(len(kinds))
    assert {one.body for one in received} == set(bodies.values())
    assert all(one.record_bytes < len(BODY) for one in received)


def test_a_delayed_message_arrives_when_its_level_is_over(cluster: JavaCluster, team: Team) -> None:
    topic = cluster.create_topic("ours-delayed")
    message = Message(topic, b"later", delay_level=1, keys=["o-42"])
    receipt = producing(cluster, lambda producer: producer.send(message))
    with team.consumer(topic) as consumer:
        (read,) = consumer.wait_for(1)
    assert (read.body, read.message_id) == (b"later", receipt.message_id)
    assert (read.topic, read.properties["KEYS"]) == (topic, "o-42")
    assert read.stored_ms - read.born_ms >= 900, "stored for consumers when the second was over"


def test_a_namespace_wraps_names_for_java_too(cluster: JavaCluster, team: Team) -> None:
    made = cluster.create_topic("shop%ours-wrapped")
    topic = made.removeprefix("shop%")
    queues: list[tuple[MessageQueue, ...]] = []

    async def use(producer: Producer) -> SendReceipt:
        queues.append(await producer.queues(topic))
        return await producer.send(Message(topic, b"wrapped"))

    receipt = producing(cluster, use, namespace="shop")
    assert receipt.queue.topic == topic
    assert {queue.topic for queue in queues[0]} == {topic}
    with team.consumer(made) as consumer:
        (read,) = consumer.wait_for(1)
    assert (read.topic, read.body, read.message_id) == (made, b"wrapped", receipt.message_id)


def test_a_batch_arrives_as_its_messages(cluster: JavaCluster, team: Team) -> None:
    topic = cluster.create_topic("ours-batch")
    messages = [
        Message(topic, b"%d" % number, tags=f"t{number % 2}", properties={"number": str(number)})
        for number in range(20)
    ]
    receipts = producing(cluster, lambda producer: producer.send_many(messages))
    assert len({receipt.queue for receipt in receipts}) == 1
    with team.consumer(topic) as consumer:
        received = {one.message_id: one for one in consumer.wait_for(20)}
    for receipt, message in zip(receipts, messages, strict=True):
        read = received[receipt.message_id]
        assert (read.body, read.properties["TAGS"]) == (message.body, message.tags)
        assert read.properties["number"] == message.properties["number"]
        assert read.queue_offset == receipt.queue_offset


def test_a_batch_is_one_record_where_the_topic_says_so(
    java_cluster_540: JavaCluster, java_540: Java
) -> None:
    cluster, topic = java_cluster_540, "ours-inner-batch"
    team = Team(java_540, str(cluster.nameserver.address), [str(cluster.broker.address)])

    async def use(producer: Producer) -> list[SendReceipt]:
        sent: list[SendReceipt] = []
        for _ in range(100):  # until a heartbeat was answered, and the broker's release is known
            sent += await producer.send_many([Message(topic, b"one"), Message(topic, b"two")])
            if sent[-1].offset_message_id == sent[-2].offset_message_id:
                break
        return sent

    cluster.broker.create_topic(topic, queues=1, attributes="+queue.type=BatchCQ")
    until(lambda: cluster.nameserver.has_route(topic), what=f"the route of {topic}")
    receipts = producing(cluster, use)
    assert receipts[-1].offset_message_id == receipts[-2].offset_message_id
    with team.consumer(topic) as consumer:
        received = {one.message_id: one for one in consumer.wait_for(len(receipts))}
    for receipt in receipts:
        assert received[receipt.message_id].queue_offset == receipt.queue_offset


def test_batches_up_to_the_limit_are_taken(cluster: JavaCluster) -> None:
    topic = cluster.create_topic("ours-large-batch")
    small = [Message(topic, b"x", properties={"p": "v" * 10}) for _ in range(9_000)]
    large = [Message(topic, b"y" * 900_000) for _ in range(6)]
    receipts = producing(
        cluster, lambda producer: producer.send_many([*small, *large]), send_timeout_ms=20_000
    )
    assert len(receipts) == 9_006
    assert {receipt.status for receipt in receipts} == {SendStatus.SEND_OK}


def test_automatic_batches_arrive(cluster: JavaCluster, team: Team) -> None:
    topic = cluster.create_topic("ours-gathered")

    async def use(producer: Producer) -> list[SendReceipt]:
        return await asyncio.gather(
            *(producer.send(Message(topic, b"%d" % number)) for number in range(50))
        )

    receipts = producing(cluster, use, auto_batch=True)
    assert len({receipt.message_id for receipt in receipts}) == 50
    with team.consumer(topic) as consumer:
        received = consumer.wait_for(50)
    assert {one.body for one in received} == {b"%d" % number for number in range(50)}


def test_a_selector_agrees_with_java_s(cluster: JavaCluster, team: Team) -> None:
    topic = cluster.create_topic("ours-selected", queues=7)
    keys = ["alice", "bob", "o-42", ""]

    async def use(producer: Producer) -> list[int]:
        message = Message(topic, b"x")
        sent = [await producer.send(message, selector=by_hash(key)) for key in keys]
        return [receipt.queue.queue_id for receipt in sent]

    ours = producing(cluster, use)
    with team.producer() as theirs:
        for key, queue_id in zip(keys, ours, strict=True):
            (sent,) = theirs.send(Outgoing(topic=topic, body=b"x"), way="selector", shard=key)
            assert sent.queue_id == queue_id


def test_keys_keep_their_order_with_many_in_flight(cluster: JavaCluster, team: Team) -> None:
    topic = cluster.create_topic("ours-ordered")

    async def use(producer: Producer) -> None:
        await asyncio.gather(
            *(
                producer.send(Message(topic, b"%s-%03d" % (key, number)), sharding_key=key.decode())
                for number in range(30)
                for key in (b"alice", b"bob", b"carol")
            )
        )

    producing(cluster, use)
    with team.consumer(topic, kind="orderly") as consumer:
        received = consumer.wait_for(90)
    for key in (b"alice", b"bob", b"carol"):
        mine = [one for one in received if one.body.startswith(key)]
        assert len({one.queue_id for one in mine}) == 1
        in_queue = sorted(mine, key=lambda one: one.queue_offset)
        assert [one.body for one in in_queue] == sorted(one.body for one in mine)


def test_queues_oneway_sends_and_unknown_topics(cluster: JavaCluster, team: Team) -> None:
    topic = cluster.create_topic("ours-ways", queues=3)

    async def use(producer: Producer) -> str:
        queues = await producer.queues(topic)
        assert [queue.queue_id for queue in queues] == [0, 1, 2]
        await producer.send(Message(topic, b"chosen"), queue=queues[2])
        await producer.send_oneway(Message(topic, b"oneway"))
        fresh = f"{topic}-made-by-a-send"
        receipt = await producer.send(Message(fresh, b"first"))
        assert receipt.queue == MessageQueue(fresh, cluster.broker.name, receipt.queue.queue_id)
        return fresh

    fresh = producing(cluster, use)
    with team.consumer(topic) as consumer:
        received = {one.body: one for one in consumer.wait_for(2)}
    assert received[b"chosen"].queue_id == 2
    assert b"oneway" in received
    until(lambda: cluster.nameserver.has_route(fresh), what=f"the route of {fresh}", seconds=40)


def test_refusals_are_told_in_the_broker_s_words(cluster: JavaCluster) -> None:
    topic = cluster.create_topic("ours-refused")

    async def use(producer: Producer) -> None:
        with pytest.raises(SendRefused) as caught:  # the broker takes 4 MiB
            await producer.send(Message(topic, bytes(5 * 1024 * 1024)))
        assert isinstance(caught.value, SendIllegal)
        assert len(caught.value.attempts) == 1
        with pytest.raises(SendRefused) as caught:
            await producer.send(
                Message(topic, b"x"), queue=MessageQueue(topic, cluster.broker.name, 99)
            )
        assert caught.value.remark

    producing(
        cluster, use, max_message_bytes=8 * 1024 * 1024, compress_over_bytes=10_000_000, retries=1
    )


def test_the_long_header_is_understood(cluster: JavaCluster, team: Team) -> None:
    topic = cluster.create_topic("ours-long-header")
    producing(
        cluster,
        lambda producer: producer.send(Message(topic, b"long", tags="paid")),
        short_header=False,
    )
    with team.consumer(topic, "paid") as consumer:
        assert [one.body for one in consumer.wait_for(1)] == [b"long"]


def test_a_topic_that_nobody_may_make_is_missing(tmp_path: Path) -> None:
    version = counterparts.ROCKETMQ_VERSIONS[0]
    why = counterparts.missing_for(version)
    if why is not None:
        decline(why)
    settings = {"autoCreateTopicEnable": "false"}
    with JavaCluster(version, tmp_path, broker_settings=settings) as strict:
        topic = strict.create_topic("ours-strict")

        async def use(producer: Producer) -> SendReceipt:
            advice = r"is missing at .*: create it \(orbitmq topic create nobody-made-me\)"
            with pytest.raises(NoRoute, match=advice):
                await producer.send(Message("nobody-made-me", b"x"))
            return await producer.send(Message(topic, b"x"))

        assert producing(strict, use).status is SendStatus.SEND_OK
