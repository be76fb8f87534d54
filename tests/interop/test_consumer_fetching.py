"""Pulls, offsets and owned queues against brokers of Java."""

import asyncio

from orbitmq import Message, Producer
from orbitmq.client.consumer.fetching.fetcher import FetchParts
from orbitmq.client.consumer.fetching.flow_control import FlowLimits
from orbitmq.client.consumer.fetching.inbox import Inbox
from orbitmq.client.consumer.fetching.owned_queues import OwnedQueues
from orbitmq.client.consumer.fetching.pulls import Pulls, PullStatus
from orbitmq.client.consumer.offsets.remote import RemoteOffsets
from orbitmq.client.consumer.offsets.start import StartOffsets
from orbitmq.client.consumer.subscriptions import subscription_data
from orbitmq.client.core.client_core import ClientCore
from orbitmq.client.settings import ClientSettings
from orbitmq.message.model import MessageQueue
from tests.client.consumer.world import ByHand, bodies
from tests.interop.java_cluster import JavaCluster
from tests.interop.waiting import until_async


def test_a_queue_of_java_is_pulled_fetched_and_committed(java_cluster: JavaCluster) -> None:
    topic = java_cluster.create_topic("fetching", queues=1)
    asyncio.run(_story(str(java_cluster.nameserver.address), topic))


async def _story(nameserver: str, topic: str) -> None:
    core = await ClientCore.acquire(ClientSettings(nameserver=nameserver, keep_open_ms=0))
    try:
        async with Producer("shop", nameserver=nameserver) as producer:
            for number, tag in enumerate(("Aa", "BB", "C", "Aa")):  # Aa and BB have one hash
                await producer.send(Message(topic, str(number).encode(), tags=tag))
        route = await core.routes.publish_route(topic)
        queue, group = route.queues[0], f"group-{topic}"
        pulls = Pulls(
            core, group, batch=32, batch_bytes=262_144, suspend_ms=200, timeout_ms=9_000, lite=True
        )
        await _pulls(pulls, queue)
        await _owned(core, pulls, queue, group)
    finally:
        await core.release()
        await ClientCore.close_unused()


async def _pulls(pulls: Pulls, queue: MessageQueue) -> None:
    wanted, everything = (subscription_data(queue.topic, one) for one in ("Aa", "*"))
    found = await pulls.pull(queue, 0, wanted)
    assert (bodies(found.messages), found.next_offset) == (["0", "3"], 4)
    assert found.messages[0].properties["MAX_OFFSET"] == "4"
    none = await pulls.pull(queue, 2, subscription_data(queue.topic, "D"))
    assert (none.status, none.next_offset) == (PullStatus.NO_MATCH, 4)
    held = await pulls.pull(queue, 4, everything)
    assert (held.status, held.next_offset) == (PullStatus.NO_NEW, 4)
    beyond = await pulls.pull(queue, 40, everything)
    assert (beyond.status, beyond.next_offset) == (PullStatus.OFFSET_ILLEGAL, 4)


async def _owned(core: ClientCore, pulls: Pulls, queue: MessageQueue, group: str) -> None:
    offsets, delivery = RemoteOffsets(core, group), ByHand()
    assert await StartOffsets(core, offsets, core.machine.clock.now_ms()).of(queue) in (0, 4)
    owned = OwnedQueues(
        parts=FetchParts(
            pulls=pulls,
            offsets=offsets,
            delivery=delivery,
            subscription_of=lambda topic: subscription_data(topic, "*"),
            clock=core.machine.clock,
        ),
        start=StartOffsets(core, offsets, "first"),
        limits=FlowLimits(queue_messages_max=100, queue_bytes_max=1_000_000),
        offset_interval_ms=50,
    )

    async def inbox(after: Inbox | None = None) -> Inbox:
        return await until_async(
            lambda: next(
                (one for one in owned.inboxes.values() if one is not after and one.waiting), None
            ),
            what="messages of the queue",
        )

    owned.assign(queue.topic, frozenset({queue}))
    first = await inbox()
    taken = first.take(2, now_ms=0)
    assert bodies(taken) == ["0", "1"]
    delivery.finish(first, taken)
    offsets.update(queue, 2)
    owned.assign(queue.topic, frozenset())
    await until_async(lambda: not owned._owned, what="the drop")
    assert await offsets.stored(queue) == 2
    owned.assign(queue.topic, frozenset({queue}))
    second = await inbox(first)
    assert bodies(second.take(9, now_ms=0)) == ["2", "3"]
    reset = asyncio.create_task(owned.reset({queue: 1}))
    await until_async(lambda: second.is_dropped, what="the drop of a reset")
    delivery.finish(second, second.taken_before(1, 9))
    await reset
    assert await offsets.stored(queue) == 1
    assert bodies((await inbox(second)).take(1, now_ms=0)) == ["1"]
    await owned.close(0)
