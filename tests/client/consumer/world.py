"""An embedded cluster with a client, and a delivery that a test controls."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from orbitmq.broker.server import Broker
from orbitmq.client.admin.admin import Admin
from orbitmq.client.consumer.fetching.inbox import Inbox
from orbitmq.client.consumer.fetching.pulls import Pulls
from orbitmq.client.consumer.subscriptions import subscription_data
from orbitmq.client.core.client_core import ClientCore
from orbitmq.client.producer.producer import Producer
from orbitmq.client.settings import ClientSettings
from orbitmq.clock import Clock
from orbitmq.embedded import EmbeddedCluster
from orbitmq.message.model import Message, MessageQueue, StoredMessage
from tests.interop.waiting import until_async

TOPIC = "orders"


@dataclass
class World:
    """What a story works with; ``queue`` is the one queue of ``TOPIC``."""

    cluster: EmbeddedCluster
    core: ClientCore
    producer: Producer
    queue: MessageQueue

    def pulls(self, group: str = "billing", *, batch: int = 32, suspend_ms: int = 200) -> Pulls:
        return Pulls(
            self.core,
            group,
            batch=batch,
            batch_bytes=262_144,
            suspend_ms=suspend_ms,
            timeout_ms=5_000,
            lite=True,
        )

    async def create_group(self, group: str) -> None:
        """Have the broker create a group, as its first pull does."""
        await self.pulls(group).pull(self.queue, 0, subscription_data(TOPIC, "*"), hold=False)

    async def restart_broker(self) -> None:
        """Stop the broker, and start it on the same files and port."""
        cluster = self.cluster
        before = cluster._brokers[0]
        await before.close()
        cluster._settings["listenPort"] = str(before.address.port)
        settings = cluster._broker_settings("broker-a", before.state.store.directory)
        cluster._brokers[0] = await cluster._running.enter_async_context(Broker(settings))

    async def send(self, *bodies: str, **options: str) -> None:
        for body in bodies:
            await self.producer.send(Message(self.queue.topic, body.encode(), **options))  # type: ignore[arg-type]


@asynccontextmanager
async def world(settings: Mapping[str, str] | None = None) -> AsyncIterator[World]:
    async with EmbeddedCluster(settings=settings) as cluster:
        client = ClientSettings(nameserver=cluster.nameserver, keep_open_ms=0)
        core = await ClientCore.acquire(client)
        try:
            async with Admin(client=client) as admin:
                await admin.create_topic(TOPIC, queues=1)
            async with Producer("shop", nameserver=cluster.nameserver) as producer:
                yield World(cluster, core, producer, MessageQueue(TOPIC, "broker-a", 0))
        finally:
            await core.release()
            await ClientCore.close_unused()


def play(
    story: Callable[[World], Awaitable[None]], settings: Mapping[str, str] | None = None
) -> None:
    async def main() -> None:
        async with world(settings) as one:
            await story(one)

    asyncio.run(main())


@dataclass
class ByHand:
    """A delivery whose messages a test takes and finishes."""

    notified: list[Inbox] = field(default_factory=list)
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def ready(self, inbox: Inbox) -> None:
        self.notified.append(inbox)

    async def drained(self, inbox: Inbox) -> None:
        while inbox.in_hand:
            self.changed.clear()
            await self.changed.wait()

    def finish(self, inbox: Inbox, messages: list[StoredMessage]) -> None:
        inbox.finish(messages)
        self.changed.set()


async def next_ms(clock: Clock) -> int:
    """Return the time when a millisecond has begun: what was stored before is older."""
    began_ms = clock.now_ms()
    await until(lambda: clock.now_ms() > began_ms, "the next millisecond")
    return clock.now_ms()


def bodies(messages: list[StoredMessage]) -> list[str]:
    return [one.body.decode() for one in messages]


async def until(look: Callable[[], object], what: str) -> None:
    await until_async(look, what=what, seconds=20)
