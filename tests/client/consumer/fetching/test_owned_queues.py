from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from orbitmq.client.consumer.fetching.fetcher import FetchParts
from orbitmq.client.consumer.fetching.flow_control import FlowLimits
from orbitmq.client.consumer.fetching.inbox import Inbox
from orbitmq.client.consumer.fetching.owned_queues import OwnedQueues
from orbitmq.client.consumer.offsets.remote import RemoteOffsets
from orbitmq.client.consumer.offsets.start import StartOffsets
from orbitmq.client.consumer.subscriptions import subscription_data
from orbitmq.errors import ConnectFailed, OrbitError
from orbitmq.message.model import MessageQueue, StoredMessage
from orbitmq.wire.codes import RequestCode
from orbitmq.wire.headers.offset import ResetOffset
from tests.client.consumer import world as worlds
from tests.client.consumer.world import TOPIC, ByHand, World, bodies, until

GROUP = "billing"


@dataclass
class Member:
    """A member of the group that owns what a test assigns to it."""

    world: World
    delivery: ByHand = field(default_factory=ByHand)
    released: list[MessageQueue] = field(default_factory=list)
    owned: OwnedQueues = field(init=False)
    offsets: RemoteOffsets = field(init=False)

    def __post_init__(self) -> None:
        core = self.world.core
        self.offsets = RemoteOffsets(core, GROUP)
        self.owned = OwnedQueues(
            parts=FetchParts(
                pulls=self.world.pulls(GROUP, batch=4),
                offsets=self.offsets,
                delivery=self.delivery,
                subscription_of=lambda topic: subscription_data(topic, "*"),
                clock=core.machine.clock,
            ),
            start=StartOffsets(core, self.offsets, "first"),
            limits=FlowLimits(queue_messages_max=6, queue_bytes_max=1_000_000),
            offset_interval_ms=50,
            released=self.released.append,
        )

    def take_queue(self) -> None:
        self.owned.assign(TOPIC, frozenset({self.world.queue}))

    def leave_queue(self) -> None:
        self.owned.assign(TOPIC, frozenset())

    async def inbox(self, after: Inbox | None = None, waiting: int = 1) -> Inbox:
        queue, inboxes = self.world.queue, self.owned.inboxes
        await until(
            lambda: inboxes.get(queue) not in (None, after) and inboxes[queue].waiting >= waiting,
            f"{waiting} messages of the queue",
        )
        return inboxes[queue]

    async def see_another_pull(self, offset: int) -> None:
        """Return when another group has pulled a message: this one would have it, too."""
        pulls = self.world.pulls("audit", suspend_ms=20_000)
        assert (await pulls.pull(self.world.queue, offset, subscription_data(TOPIC, "*"))).messages

    def finish(self, inbox: Inbox, messages: list[StoredMessage]) -> None:
        """Do as a delivery does."""
        self.delivery.finish(inbox, messages)
        if not inbox.is_dropped:
            assert inbox.commit_offset is not None
            self.offsets.update(inbox.queue, inbox.commit_offset)

    def stored(self) -> int:
        return self.world.cluster._brokers[0].state.offsets.query(GROUP, TOPIC, 0)


def play(
    story: Callable[[Member], Awaitable[None]], settings: Mapping[str, str] | None = None
) -> None:
    async def whole(world: World) -> None:
        member = Member(world)
        try:
            await story(member)
        finally:
            await member.owned.close(0)

    worlds.play(whole, settings)


def test_a_queue_is_fetched_and_its_progress_stored() -> None:
    async def story(member: Member) -> None:
        await member.world.send("a", "b", "c")
        member.take_queue()
        inbox = await member.inbox(waiting=3)
        taken = inbox.take(2, 0)
        assert bodies(taken) == ["a", "b"]
        member.finish(inbox, taken)
        await until(lambda: member.stored() == 2, "the offset at the broker")
        assert "1 fetched of 1" in repr(member.owned)

    play(story)


