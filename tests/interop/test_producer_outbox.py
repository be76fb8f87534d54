"""An outbox while a real broker is killed and comes back; read by a Java consumer."""

import asyncio
from pathlib import Path

from orbitmq.client.producer.outbox.file import read_contents
from orbitmq.client.producer.producer import Producer
from orbitmq.errors import SendKept
from orbitmq.message.model import Message
from tests.interop.clients import consuming
from tests.interop.java import Java
from tests.interop.java_cluster import JavaCluster
from tests.interop.operations import ConsumerOptions


def test_nothing_is_lost_while_the_broker_is_gone(tmp_path: Path, java: Java) -> None:
    path = str(tmp_path / "outbox")
    numbers = range(30)
    with JavaCluster(java.version, tmp_path) as cluster:
        topic = cluster.create_topic("outbox")
        nameserver = str(cluster.nameserver.address)

        async def send_while_it_is_gone() -> set[str]:
            """Return the ids of all messages, sent or kept; some are left when it ends."""
            async with Producer("patient", nameserver=nameserver, outbox_path=path) as producer:
                ids = {(await send(producer, 0))}
                await asyncio.to_thread(cluster.broker.kill)
                ids |= {await send(producer, number) for number in numbers[1:20]}
                assert len(read_contents(path).waiting) == 19
            return ids

        async def send(producer: Producer, number: int) -> str:
            message = Message(topic, b"%d" % number, sharding_key="o-42")
            try:
                return (await producer.send(message, timeout_ms=1_000)).message_id
            except SendKept as kept:
                return kept.send_id

        async def send_when_it_is_back() -> set[str]:
            async with Producer("patient", nameserver=nameserver, outbox_path=path) as producer:
                ids = {await send(producer, number) for number in numbers[20:]}
                assert producer.outbox is not None
                async with asyncio.timeout(60):
                    await producer.outbox.drained()
                return ids

        ids = asyncio.run(send_while_it_is_gone())
        cluster.broker.start()
        ids |= asyncio.run(send_when_it_is_back())
        options = ConsumerOptions(
            nameserver=nameserver, group="outbox-readers", topic=topic, kind="orderly"
        )
        with consuming(java, options) as consumer:
            received = consumer.wait_for(len(numbers))
    order = list(dict.fromkeys(message.body for message in received))
    assert order == [b"%d" % number for number in numbers]
    assert {message.message_id for message in received} == ids
    assert read_contents(path).waiting == ()
