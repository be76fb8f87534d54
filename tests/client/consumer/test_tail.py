"""Reading queues without a group."""

import asyncio
import logging
import re
from contextlib import aclosing

import pytest

from orbitmq import Message, Producer
from orbitmq.client.admin.admin import Admin
from orbitmq.client.consumer.subscriptions import Sql
from orbitmq.client.consumer.tail import Tail, readable_queues
from orbitmq.client.core.client_core import ClientCore
from orbitmq.client.settings import ClientSettings
from orbitmq.embedded import EmbeddedCluster
from orbitmq.errors import BrokerError
from orbitmq.message.model import MessageQueue
from orbitmq.testing.broker import BrokerUnderTest
from orbitmq.testing.broker import start as start_broker
from tests.interop.waiting import until_async


async def read(tail: Tail) -> list[bytes]:
    return [one.body async for batch in tail.batches() for one in batch]


def test_queues_are_read_from_their_starts_to_their_ends_or_on() -> None:
    async def story() -> None:
        async with EmbeddedCluster() as cluster:
            settings = ClientSettings(nameserver=cluster.nameserver)
            async with Admin(client=settings) as admin:
                await admin.create_topic("orders", queues=2)
                first, second = await admin.queues("orders")
            core = await ClientCore.acquire(settings)
            async with Producer("shop", nameserver=cluster.nameserver) as producer:
                for number in range(200):
                    message = Message(
                        "orders",
                        b"%d" % number,
                        tags="even" if number % 2 == 0 else "odd",
                        properties={"number": str(number)},
                    )
                    await producer.send(message, queue=first)
                await producer.send(Message("orders", b"other"), queue=second)
                every = [b"%d" % number for number in range(200)]
                assert await read(Tail(core, {first: 0}, end={first: 200})) == every
                assert await read(Tail(core, {first: 7}, end={first: 9})) == [b"7", b"8"]
                assert await read(Tail(core, {first: 0, second: 0}, end={first: 0, second: 1})) == [
                    b"other"
                ]
                odd = Tail(core, {first: 150}, end={first: 200}, selection="odd")
                assert await read(odd) == every[151::2]
                late = Tail(core, {first: 0}, end={first: 200}, selection=Sql("number >= 198"))
                assert await read(late) == [b"198", b"199"]
                tail = Tail(core, {first: 199, second: 1})
                async with aclosing(tail.batches()) as batches:
                    assert [one.body for one in await anext(batches)] == [b"199"]
                    await producer.send(Message("orders", b"new"), queue=second)
                    assert [(one.body, one.topic) for one in await anext(batches)] == [
                        (b"new", "orders")
                    ]
            with pytest.raises(BrokerError):
                await read(Tail(core, {MessageQueue("orders", "broker-a", 9): 0}))
            await core.release()

    asyncio.run(story())


def test_queues_that_the_topic_gets_later_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        async with EmbeddedCluster() as cluster:
            settings = ClientSettings(nameserver=cluster.nameserver)
            core = await ClientCore.acquire(settings)
            async with (
                Admin(client=settings) as admin,
                Producer("shop", nameserver=cluster.nameserver) as producer,
            ):
                await admin.create_topic("orders", queues=1)
                (first,) = await readable_queues(core, "orders")
                tail = Tail(core, {first: 0}, topic="orders")
                async with aclosing(tail.batches()) as batches:
                    await producer.send(Message("orders", b"old"), queue=first)
                    assert [one.body for one in await anext(batches)] == [b"old"]
                    await admin.update_topic("orders", read_queues=2, write_queues=2)
                    second = MessageQueue("orders", "broker-a", 1)
                    await producer.send(Message("orders", b"new"), queue=second)
                    assert [one.body for one in await anext(batches)] == [b"new"]
            await core.release()

    monkeypatch.setattr("orbitmq.client.consumer.tail._LOOK_S", 0.01)
    asyncio.run(asyncio.wait_for(story(), 60))


def test_a_broker_that_is_away_is_logged_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(broker: BrokerUnderTest) -> None:
        core = await ClientCore.acquire(ClientSettings(nameserver=broker.nameserver))
        start = dict.fromkeys(await readable_queues(core, "orders"), 0)
        async with (
            aclosing(Tail(core, start, topic="orders").batches()) as batches,
            Producer("shop", nameserver=broker.nameserver) as producer,
        ):
            reading = asyncio.ensure_future(anext(batches))
            with broker.unreachable():
                await until_async(lambda: caplog.text.count("asked again") >= 20, what="tries")
            await until_async(lambda: "answers again" in caplog.text, what="an answer")
            await producer.send(Message("orders", b"new"))
            assert [one.body for one in await reading] == [b"new"]
        await core.release()

    monkeypatch.setattr("orbitmq.client.consumer.tail._PAUSE_S", 0.01)
    monkeypatch.setattr("orbitmq.client.consumer.tail._LOOK_S", 0.01)
    monkeypatch.setattr("orbitmq.client.consumer.tail._TRIES", 1_000_000)
    monkeypatch.setattr("orbitmq.client.consumer.tail._SUSPEND_MS", 200)
    caplog.set_level(logging.DEBUG, "orbitmq.client")
    with start_broker() as broker:
        broker.create_topic("orders", queues=4)
        asyncio.run(story(broker))
    logged = [one for one in caplog.records if one.module == "tail"]
    away, back = [one.getMessage() for one in logged if one.levelno >= logging.WARNING]
    assert re.match("broker-a, queue [0-3], is asked again: ", away)
    assert back == "broker-a answers again"
