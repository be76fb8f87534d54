"""Ordered delivery: one batch of a queue at a time, tried again until it succeeds."""

import asyncio
from typing import Any

import pytest

from orbitmq.client.consumer.delivery.handler import RetryLater
from orbitmq.client.consumer.delivery.ordered import OrderedDelivery
from orbitmq.message.model import StoredMessage
from tests.client.consumer.delivery.world import World, an_inbox, run


async def _delivered(
    world: World, handler: Any, *inboxes: Any, seconds: float = 1
) -> OrderedDelivery:
    delivery = OrderedDelivery(world.handler(handler), world.parts())
    for inbox in inboxes:
        delivery.ready(inbox)
    await asyncio.sleep(seconds)
    return delivery


@pytest.mark.parametrize("is_async", [True, False])
def test_a_queue_is_consumed_in_order(is_async: bool) -> None:
    async def story(world: World) -> None:
        got: list[int] = []

        async def bill(message: StoredMessage) -> None:
            got.append(message.queue_offset)
            await asyncio.sleep(0.1 if message.queue_offset % 2 else 0)

        function = bill if is_async else lambda message: got.append(message.queue_offset)
        await _delivered(world, function, an_inbox(*range(50)), seconds=10)
        assert got == list(range(50))
        assert world.offsets.of(0) == 50

    run(story, ordered=True)


def test_queues_go_on_beside_each_other_up_to_the_concurrency() -> None:
    async def story(world: World) -> None:
        running: list[int] = []
        most = 0

        async def bill(message: StoredMessage) -> None:
            nonlocal most
            key = int(message.topic)
            assert key not in running
            running.append(key)
            most = max(most, len(running))
            await asyncio.sleep(0.1)
            running.remove(key)

        inboxes = [an_inbox(0, 1, 2, queue_id=n, topic=str(n)) for n in range(4)]
        await _delivered(world, bill, *inboxes, seconds=5)
        assert most == 2
        assert all(inbox.count == 0 for inbox in inboxes)

    run(story, ordered=True, concurrency=2)


@pytest.mark.parametrize(
    ("given_ms", "waited_ms"), [(None, 1_000), (3, 10), (250, 250), (60_000, 30_000)]
)
def test_a_failure_suspends_the_queue(given_ms: int | None, waited_ms: int) -> None:
    async def story(world: World) -> None:
        got: list[tuple[int, int, int]] = []

        async def bill(message: StoredMessage) -> None:
            got.append((world.clock.monotonic_ms(), message.queue_offset, message.reconsume_times))
            if len(got) == 2:
                raise RetryLater(suspend_ms=given_ms)

        inbox = an_inbox(5, 6, 7)
        await _delivered(world, bill, inbox, seconds=40)
        assert got == [(0, 5, 0), (0, 6, 0), (waited_ms, 6, 1), (waited_ms, 7, 0)]
        assert world.offsets.of(0) == 8
        assert not world.retries.republished

    run(story, ordered=True)


def test_it_is_tried_without_end_by_default() -> None:
    async def story(world: World) -> None:
        times: list[int] = []

        async def bill(message: StoredMessage) -> None:
            times.append(message.reconsume_times)
            raise ValueError("no")

        await _delivered(world, bill, an_inbox(5, 6), seconds=29.5)
        assert times == list(range(30))
        assert not world.offsets.updates

    run(story, ordered=True)


def test_after_the_last_time_it_is_given_up_and_the_queue_goes_on() -> None:
    async def story(world: World) -> None:
        world.retries.fails = 1
        got: list[tuple[int, int]] = []

        async def bill(message: StoredMessage) -> None:
            got.append((message.queue_offset, message.reconsume_times))
            if message.queue_offset == 5:
                raise ValueError("no")

        await _delivered(world, bill, an_inbox(5, 6), seconds=10)
        # The first attempt to give it up fails, so it is tried once more.
        assert got == [(5, 0), (5, 1), (5, 2), (5, 3), (6, 0)]
        assert [one.queue_offset for one in world.retries.republished] == [5]
        assert world.offsets.of(0) == 7

    run(story, ordered=True, max_reconsume_times=2)


def test_of_a_batch_the_named_message_and_those_after_it_are_tried_again() -> None:
    async def story(world: World) -> None:
        got: list[list[int]] = []

        async def bill(messages: list[StoredMessage]) -> None:
            got.append([one.queue_offset for one in messages])
            if len(got) == 1:
                raise RetryLater(messages=[messages[1]])

        await _delivered(world, bill, an_inbox(1, 2, 3, 4), seconds=5)
        assert got == [[1, 2, 3], [2, 3, 4]]
        assert world.offsets.of(0) == 5

    run(story, ordered=True, batch_max=3)


@pytest.mark.parametrize("fails", [False, True])
def test_after_a_drop_what_succeeded_is_committed_and_nothing_more_is_delivered(
    fails: bool,
) -> None:
    async def story(world: World) -> None:
        got: list[int] = []

        async def bill(message: StoredMessage) -> None:
            got.append(message.queue_offset)
            await asyncio.sleep(2)
            if fails:
                raise ValueError("no")

        inbox = an_inbox(3, 4, 5)
        delivery = await _delivered(world, bill, inbox)
        inbox.drop()
        await delivery.drained(inbox)
        await asyncio.sleep(60)
        assert got == [3]
        assert world.offsets.updates == ([] if fails else [(0, 4)])

    run(story, ordered=True)


def test_a_suspended_queue_is_drained_at_once() -> None:
    async def story(world: World) -> None:
        async def bill(_message: StoredMessage) -> None:
            raise RetryLater(suspend_ms=30_000)

        inbox = an_inbox(3)
        delivery = await _delivered(world, bill, inbox)
        inbox.drop()
        await delivery.drained(inbox)
        assert world.clock.monotonic_ms() == 1_000
        await delivery.close(1_000)

    run(story, ordered=True)
