"""A message that a handler never consumes, on a real broker: retried, then a dead letter."""

import asyncio
from typing import Final, cast

from orbitmq.client.consumer.delivery.concurrent import ConcurrentDelivery
from orbitmq.client.consumer.delivery.delivery import DeliveryParts
from orbitmq.client.consumer.delivery.handler import Handler
from orbitmq.client.consumer.delivery.retries import Retries
from orbitmq.client.consumer.fetching.inbox import Inbox
from orbitmq.client.consumer.fetching.pulls import Pulls
from orbitmq.client.consumer.offsets.offsets import Offsets
from orbitmq.client.consumer.settings import ConsumerSettings
from orbitmq.client.consumer.subscriptions import subscription_data
from orbitmq.client.core.client_core import ClientCore
from orbitmq.client.observe.consume_hooks import ConsumeHooks
from orbitmq.client.observe.consume_statistics import ConsumeStatistics
from orbitmq.client.producer.producer import Producer
from orbitmq.client.settings import ClientSettings
from orbitmq.clock import SystemClock
from orbitmq.errors import OrbitError
from orbitmq.message import properties
from orbitmq.message.model import Message, MessageQueue, SendReceipt, StoredMessage
from orbitmq.testing.clocks import InlineWorkers
from tests.client.consumer.delivery.world import ScriptedOffsets

SHORT_LEVELS: Final = " ".join(["1s"] * 18)
"""The broker's table of delay levels for the story, so that it ends soon."""
_TIMES = 2


async def fails_until_dead(nameserver: str, topic: str = "orders") -> None:
    """Send a message, fail on it ``_TIMES`` + 1 times, and find the dead letter."""
    settings = ClientSettings(nameserver=nameserver, keep_open_ms=0)
    async with Producer("shop", client=settings) as producer:
        receipt = await producer.send(Message(topic, b"paid", tags="paid"))
    core = await ClientCore.acquire(settings)
    retries = Retries(core, "billing", max_reconsume_times=_TIMES)
    try:
        await _story(core, retries, receipt)
    finally:
        await retries.close()
        await core.release()


async def _story(core: ClientCore, retries: Retries, receipt: SendReceipt) -> None:
    got: list[tuple[str, int, str | None]] = []

    async def bill(message: StoredMessage) -> None:
        level = message.properties.get(properties.DELAY)
        got.append((message.topic, message.reconsume_times, level))
        raise ValueError("no")

    delivery = ConcurrentDelivery(
        Handler(bill, takes_list=False, workers=InlineWorkers()), _parts(retries)
    )
    topic, broker = receipt.queue.topic, receipt.queue.broker_name
    pulls = Pulls(
        core, "billing", batch=1, batch_bytes=65_536, suspend_ms=0, timeout_ms=3_000, lite=True
    )
    first = Inbox(receipt.queue)
    again = Inbox(MessageQueue("%RETRY%billing", broker, 0))
    for inbox, offset in [(first, receipt.queue_offset), *((again, at) for at in range(_TIMES))]:
        inbox.put(await _pulled(pulls, inbox.queue, offset))
        delivery.ready(inbox)
    (dead,) = await _pulled(pulls, MessageQueue("%DLQ%billing", broker, 0), 0)
    # As the level table says: the first retry waits for level 3, each later one a level more.
    retried = [(topic, times, str(2 + times)) for times in range(1, _TIMES + 1)]
    assert got == [(topic, 0, None), *retried]
    assert (dead.body, dead.tags, dead.reconsume_times) == (b"paid", "paid", _TIMES + 1)
    assert dead.properties[properties.RETRY_TOPIC] == topic
    await delivery.close(1_000)


def _parts(retries: Retries) -> DeliveryParts:
    clock = SystemClock()
    return DeliveryParts(
        settings=ConsumerSettings("billing", max_reconsume_times=_TIMES),
        offsets=cast("Offsets", ScriptedOffsets()),
        retries=retries,
        hooks=ConsumeHooks(),
        statistics=ConsumeStatistics("billing", clock),
        clock=clock,
    )


async def _pulled(pulls: Pulls, queue: MessageQueue, offset: int) -> list[StoredMessage]:
    """Return the next message of a queue, once there is one."""
    wanted = subscription_data(queue.topic, "*")
    async with asyncio.timeout(60):
        while True:
            try:
                found = (await pulls.pull(queue, offset, wanted, hold=False)).messages
            except OrbitError:  # a retry topic is created by the first message
                found = []
            if found:
                return found
            await asyncio.sleep(0.05)
