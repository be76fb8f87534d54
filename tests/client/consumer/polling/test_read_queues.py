"""Seeks, pauses and commits of the queues that a pull consumer reads."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest

from orbitmq.client.consumer.fetching.inbox import Inbox
from orbitmq.client.consumer.names import Names
from orbitmq.client.consumer.polling.polled import PolledDelivery
from orbitmq.client.consumer.polling.positions import Positions
from orbitmq.client.consumer.polling.read_queues import ReadQueues, listed
from orbitmq.clock import SystemClock
from orbitmq.errors import InvalidInput, NotAssigned
from orbitmq.message.model import MessageQueue
from tests.client.consumer.polling.parts import QUEUES, MemoryOffsets, an_inbox

WIRE = tuple(MessageQueue("shop%orders", one.broker_name, one.queue_id) for one in QUEUES)


class Owned:
    """Queues that are being fetched; notes what is asked of them."""

    def __init__(self) -> None:
        self.inboxes: dict[MessageQueue, Inbox] = {}
        self.paused: set[MessageQueue] = set()
        self.resets: list[Mapping[MessageQueue, int]] = []

    def pause(self, queues: list[MessageQueue]) -> None:
        self.paused.update(queues)

    def resume(self, queues: list[MessageQueue]) -> None:
        self.paused.difference_update(queues)

    async def reset(self, offsets: Mapping[MessageQueue, int]) -> None:
        self.resets.append(offsets)


class Given:
    """Two queues are assigned, others not."""

    def __init__(self) -> None:
        self.queues = frozenset(WIRE[:2])
        self.freed: list[MessageQueue] = []

    def released(self, queue: MessageQueue) -> None:
        self.freed.append(queue)


class Ask:
    async def begin(self, _queue: MessageQueue) -> int:
        return 2

    async def end(self, _queue: MessageQueue) -> int:
        return 9

    async def of(self, _queue: MessageQueue) -> int:
        return 4


def play(story: Callable[[Any, MemoryOffsets], Awaitable[None]]) -> None:
    async def main() -> None:
        store = MemoryOffsets()
        positions = Positions(store, auto_commit=False)
        parts: dict[str, Any] = {
            "assignments": Given(),
            "owned": Owned(),
            "start": Ask(),
            "ask": Ask(),
            "is_shared": lambda: True,
        }
        polled = PolledDelivery(positions, SystemClock(), lambda *_: None)
        reading = ReadQueues(names=Names("shop"), polled=polled, positions=positions, **parts)
        await story(reading, store)

    asyncio.run(main())


def fetched(reading: ReadQueues, queue: MessageQueue, *offsets: int) -> Inbox:
    """Have messages fetched, and returned by a poll."""
    inbox = an_inbox(queue, *offsets)
    inboxes: Any = reading.owned.inboxes
    inboxes[queue] = inbox
    reading.polled.ready(inbox)
    reading.polled.take(99)
    return inbox


def test_queues_that_are_not_read_are_refused() -> None:
    async def story(reading: ReadQueues, _store: MemoryOffsets) -> None:
        assert reading.chosen(None) == list(WIRE[:2])
        assert reading.chosen([QUEUES[1]]) == [WIRE[1]]
        with pytest.raises(NotAssigned, match=r"assigned list, may be rebalancing.*topic='orders'"):
            reading.chosen(QUEUES)
        with pytest.raises(NotAssigned, match="assigned list, message queue"):
            reading._replace(is_shared=lambda: False).pause([QUEUES[3]])

    play(story)


def test_a_position_is_behind_what_polls_returned_or_where_they_begin() -> None:
    async def story(reading: ReadQueues, _store: MemoryOffsets) -> None:
        assert await reading.position(QUEUES[0]) == 4
        fetched(reading, WIRE[0], 4, 5)
        assert await reading.position(QUEUES[0]) == 6

    play(story)


def test_a_seek_drops_what_was_fetched() -> None:
    async def story(reading: ReadQueues, _store: MemoryOffsets) -> None:
        inbox = fetched(reading, WIRE[0], 4, 5)
        await reading.seek(QUEUES[0], 9)
        assert inbox.is_dropped
        assert await reading.position(QUEUES[0]) == 9
        assert reading.owned.resets == [{WIRE[0]: 9}]  # type: ignore[attr-defined]
        with pytest.raises(InvalidInput, match="min offset = 2, max offset = 9"):
            await reading.seek(QUEUES[0], 10)
        await reading.seek_all(None, reading.ask.begin)
        assert [await reading.position(one) for one in QUEUES[:2]] == [2, 2]

    play(story)


def test_offsets_up_to_what_polls_returned_can_be_committed() -> None:
    async def story(reading: ReadQueues, store: MemoryOffsets) -> None:
        fetched(reading, WIRE[0], 4, 5)
        assert reading.commit({QUEUES[0]: 5}) == [WIRE[0]]
        assert store.noted == {WIRE[0]: 5}
        with pytest.raises(InvalidInput, match="polls returned what is before 6"):
            reading.commit({QUEUES[0]: 7})
        assert reading.commit(None) is None
        assert store.noted == {WIRE[0]: 6}

    play(story)


def test_a_released_queue_is_no_longer_paused() -> None:
    async def story(reading: ReadQueues, _store: MemoryOffsets) -> None:
        reading.pause(None)
        assert reading.owned.paused == reading.polled.paused == set(WIRE[:2])  # type: ignore[attr-defined]
        reading.resume([QUEUES[1]])
        reading.released(WIRE[0])
        assert reading.owned.paused == reading.polled.paused == set()  # type: ignore[attr-defined]
        assert reading.assignments.freed == [WIRE[0]]  # type: ignore[attr-defined]

    play(story)


def test_a_single_queue_counts_as_a_list() -> None:
    assert listed(QUEUES[0]) == [QUEUES[0]]
    with pytest.raises(InvalidInput, match="it must be MessageQueues"):
        listed("orders")
