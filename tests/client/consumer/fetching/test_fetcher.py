import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from orbitmq.client.consumer.fetching.fetcher import Fetcher, FetchParts
from orbitmq.client.consumer.fetching.flow_control import FlowLimits
from orbitmq.client.consumer.fetching.inbox import Inbox
from orbitmq.client.consumer.fetching.pulls import Pulled, PullStatus
from orbitmq.client.consumer.fetching.room import Room
from orbitmq.client.consumer.offsets.offsets import NotedOffsets
from orbitmq.client.consumer.subscriptions import subscription_data
from orbitmq.errors import BrokerError, ConnectFailed
from orbitmq.message.model import MessageQueue
from orbitmq.testing.clocks import VirtualClock, run_virtual
from tests.client.consumer.world import ByHand
from tests.client.stored import a_stored_message

QUEUE = MessageQueue("orders", "broker-a", 3)
NOTHING = Pulled(PullStatus.NO_NEW, [], 0, 0, 0)


def found(*offsets: int, then: int | None = None) -> Pulled:
    messages = [a_stored_message(at=offset) for offset in offsets]
    following = offsets[-1] + 1 if then is None else then
    return Pulled(PullStatus.FOUND, messages, following, 0, 100)


class Answers:
    """Pulls that a test answers; when it has no more answers, they are held."""

    def __init__(self, clock: VirtualClock, answers: list[Pulled | Exception]) -> None:
        self.clock = clock
        self.answers = answers
        self.asked: list[tuple[int, int, int | None]] = []  # when, offset, commit
        self.began_ms = clock.monotonic_ms()

    async def pull(
        self, queue: MessageQueue, offset: int, subscription: object, *, commit: int | None = None
    ) -> Pulled:
        assert queue == QUEUE
        assert subscription is not None
        self.asked.append((self.clock.monotonic_ms() - self.began_ms, offset, commit))
        if not self.answers:
            await asyncio.Event().wait()
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    @property
    def offsets(self) -> list[int]:
        return [offset for _, offset, _ in self.asked]

    @property
    def times_ms(self) -> list[int]:
        return [time_ms for time_ms, _, _ in self.asked]


class World:
    def __init__(
        self, clock: VirtualClock, answers: list[Pulled | Exception], **parts: Any
    ) -> None:
        self.answers = Answers(clock, answers)
        self.inbox = Inbox(QUEUE)
        self.delivery = ByHand()
        self.offsets = NotedOffsets()
        self.resumed = asyncio.Event()
        self.resumed.set()
        self.counted: list[tuple[str, int, int]] = []
        pulls: Any = self.answers
        offsets: Any = self.offsets
        limits = FlowLimits(
            queue_messages_max=parts.pop("queue_messages_max", 10), queue_bytes_max=999
        )
        self.fetcher = Fetcher(
            inbox=self.inbox,
            offset=5,
            room=Room(limits, {QUEUE: self.inbox}),
            resumed=self.resumed,
            commits_from_ms=parts.pop("commits_from_ms", 0),
            parts=FetchParts(
                **{
                    "pulls": pulls,
                    "offsets": offsets,
                    "delivery": self.delivery,
                    "subscription_of": lambda topic: subscription_data(topic, "*"),
                    "clock": clock,
                    "pulled": lambda *one: self.counted.append(one),
                    **parts,
                }
            ),
        )
        self.task = asyncio.create_task(self.fetcher.run())

    async def settle(self, seconds: float = 0.0) -> None:
        await asyncio.sleep(seconds)
        for _ in range(20):
            await asyncio.sleep(0)


def play(
    story: Callable[[World], Coroutine[Any, Any, None]], *answers: Pulled | Exception, **parts: Any
) -> None:
    async def main(clock: VirtualClock) -> None:
        world = World(clock, list(answers), **parts)
        await world.settle()
        await story(world)
        world.task.cancel()
        await asyncio.wait([world.task])

    run_virtual(main)


def test_messages_are_put_and_the_next_pull_follows_at_once() -> None:
    async def story(world: World) -> None:
        assert world.answers.asked == [(0, 5, None), (0, 7, None), (0, 9, None)]
        assert [one.queue_offset for one in world.inbox.take(9, 0)] == [5, 6, 7, 8]
        assert world.delivery.notified == [world.inbox, world.inbox]
        assert world.counted == [("orders", 2, 0), ("orders", 2, 0)]
        assert world.inbox.pulled_ms == world.answers.clock.monotonic_ms()  # not the time of day
        assert "at 9" in repr(world.fetcher)

    play(story, found(5, 6), found(7, 8))


