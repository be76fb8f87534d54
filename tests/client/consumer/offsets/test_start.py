from typing import Any

import pytest

from orbitmq.client.admin.admin import Admin
from orbitmq.client.consumer.offsets.remote import RemoteOffsets
from orbitmq.client.consumer.offsets.start import StartOffsets
from orbitmq.client.consumer.settings import ConsumeFrom
from orbitmq.errors import OrbitError
from orbitmq.message.model import MessageQueue
from tests.client.consumer.world import TOPIC, World, next_ms, play


class Stored(RemoteOffsets):
    """A store that gives the answer of a test."""

    def __init__(self, core: Any, answer: int | None) -> None:
        super().__init__(core, "billing")
        self.answer = answer

    async def stored(self, queue: MessageQueue) -> int | None:
        return self.answer


async def start(
    world: World, consume_from: ConsumeFrom, queue: MessageQueue, stored: int | None = None
) -> int:
    return await StartOffsets(world.core, Stored(world.core, stored), consume_from).of(queue)


def test_a_queue_begins_where_its_group_is_or_where_the_settings_say() -> None:
    async def story(world: World) -> None:
        await world.send("a", "b")
        between_ms = await next_ms(world.core.machine.clock)
        await next_ms(world.core.machine.clock)
        await world.send("c")
        queue, retry = world.queue, MessageQueue("%RETRY%billing", "broker-a", 0)
        async with Admin(client=world.core.settings) as admin:
            await admin.create_topic(retry.topic, queues=1)
        await world.send("d")
        for consume_from in ("first", "last", between_ms):
            assert await start(world, consume_from, queue, stored=1) == 1
        assert await start(world, "first", queue) == 0
        assert await start(world, "last", queue) == 4
        assert await start(world, between_ms, queue) == 2
        assert await start(world, "first", retry) == 0
        assert await start(world, "last", retry) == 0
        assert await start(world, between_ms, retry) == 0  # its end

    play(story)


def test_an_offset_that_cannot_be_read_is_an_error() -> None:
    async def story(world: World) -> None:
        with pytest.raises(OrbitError):
            await start(world, "last", MessageQueue(TOPIC, "broker-z", 0))
        with pytest.raises(OrbitError):
            await start(world, "last", MessageQueue("elsewhere", "broker-a", 0))

    play(story)
