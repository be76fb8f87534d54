"""Offsets of a queue, asked of an embedded broker."""

import asyncio

import pytest

from orbitmq.client.core.client_core import ClientCore
from orbitmq.client.core.queue_offsets import QueueOffsets
from orbitmq.client.producer.producer import Producer
from orbitmq.client.settings import ClientSettings
from orbitmq.embedded import EmbeddedCluster
from orbitmq.errors import NoRoute
from orbitmq.message.model import Message, MessageQueue


def test_the_broker_of_a_queue_is_asked() -> None:
    async def main() -> None:
        async with EmbeddedCluster() as cluster:
            client = ClientSettings(nameserver=cluster.nameserver, keep_open_ms=0)
            async with Producer("shop", client=client) as producer:
                receipt = await producer.send(Message("orders", b"paid"))
                await producer.send(Message("orders", b"late"), queue=receipt.queue)
            core = await ClientCore.acquire(client)
            ask, queue = QueueOffsets(core), receipt.queue
            assert (await ask.begin(queue), await ask.end(queue)) == (0, 2)
            assert await ask.at_time(queue, 0) == 0
            now_ms = core.machine.clock.now_ms()
            assert await ask.at_time(queue, now_ms + 60_000) == 2
            with pytest.raises(NoRoute, match=r"The broker\[broker-x\] not exist"):
                await ask.end(MessageQueue("orders", "broker-x", 0))
            await core.release()

    asyncio.run(main())
