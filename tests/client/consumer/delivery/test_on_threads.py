"""Plain functions on real threads."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from orbitmq.client.consumer.delivery.concurrent import ConcurrentDelivery
from orbitmq.client.consumer.delivery.ordered import OrderedDelivery
from orbitmq.clock import SystemClock, pause
from orbitmq.message.model import StoredMessage
from orbitmq.threads import Lock, ThreadWorkers
from tests.client.consumer.delivery.world import World, an_inbox


async def _until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110 - no event says so
            await asyncio.sleep(0.002)


def _run(story: Callable[[World], Coroutine[Any, Any, None]], **settings: Any) -> None:
    asyncio.run(story(World(SystemClock(), **settings)))  # type: ignore[arg-type]


def test_quick_functions_consume_all_once() -> None:
    async def story(world: World) -> None:
        got: list[int] = []
        workers = ThreadWorkers(8, name="test")
        delivery = ConcurrentDelivery(
            world.handler(lambda message: got.append(message.queue_offset), workers), world.parts()
        )
        inboxes = [an_inbox(*range(1_000), queue_id=number) for number in range(4)]
        for inbox in inboxes:
            delivery.ready(inbox)
        await _until(lambda: not any(inbox.count for inbox in inboxes))
        assert len(got) == 4_000
        assert all(world.offsets.of(number) == 1_000 for number in range(4))
        await delivery.close(1_000)

    _run(story, concurrency=8)


def test_slow_functions_run_side_by_side_and_one_that_is_stuck_holds_up_no_other() -> None:
    async def story(world: World) -> None:
        gate, lock, running, most = Lock(), Lock(), 0, 0
        gate.acquire()

        def bill(message: StoredMessage) -> None:
            nonlocal running, most
            with lock:
                running += 1
                most = max(most, running)
            if message.queue_offset == 500:
                gate.acquire()
            elif message.queue_offset > 500:
                pause(2)
            with lock:
                running -= 1

        delivery = ConcurrentDelivery(
            world.handler(bill, ThreadWorkers(4, name="test")), world.parts()
        )
        inbox = an_inbox(*range(600))
        delivery.ready(inbox)
        await _until(lambda: inbox.count == 1)
        assert 2 <= most <= 4
        assert inbox.commit_offset == 500
        gate.release()
        await _until(lambda: inbox.count == 0)
        await delivery.close(1_000)

    _run(story, concurrency=4)


def test_a_drop_takes_back_what_no_thread_has_begun() -> None:
    async def story(world: World) -> None:
        gate = Lock()
        gate.acquire()
        began: list[int] = []

        def bill(message: StoredMessage) -> None:
            began.append(message.queue_offset)
            if message.queue_offset >= 100:
                gate.acquire()
                gate.release()

        delivery = ConcurrentDelivery(
            world.handler(bill, ThreadWorkers(2, name="test")), world.parts()
        )
        inbox = an_inbox(*range(300))
        delivery.ready(inbox)
        await _until(lambda: len(began) == 102)
        await _until(lambda: inbox.commit_offset == 100)
        inbox.drop()
        drained = asyncio.create_task(delivery.drained(inbox))
        await asyncio.sleep(0)
        assert not drained.done()
        gate.release()
        await asyncio.wait_for(drained, 20)
        assert len(began) == 102
        assert world.offsets.of(0) == 100
        await delivery.close(1_000)

    _run(story, concurrency=2)


def test_a_close_does_not_wait_longer_than_it_should_and_gives_back() -> None:
    async def story(world: World) -> None:
        gate = Lock()
        gate.acquire()
        workers = ThreadWorkers(2, name="test")
        delivery = ConcurrentDelivery(
            world.handler(lambda _message: gate.acquire(), workers), world.parts()
        )
        inbox = an_inbox(*range(10))
        delivery.ready(inbox)
        await delivery.close(10)
        assert (inbox.in_hand, inbox.waiting) == (0, 10)
        gate.release()
        await asyncio.to_thread(workers.finish)  # the handler returns, and its thread ends
        assert not world.offsets.updates

    _run(story, concurrency=1)


def test_a_coroutine_that_a_function_returns_is_awaited() -> None:
    async def story(world: World) -> None:
        done: list[int] = []

        async def bill(message: StoredMessage) -> None:
            await asyncio.sleep(0)
            done.append(message.queue_offset)
            if message.queue_offset == 2:
                raise ValueError("no")

        workers = ThreadWorkers(1, name="test")
        delivery = ConcurrentDelivery(
            world.handler(lambda message: bill(message), workers),  # noqa: PLW0108 - a function
            world.parts(),
        )
        inbox = an_inbox(1, 2)
        delivery.ready(inbox)
        await _until(lambda: inbox.count == 0)
        assert sorted(done) == [1, 2]
        assert world.retries.sent == [(2, 0)]
        await delivery.close(1_000)

    _run(story, concurrency=2)


def test_ordered_functions_keep_the_order_of_each_queue() -> None:
    async def story(world: World) -> None:
        got: dict[str, list[int]] = {"0": [], "1": [], "2": []}
        workers = ThreadWorkers(3, name="test")
        delivery = OrderedDelivery(
            world.handler(lambda message: got[message.topic].append(message.queue_offset), workers),
            world.parts(),
        )
        inboxes = [an_inbox(*range(200), queue_id=n, topic=str(n)) for n in range(3)]
        for inbox in inboxes:
            delivery.ready(inbox)
        await _until(lambda: not any(inbox.count for inbox in inboxes))
        assert all(one == list(range(200)) for one in got.values())
        await delivery.close(1_000)

    _run(story, concurrency=3, ordered=True)


def test_a_handler_that_closes_its_consumer_gets_no_more() -> None:
    async def story(world: World) -> None:
        got: list[int] = []

        def close(message: StoredMessage) -> None:
            got.append(message.queue_offset)
            handler.is_closing = True

        handler = world.handler(close, ThreadWorkers(1, name="test"))
        delivery = ConcurrentDelivery(handler, world.parts())
        inbox = an_inbox(*range(10))
        delivery.ready(inbox)
        await _until(lambda: bool(world.offsets.updates))
        await delivery.close(1_000)
        assert got == [0]
        assert (inbox.in_hand, inbox.waiting) == (0, 9)

    _run(story, concurrency=1)
