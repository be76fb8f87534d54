"""Concurrent delivery: what follows each outcome of a handler."""

import asyncio
import logging
from itertools import pairwise
from typing import Any

import pytest

from orbitmq.client.consumer.delivery.concurrent import ConcurrentDelivery
from orbitmq.client.consumer.delivery.handler import RetryLater
from orbitmq.client.observe.consume_hooks import ConsumeContext, ConsumeHook
from orbitmq.message.model import StoredMessage
from tests.client.consumer.delivery.world import World, an_inbox, run
from tests.client.scene import stand_still
from tests.client.stored import a_stored_message


async def _delivered(
    world: World, handler: Any, *inboxes: Any, seconds: float = 1
) -> ConcurrentDelivery:
    delivery = ConcurrentDelivery(world.handler(handler), world.parts())
    for inbox in inboxes:
        delivery.ready(inbox)
    await asyncio.sleep(seconds)
    return delivery


@pytest.mark.parametrize("is_async", [True, False])
def test_what_a_handler_returns_from_is_consumed_and_committed(is_async: bool) -> None:
    async def story(world: World) -> None:
        got: list[int] = []

        async def bill(message: StoredMessage) -> None:
            got.append(message.queue_offset)

        function = bill if is_async else lambda message: got.append(message.queue_offset)
        inbox = an_inbox(*range(7, 107))
        delivery = await _delivered(world, function, inbox)
        assert sorted(got) == list(range(7, 107))
        assert inbox.count == 0
        assert world.offsets.of(0) == 107
        assert not world.retries.sent
        assert "100 consumed" in repr(world.statistics)
        await delivery.close(1_000)

    run(story)


@pytest.mark.parametrize("is_async", [True, False])
def test_what_a_handler_fails_on_is_sent_back(is_async: bool) -> None:
    async def story(world: World) -> None:
        def bill(message: StoredMessage) -> None:
            if message.queue_offset == 8:
                raise RetryLater("closed", delay_level=5)
            if message.queue_offset == 9:
                raise ValueError("no such bill")

        async def later(message: StoredMessage) -> None:
            bill(message)

        inbox = an_inbox(7, 8, 9)
        await _delivered(world, later if is_async else bill, inbox)
        assert sorted(world.retries.sent) == [(8, 5), (9, 0)]
        assert inbox.count == 0
        assert world.offsets.of(0) == 10
        assert "1 consumed, 2 failed" in repr(world.statistics)

    run(story)


def test_a_message_that_can_not_be_sent_back_is_consumed_again_after_five_seconds() -> None:
    async def story(world: World) -> None:
        world.retries.fails = 1
        got: list[tuple[int, int]] = []

        async def bill(message: StoredMessage) -> None:
            got.append((world.clock.monotonic_ms(), message.reconsume_times))
            if len(got) == 1:
                raise ValueError("not now")

        inbox = an_inbox(7, 8)
        await _delivered(world, bill, inbox, seconds=4)
        assert (inbox.count, inbox.commit_offset) == (1, 7)
        await asyncio.sleep(2)
        assert got == [(0, 0), (0, 0), (5_000, 1)]
        assert world.offsets.of(0) == 9

    run(story)


def test_a_part_of_a_batch_is_sent_back() -> None:
    async def story(world: World) -> None:
        async def bill(messages: list[StoredMessage]) -> None:
            if len(messages) > 1:
                raise RetryLater(messages=messages[1:2])

        inbox = an_inbox(1, 2, 3, 4, 5)
        await _delivered(world, bill, inbox)
        assert world.retries.sent == [(2, 0)]
        assert world.offsets.of(0) == 6
        assert "4 consumed, 1 failed" in repr(world.statistics)

    run(story, batch_max=4)


