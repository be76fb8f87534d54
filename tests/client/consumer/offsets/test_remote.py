import pytest

from orbitmq.client.consumer.offsets.remote import RemoteOffsets
from orbitmq.errors import OrbitError
from orbitmq.message.model import MessageQueue
from tests.client.consumer.world import TOPIC, World, play, until


def stored_by_broker(world: World, group: str = "billing") -> int | None:
    offset = world.cluster._brokers[0].state.offsets.query(group, TOPIC, 0)
    return offset if offset >= 0 else None


def test_offsets_are_noted_sent_and_read_again() -> None:
    async def story(world: World) -> None:
        await world.send(*"abcdefgh")
        await world.create_group("billing")
        offsets = RemoteOffsets(world.core, "billing")
        await offsets.load()
        offsets.update(world.queue, 5)
        assert stored_by_broker(world) is None
        await offsets.persist()
        await until(lambda: stored_by_broker(world) == 5, "the offset at the broker")
        assert await RemoteOffsets(world.core, "billing").stored(world.queue) == 5
        offsets.update(world.queue, 3)
        await offsets.persist([world.queue], confirm=True)
        assert stored_by_broker(world) == 5
        offsets.update(world.queue, 2, increase_only=False)
        await offsets.persist(confirm=True)
        assert stored_by_broker(world) == 2
        assert "1 queues" in repr(offsets)

    play(story)


def test_reading_the_store_does_not_change_what_is_noted() -> None:
    async def story(world: World) -> None:
        await world.send(*"abcdefgh")
        await world.create_group("billing")
        offsets = RemoteOffsets(world.core, "billing")
        offsets.update(world.queue, 3)
        await offsets.persist(confirm=True)
        offsets.update(world.queue, 6)
        assert await offsets.stored(world.queue) == 3
        assert offsets.get(world.queue) == 6

    play(story)


def test_what_cannot_be_stored_is_logged_and_what_cannot_be_read_is_an_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story(world: World) -> None:
        await world.create_group("billing")
        offsets = RemoteOffsets(world.core, "billing")
        nowhere = MessageQueue(TOPIC, "broker-z", 0)
        offsets.update(nowhere, 5)
        offsets.update(world.queue, 0)
        await offsets.persist(confirm=True)
        assert stored_by_broker(world) == 0
        with pytest.raises(OrbitError):
            await offsets.stored(nowhere)

    play(story)
    assert "offset 5 of group billing in orders, broker-z queue 0 is not stored" in caplog.text
