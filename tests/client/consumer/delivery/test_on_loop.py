"""Coroutines on the loop: as many workers as there is work for."""

import asyncio
from contextlib import suppress

from orbitmq.client.consumer.delivery.concurrent import ConcurrentDelivery
from orbitmq.client.consumer.delivery.on_loop import LoopRunner
from orbitmq.message.model import StoredMessage
from tests.client.consumer.delivery.world import World, an_inbox, run
from tests.client.stored import a_stored_message


def test_workers_start_when_handlers_suspend_and_are_used_again() -> None:
    async def story(world: World) -> None:
        async def bill(_message: StoredMessage) -> None:
            await asyncio.sleep(0.1)

        delivery = ConcurrentDelivery(world.handler(bill), world.parts())
        runner = delivery._runner
        assert isinstance(runner, LoopRunner)
        inbox = an_inbox(*range(5))
        delivery.ready(inbox)
        await asyncio.sleep(0.15)
        assert (inbox.count, len(runner._tasks)) == (0, 5)
        for at in range(5, 50):
            inbox.put([a_stored_message(at=at)])
            delivery.ready(inbox)
            await asyncio.sleep(0.15)
        assert (inbox.count, len(runner._tasks)) == (0, 5)
        await delivery.close(1_000)

    run(story)


def test_what_arrives_while_handlers_run_does_not_wait_for_them() -> None:
    async def story(world: World) -> None:
        began: list[int] = []

        async def bill(message: StoredMessage) -> None:
            began.append(message.queue_offset)
            await asyncio.sleep(10)

        delivery = ConcurrentDelivery(world.handler(bill), world.parts())
        inbox = an_inbox(0)
        delivery.ready(inbox)
        for at in range(1, 4):
            await asyncio.sleep(0.1)
            inbox.put([a_stored_message(at=at)])
            delivery.ready(inbox)
        await asyncio.sleep(0.1)
        assert began == [0, 1, 2, 3]
        await delivery.close(0)
        assert inbox.waiting == 4

    run(story)


def test_a_handler_that_ignores_its_cancellation_does_not_hold_the_close() -> None:
    async def story(world: World) -> None:
        is_released = False

        async def bill(_message: StoredMessage) -> None:
            while not is_released:
                with suppress(asyncio.CancelledError):
                    await asyncio.sleep(60)

        delivery = ConcurrentDelivery(world.handler(bill), world.parts())
        inbox = an_inbox(0)
        delivery.ready(inbox)
        await asyncio.sleep(0.1)
        began_ms = world.clock.monotonic_ms()
        await delivery.close(500)
        assert world.clock.monotonic_ms() - began_ms <= 2_000
        assert (inbox.waiting, inbox.in_hand) == (1, 0)
        is_released = True
        await asyncio.sleep(61)
        assert inbox.waiting == 1  # its outcome no longer counts

    run(story)


def test_a_worker_that_user_code_cancelled_is_replaced() -> None:
    async def story(world: World) -> None:
        seen: list[int] = []

        async def bill(message: StoredMessage) -> None:
            seen.append(message.queue_offset)
            if len(seen) == 2:
                task = asyncio.current_task()
                assert task is not None
                task.cancel()
            await asyncio.sleep(0.01)

        delivery = ConcurrentDelivery(world.handler(bill), world.parts())
        inbox = an_inbox(*range(4))
        delivery.ready(inbox)
        await asyncio.sleep(5)
        assert sorted(set(seen)) == [0, 1, 2, 3]
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()
        await asyncio.sleep(0.01)
        inbox.put([a_stored_message(at=4)])
        delivery.ready(inbox)
        await asyncio.sleep(5)
        assert seen[-1] == 4
        await delivery.close(1_000)

    run(story, concurrency=1)