def test_a_retry_of_foreign_messages_is_one_of_the_whole_batch(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story(world: World) -> None:
        async def bill(_messages: list[StoredMessage]) -> None:
            raise RetryLater(messages=[a_stored_message(at=99)])

        await _delivered(world, bill, an_inbox(1, 2))
        assert world.retries.sent == [(1, 0), (2, 0)]

    run(story, batch_max=4)
    assert "of another batch" in caplog.text


def test_a_broadcast_that_fails_is_dropped_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def story(world: World) -> None:
        async def bill(_message: StoredMessage) -> None:
            raise ValueError("no")

        inbox = an_inbox(1, 2)
        await _delivered(world, bill, inbox)
        assert not world.retries.sent
        assert world.offsets.of(0) == 3

    run(story, broadcasting=True)
    assert [one.levelno for one in caplog.records].count(logging.ERROR) == 2


def test_concurrency_limits_the_handlers_and_queues_take_turns() -> None:
    async def story(world: World) -> None:
        running, most, order = 0, 0, []

        async def bill(message: StoredMessage) -> None:
            nonlocal running, most
            running += 1
            most = max(most, running)
            order.append(message.topic)
            await asyncio.sleep(0.1)
            running -= 1

        busy = an_inbox(*range(100), topic="busy")
        quiet = an_inbox(*range(10), topic="quiet", queue_id=1)
        await _delivered(world, bill, busy, quiet, seconds=20)
        assert most == 3
        assert len(order) == 110
        assert "quiet" in order[:30]

    run(story, concurrency=3)


def test_a_handler_that_never_suspends_lets_the_loop_go_on() -> None:
    async def story(world: World) -> None:
        ticks: list[int] = []
        done = 0

        async def bill(_message: StoredMessage) -> None:
            nonlocal done
            done += 1
            stand_still(0.001)

        async def tick() -> None:
            while done < 100:
                ticks.append(done)
                await asyncio.sleep(0)

        inbox = an_inbox(*range(100))
        delivery = ConcurrentDelivery(world.handler(bill), world.parts())
        delivery.ready(inbox)
        await tick()
        steps = [later - before for before, later in pairwise(ticks)]
        assert max(steps) <= 5
        assert len(delivery._runner._tasks) == 1  # type: ignore[union-attr]

    run(story)


def test_a_retried_message_has_its_first_topic() -> None:
    async def story(world: World) -> None:
        world.namespace = "ns"
        seen: list[str] = []

        async def bill(message: StoredMessage) -> None:
            seen.append(message.topic)

        retry = an_inbox(1, topic="%RETRY%ns%billing", RETRY_TOPIC="ns%orders")
        plain = an_inbox(2, topic="ns%orders", queue_id=1)
        await _delivered(world, bill, retry, plain)
        assert seen == ["orders", "orders"]

    run(story)


@pytest.mark.parametrize("fails", [False, True])
def test_after_a_drop_nothing_is_delivered_sent_back_or_committed(fails: bool) -> None:
    async def story(world: World) -> None:
        got: list[int] = []

        async def bill(message: StoredMessage) -> None:
            got.append(message.queue_offset)
            await asyncio.sleep(2)
            if fails:
                raise ValueError("no")

        inbox = an_inbox(*range(10))
        delivery = await _delivered(world, bill, inbox)
        inbox.drop()
        await asyncio.wait_for(delivery.drained(inbox), 5)
        assert world.clock.monotonic_ms() == 2_000
        assert got == [0, 1]
        assert inbox.in_hand == 0
        assert not world.offsets.updates
        assert not world.retries.sent

    run(story, concurrency=2)


def test_a_close_waits_for_handlers_then_gives_back_what_they_have() -> None:
    async def story(world: World) -> None:
        async def bill(message: StoredMessage) -> None:
            await asyncio.sleep(1 if message.queue_offset == 0 else 100)

        inbox = an_inbox(*range(10))
        delivery = await _delivered(world, bill, inbox, seconds=0.5)
        await delivery.close(3_000)
        assert world.clock.monotonic_ms() == 3_500
        assert (inbox.in_hand, inbox.waiting) == (0, 9)
        assert world.offsets.of(0) == 1
        assert not world.retries.sent

    run(story, concurrency=2)


def test_a_handler_may_close_its_own_consumer() -> None:
    async def story(world: World) -> None:
        delivery: ConcurrentDelivery

        async def bill(_message: StoredMessage) -> None:
            await delivery.close(10_000)

        inbox = an_inbox(1, 2)
        delivery = ConcurrentDelivery(world.handler(bill), world.parts())
        delivery.ready(inbox)
        await asyncio.sleep(1)
        # It can't be waited for, so its message is not committed: the group gets it again.
        assert (inbox.in_hand, inbox.waiting, world.offsets.of(0)) == (0, 2, None)

    run(story, concurrency=1)


def test_something_cancelled_inside_a_handler_is_a_failure() -> None:
    async def story(world: World) -> None:
        async def bill(_message: StoredMessage) -> None:
            raise asyncio.CancelledError

        await _delivered(world, bill, an_inbox(1))
        assert world.retries.sent == [(1, 0)]

    run(story)


def test_hooks_see_each_delivery() -> None:
    async def story(world: World) -> None:
        seen: list[tuple[str, bool]] = []

        class Watch(ConsumeHook):
            def before(self, context: ConsumeContext) -> None:
                assert not context.status
                seen.append((f"before {context.messages[0].queue_offset}", context.is_success))

            def after(self, context: ConsumeContext) -> None:
                seen.append((context.status, context.is_success))

        world.hooks.add(Watch())

        async def bill(message: StoredMessage) -> None:
            if message.queue_offset == 2:
                raise RetryLater
            if message.queue_offset == 3:
                raise ValueError("no")

        await _delivered(world, bill, an_inbox(1, 2, 3))
        assert [one for one in seen if not one[0].startswith("before")] == [
            ("success", True),
            ("later", False),
            ("exception", False),
        ]
        assert len(seen) == 6

    run(story, concurrency=1)