def test_progress_is_stored_soon_after_a_queue_was_taken() -> None:
    async def story(member: Member) -> None:
        member.owned.offset_interval_ms = 600_000
        await member.world.send("a", "b")
        member.take_queue()
        inbox = await member.inbox(waiting=2)
        member.finish(inbox, inbox.take(1, 0))
        await until(lambda: member.stored() == 1, "the offset at the broker")

    play(story)


def test_flow_control_holds_pulls_and_lets_them_go_on() -> None:
    async def story(member: Member) -> None:
        await member.world.send(*"abcdefghijklmnop")
        member.take_queue()
        inbox = await member.inbox(waiting=8)  # 4 and 4: one answer beyond the limit
        seen: list[str] = []
        while len(seen) < 16:
            await until(lambda: inbox.waiting, "more messages")
            assert inbox.count <= 10
            taken = inbox.take(1, 0)
            seen += bodies(taken)
            member.finish(inbox, taken)
        assert "".join(seen) == "abcdefghijklmnop"

    play(story)


def test_a_dropped_queue_is_committed_released_and_begins_there_when_it_is_retaken() -> None:
    async def story(member: Member) -> None:
        await member.world.send("a", "b", "c")
        member.take_queue()
        inbox = await member.inbox(waiting=3)
        member.finish(inbox, inbox.take(1, 0))
        member.leave_queue()
        await until(lambda: member.released, "the release")
        assert inbox.is_dropped
        assert member.stored() == 1
        assert member.offsets.get(member.world.queue) is None
        member.take_queue()
        again = await member.inbox(waiting=2)
        assert bodies(again.take(2, 0)) == ["b", "c"]

    play(story)


def test_messages_in_hand_end_before_a_dropped_queue_is_released_or_retaken() -> None:
    async def story(member: Member) -> None:
        await member.world.send("a", "b", "c")
        member.take_queue()
        inbox = await member.inbox(waiting=3)
        taken = inbox.take(2, 0)
        member.finish(inbox, taken[:1])
        member.leave_queue()
        await until(lambda: member.stored() == 1, "what was finished before")
        member.take_queue()
        await member.offsets.stored(member.world.queue)  # a take would have read it by now
        assert member.owned.inboxes == {}
        member.finish(inbox, taken[1:])
        again = await member.inbox(after=inbox)
        assert member.stored() == 2
        assert bodies(again.take(2, 0)) == ["c"]
        assert member.released == []  # it was never free

    play(story)


def test_a_late_end_does_not_undo_the_progress_of_another_member() -> None:
    async def story(member: Member) -> None:
        await member.world.send("a", "b", "c")
        member.take_queue()
        inbox = await member.inbox(waiting=3)
        taken = inbox.take(1, 0)
        member.leave_queue()
        await until(lambda: member.offsets.get(member.world.queue) is None, "the drop's commit")
        other = RemoteOffsets(member.world.core, GROUP)
        other.update(member.world.queue, 3)
        await other.persist(confirm=True)
        member.finish(inbox, taken)
        await until(lambda: member.released, "the release")
        assert member.stored() == 3

    play(story)


def test_an_offset_that_the_queue_lacks_is_replaced_and_stored() -> None:
    async def story(member: Member) -> None:
        await member.world.send("a", "b")
        await member.world.create_group(GROUP)
        ahead = RemoteOffsets(member.world.core, GROUP)
        ahead.update(member.world.queue, 40)
        await ahead.persist(confirm=True)
        member.take_queue()
        await until(lambda: member.stored() == 2, "the end of the queue at the broker")
        await member.world.send("c")
        assert bodies((await member.inbox()).take(1, 0)) == ["c"]
        assert member.released == []

    play(story)


