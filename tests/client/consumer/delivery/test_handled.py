"""The laws of delivery, for any outcome of handlers, in any order, with drops."""

import asyncio
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orbitmq.client.consumer.delivery.concurrent import ConcurrentDelivery
from orbitmq.client.consumer.delivery.handler import RetryLater
from orbitmq.client.consumer.delivery.ordered import OrderedDelivery
from orbitmq.client.consumer.fetching.inbox import Inbox
from orbitmq.message.model import MessageQueue, StoredMessage
from tests.client.consumer.delivery.world import World, an_inbox, run

_STEP = st.tuples(
    st.sampled_from(["return", "raise", "part", "later"]), st.integers(min_value=0, max_value=3)
)
_QUEUES = 3
_EACH = 12


class _WatchedInbox(Inbox):
    """Counts how often each message is finished."""

    __slots__ = ("finished",)

    def __init__(self, queue: MessageQueue) -> None:
        super().__init__(queue)
        self.finished: Counter[int] = Counter()

    def finish(self, messages: Any) -> None:
        """Count, and finish."""
        self.finished.update(one.queue_offset for one in messages)
        super().finish(messages)


def _watched(number: int) -> _WatchedInbox:
    made = an_inbox(*range(_EACH), queue_id=number, topic=str(number))
    inbox = _WatchedInbox(made.queue)
    inbox.put(list(made._waiting))
    return inbox


@pytest.mark.parametrize("ordered", [False, True])
@given(
    steps=st.lists(_STEP, max_size=60),
    fails=st.integers(0, 5),
    drop_after=st.none() | st.integers(0, 30),
    batch_max=st.integers(1, 4),
    concurrency=st.integers(1, 4),
)
@settings(max_examples=60, deadline=None)
def test_each_message_is_finished_once_and_no_commit_passes_an_unfinished_one(
    ordered: bool,
    steps: list[tuple[str, int]],
    fails: int,
    drop_after: int | None,
    batch_max: int,
    concurrency: int,
) -> None:
    async def story(world: World) -> None:
        world.retries.fails = fails
        script = iter(steps)
        delivered: list[tuple[str, int]] = []

        async def bill(given: Any) -> None:
            messages: list[StoredMessage] = given if batch_max > 1 else [given]
            assert not any(inboxes[int(one.topic)].is_dropped for one in messages)
            delivered.extend((one.topic, one.queue_offset) for one in messages)
            outcome, tenths = next(script, ("return", 0))
            if tenths:
                await asyncio.sleep(tenths / 10)
            if outcome == "raise":
                raise ValueError("no")
            if outcome == "later":
                raise RetryLater(delay_level=2, suspend_ms=20)
            if outcome == "part":
                raise RetryLater(messages=messages[len(messages) // 2 :])

        inboxes = [_watched(number) for number in range(_QUEUES)]
        kind = OrderedDelivery if ordered else ConcurrentDelivery
        delivery = kind(world.handler(bill), world.parts())
        update = world.offsets.update

        def checked(queue: MessageQueue, offset: int, **_others: Any) -> None:
            unfinished = inboxes[queue.queue_id]._unfinished
            assert all(one >= offset for one in unfinished)
            update(queue, offset)

        world.offsets.update = checked  # type: ignore[method-assign]
        for inbox in inboxes:
            delivery.ready(inbox)
        if drop_after is not None:
            await asyncio.sleep(drop_after / 20)
            inboxes[0].drop()
            await asyncio.wait_for(delivery.drained(inboxes[0]), 10)
            assert inboxes[0].in_hand == 0
        await asyncio.sleep(600)
        for inbox in inboxes:
            assert all(count == 1 for count in inbox.finished.values())
            if not inbox.is_dropped:
                assert inbox.count == 0
                assert world.offsets.of(inbox.queue.queue_id) == _EACH
        await delivery.close(0)
        if ordered:
            for number in range(_QUEUES):
                order = [offset for topic, offset in delivered if topic == str(number)]
                firsts = list(dict.fromkeys(order))
                assert firsts == sorted(firsts)

    run(story, ordered=ordered, batch_max=batch_max, concurrency=concurrency)
