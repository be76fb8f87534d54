import asyncio

from orbitmq.client.consumer.fetching.flow_control import FlowLimits
from orbitmq.client.consumer.fetching.inbox import Inbox
from orbitmq.client.consumer.fetching.room import Room
from orbitmq.message.model import MessageQueue
from orbitmq.testing.clocks import VirtualClock, run_virtual
from tests.client.stored import a_stored_message

QUEUES = [MessageQueue("orders", "broker-a", number) for number in range(2)]


class World:
    def __init__(self, **limits: int) -> None:
        self.inboxes = {queue: Inbox(queue) for queue in QUEUES}
        self.room = Room(
            FlowLimits(**{"queue_messages_max": 100, "queue_bytes_max": 100, **limits}),
            self.inboxes,
        )
        self.one, self.other = self.inboxes.values()
        for inbox in self.inboxes.values():
            inbox.put([a_stored_message(at=offset) for offset in range(3)])

    def finish_one(self, inbox: Inbox) -> None:
        inbox.finish(inbox.take(1, now_ms=0))
        self.room.finished(inbox)


async def pulls(world: World, inbox: Inbox) -> "asyncio.Task[None]":
    task = asyncio.create_task(world.room.wait(inbox))
    await asyncio.sleep(0)
    return task


def test_a_full_queue_waits_until_its_own_messages_are_finished() -> None:
    async def main(_clock: VirtualClock) -> None:
        world = World(queue_messages_max=1)
        waiting = await pulls(world, world.one)
        world.finish_one(world.other)
        world.finish_one(world.one)
        await asyncio.sleep(0)
        assert not waiting.done()
        assert "1 queues" in repr(world.room)
        world.finish_one(world.one)
        await waiting

    run_virtual(main)


def test_all_queues_wait_for_room_in_total() -> None:
    async def main(_clock: VirtualClock) -> None:
        world = World(total_messages_max=5)
        waiting = [await pulls(world, world.one), await pulls(world, world.other)]
        world.finish_one(world.other)
        await asyncio.gather(*waiting)

    run_virtual(main)


def test_a_dropped_queue_makes_room_for_the_others() -> None:
    async def main(_clock: VirtualClock) -> None:
        world = World(total_messages_max=5, topic_messages_max=5)
        waiting = await pulls(world, world.one)  # 3 messages; its share is 2
        del world.inboxes[world.other.queue]
        world.room.changed()
        await waiting

    run_virtual(main)


def test_a_cancelled_wait_is_forgotten() -> None:
    async def main(_clock: VirtualClock) -> None:
        world = World(queue_messages_max=1)
        waiting = await pulls(world, world.one)
        waiting.cancel()
        await asyncio.wait([waiting])
        assert "0 queues" in repr(world.room)

    run_virtual(main)