def test_an_operator_moves_a_queue_back() -> None:
    async def story(member: Member) -> None:
        await member.world.send("a", "b", "c")
        member.take_queue()
        inbox = await member.inbox(waiting=3)
        member.finish(inbox, inbox.take(3, 0))
        elsewhere = MessageQueue(TOPIC, "broker-z", 0)
        await member.owned.reset({member.world.queue: 1, elsewhere: 7})
        assert member.stored() == 1
        again = await member.inbox(after=inbox, waiting=2)
        assert bodies(again.take(9, 0)) == ["b", "c"]
        await member.owned.reset({elsewhere: 7})

    play(story)


def test_a_reset_on_the_broker_moves_a_queue_back() -> None:
    async def story(member: Member) -> None:
        await member.world.send("a", "b", "c")
        member.take_queue()
        inbox = await member.inbox(waiting=3)
        member.finish(inbox, inbox.take(3, 0))
        await until(lambda: member.stored() == 3, "the offset at the broker")
        header = ResetOffset(group=GROUP, topic=TOPIC, queue_id=0, offset=1)
        address = member.world.core.routes.published[TOPIC].addresses["broker-a"]
        code = RequestCode.INVOKE_BROKER_TO_RESET_OFFSET
        assert (await member.world.core.request(address, header, code=code)).code == 0
        again = await member.inbox(after=inbox, waiting=2)
        assert bodies(again.take(9, 0)) == ["b", "c"]
        assert member.stored() == 1

    play(story, {"useServerSideResetOffset": "true"})


def test_a_queue_whose_start_cannot_be_read_is_taken_later(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures: list[OrbitError] = [ConnectFailed("no connection", address="a:1")]
    real = StartOffsets.of

    async def failing(self: Any, queue: MessageQueue) -> int:
        if failures:
            raise failures.pop()
        return await real(self, queue)

    monkeypatch.setattr(StartOffsets, "of", failing)

    async def story(member: Member) -> None:
        await member.world.send("a")
        member.take_queue()
        assert bodies((await member.inbox()).take(1, 0)) == ["a"]

    play(story)
    assert "is not taken yet" in caplog.text


def test_paused_queues_are_not_pulled_until_they_are_resumed() -> None:
    async def story(member: Member) -> None:
        member.owned.pause()
        member.take_queue()
        await until(lambda: member.owned.inboxes, "the queue")
        await member.world.send("a")
        await member.see_another_pull(0)
        (inbox,) = member.owned.inboxes.values()
        assert inbox.count == 0
        member.owned.pause([member.world.queue])
        member.owned.resume()
        await member.inbox()
        member.finish(inbox, inbox.take(1, 0))
        member.owned.pause([member.world.queue])
        resumed = member.owned._owned[member.world.queue].resumed
        await until(lambda: resumed._waiters, "the end of the pull in flight")
        await member.world.send("b")
        await member.see_another_pull(1)
        assert inbox.count == 0
        member.owned.resume([member.world.queue])
        await member.inbox()

    play(story)


def test_a_close_stores_what_is_finished_and_leaves_what_takes_too_long(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story(member: Member) -> None:
        await member.world.send("a", "b")
        member.take_queue()
        inbox = await member.inbox(waiting=2)
        taken = inbox.take(2, 0)
        member.delivery.finish(inbox, taken[:1])
        await member.owned.close(50)
        assert member.stored() == 1
        assert member.owned.inboxes == {}
        member.take_queue()
        assert member.owned.inboxes == {}

    play(story)
    assert "is left with messages in hand" in caplog.text


def test_queues_are_fetched_again_after_their_broker_restarts() -> None:
    async def story(member: Member) -> None:
        await member.world.send("a")
        member.take_queue()
        inbox = await member.inbox()
        member.finish(inbox, inbox.take(1, 0))
        await member.world.restart_broker()
        await member.world.send("b")
        await until(lambda: inbox.waiting, "the message after the restart")
        assert bodies(inbox.take(1, 0)) == ["b"]

    play(story)
