"""One topic from its making to its last message, asked about in every way an `Admin` has.

The story is told to our own cluster, and to Java's: both must give the same answers.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest

from orbitmq.client.admin.admin import Admin
from orbitmq.client.core.client_core import ClientCore
from orbitmq.client.settings import ClientSettings
from orbitmq.errors import NotFound
from orbitmq.message import properties
from orbitmq.message.model import Message, MessageQueue
from orbitmq.wire.codes import ResponseCode
from orbitmq.wire.headers.send import SendMessageAnswer, SendMessageV2

T = TypeVar("T")

PATIENCE_S = 20
PAUSE_S = 0.02


async def soon(look: Callable[[], Awaitable[T | None]], what: str) -> T:
    """Look again and again until there is something to see, and return it."""
    try:
        async with asyncio.timeout(PATIENCE_S):
            while not (seen := await look()):  # noqa: ASYNC110 - another process sets no event
                await asyncio.sleep(PAUSE_S)
            return seen
    except TimeoutError:
        raise TimeoutError(f"waited {PATIENCE_S} s in vain: {what}") from None


async def send(core: ClientCore, queue: MessageQueue, message: Message) -> SendMessageAnswer:
    """Send one message to a queue, as plainly as can be."""
    route = await core.routes.publish_route(queue.topic)
    address = route.address_of(queue)
    assert address is not None
    header = SendMessageV2(
        producer_group="billing",
        topic=queue.topic,
        default_topic="TBW102",
        default_topic_queue_nums=4,
        queue_id=queue.queue_id,
        sys_flag=0,
        born_timestamp=core.machine.clock.now_ms(),
        flag=message.flag,
        properties=properties.encode(message.wire_properties()).decode(),
        broker_name=route.broker_of(queue),
    )
    answer = await core.request(address, header, message.body)
    assert answer.code == ResponseCode.SUCCESS, answer.remark
    return answer.read(SendMessageAnswer)


async def tell(nameserver: str, topic: str, *, brokers: int) -> None:
    """Make a topic, send two messages to one of its queues, and ask about them."""
    settings = ClientSettings(nameserver=nameserver, keep_open_ms=0)
    core = await ClientCore.acquire(settings)
    async with Admin(client=settings) as admin:
        assert len(await admin.create_topic(topic, queues=3)) == brokers
        await soon(lambda: _has_queues(admin, topic, 3 * brokers), "the new topic's route")
        queues = await admin.queues(topic)
        assert topic in await admin.topics()
        await _offsets(core, admin, queues[1])
        await _messages(core, admin, queues[2])
    await core.release()


async def _has_queues(admin: Admin, topic: str, count: int) -> bool:
    return topic in await admin.topics() and len(await admin.queues(topic)) == count


async def _offsets(core: ClientCore, admin: Admin, queue: MessageQueue) -> None:
    assert await admin.max_offset(queue) == 0
    assert await admin.min_offset(queue) == 0
    began_ms = core.machine.clock.now_ms()
    for _ in range(2):
        await send(core, queue, Message(queue.topic, b"paid"))
    await soon(lambda: _is(admin.max_offset(queue), 2), "the second message")
    assert await admin.min_offset(queue) == 0
    assert await admin.earliest_store_time(queue) >= began_ms
    assert await admin.search_offset(queue, began_ms) == 0
    assert await admin.search_offset(queue, began_ms + 3_600_000) in (1, 2)


async def _messages(core: ClientCore, admin: Admin, queue: MessageQueue) -> None:
    topic = queue.topic
    unique = f"{core.machine.randomness.token(16).hex().upper()}"
    message = Message(topic, b"paid", keys=["o-42", "o-43"], tags="paid", message_id=unique)
    receipt = await send(core, queue, message)
    by_key = await soon(lambda: admin.query_message(topic, "o-43"), "the key in the index")
    assert [one.body for one in by_key] == [b"paid"]
    found = await admin.message_by_unique_key(topic, unique)
    assert found is not None
    assert (found.topic, found.tags, found.queue_id) == (topic, "paid", queue.queue_id)
    for message_id in (unique, receipt.msg_id):
        assert (await admin.view_message(topic, message_id)).message_id == unique
    assert await admin.query_message(topic, "o-44") == []
    assert await admin.message_by_unique_key(topic, "0" * 32) is None
    with pytest.raises(NotFound):
        await admin.view_message(topic, f"{unique}x")


async def _is(value: Awaitable[int], wanted: int) -> bool:
    return await value == wanted
