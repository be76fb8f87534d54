"""Deliveries in virtual time, with an offset store and retries by script."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar, cast

from orbitmq.client.consumer.delivery.delivery import DeliveryParts
from orbitmq.client.consumer.delivery.handler import Handler, MessageHandler
from orbitmq.client.consumer.delivery.retries import Retries
from orbitmq.client.consumer.fetching.inbox import Inbox
from orbitmq.client.consumer.offsets.offsets import Offsets
from orbitmq.client.consumer.settings import ConsumerSettings
from orbitmq.client.observe.consume_hooks import ConsumeHooks
from orbitmq.client.observe.consume_statistics import ConsumeStatistics
from orbitmq.errors import ConnectFailed
from orbitmq.message.model import MessageQueue, StoredMessage
from orbitmq.testing.clocks import InlineWorkers, VirtualClock, run_virtual
from orbitmq.threads import Workers
from tests.client.stored import a_stored_message

T = TypeVar("T")


class ScriptedOffsets:
    """Remembers every update."""

    def __init__(self) -> None:
        self.updates: list[tuple[int, int]] = []

    def update(self, queue: MessageQueue, offset: int, *, increase_only: bool = True) -> None:
        """Note an update."""
        self.updates.append((queue.queue_id, offset))

    def of(self, queue_id: int) -> int | None:
        """Return the last offset of a queue."""
        return dict(self.updates).get(queue_id)


class ScriptedRetries:
    """Remembers what is sent back; ``fails`` says how many of the next calls fail."""

    def __init__(self) -> None:
        self.sent: list[tuple[int, int]] = []
        self.republished: list[StoredMessage] = []
        self.fails = 0
        self.takes_s = 0.0

    async def send_back(
        self, message: StoredMessage, queue: MessageQueue, *, delay_level: int = 0
    ) -> None:
        """Note a message and its level."""
        await self._answer()
        self.sent.append((message.queue_offset, delay_level))

    async def republish(self, message: StoredMessage, *, delay_level: int = 0) -> None:
        """Note a message."""
        await self._answer()
        self.republished.append(message)

    async def _answer(self) -> None:
        await asyncio.sleep(self.takes_s)
        if self.fails:
            self.fails -= 1
            raise ConnectFailed("broker-a is away")


class World:
    """What a delivery meets."""

    def __init__(self, clock: VirtualClock, **settings: Any) -> None:
        self.clock = clock
        self.offsets = ScriptedOffsets()
        self.retries = ScriptedRetries()
        self.hooks = ConsumeHooks()
        self.statistics = ConsumeStatistics("billing", clock)
        self.namespace = ""
        self.settings = ConsumerSettings("billing", **settings)

    def parts(self) -> DeliveryParts:
        """Return the parts of a delivery."""
        return DeliveryParts(
            settings=self.settings,
            offsets=cast("Offsets", self.offsets),
            retries=cast("Retries", self.retries),
            hooks=self.hooks,
            statistics=self.statistics,
            clock=self.clock,
            namespace=self.namespace,
            client_id="me",
        )

    def handler(self, function: MessageHandler, workers: Workers | None = None) -> Handler:
        """Return a handler; a plain function runs at once, on no thread."""
        takes_list = self.settings.batch_max > 1
        return Handler(function, takes_list=takes_list, workers=workers or InlineWorkers())


def an_inbox(*offsets: int, queue_id: int = 0, topic: str = "orders", **texts: Any) -> Inbox:
    """Return an inbox with messages at some offsets."""
    inbox = Inbox(MessageQueue(topic, "broker-a", queue_id))
    inbox.put([a_stored_message(topic, at=at, **texts) for at in offsets])
    return inbox


def run(story: Callable[[World], Coroutine[Any, Any, T]], **settings: Any) -> T:
    """Run a story in virtual time."""
    return run_virtual(lambda clock: story(World(clock, **settings)))
