"""Queues that come and go at random between two members, in virtual time."""

import asyncio
import random
from typing import Any

import pytest

from orbitmq.client.consumer.fetching.fetcher import FetchParts
from orbitmq.client.consumer.fetching.flow_control import FlowLimits
from orbitmq.client.consumer.fetching.inbox import Inbox
from orbitmq.client.consumer.fetching.owned_queues import OwnedQueues
from orbitmq.client.consumer.fetching.pulls import Pulled, PullStatus
from orbitmq.client.consumer.offsets.offsets import NotedOffsets
from orbitmq.client.consumer.subscriptions import subscription_data
from orbitmq.errors import ConnectFailed
from orbitmq.message.model import MessageQueue
from orbitmq.testing.clocks import VirtualClock, run_virtual
from tests.client.stored import a_stored_message

QUEUES = [MessageQueue("orders", "broker-a", number) for number in range(3)]
MESSAGES = 60


class Broker:
    """Queues of ``MESSAGES`` messages and the offsets of a group; one request in ten fails."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.offsets = dict.fromkeys(QUEUES, 0)
        self.seen: dict[MessageQueue, set[int]] = {queue: set() for queue in QUEUES}

    async def request(self) -> None:
        await asyncio.sleep(self.chance.random() / 10)
        if self.chance.random() < 0.1:
            raise ConnectFailed("no connection", address="a:1")


class Pulls:
    def __init__(self, broker: Broker) -> None:
        self.broker = broker

    async def pull(self, queue: MessageQueue, offset: int, *_args: Any, **_more: Any) -> Pulled:
        await self.broker.request()
        end = min(offset + self.broker.chance.randint(1, 8), MESSAGES)
        if offset == MESSAGES:
            await asyncio.sleep(1)
            return Pulled(PullStatus.NO_NEW, [], offset, 0, MESSAGES)
        messages = [a_stored_message(at=one) for one in range(offset, end)]
        return Pulled(PullStatus.FOUND, messages, end, 0, MESSAGES)

    def forget(self, queue: MessageQueue) -> None:
        pass


class Offsets(NotedOffsets):
    def __init__(self, broker: Broker) -> None:
        super().__init__()
        self.broker = broker

    async def load(self) -> None:
        pass

    async def stored(self, queue: MessageQueue) -> int | None:
        await self.broker.request()
        return self.broker.offsets[queue]

    async def persist(self, queues: Any = None, *, confirm: bool = False) -> None:
        for queue in list(self.noted if queues is None else queues):
            offset = self.get(queue)
            if offset is not None and (confirm or self.broker.chance.random() < 0.9):
                # What is committed has been consumed by some member.
                assert self.broker.seen[queue] >= set(range(offset))
                assert offset >= self.broker.offsets[queue]  # it never goes back
                self.broker.offsets[queue] = offset


class Delivery:
    """Finishes messages in any order, some of them late."""

    def __init__(self, broker: Broker, offsets: Offsets) -> None:
        self.broker = broker
        self.offsets = offsets
        self.tasks: set[asyncio.Task[None]] = set()

    def ready(self, inbox: Inbox) -> None:
        for message in inbox.take(99, now_ms=0):
            task = asyncio.create_task(self._consume(inbox, message))
            self.tasks.add(task)
            task.add_done_callback(self.tasks.discard)

    async def _consume(self, inbox: Inbox, message: Any) -> None:
        await asyncio.sleep(self.broker.chance.choice([0.01, 0.1, 3]))
        self.broker.seen[inbox.queue].add(message.queue_offset)
        inbox.finish([message])
        if not inbox.is_dropped and inbox.commit_offset is not None:
            self.offsets.update(inbox.queue, inbox.commit_offset)

    async def drained(self, inbox: Inbox) -> None:
        while inbox.in_hand:  # noqa: ASYNC110 - time is virtual
            await asyncio.sleep(0.05)


def member(broker: Broker, clock: VirtualClock) -> OwnedQueues:
    offsets: Any = Offsets(broker)
    start: Any = type("Start", (), {"of": staticmethod(offsets.stored)})()
    pulls: Any = Pulls(broker)
    return OwnedQueues(
        parts=FetchParts(
            pulls=pulls,
            offsets=offsets,
            delivery=Delivery(broker, offsets),
            subscription_of=lambda topic: subscription_data(topic, "*"),
            clock=clock,
        ),
        start=start,
        limits=FlowLimits(queue_messages_max=10, queue_bytes_max=9_999, total_messages_max=20),
        offset_interval_ms=500,
    )


@pytest.mark.parametrize("seed", range(20))
def test_all_is_consumed_and_committed_wherever_queues_go(seed: int) -> None:
    async def main(clock: VirtualClock) -> None:
        chance = random.Random(seed)
        broker = Broker(chance)
        members = [member(broker, clock), member(broker, clock)]
        for _ in range(12):
            owner = {queue: chance.choice(members) for queue in QUEUES}
            for one in members:
                one.assign("orders", frozenset(q for q in QUEUES if owner[q] is one))
            await asyncio.sleep(chance.random() * 4)
        await asyncio.sleep(120)
        assert all(broker.seen[queue] == set(range(MESSAGES)) for queue in QUEUES)
        assert broker.offsets == dict.fromkeys(QUEUES, MESSAGES)
        for one in members:
            await one.close(10_000)
            assert one.inboxes == {}
        assert broker.offsets == dict.fromkeys(QUEUES, MESSAGES)

    run_virtual(main)
