"""Memberships against real brokers in this process, with the second loop on its thread."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future
from contextlib import asynccontextmanager

import pytest

from orbitmq import embedded
from orbitmq.client.consumer.assignment.membership import GroupDescription, Membership
from orbitmq.client.consumer.assignment.strategies import Average
from orbitmq.client.consumer.subscriptions import Selection, Sql, subscription_data
from orbitmq.client.core.second_loop import second_loop
from orbitmq.client.producer.producer import Producer
from orbitmq.client.settings import ClientSettings
from orbitmq.embedded import EmbeddedCluster
from orbitmq.errors import BrokerError, InvalidGroup
from orbitmq.message.model import Message, MessageQueue
from orbitmq.wire.bodies.heartbeat import ConsumeFromWhere, ConsumeType, MessageModel

QUEUES = 8


def description(**others: object) -> GroupDescription:
    given: dict[str, object] = {
        "group": "billing",
        "consume_type": ConsumeType.CONSUME_PASSIVELY,
        "message_model": MessageModel.CLUSTERING,
        "consume_from_where": ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET,
        "strategy": Average(),
        "rebalance_interval_ms": 20_000,
        "lock_interval_ms": 100,
    }
    return GroupDescription(**{**given, **others})  # type: ignore[arg-type]


class Member:
    """A membership, and the queues that the user's loop was given."""

    def __init__(self, nameserver: str, group: GroupDescription, **client: object) -> None:
        self.second = second_loop()
        self.queues: dict[str, frozenset[MessageQueue]] = {}
        self.releases_at_once = True
        settings = ClientSettings(nameserver=nameserver, client_ip="10.0.0.9", **client)  # type: ignore[arg-type]
        self.membership = Membership(self.second, settings, None, group, self.assigned)

    def assigned(self, topic: str, queues: frozenset[MessageQueue]) -> None:
        gone = self.queues.get(topic, frozenset()) - queues
        self.queues[topic] = queues
        if self.releases_at_once:
            for queue in gone:
                self.membership.released(queue)

    async def start(self, selection: Selection = "*") -> None:
        await self.membership.start([subscription_data("orders", selection)])

    async def close(self) -> None:
        await self.membership.close(1_000)
        await self.second.close()

    @property
    def orders(self) -> frozenset[MessageQueue]:
        return self.queues.get("orders", frozenset())


class Group:
    """The members of a test, on one cluster."""

    def __init__(self, cluster: EmbeddedCluster) -> None:
        self.cluster = cluster
        self.members: list[Member] = []

    async def join(self, selection: Selection = "*", **others: object) -> Member:
        member = Member(self.cluster.nameserver, description(**others))
        self.members.append(member)
        await member.start(selection)
        return member

    async def leave(self, member: Member) -> None:
        self.members.remove(member)
        await member.close()

    def is_shared(self) -> bool:
        """Whether each queue has exactly one member, and all members have queues."""
        shares = [member.orders for member in self.members]
        given = [queue for share in shares for queue in share]
        return all(shares) and len(given) == len(set(given)) == QUEUES


async def create_orders(nameserver: str) -> None:
    async with Producer("p", nameserver=nameserver, default_topic_queues=QUEUES) as producer:
        await producer.send(Message("orders", b"first"))


@asynccontextmanager
async def group_of(**settings: str) -> AsyncIterator[Group]:
    given = {"defaultTopicQueueNums": str(QUEUES), **settings}
    async with EmbeddedCluster(settings=given) as cluster:
        await create_orders(cluster.nameserver)
        group = Group(cluster)
        try:
            yield group
        finally:
            for member in group.members:
                await member.close()


