"""When a member gives queues to its user, in virtual time."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from orbitmq.client.consumer.assignment.membership import Membership
from orbitmq.client.consumer.subscriptions import subscription_data
from orbitmq.client.core.second_loop import SameLoop
from orbitmq.message.model import MessageQueue
from orbitmq.net.connection import Outcome
from orbitmq.wire.frame import Frame
from tests.client.consumer.assignment import test_rebalance
from tests.client.consumer.assignment.test_membership import description
from tests.client.consumer.assignment.test_rebalance import QUEUES
from tests.client.scene import BROKER_A, Scene, play, route

HANDOVER_MS = 250


class Member:
    """A membership whose queues are noted with the time since the last ``mark``."""

    def __init__(self, scene: Scene) -> None:
        self.clock = scene.clock
        self.given: list[tuple[int, frozenset[MessageQueue]]] = []
        self.began_ms = 0
        self.membership = Membership(
            SameLoop(), scene.settings(keep_open_ms=0), scene.machine, description(), self._assigned
        )

    def _assigned(self, _topic: str, queues: frozenset[MessageQueue]) -> None:
        self.given.append((self.clock.monotonic_ms() - self.began_ms, queues))

    def mark(self) -> None:
        self.given.clear()
        self.began_ms = self.clock.monotonic_ms()

    def notify(self) -> None:
        unused: Any = None
        self.membership._notified(unused, unused)

    async def start(self) -> None:
        self.mark()
        await self.membership.start([subscription_data("orders", "*")])
        await self.clock.sleep(0)


class Broker(test_rebalance.Broker):
    """A broker that lists the member and others."""

    def __init__(self, member: Member) -> None:
        super().__init__()
        self.member = member
        self.others: list[str] = []

    def __call__(self, request: Frame) -> Outcome:
        self.members = [self.member.membership.client_id, *self.others]
        return super().__call__(request)


def with_member(story: Callable[[Scene, Broker, Member], Awaitable[None]]) -> None:
    async def whole(scene: Scene) -> None:
        await scene.nameserver()
        await scene.broker(BROKER_A)
        scene.routes["orders"] = route("a")
        member = Member(scene)
        scene.answer = broker = Broker(member)
        await story(scene, broker, member)
        await member.membership.close(0)

    play(whole)


def test_the_only_member_gets_its_queues_at_once() -> None:
    async def story(_scene: Scene, _broker: Broker, member: Member) -> None:
        await member.start()
        assert member.given == [(0, frozenset(QUEUES))]

    with_member(story)


def test_a_member_among_others_leaves_new_queues_to_their_last_owners_for_a_while() -> None:
    async def story(_scene: Scene, broker: Broker, member: Member) -> None:
        broker.others = ["z"]
        await member.start()
        assert member.given == [(HANDOVER_MS, frozenset(QUEUES[:2]))]

    with_member(story)


def test_a_change_while_it_waits_is_seen_before_queues_are_given() -> None:
    async def story(scene: Scene, broker: Broker, member: Member) -> None:
        broker.others = ["z"]
        starting = asyncio.create_task(member.start())
        await scene.clock.sleep(0.2)
        broker.others = ["x", "y", "z"]
        member.notify()
        await starting
        assert member.given == [(2 * HANDOVER_MS, frozenset(QUEUES[:1]))]

    with_member(story)


def test_lost_queues_are_dropped_as_soon_as_a_member_is_notified() -> None:
    async def story(scene: Scene, broker: Broker, member: Member) -> None:
        await member.start()
        member.mark()
        broker.others = ["z"]
        member.notify()
        await scene.clock.sleep(0.1)
        assert member.given == [(50, frozenset(QUEUES[:2]))]
        broker.others = []
        await scene.clock.sleep(3)
        member.mark()
        member.notify()
        await scene.clock.sleep(0.01)
        assert member.given == [(0, frozenset(QUEUES))]

    with_member(story)


def test_rounds_that_follow_each_other_become_rarer() -> None:
    async def story(scene: Scene, broker: Broker, member: Member) -> None:
        await member.start()
        rounds_before = broker.asked
        for _ in range(300):
            member.notify()
            await scene.clock.sleep(0.01)
        # After 50, 100, 200, 400, 800 ms, and then each second.
        assert broker.asked - rounds_before == 6

    with_member(story)
