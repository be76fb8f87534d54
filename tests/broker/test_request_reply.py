"""Our producer's requests and replies through a broker of ours."""

import asyncio

import pytest

from orbitmq.client.admin.admin import Admin
from orbitmq.client.producer.producer import Producer
from orbitmq.embedded import EmbeddedCluster
from orbitmq.errors import SendFailed
from orbitmq.message.model import Message, StoredMessage
from orbitmq.message.names import reply_topic
from orbitmq.message.scan import decode_all
from orbitmq.net.address import Address
from orbitmq.net.dialer import Dialer
from orbitmq.wire.codes import ResponseCode
from tests.broker.crowds import PATIENCE_MS, run
from tests.broker.exchanges import pull_header

REPLIES = reply_topic("DefaultCluster")


async def pulled(broker: Address, topic: str) -> StoredMessage:
    """Return the first message of queue 0; the broker waits for it."""
    header = pull_header(topic, 0, hold_ms=PATIENCE_MS)
    async with Dialer() as dialer:
        answer = await dialer.request(broker, header, timeout_ms=2 * PATIENCE_MS)
    assert answer.code == ResponseCode.SUCCESS, answer
    return decode_all(bytes(answer.body))[0]


def test_a_reply_reaches_its_requester_and_fails_when_it_is_gone() -> None:
    async def story() -> None:
        async with EmbeddedCluster() as cluster:
            async with Admin(nameserver=cluster.nameserver) as admin:
                await admin.create_topic("prices", queues=1)
            broker = Address.parse(cluster.brokers[0])
            async with Producer("repliers", nameserver=cluster.nameserver) as replier:
                async with Producer(
                    "askers", nameserver=cluster.nameserver, instance_name="asker"
                ) as asker:
                    asking = asyncio.create_task(
                        asker.request(Message("prices", b"tea"), timeout_ms=PATIENCE_MS)
                    )
                    request = await pulled(broker, "prices")
                    await replier.reply(request, b"4.20")
                    assert (await asking).body == b"4.20"
                with pytest.raises(SendFailed, match="channel of <.*> not found"):
                    await replier.reply(request, b"4.30")
            assert (await pulled(broker, REPLIES)).body == b"4.20"

    run(story())
