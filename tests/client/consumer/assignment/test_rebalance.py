from collections.abc import Awaitable, Callable, Sequence

from orbitmq.client.consumer.assignment.rebalance import GroupDescription, Rebalance
from orbitmq.client.consumer.assignment.strategies import Average
from orbitmq.client.core.client_core import ClientCore
from orbitmq.message.model import MessageQueue
from orbitmq.net.connection import Outcome
from orbitmq.wire.bodies.group import ConsumerIdList
from orbitmq.wire.bodies.heartbeat import (
    ConsumeFromWhere,
    ConsumerData,
    ConsumeType,
    MessageModel,
)
from orbitmq.wire.codes import RequestCode, ResponseCode
from orbitmq.wire.frame import Frame
from orbitmq.wire.session import Response
from tests.client.scene import BROKER_A, Scene, play, route

QUEUES = [MessageQueue("orders", "broker-a", number) for number in range(4)]


class Broker:
    """A broker that lists members; None: it knows none."""

    def __init__(self) -> None:
        self.members: list[str] | None = []
        self.asked = 0
        self.beats = 0

    def __call__(self, request: Frame) -> Outcome:
        self.beats += request.code == RequestCode.HEART_BEAT
        if request.code != RequestCode.GET_CONSUMER_LIST_BY_GROUP:
            return Response()
        self.asked += 1
        if self.members is None:
            return Response(ResponseCode.SYSTEM_ERROR, remark="no consumer for this group, billing")
        return Response(body=ConsumerIdList(consumer_id_list=tuple(self.members)).to_json())


Story = Callable[[Scene, Rebalance, Broker, str], Awaitable[None]]


def with_rebalance(
    story: Story,
    model: MessageModel = MessageModel.CLUSTERING,
    strategy: Average | None = None,
) -> None:
    async def whole(scene: Scene) -> None:
        await scene.nameserver()
        await scene.broker(BROKER_A)
        scene.routes["orders"] = route("a")
        scene.answer = broker = Broker()
        core = await ClientCore.acquire(scene.settings(keep_open_ms=0), scene.machine)
        core.register_consumer(ConsumerData(group_name="billing"), story)
        group = GroupDescription(
            group="billing",
            consume_type=ConsumeType.CONSUME_PASSIVELY,
            message_model=model,
            consume_from_where=ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET,
            strategy=strategy or Average(),
            rebalance_interval_ms=20_000,
            lock_interval_ms=20_000,
        )
        await story(scene, Rebalance(core, group), broker, core.client_id)
        await core.unregister_consumer("billing", story)
        await core.release()

    play(whole)


def test_a_round_says_what_changed() -> None:
    async def story(_scene: Scene, rebalance: Rebalance, broker: Broker, own: str) -> None:
        broker.members = [own]
        assert await rebalance.round(["orders"]) == ({"orders": frozenset(QUEUES)}, True)
        assert await rebalance.round(["orders"]) == ({}, True)
        assert not rebalance.is_shared
        broker.members = ["9", own]  # sorted: ours first
        assert await rebalance.round(["orders"]) == ({"orders": frozenset(QUEUES[:2])}, True)
        assert rebalance.is_shared
        assert rebalance.assigned("orders") == frozenset(QUEUES[:2])
        assert await rebalance.round([]) == ({"orders": frozenset()}, True)
        assert await rebalance.round([]) == ({}, True)

    with_rebalance(story)


def test_a_missing_topic_changes_nothing_and_can_wait() -> None:
    async def story(scene: Scene, rebalance: Rebalance, broker: Broker, own: str) -> None:
        broker.members = [own]
        del scene.routes["orders"]
        assert await rebalance.round(["orders"]) == ({}, True)
        scene.routes["orders"] = route("a")
        changed, _ = await rebalance.round(["orders"])
        assert changed == {"orders": frozenset(QUEUES)}

    with_rebalance(story)


def test_a_missing_retry_topic_is_looked_up_soon_but_not_forever() -> None:
    async def story(_scene: Scene, rebalance: Rebalance, broker: Broker, own: str) -> None:
        broker.members = [own]
        rounds = [(await rebalance.round(["%RETRY%billing"])).is_balanced for _ in range(12)]
        assert rounds == [False] * 10 + [True] * 2

    with_rebalance(story)


def test_a_broker_that_knows_no_member_changes_nothing_and_is_asked_again() -> None:
    async def story(_scene: Scene, rebalance: Rebalance, broker: Broker, own: str) -> None:
        broker.members = [own]
        await rebalance.round(["orders"])
        broker.members = None
        assert await rebalance.round(["orders"]) == ({}, False)

    with_rebalance(story)


def test_a_member_that_is_not_listed_sends_a_heartbeat_and_then_owns_nothing() -> None:
    async def story(_scene: Scene, rebalance: Rebalance, broker: Broker, own: str) -> None:
        broker.members = [own]
        await rebalance.round(["orders"])
        broker.members, broker.asked, broker.beats = ["another"], 0, 0
        assert await rebalance.round(["orders"]) == ({"orders": frozenset()}, True)
        assert (broker.asked, broker.beats) == (2, 1)

    with_rebalance(story)


def test_broadcasting_asks_for_no_members() -> None:
    async def story(_scene: Scene, rebalance: Rebalance, broker: Broker, _own: str) -> None:
        assert await rebalance.round(["orders"]) == ({"orders": frozenset(QUEUES)}, True)
        assert broker.asked == 0

    with_rebalance(story, MessageModel.BROADCASTING)


class Failing(Average, frozen=True):
    def assign(self, *_: object) -> list[MessageQueue]:
        raise RuntimeError("a bug")


def test_a_strategy_that_fails_changes_nothing() -> None:
    async def story(_scene: Scene, rebalance: Rebalance, broker: Broker, own: str) -> None:
        broker.members = [own]
        assert await rebalance.round(["orders"]) == ({}, False)

    with_rebalance(story, strategy=Failing())


def test_members_are_in_javas_order() -> None:
    async def story(_scene: Scene, rebalance: Rebalance, broker: Broker, own: str) -> None:
        broker.members = ["z", own, "a"]
        members: Sequence[str] = await rebalance.members("orders")
        assert members == sorted(["z", own, "a"])

    with_rebalance(story)
