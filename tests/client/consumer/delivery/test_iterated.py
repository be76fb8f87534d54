"""Iteration: the next step acknowledges, leaving gives back."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from orbitmq.client.consumer.delivery.iterated import IteratedDelivery
from orbitmq.message.model import StoredMessage
from tests.client.consumer.delivery.world import World, an_inbox, run
from tests.client.stored import a_stored_message


@pytest.mark.parametrize("ordered", [False, True])
def test_the_next_message_acknowledges_the_one_before(ordered: bool) -> None:
    async def story(world: World) -> None:
        delivery = IteratedDelivery(world.parts())
        messages = delivery.messages()
        inbox = an_inbox(4, 5, 6)
        delivery.ready(inbox)
        assert (await anext(messages)).queue_offset == 4
        await asyncio.sleep(0.1)
        assert not world.offsets.updates
        assert (await anext(messages)).queue_offset == 5
        await asyncio.sleep(0.1)
        assert world.offsets.of(0) == 5
        await delivery.close(1_000)
        assert (inbox.in_hand, inbox.waiting) == (0, 2)
        with pytest.raises(StopAsyncIteration):
            await anext(messages)

    run(story, ordered=ordered)


@pytest.mark.parametrize("ordered", [False, True])
def test_a_break_gives_back_the_message_in_hand(ordered: bool) -> None:
    async def story(world: World) -> None:
        delivery = IteratedDelivery(world.parts())
        inbox = an_inbox(4, 5, 6)
        delivery.ready(inbox)
        async for message in delivery.messages():
            if message.queue_offset == 5:
                break
        await asyncio.sleep(0.1)
        assert world.offsets.of(0) == 5
        again = [one.queue_offset async for one in _first(delivery, 2)]
        assert (again if ordered else sorted(again)) == [5, 6]
        await delivery.close(1_000)
        assert world.clock.monotonic_ms() < 1_000

    async def _first(delivery: IteratedDelivery, count: int) -> AsyncIterator[StoredMessage]:
        async for message in delivery.messages():
            yield message
            count -= 1
            if not count:
                return

    run(story, ordered=ordered)


def test_a_loop_waits_for_messages_and_ends_with_the_consumer() -> None:
    async def story(world: World) -> None:
        delivery = IteratedDelivery(world.parts())
        got: list[int] = []

        async def loop() -> None:
            async for message in delivery.messages():
                got.append(message.queue_offset)  # noqa: PERF401 - looked at before the loop ends

        task = asyncio.create_task(loop())
        await asyncio.sleep(1)
        inbox = an_inbox(1)
        delivery.ready(inbox)
        await asyncio.sleep(1)
        inbox.put([a_stored_message(at=2)])
        delivery.ready(inbox)
        await asyncio.sleep(1)
        assert got == [1, 2]
        await delivery.close(1_000)
        await task
        assert world.offsets.of(0) == 3  # the loop had taken its next step

    run(story)


def test_queues_take_turns_and_loops_share_them() -> None:
    async def story(world: World) -> None:
        delivery = IteratedDelivery(world.parts())
        got: list[tuple[str, int]] = []

        async def loop() -> None:
            async for message in delivery.messages():
                got.append((message.topic, message.queue_offset))
                await asyncio.sleep(0.01)

        loops = [asyncio.create_task(loop()) for _ in range(2)]
        for number in range(3):
            delivery.ready(an_inbox(*range(40), queue_id=number, topic=str(number)))
        await asyncio.sleep(5)
        assert len(set(got)) == len(got) == 120
        assert {topic for topic, _ in got[:49]} == {"0", "1", "2"}
        await delivery.close(1_000)
        await asyncio.gather(*loops)

    run(story)


def test_an_ordered_queue_has_one_message_in_hand() -> None:
    async def story(world: World) -> None:
        delivery = IteratedDelivery(world.parts())
        inbox = an_inbox(1, 2)
        delivery.ready(inbox)
        first, second = delivery.messages(), delivery.messages()
        assert (await anext(first)).queue_offset == 1
        other = asyncio.ensure_future(anext(second))
        await asyncio.sleep(1)
        assert not other.done()
        await first.aclose()
        assert (await other).queue_offset == 1
        await delivery.close(0)

    run(story, ordered=True)


@pytest.mark.parametrize("ordered", [False, True])
def test_a_dropped_queue_is_drained_by_the_next_step(ordered: bool) -> None:
    async def story(world: World) -> None:
        delivery = IteratedDelivery(world.parts())
        messages = delivery.messages()
        inbox, other = an_inbox(1, 2, 3), an_inbox(9, queue_id=1)
        delivery.ready(inbox)
        assert (await anext(messages)).queue_offset == 1
        inbox.drop()
        drained = asyncio.create_task(delivery.drained(inbox))
        await asyncio.sleep(1)
        assert not drained.done()
        delivery.ready(other)
        assert (await anext(messages)).queue_offset == 9
        await drained
        # With a lock the queue is still ours; without one its new owner may be further.
        assert world.offsets.updates == ([(0, 2)] if ordered else [])

    run(story, ordered=ordered)


def test_a_cancelled_step_takes_no_message() -> None:
    async def story(world: World) -> None:
        delivery = IteratedDelivery(world.parts())
        messages = delivery.messages()
        step = asyncio.create_task(messages.__anext__())
        await asyncio.sleep(1)
        inbox = an_inbox(1)
        delivery.ready(inbox)
        step.cancel()
        await asyncio.wait([step])
        assert (await anext(messages)).queue_offset == 1

    run(story)


def test_a_step_can_time_out_and_the_next_one_goes_on() -> None:
    async def story(world: World) -> None:
        delivery = IteratedDelivery(world.parts())
        inbox = an_inbox(1)
        delivery.ready(inbox)
        messages = delivery.messages()
        assert (await anext(messages)).queue_offset == 1
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1):
                await anext(messages)
        assert world.offsets.of(0) == 2
        inbox.put([a_stored_message(at=2)])
        delivery.ready(inbox)
        assert (await anext(messages)).queue_offset == 2
        del messages  # it is left
        await delivery.close(1_000)
        assert world.offsets.of(0) == 2
        assert (inbox.in_hand, inbox.waiting) == (0, 1)

    run(story)


def test_a_close_waits_for_the_loops_of_other_tasks() -> None:
    async def story(world: World) -> None:
        delivery = IteratedDelivery(world.parts())
        delivery.ready(an_inbox(1, 2))

        async def loop() -> None:
            async for _message in delivery.messages():
                await asyncio.sleep(2)

        task = asyncio.create_task(loop())
        await asyncio.sleep(1)
        await delivery.close(10_000)
        assert world.clock.monotonic_ms() == 2_000
        assert world.offsets.of(0) == 2
        await task

    run(story)
