"""Messages in hand for too long."""

import asyncio

from orbitmq.client.consumer.delivery.concurrent import ConcurrentDelivery
from orbitmq.message.model import StoredMessage
from tests.client.consumer.delivery.world import World, an_inbox, run


def test_what_is_in_hand_for_too_long_is_sent_back_and_its_outcome_ignored() -> None:
    async def story(world: World) -> None:
        async def bill(message: StoredMessage) -> None:
            await asyncio.sleep(5 if message.queue_offset == 1 else 0)
            raise ValueError("no")

        inbox = an_inbox(1)
        delivery = ConcurrentDelivery(world.handler(bill), world.parts())
        await asyncio.sleep(0.5)
        delivery.ready(inbox)
        await asyncio.sleep(1.4)
        assert not world.retries.sent
        await asyncio.sleep(0.2)  # the second check
        assert world.retries.sent == [(1, 3)]
        assert world.offsets.of(0) == 2
        await asyncio.sleep(10)
        assert world.retries.sent == [(1, 3)]
        await delivery.close(0)

    run(story, consume_timeout_ms=1_000)


def test_sixteen_of_a_queue_at_a_time() -> None:
    async def story(world: World) -> None:
        async def bill(_message: StoredMessage) -> None:
            await asyncio.sleep(100)

        delivery = ConcurrentDelivery(world.handler(bill), world.parts())
        delivery.ready(an_inbox(*range(20)))
        await asyncio.sleep(1.5)
        assert len(world.retries.sent) == 16
        await asyncio.sleep(1)
        assert len(world.retries.sent) == 20
        await delivery.close(0)

    run(story, consume_timeout_ms=1_000)


def test_what_can_not_be_sent_back_stays_in_hand() -> None:
    async def story(world: World) -> None:
        world.retries.fails = 1

        async def bill(_message: StoredMessage) -> None:
            await asyncio.sleep(1.5)

        delivery = ConcurrentDelivery(world.handler(bill), world.parts())
        delivery.ready(an_inbox(1))
        await asyncio.sleep(2)
        assert not world.retries.sent
        assert world.offsets.of(0) == 2  # the handler has consumed it meanwhile
        await delivery.close(0)

    run(story, consume_timeout_ms=1_000)


def test_if_the_handler_ends_while_it_is_refused_it_is_consumed_again() -> None:
    async def story(world: World) -> None:
        world.retries.fails, world.retries.takes_s = 1, 0.9
        calls: list[int] = []

        async def bill(_message: StoredMessage) -> None:
            calls.append(world.clock.monotonic_ms())
            await asyncio.sleep(1.5 if len(calls) == 1 else 0)

        delivery = ConcurrentDelivery(world.handler(bill), world.parts())
        delivery.ready(an_inbox(1))
        await asyncio.sleep(10)
        assert calls == [0, 6_900]
        assert world.offsets.of(0) == 2
        await delivery.close(0)

    run(story, consume_timeout_ms=1_000)
