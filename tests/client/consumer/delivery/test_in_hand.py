"""Taking from inboxes in turn, finishing once per turn of the loop."""

import asyncio

from orbitmq.client.consumer.delivery.in_hand import InHand
from tests.client.consumer.delivery.world import World, an_inbox, run


def test_what_is_finished_in_a_turn_is_committed_once() -> None:
    async def story(world: World) -> None:
        hand = InHand(world.parts(), one_at_a_time=False, wake=lambda: None)
        inbox = an_inbox(*range(10))
        hand.ready(inbox)
        while (batch := hand.take()) is not None:
            hand.finish(inbox, batch.messages, 2)
        assert not world.offsets.updates
        await asyncio.sleep(0)
        assert world.offsets.updates == [(0, 10)]
        status = world.statistics.status("orders")
        assert (status.consume_rt, status.consume_ok_tps) == (2.0, 10.0)

    run(story)


def test_some_batches_of_a_queue_then_the_next_queue() -> None:
    async def story(world: World) -> None:
        hand = InHand(world.parts(), one_at_a_time=False, wake=lambda: None)
        for number in range(2):
            hand.ready(an_inbox(*range(40), queue_id=number))
        assert hand.waiting(1_000) == 40
        batches = [hand.take() for _ in range(40)]
        queues = [one.inbox.queue.queue_id for one in batches if one is not None]
        assert queues == [0] * 16 + [1] * 16 + [0] * 4 + [1] * 4
        assert hand.take() is None

    run(story, batch_max=2)


def test_one_at_a_time_waits_for_the_next_to_be_allowed() -> None:
    async def story(world: World) -> None:
        hand = InHand(world.parts(), one_at_a_time=True, wake=lambda: None)
        inbox = an_inbox(1, 2)
        hand.ready(inbox)
        assert hand.take() is not None
        hand.ready(inbox)
        assert hand.take() is None
        hand.next_of(inbox)
        batch = hand.take()
        assert batch is not None
        assert batch.messages[0].queue_offset == 2

    run(story)


def test_a_close_gives_back_what_was_not_begun_and_what_waits_to_be_tried_again() -> None:
    async def story(world: World) -> None:
        hand = InHand(world.parts(), one_at_a_time=False, wake=lambda: None)
        inbox = an_inbox(1, 2, 3)
        hand.ready(inbox)
        batch = hand.take()
        assert batch is not None
        hand.give_back_later(inbox, batch.messages, 5_000)
        assert inbox.in_hand == 3
        hand.close()
        assert (inbox.in_hand, inbox.waiting) == (0, 3)
        assert hand.take() is None

    run(story)


def test_a_drained_inbox_is_forgotten_even_if_its_next_batch_was_not_allowed() -> None:
    async def story(world: World) -> None:
        in_hand = InHand(world.parts(), one_at_a_time=True, wake=lambda: None)
        inbox = an_inbox(0, 1)
        in_hand.ready(inbox)
        batch = in_hand.take()
        assert batch is not None
        in_hand.give_back(inbox, batch.messages)
        in_hand.next_of_later(inbox, 1_000)
        inbox.drop()
        await in_hand.drained(inbox)
        assert (len(in_hand._known), len(in_hand._timers)) == (0, 0)

    run(story)
