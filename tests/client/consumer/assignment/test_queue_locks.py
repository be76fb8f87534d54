import asyncio
import logging
from collections.abc import Awaitable, Callable

import pytest

from orbitmq.client.consumer.assignment.queue_locks import LOCK_VALID_MS, QueueLocks
from orbitmq.client.core.client_core import ClientCore
from orbitmq.message.model import MessageQueue
from orbitmq.net.connection import Outcome
from orbitmq.wire.bodies.locks import LockedQueues, LockRequest, UnlockRequest
from orbitmq.wire.codes import RequestCode
from orbitmq.wire.frame import Frame
from orbitmq.wire.session import Response
from tests.client.scene import BROKER_A, Scene, play

INTERVAL_MS = 20_000
ONE, TWO = (MessageQueue("orders", "broker-a", number) for number in (1, 2))


class Broker:
    """A broker that grants the locks of some queues, or is silent."""

    def __init__(self) -> None:
        self.grants = {ONE, TWO}
        self.is_silent = False
        self.unlocked: list[MessageQueue] = []

    def __call__(self, request: Frame) -> Outcome:
        if request.code == RequestCode.LOCK_BATCH_MQ:
            asked = LockRequest.from_json(request.body)
            locked = tuple(queue for queue in asked.mq_set if queue in self.grants)
            return None if self.is_silent else Response(body=LockedQueues(locked=locked).to_json())
        if request.code == RequestCode.UNLOCK_BATCH_MQ:
            self.unlocked += UnlockRequest.from_json(request.body).mq_set
        return Response()


def with_locks(story: Callable[[Scene, QueueLocks, Broker], Awaitable[None]]) -> None:
    async def whole(scene: Scene) -> None:
        await scene.nameserver()
        await scene.broker(BROKER_A)
        scene.answer = broker = Broker()
        core = await ClientCore.acquire(scene.settings(keep_open_ms=0), scene.machine)
        locks = QueueLocks(core, "billing", lambda _queue: BROKER_A, interval_ms=INTERVAL_MS)
        await story(scene, locks, broker)
        await core.release()

    play(whole)


def test_only_locked_queues_are_assigned() -> None:
    async def story(_scene: Scene, locks: QueueLocks, broker: Broker) -> None:
        broker.grants = {ONE}
        assert await locks.settle("orders", [ONE, TWO]) == {ONE}
        broker.grants = {ONE, TWO}
        assert await locks.settle("orders", [ONE, TWO]) == {ONE, TWO}

    with_locks(story)


def test_a_queue_is_unlocked_when_it_is_released_and_not_before() -> None:
    async def story(scene: Scene, locks: QueueLocks, broker: Broker) -> None:
        await locks.settle("orders", [ONE, TWO])
        assert await locks.settle("orders", [TWO]) == {TWO}
        renewed = await locks.renew()
        assert (renewed.lost_topics, renewed.is_complete, broker.unlocked) == (set(), True, [])
        # Wanted again before its release: this member waits as another would.
        assert await locks.settle("orders", [ONE, TWO]) == {TWO}
        assert locks.released(ONE)
        assert not locks.released(ONE)
        await scene.clock.sleep(1)
        assert broker.unlocked == [ONE]
        assert await locks.settle("orders", [ONE, TWO]) == {ONE, TWO}

    with_locks(story)


def test_a_refused_renewal_loses_the_queue_at_once() -> None:
    async def story(_scene: Scene, locks: QueueLocks, broker: Broker) -> None:
        await locks.settle("orders", [ONE, TWO])
        broker.grants = {TWO}
        renewed = await locks.renew()
        assert renewed == ({"orders"}, True)
        assert locks.assigned("orders") == {TWO}
        locks.released(ONE)
        assert broker.unlocked == []  # it was not ours any more

    with_locks(story)


def test_a_broker_that_does_not_answer_costs_the_lock_after_its_time() -> None:
    async def story(scene: Scene, locks: QueueLocks, broker: Broker) -> None:
        await locks.settle("orders", [ONE])
        broker.is_silent = True
        renewed = await locks.renew()
        assert renewed == (set(), False)
        assert locks.assigned("orders") == {ONE}
        await scene.clock.sleep(LOCK_VALID_MS / 1_000)
        assert await locks.renew() == ({"orders"}, False)
        assert locks.assigned("orders") == frozenset()

    with_locks(story)


def test_the_end_unlocks_everything() -> None:
    async def story(_scene: Scene, locks: QueueLocks, broker: Broker) -> None:
        await locks.settle("orders", [ONE, TWO])
        await locks.close(1_000)
        assert broker.unlocked == [ONE, TWO]

    with_locks(story)


def test_a_queue_without_a_master_is_not_assigned() -> None:
    async def story(_scene: Scene, locks: QueueLocks, _broker: Broker) -> None:
        locks._master_of = lambda queue: BROKER_A if queue == ONE else None
        assert await locks.settle("orders", [ONE, TWO]) == {ONE}

    with_locks(story)


def test_after_a_broken_connection_only_what_it_has_is_locked_for_an_interval() -> None:
    """The broker may have restarted, without the locks of members that come back later."""

    async def story(scene: Scene, locks: QueueLocks, _broker: Broker) -> None:
        core = locks._core
        assert await locks.settle("orders", [ONE]) == {ONE}
        assert not locks.is_disturbed
        connection = core.open_connection(BROKER_A)
        assert connection is not None
        connection.abort("broken")
        await scene.clock.sleep(1)
        assert locks.is_disturbed
        assert await locks.settle("orders", [ONE, TWO]) == {ONE}
        assert await locks.renew() == (set(), True)
        assert not locks.is_disturbed
        assert await locks.settle("orders", [ONE, TWO]) == {ONE}
        await scene.clock.sleep(INTERVAL_MS / 1_000)
        assert await locks.settle("orders", [ONE, TWO]) == {ONE, TWO}

    with_locks(story)


def test_the_end_unlocks_what_a_broker_may_have_locked() -> None:
    async def story(_scene: Scene, locks: QueueLocks, broker: Broker) -> None:
        broker.is_silent = True
        settling = asyncio.create_task(locks.settle("orders", [ONE]))
        await asyncio.sleep(0.1)
        settling.cancel()
        assert await locks.settle("orders", [TWO]) == frozenset()
        await locks.close(1_000)
        assert broker.unlocked == [ONE, TWO]

    with_locks(story)


def test_a_broker_that_cannot_lock_is_logged_once_until_it_can(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story(_scene: Scene, locks: QueueLocks, broker: Broker) -> None:
        for _ in range(2):
            broker.is_silent = True
            for _ in range(3):
                await locks.settle("orders", [ONE])
            broker.is_silent = False
            assert await locks.settle("orders", [ONE]) == {ONE}
            await locks.settle("orders", [])
            assert locks.released(ONE)

    caplog.set_level(logging.INFO, "orbitmq.client")
    with_locks(story)
    assert caplog.text.count("1 queues of billing can't be locked") == 2
    assert caplog.text.count("queues of billing can be locked at 10.0.0.1:10911 again") == 2
