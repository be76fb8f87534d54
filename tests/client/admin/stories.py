"""Stories of an `Admin`: with servers that answer as the story says, and with real ones."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from orbitmq.client.admin.admin import Admin
from orbitmq.client.producer.producer import Producer
from orbitmq.embedded import EmbeddedCluster
from orbitmq.message.model import Message, MessageQueue
from tests.client.admin_story import soon
from tests.client.scene import BROKER_A, BROKER_B, Scene, play, route


def with_admin(story: Callable[[Scene, Admin], Awaitable[None]], **settings: object) -> Scene:
    """Run a story with a nameserver, two brokers and who asks them."""

    async def whole(scene: Scene) -> Scene:
        scene.routes |= {"orders": route("a", "b"), "TBW102": route("a", "b")}
        await scene.nameserver()
        await scene.broker(BROKER_A)
        await scene.broker(BROKER_B)
        async with Admin(client=scene.settings(**settings), machine=scene.machine) as admin:
            await story(scene, admin)
        return scene

    return play(whole)


def with_cluster(story: Callable[[Admin], Awaitable[None]], *, brokers: int = 2) -> None:
    """Run a story with real servers on this loop."""

    async def main() -> None:
        async with EmbeddedCluster(brokers=brokers) as cluster:
            async with Admin(nameserver=cluster.nameserver, keep_open_ms=0) as admin:
                await story(admin)

    asyncio.run(main())


async def fill(admin: Admin, topic: str, counts: Mapping[MessageQueue, int]) -> None:
    """Send messages to queues of a topic; return when they can be pulled."""
    async with Producer("fillers", client=admin.client_settings) as producer:
        for queue, count in counts.items():
            for number in range(count):
                await producer.send(Message(topic, f"message {number}".encode()), queue=queue)

    async def are_there() -> bool:
        return all([await admin.max_offset(queue) >= count for queue, count in counts.items()])

    await soon(are_there, "the messages in their queues")
