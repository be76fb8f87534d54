import asyncio
from typing import Any

import pytest

from orbitmq.client.admin.admin import Admin
from orbitmq.client.core.client_core import ClientCore
from orbitmq.client.settings import ClientSettings
from orbitmq.embedded import EmbeddedCluster
from orbitmq.errors import (
    AlreadyStarted,
    InvalidInput,
    NoRoute,
    NotRunning,
    WrongLoop,
)
from orbitmq.message.model import Message, MessageQueue
from tests.client import admin_story
from tests.client.admin.stories import with_admin
from tests.client.scene import Scene


def test_a_topic_from_its_making_to_its_last_message() -> None:
    async def main() -> None:
        async with EmbeddedCluster(brokers=2) as cluster:
            await admin_story.tell(cluster.nameserver, "orders", brokers=2)

    asyncio.run(main())


def test_names_are_wrapped_and_unwrapped() -> None:
    async def main() -> None:
        async with EmbeddedCluster() as cluster:
            settings = ClientSettings(nameserver=cluster.nameserver, namespace="ns", keep_open_ms=0)
            async with Admin(client=settings) as admin:
                await admin.create_topic("orders")
                queues = await admin_story.soon(lambda: _queues(admin), "the topic's route")
                assert {queue.topic for queue in queues} == {"orders"}
                assert await admin.max_offset(queues[0]) == 0
                assert "orders" in await admin.topics()
                assert await admin.topics(include_system=False) == ["orders"]
                core = await ClientCore.acquire(settings)
                wire_queue = MessageQueue("ns%orders", queues[0].broker_name, 0)
                await admin_story.send(core, wire_queue, Message("orders", b"x", keys=["k"]))
                await core.release()
                found = await admin_story.soon(
                    lambda: admin.query_message("orders", "k"), "the key in the index"
                )
                assert [one.topic for one in found] == ["orders"]

    asyncio.run(main())


async def _queues(admin: Admin) -> tuple[MessageQueue, ...]:
    try:
        return await admin.queues("orders")
    except NoRoute:
        return ()


def test_invalid_queues_names_and_keys_are_refused_without_a_request() -> None:
    async def story(scene: Scene, admin: Admin) -> None:
        given: Any = None
        for call, field in [
            (admin.max_offset("orders"), "queue"),  # type: ignore[arg-type]
            (admin.min_offset(given), "queue"),
            (admin.earliest_store_time(given), "queue"),
            (admin.search_offset(given, 0), "queue"),
            (admin.route(given), "topic"),
            (admin.queues("a\udc80"), "topic"),
            (admin.view_message("orders", given), "message_id"),
            (admin.message_by_unique_key("orders", given), "message_id"),
            (admin.query_message("orders", given), "key"),
        ]:
            with pytest.raises(InvalidInput, match=field) as caught:
                await call
            assert caught.value.field == field

    with_admin(story)


def test_an_admin_can_be_used_between_start_and_close() -> None:
    async def main() -> None:
        async with EmbeddedCluster() as cluster:
            admin = Admin(nameserver=cluster.nameserver, keep_open_ms=0)
            assert repr(admin) == "<Admin closed>"
            for _ in range(2):
                with pytest.raises(NotRunning, match="use 'async with', or start"):
                    await admin.topics()
                async with admin:
                    assert cluster.nameserver in repr(admin)
                    assert await admin.topics()
                    with pytest.raises(AlreadyStarted):
                        await admin.start()
                await admin.close()

    asyncio.run(main())


def test_an_admin_belongs_to_its_loop() -> None:
    async def main() -> None:
        admin = Admin(nameserver="127.0.0.1:9", keep_open_ms=0)
        async with admin:
            with pytest.raises(WrongLoop, match=r"orbitmq\.blocking\.Admin"):
                await asyncio.to_thread(asyncio.run, admin.topics())

    asyncio.run(main())
