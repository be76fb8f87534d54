"""Requests and replies through our broker: Java asks, Java replies, and so do we."""

import asyncio
import contextlib
from collections.abc import Iterator

import pytest

from orbitmq.client.core.client_core import ClientCore
from orbitmq.client.producer.producer import Producer
from orbitmq.client.settings import ClientSettings
from orbitmq.errors import SendFailed
from orbitmq.message.model import Message, StoredMessage
from orbitmq.message.names import reply_topic
from tests.interop.operations import (
    ASK,
    CLOSE_RESPONDER,
    OPEN_RESPONDER,
    Asking,
    ConsumerOptions,
)
from tests.interop.team import Team
from tests.interop.test_producer_exchanges import pull
from tests.interop.waiting import until

LARGE = bytes(range(256)) * 100
"""Compressed, both ways."""


@contextlib.contextmanager
def responding(team: Team, topic: str) -> Iterator[None]:
    """Run a consumer of Java that replies with the body it got, turned round."""
    options = ConsumerOptions(
        nameserver=team.nameserver,
        group=f"responders-{topic}",
        topic=topic,
        poll_routes_ms=team.poll_routes_ms,
    )
    (responder,) = team.java.ask(OPEN_RESPONDER, [options])
    try:
        yield
    finally:
        team.java.ask(CLOSE_RESPONDER, [responder])


def test_java_replies_to_java_and_to_us(team: Team) -> None:
    topic = team.topic("requests")
    bodies = [b"abc", LARGE, *(b"%d" % number for number in range(100, 120))]

    async def ask() -> list[bytes]:
        async with Producer("askers", nameserver=team.nameserver) as producer:
            replies = await asyncio.gather(
                *(producer.request(Message(topic, body), timeout_ms=20_000) for body in bodies)
            )
        return [one.body for one in replies]

    with responding(team, topic), team.producer(group="questioners") as requester:
        asked = [Asking(producer=requester.number, topic=topic, body=body) for body in bodies]
        expected = [body[::-1] for body in bodies]
        assert [one.body for one in team.java.ask(ASK, asked)] == expected
        assert asyncio.run(ask()) == expected


def test_we_reply_to_java_and_learn_when_it_is_gone(team: Team) -> None:
    topic = team.topic("questions", queues=1)

    async def reply(body: bytes) -> StoredMessage:
        core = await ClientCore.acquire(ClientSettings(nameserver=team.nameserver, keep_open_ms=0))
        try:
            asked = (await pull(core, topic))[0]
            async with Producer("answerers", nameserver=team.nameserver) as producer:
                await producer.reply(asked, body)
        finally:
            await core.release()
        return asked

    async def both(number: int) -> StoredMessage:
        replying = asyncio.create_task(reply(b"forty-two"))
        asking = Asking(producer=number, topic=topic, body=b"the question")
        (received,) = await asyncio.to_thread(team.java.ask, ASK, [asking])
        assert received.body == b"forty-two"
        return await replying

    with team.producer(group="questioners-who-leave") as requester:
        asked = asyncio.run(both(requester.number))
    assert asked.body == b"the question"
    client_id = asked.properties["REPLY_TO_CLIENT"]
    gone = f"answer from {team.java.version}".encode()

    async def reply_until_it_is_gone() -> None:  # Java's producer may take seconds to leave
        async with asyncio.timeout(30):
            while True:
                await reply(gone)

    with pytest.raises(SendFailed, match=f"channel of <{client_id}> not found"):
        asyncio.run(reply_until_it_is_gone())
    # Replies are stored, pushed or not.
    with team.consumer(reply_topic("DefaultCluster"), group=f"archive-{topic}") as archive:
        until(lambda: gone in archive.bodies(), what="the reply to nobody is stored")