def test_an_answer_without_messages_moves_the_offset_if_nothing_is_left() -> None:
    async def story(world: World) -> None:
        assert world.offsets.get(QUEUE) == 6
        assert world.answers.asked[-1][1:] == (9, 6)
        world.inbox.finish(world.inbox.take(9, 0))

    play(
        story,
        NOTHING._replace(next_offset=6),
        found(6),
        Pulled(PullStatus.NO_MATCH, [], 9, 0, 9),  # 6 is not finished
    )


def test_pulls_commit_unless_they_must_not() -> None:
    async def story(world: World) -> None:
        assert [commit for _, _, commit in world.answers.asked] == [None, None]

    play(story, NOTHING._replace(next_offset=6), commits=False)
    play(story, NOTHING._replace(next_offset=6), commits_from_ms=2**60)


def test_pulls_pause_after_errors(caplog: pytest.LogCaptureFixture) -> None:
    async def story(world: World) -> None:
        await world.settle(3.5)
        assert world.answers.times_ms == [0, 1_000, 1_020, 2_020, 3_020]

    play(
        story,
        ConnectFailed("no connection", address="a:1"),
        BrokerError.of(215, "flow control"),
        ConnectFailed("no connection", address="a:1"),
        RuntimeError("a bug"),
    )
    assert caplog.text.count("a pull failed, and is tried again: no connection") == 1


def test_a_full_inbox_holds_the_next_pull_until_messages_are_finished() -> None:
    async def story(world: World) -> None:
        assert world.answers.offsets == [5]
        first, *_ = world.inbox.take(9, 0)
        await world.settle(60)
        assert world.answers.offsets == [5]
        world.inbox.finish([first])
        await world.settle()
        assert world.answers.offsets == [5, 8]

    play(story, found(5, 6, 7), queue_messages_max=2)


def test_a_paused_queue_is_not_pulled() -> None:
    async def story(world: World) -> None:
        world.resumed.clear()
        world.answers.answers.append(found(5))
        await world.settle(60)
        assert world.answers.offsets == [5]

    play(story)


def test_a_topic_that_is_not_subscribed_is_not_pulled() -> None:
    subscriptions: dict[str, Any] = {}

    async def story(world: World) -> None:
        assert world.answers.asked == []
        subscriptions["orders"] = subscription_data("orders", "*")
        await world.settle(1)
        assert world.answers.times_ms == [1_000]

    play(story, subscription_of=subscriptions.get)


def test_a_queue_waits_between_pulls_if_asked_to() -> None:
    async def story(world: World) -> None:
        await world.settle(1)
        assert world.answers.times_ms == [0, 500]

    play(story, found(5), interval_ms=500)


def test_a_broker_that_gets_nowhere_is_not_asked_at_full_speed() -> None:
    async def story(world: World) -> None:
        await world.settle(0.03)
        assert world.answers.times_ms == [0, 20]

    play(story, Pulled(PullStatus.NO_MATCH, [], 5, 0, 9))


@pytest.mark.parametrize(
    "answer",
    [
        Pulled(PullStatus.OFFSET_ILLEGAL, [], 42, 42, 50),
        Pulled(PullStatus.NO_NEW, [], 3, 0, 3),  # the broker lost messages
    ],
)
def test_a_queue_without_the_offset_ends_the_fetcher(answer: Pulled) -> None:
    async def story(world: World) -> None:
        assert await world.task == answer.next_offset
        assert world.offsets.get(QUEUE) is None

    play(story, answer)


@pytest.mark.parametrize(("end", "continued_at"), [(9, 6), (6, 6), (4, 4)])
def test_what_waits_is_not_passed_if_the_queue_ends_before_the_offset(
    end: int, continued_at: int
) -> None:
    async def story(world: World) -> None:
        world.inbox.finish(world.inbox.take(1, 0))  # the one at 5, which makes room for a pull
        assert await world.task == continued_at

    moved = Pulled(PullStatus.OFFSET_ILLEGAL, [], end, 0, end)
    play(story, found(5, 6, 7, 8, 9), moved, queue_messages_max=4)


def test_a_broker_that_forgot_the_group_is_reported() -> None:
    reports: list[int] = []

    async def story(world: World) -> None:
        await world.settle(3.5)
        assert (len(world.answers.asked), len(reports)) == (4, 2)

    play(
        story,
        BrokerError.of(24, "the consumer's subscription not exist"),
        BrokerError.of(25, "the consumer's subscription not latest"),
        ConnectFailed("no connection", address="a:1"),
        forgotten=lambda: reports.append(1),
    )
