import asyncio
from collections.abc import Awaitable, Callable, Iterable

import pytest

from orbitmq.client.consumer.offsets.handover import Handover
from orbitmq.client.consumer.offsets.offsets import NotedOffsets
from orbitmq.errors import ConnectFailed
from orbitmq.message.model import MessageQueue
from orbitmq.testing.clocks import VirtualClock, run_virtual

ONE, TWO = (MessageQueue("orders", "broker-a", number) for number in (1, 2))
MINUTE_S = 60


class Store(NotedOffsets):
    """A broker's offsets, which other members change as well; reading takes a millisecond."""

    def __init__(self) -> None:
        super().__init__()
        self.stored_: dict[MessageQueue, int] = {}
        self.reads = 0
        self.sent = 0
        self.is_down = False

    async def load(self) -> None:
        pass

    async def stored(self, queue: MessageQueue) -> int | None:
        await asyncio.sleep(0.001)
        self.reads += 1
        if self.is_down:
            raise ConnectFailed("no connection", address="a:1")
        return self.stored_.get(queue)

    async def persist(
        self,
        queues: Iterable[MessageQueue] | None = None,
        *,
        confirm: bool = False,
    ) -> None:
        for queue in list(self.noted if queues is None else queues):
            if (offset := self.get(queue)) is not None:
                self.stored_[queue] = offset
                self.sent += 1


def play(story: Callable[[Handover, Store], Awaitable[None]], *, soon: bool = True) -> None:
    async def main(clock: VirtualClock) -> None:
        store = Store()
        handover = Handover(store, clock, soon=soon)
        await story(handover, store)
        await handover.close()

    run_virtual(main)


def test_progress_after_a_take_is_stored_within_a_moment() -> None:
    async def story(handover: Handover, store: Store) -> None:
        handover.take(ONE)
        for offset in (5, 9):
            store.update(ONE, offset)
            await asyncio.sleep(0.25)
            assert store.stored_ == {ONE: offset}
        reads = store.reads
        await asyncio.sleep(10)
        assert store.reads == reads  # nothing new, nothing to do
        assert repr(handover) == "<Handover of 1 queues>"

    play(story)


def test_a_new_owner_does_not_undo_what_the_last_one_finished_late() -> None:
    async def story(handover: Handover, store: Store) -> None:
        handover.take(ONE)
        store.update(ONE, 5)
        store.stored_[ONE] = 8
        await asyncio.sleep(1)
        await handover.commit([ONE])
        assert store.stored_ == {ONE: 8}
        store.update(ONE, 9)
        await asyncio.sleep(1)
        assert store.stored_ == {ONE: 9}

    play(story)


def test_an_offset_that_is_stored_already_is_not_sent_and_read_once() -> None:
    """Sent again, it could arrive after a later one of the last owner."""

    async def story(handover: Handover, store: Store) -> None:
        handover.take(ONE)
        store.update(ONE, 5)
        store.stored_[ONE] = 5
        await asyncio.sleep(5)
        assert (store.sent, store.reads) == (0, 1)
        store.update(ONE, 6)
        await asyncio.sleep(1)
        assert (store.sent, store.stored_) == (1, {ONE: 6})

    play(story)


@pytest.mark.parametrize("owned_s", [1, 10 * MINUTE_S])
def test_an_old_owner_does_not_undo_what_the_new_one_has_stored(owned_s: int) -> None:
    async def story(handover: Handover, store: Store) -> None:
        handover.take(ONE)
        store.update(ONE, 5)
        await asyncio.sleep(owned_s)
        store.stored_[ONE] = 8
        await handover.commit_last(ONE, confirm=True)
        assert store.stored_ == {ONE: 8}
        store.update(ONE, 9)
        await handover.commit_last(ONE, confirm=True)
        assert store.stored_ == {ONE: 9}

    play(story)


def test_pulls_commit_when_the_last_owner_has_nothing_in_hand_any_more() -> None:
    async def story(handover: Handover, store: Store) -> None:
        assert handover.take(ONE) == MINUTE_S * 1_000
        await asyncio.sleep(MINUTE_S + 1)
        assert repr(handover) == "<Handover of 0 queues>"
        store.update(ONE, 5)
        reads = store.reads
        await asyncio.sleep(1)
        assert store.stored_ == {}
        await handover.commit([ONE])
        assert (store.stored_, store.reads) == ({ONE: 5}, reads)
        handover.take(TWO)  # the task has ended, and begins again
        store.update(TWO, 3)
        await asyncio.sleep(1)
        assert store.stored_[TWO] == 3

    play(story)


def test_a_consumer_whose_pulls_do_not_commit_stores_when_it_is_called() -> None:
    async def story(handover: Handover, store: Store) -> None:
        handover.take(ONE)
        store.update(ONE, 5)
        await asyncio.sleep(10)
        assert store.stored_ == {}
        await handover.commit([ONE])
        assert store.stored_ == {ONE: 5}

    play(story, soon=False)


def test_an_offset_that_cannot_be_read_is_not_replaced_and_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story(handover: Handover, store: Store) -> None:
        handover.take(ONE)
        store.update(ONE, 5)
        store.is_down = True
        await asyncio.sleep(5)
        assert store.stored_ == {}
        store.is_down = False
        await asyncio.sleep(1)
        assert store.stored_ == {ONE: 5}

    play(story)
    assert caplog.text.count("its offset is not stored") == 1


def test_a_forgotten_queue_is_not_stored() -> None:
    async def story(handover: Handover, store: Store) -> None:
        handover.take(ONE)
        store.update(ONE, 5)
        handover.forget(ONE)
        await asyncio.sleep(5)
        assert (store.stored_, store.reads) == ({}, 0)

    play(story)