async def until(condition: Callable[[], bool], seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        await asyncio.sleep(0.02)


def test_members_that_join_and_leave_share_the_queues() -> None:
    async def story() -> None:
        async with group_of() as group:
            first = await group.join()
            await until(lambda: len(first.orders) == QUEUES)
            await group.join()
            third = await group.join()
            await until(group.is_shared)
            assert len({member.membership.client_id for member in group.members}) == 3
            ids = sorted(member.membership.client_id for member in group.members)
            assert await third.membership.members("orders") == ids
            await group.leave(first)
            await until(group.is_shared)
            await group.leave(third)
            await until(group.is_shared)

    asyncio.run(story())


def test_locked_queues_are_handed_over_only_after_their_release() -> None:
    async def story() -> None:
        async with group_of() as group:
            first = await group.join(ordered=True)
            await until(lambda: len(first.orders) == QUEUES)
            first.releases_at_once = False
            before = first.orders
            second = await group.join(ordered=True)
            await until(lambda: len(first.orders) == QUEUES // 2)
            gone = sorted(before - first.orders)
            # Many renewals later the locks are still held.
            await second.membership._second.run(second.membership._round)
            assert second.orders == frozenset()
            first.membership.released(gone[0])
            await until(lambda: second.orders == {gone[0]})
            for queue in gone[1:]:
                first.membership.released(queue)
            await until(group.is_shared)

    asyncio.run(story())


def test_a_lock_that_another_takes_is_lost() -> None:
    async def story() -> None:
        async with group_of() as group:
            first = await group.join(ordered=True)
            await until(lambda: len(first.orders) == QUEUES)
            locks = group.cluster._brokers[0].state.locks
            queue = min(first.orders)
            locks.unlock("billing", [queue], first.membership.client_id)
            locks.lock("billing", [queue], "a thief", 2**62)
            await until(lambda: first.orders and queue not in first.orders)  # type: ignore[arg-type,return-value]
            locks.unlock("billing", [queue], "a thief")
            await until(lambda: queue in first.orders)

    asyncio.run(story())


def test_every_member_of_a_broadcasting_group_has_all_queues() -> None:
    async def story() -> None:
        async with group_of() as group:
            for _ in range(2):
                member = await group.join(message_model=MessageModel.BROADCASTING, ordered=True)
                await until(lambda member=member: len(member.orders) == QUEUES)  # type: ignore[misc]

    asyncio.run(story())


def test_subscriptions_change_while_it_runs() -> None:
    async def story() -> None:
        async with group_of() as group:
            member = await group.join()
            await until(lambda: len(member.orders) == QUEUES)
            before = member.membership.subscriptions["orders"]
            await member.membership.subscribe(subscription_data("orders", "paid"))
            after = member.membership.subscriptions["orders"]
            assert (after.sub_string, after.sub_version >= before.sub_version) == ("paid", True)
            await member.membership.unsubscribe("orders")
            await until(lambda: not member.orders)
            await member.membership.attend(["orders"])
            assert member.membership.subscriptions == {}

    asyncio.run(story())


def test_an_sql_expression_is_checked_by_the_start() -> None:
    async def story() -> None:
        async with group_of(enablePropertyFilter="true") as group:
            with pytest.raises(BrokerError):
                await group.join(Sql("amount >"))
            await group.join(Sql("amount > 10"))

    asyncio.run(story())


def test_a_named_instance_is_in_a_group_once() -> None:
    async def story() -> None:
        async with group_of() as group:
            names = group.cluster.nameserver
            first, second = (
                Member(names, description(), instance_name="shop", keep_open_ms=0) for _ in range(2)
            )
            group.members.append(first)
            await first.start()
            assert first.membership.client_id == "10.0.0.9@shop"
            with pytest.raises(InvalidGroup, match="already has a consumer of group billing"):
                await second.start()
            await second.second.close()

    asyncio.run(story())


def expire(cluster: embedded.RunningCluster, silent_ms: int) -> None:
    """Let the broker drop silent clients, as it does every 10 s; wait for it."""
    done: Future[None] = Future()

    def work() -> None:
        cluster._cluster._brokers[0]._request_handlers.members.expire(silent_ms)
        done.set_result(None)

    assert cluster._loop is not None
    cluster._loop.call_soon_threadsafe(work)
    done.result(timeout=10)


def test_a_blocked_loop_keeps_its_membership() -> None:
    given = {"defaultTopicQueueNums": str(QUEUES)}
    with embedded.start(settings=given) as cluster:

        async def story() -> None:
            await create_orders(cluster.nameserver)
            member = Member(cluster.nameserver, description(), heartbeat_interval_ms=200)
            await member.start()
            await until(lambda: len(member.orders) == QUEUES)
            before = member.orders
            time.sleep(1.5)  # noqa: ASYNC251 - user code that blocks its loop
            expire(cluster, silent_ms=1_000)
            assert await member.membership.members("orders") == [member.membership.client_id]
            assert member.orders is before
            await member.close()

        asyncio.run(story())


def test_a_member_whose_loop_was_closed_leaves_the_group() -> None:
    async def story() -> None:
        async with group_of() as group:

            async def forget() -> None:
                await Member(group.cluster.nameserver, description()).start()

            await asyncio.to_thread(asyncio.run, forget())
            last = await group.join()
            await until(lambda: len(last.orders) == QUEUES)

    asyncio.run(story())


def test_a_close_in_the_moment_of_a_notification_ends() -> None:
    async def story() -> None:
        async with group_of() as group:
            member = await group.join()
            due = member.membership._is_due

            async def notified_and_closed() -> None:
                due.set()
                await member.membership._close(1_000)

            # The round before is over, and the next one is waited for.
            await until(lambda: bool(due._waiters))
            async with asyncio.timeout(20):
                await member.second.run(notified_and_closed)

    asyncio.run(story())
