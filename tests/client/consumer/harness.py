"""The parts of a consumer, joined without a membership: what brokers ask reaches its answers."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager

from orbitmq.client.consumer.answers import Answers
from orbitmq.client.consumer.delivery.handler import Handler, MessageHandler
from orbitmq.client.consumer.fetching.inbox import Inbox
from orbitmq.client.consumer.offsets.offsets import NotedOffsets
from orbitmq.client.consumer.settings import ConsumerSettings, PullConsumerSettings
from orbitmq.client.consumer.subscriptions import subscription_data
from orbitmq.client.core.client_core import ClientCore
from orbitmq.client.observe.consume_statistics import ConsumeStatistics
from orbitmq.message.model import MessageQueue
from orbitmq.net.address import Address
from orbitmq.net.connection import Handler as RequestHandler
from orbitmq.threads import Future, ThreadWorkers, start_thread
from orbitmq.wire.bodies.heartbeat import (
    ConsumeFromWhere,
    ConsumerData,
    ConsumeType,
    HeartbeatData,
    MessageModel,
    SubscriptionData,
)
from orbitmq.wire.codes import RequestCode
from orbitmq.wire.headers.heartbeat import Heartbeat


class Loops:
    """The second loop: the running one, or that of a thread."""

    def __init__(self, second: asyncio.AbstractEventLoop | None = None) -> None:
        self.first = asyncio.get_running_loop()
        self.second = second or self.first

    def call(self, work: Callable[[], object]) -> None:
        self.second.call_soon_threadsafe(work)

    def call_back(self, work: Callable[[], object]) -> None:
        self.first.call_soon_threadsafe(work)

    @classmethod
    @asynccontextmanager
    async def of_two_threads(cls) -> AsyncIterator["Loops"]:
        """Give loops of which the second runs on a thread."""
        started: Future[asyncio.AbstractEventLoop] = Future()

        def run() -> None:
            loop = asyncio.new_event_loop()
            started.set_result(loop)
            loop.run_forever()
            loop.close()

        thread = start_thread(run, name="second-loop", daemon=True)
        loops = cls(started.result())
        try:
            yield loops
        finally:
            loops.call(loops.second.stop)
            thread.join()


class FixedQueues:
    """Owned queues that never change; notes resets."""

    def __init__(self, *queues: MessageQueue) -> None:
        self.inboxes = {queue: Inbox(queue) for queue in queues}
        self.resets: list[Mapping[MessageQueue, int]] = []

    async def reset(self, offsets: Mapping[MessageQueue, int]) -> None:
        self.resets.append(offsets)


class LoneMember:
    """A group of one member, which brokers know by a heartbeat."""

    def __init__(self, core: ClientCore, group: str, topic: str) -> None:
        self.group = group
        self.subscriptions: Mapping[str, SubscriptionData]
        self.subscriptions = {topic: subscription_data(topic, "*", version=1)}
        self._core = core

    def listen(self, code: RequestCode, handler: RequestHandler) -> None:
        self._core.broker_requests.listen(code, handler, group=self.group)

    async def join(self, address: Address) -> None:
        data = ConsumerData(
            group_name=self.group,
            consume_type=ConsumeType.CONSUME_PASSIVELY,
            message_model=MessageModel.CLUSTERING,
            consume_from_where=ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET,
            subscription_data_set=tuple(self.subscriptions.values()),
        )
        body = HeartbeatData(client_id=self._core.client_id, consumer_data_set=(data,))
        await self._core.request(address, Heartbeat(), body.to_json())


class AnsweringConsumer:
    """A consumer that owns two queues, and answers."""

    def __init__(
        self,
        core: ClientCore,
        loops: Loops,
        settings: ConsumerSettings | PullConsumerSettings,
        function: MessageHandler | None = None,
        *,
        topic: str = "orders",
        broker_name: str = "broker-a",
    ) -> None:
        self.workers = ThreadWorkers(1, name="handler")
        self.queues = FixedQueues(*(MessageQueue(topic, broker_name, number) for number in (0, 1)))
        self.offsets = NotedOffsets()
        self.statistics = ConsumeStatistics(settings.group, core.machine.clock)
        self.member = LoneMember(core, settings.group, topic)
        handler = function and Handler(function, takes_list=False, workers=self.workers)
        self.answers = Answers(
            core,
            loops,
            self.member,
            settings,
            queues=self.queues,
            offsets=self.offsets,
            statistics=self.statistics,
            handler=handler or None,
        )
