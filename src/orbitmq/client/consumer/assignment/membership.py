"""The membership in a consumer group: heartbeats, rebalance and locks, on the second loop.

::

    start ──▶ routes, check of SQL, heartbeat answered ──▶ first round ──▶ running
    running:  a round each 20 s, 1 s after an unbalanced one, and soon after: notification 40,
              a changed route, a released queue. If the user's loop was closed, the member leaves
              instead
              ordered: locks are renewed each 20 s, 1 s after a failure or a broken connection
    close ──▶ unlocked, unregistered (the others rebalance at once) ──▶ closed

A round::

    queues assigned ──▶ lost ones dropped at once
                    ──▶ new ones given: at once if no other member can have them, else after 0.25 s
                        without another change

Members that learn of a change in the same moment would otherwise read the offset of a queue before
its last owner has stored it, and deliver what that owner has finished again. So an owner drops as
soon as it is notified, and the next one waits. Java's members do not wait, and those of 5.x may
keep their queues for another second.

All state belongs to the second loop, which runs no user code. The user's loop gets plain values:
the whole set of a topic's queues, each time it changes.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from types import MappingProxyType
from typing import Final

from msgspec.structs import replace

from orbitmq.client.consumer.assignment.rebalance import GroupDescription, Rebalance
from orbitmq.client.consumer.subscriptions import TAG
from orbitmq.client.core.client_core import ClientCore
from orbitmq.client.core.heartbeats import UNREGISTER_MS
from orbitmq.client.core.machine import Machine
from orbitmq.client.core.periodic import cancel_all
from orbitmq.client.core.publish_route import PublishRoute
from orbitmq.client.core.second_loop import SecondLoop
from orbitmq.client.settings import DEFAULT_INSTANCE, ClientSettings
from orbitmq.errors import BrokerError, NotRunning, OrbitError
from orbitmq.message.model import MessageQueue
from orbitmq.net.connection import Connection, Handler
from orbitmq.wire.bodies.heartbeat import ConsumerData, SubscriptionCheck, SubscriptionData
from orbitmq.wire.codes import RequestCode, ResponseCode
from orbitmq.wire.fields import NoFields
from orbitmq.wire.frame import Frame
from orbitmq.wire.session import Response

__all__ = ["GroupDescription", "Membership"]

log = logging.getLogger("orbitmq.client")

_GAP_MS: Final = 1_000
"""The time before another round after an unbalanced one, and between renewals of locks after a
failure; how often to look for broken connections."""
_QUICK_GAP_MS: Final = 50
"""The least time between two rounds. Each further one that is due by then doubles it, up to
``_GAP_MS``: the start of many members must not flood the brokers."""
_HANDOVER_MS: Final = 250
"""How long a new queue is left to its last owner: for a round, and its last commit."""
_HANDOVERS: Final = 5
"""How often it is left at the most: the wait begins again if the members change meanwhile."""

OnAssigned = Callable[[str, frozenset[MessageQueue]], None]


class Membership:
    """A member of a group; made and used on the user's loop, it works on the second one.

    ``on_assigned`` is called on the user's loop with a topic and all its queues that this member
    owns now, each time they change.
    """

    def __init__(
        self,
        second: SecondLoop,
        client: ClientSettings,
        machine: Machine | None,
        group: GroupDescription,
        on_assigned: OnAssigned,
    ) -> None:
        self._second = second
        self._client = client
        self._machine = machine
        self._group = group
        self._on_assigned = on_assigned
        self._listeners: list[tuple[RequestCode, Handler]] = [
            (RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, self._notified)
        ]
        self._subscriptions: Mapping[str, SubscriptionData] = {}
        self._given: dict[str, frozenset[MessageQueue]] = {}
        self._is_due = asyncio.Event()
        self._core: ClientCore | None = None
        self._rebalance: Rebalance | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._leaving: asyncio.Task[None] | None = None
        self._turn = asyncio.Lock()

    def __repr__(self) -> str:
        return f"<Membership of {self.client_id or '-'} in {self._group.group}>"

    @property
    def client_id(self) -> str:
        """The id by which brokers know this member; empty before the start."""
        return "" if self._core is None else self._core.client_id

    @property
    def subscriptions(self) -> Mapping[str, SubscriptionData]:
        """The subscriptions that brokers know, by topic; a new mapping after each change."""
        return MappingProxyType(self._subscriptions)

    def subscription_of(self, topic: str) -> SubscriptionData | None:
        """Return the subscription to a topic that brokers know; None if there is none."""
        return self._subscriptions.get(topic)

    # Life

    async def start(self, subscriptions: Iterable[SubscriptionData] = ()) -> None:
        """Join the group, and return after the first round.

        Raise NoNameserver if none is configured, BrokerError if a broker refuses an SQL expression,
        and InvalidGroup if this instance is in the group already. Missing topics are looked up
        again in each round.
        """
        await self._second.run(partial(self._start, list(subscriptions)))

    async def close(self, timeout_ms: int) -> None:
        """Unlock, leave the group, and wait for the answers of brokers, but not for long."""
        await self._second.run(partial(self._close, min(timeout_ms, UNREGISTER_MS)))

    async def _start(self, subscriptions: list[SubscriptionData]) -> None:
        # Members of a group must have ids of their own, unless the user names the instance.
        is_shared = self._client.instance_name != DEFAULT_INSTANCE
        core = await ClientCore.acquire(self._client, self._machine, is_shared=is_shared)
        try:
            rebalance = Rebalance(core, self._group)
            now_ms = core.machine.clock.now_ms()
            wanted = {one.topic: replace(one, sub_version=now_ms) for one in subscriptions}
            await self._prepare(core, rebalance, wanted.values())
            core.register_consumer(self._data(wanted), self)
        except BaseException:
            await core.release()
            raise
        self._core, self._rebalance, self._subscriptions = core, rebalance, wanted
        for code, handler in self._listeners:
            core.broker_requests.listen(code, handler, group=self._group.group)
        core.routes.when_changed(self._route_changed)
        await core.heartbeats.announced()
        rounds = self._run(await self._round())
        self._tasks.append(asyncio.create_task(rounds, name=f"rebalance {self._group.group}"))
        if self._group.needs_locks:
            self._tasks.append(asyncio.create_task(self._keep_locks(), name="renew locks"))

    async def _close(self, timeout_ms: int) -> None:
        core, rebalance = self._core, self._rebalance
        if core is None or rebalance is None:
            return
        self._rebalance = None
        await cancel_all(self._tasks)
        core.routes.when_changed_no_more(self._route_changed)
        for code, handler in self._listeners:
            core.broker_requests.unlisten(code, handler, group=self._group.group)
        try:
            if self._group.needs_locks:
                await rebalance.locks.close(timeout_ms)
            await core.unregister_consumer(self._group.group, self, timeout_ms)
        finally:
            await core.release()

    async def _prepare(
        self, core: ClientCore, rebalance: Rebalance, subscriptions: Iterable[SubscriptionData]
    ) -> None:
        """Look up the routes, so that brokers get heartbeats, and let brokers check expressions."""
        await asyncio.gather(*(self._prepare_one(core, rebalance, one) for one in subscriptions))

    async def _prepare_one(
        self, core: ClientCore, rebalance: Rebalance, subscription: SubscriptionData
    ) -> None:
        try:
            brokers = list((await rebalance.route(subscription.topic)).brokers.values())
        except OrbitError as error:
            log.debug("no route of %s yet: %s", subscription.topic, error)
            return
        if subscription.expression_type in ("", TAG) or not brokers:
            return
        check = SubscriptionCheck(
            client_id=core.client_id, group=self._group.group, subscription_data=subscription
        )
        code = RequestCode.CHECK_CLIENT_CONFIG
        answer = await core.request(brokers[0], NoFields(), check.to_json(), code=code)
        if answer.code != ResponseCode.SUCCESS:
            raise BrokerError.of(answer.code, answer.remark, address=str(brokers[0]))

    # Subscriptions

    async def subscribe(self, subscription: SubscriptionData) -> None:
        """Add or change a subscription; return after a round."""
        await self._second.run(partial(self._subscribe, subscription))

    async def unsubscribe(self, topic: str) -> None:
        """Remove a subscription; return after a round, which takes its queues away."""
        await self._second.run(partial(self._unsubscribe, topic))

    async def attend(self, topics: Iterable[str]) -> None:
        """Send heartbeats to the brokers of topics without a subscription; they are not assigned.

        For a consumer that chooses its queues itself: tools see the group.
        """
        await self._second.run(partial(self._attend, list(topics)))

    async def _subscribe(self, subscription: SubscriptionData) -> None:
        core, rebalance = self._running()
        await self._prepare(core, rebalance, [subscription])
        async with self._turn:
            now_ms = core.machine.clock.now_ms()
            await self._announce({subscription.topic: replace(subscription, sub_version=now_ms)})
        await self._round()

    async def _unsubscribe(self, topic: str) -> None:
        async with self._turn:
            await self._announce({}, without=topic)
        await self._round()

    async def _attend(self, topics: list[str]) -> None:
        core, rebalance = self._running()
        await asyncio.gather(*map(rebalance.route, topics))
        await core.heartbeats.announced()

    async def _announce(
        self, changes: Mapping[str, SubscriptionData], *, without: str = ""
    ) -> None:
        """Send changed subscriptions, and use them when brokers know them; one call at a time.

        A pull with a newer version than the broker's would be refused.
        """
        core, _ = self._running()
        changed = {**self._subscriptions, **changes}
        changed.pop(without, None)
        core.register_consumer(self._data(changed), self)
        await core.heartbeats.announced()
        self._subscriptions = changed

    def _data(self, subscriptions: Mapping[str, SubscriptionData]) -> ConsumerData:
        group = self._group
        return ConsumerData(
            group_name=group.group,
            consume_type=group.consume_type,
            message_model=group.message_model,
            consume_from_where=group.consume_from_where,
            unit_mode=group.unit_mode,
            subscription_data_set=tuple(subscriptions.values()),
        )

    # Rounds

    def rebalance_soon(self) -> None:
        """Have a round as soon as the least time between two allows it."""
        self._second.call(self._is_due.set)

    def announce_soon(self) -> None:
        """Send heartbeats to brokers that may not know this member, such as restarted ones."""
        self._second.call(self._announce_again)

    def released(self, queue: MessageQueue) -> None:
        """Note that the user's loop has dropped an ordered queue and stored its offset."""
        self._second.call(partial(self._released, queue))

    async def members(self, topic: str) -> list[str]:
        """Return the client ids of the group; raise OrbitError if the broker does not answer."""
        return await self._second.run(partial(self._members, topic))

    async def _members(self, topic: str) -> list[str]:
        return await self._running()[1].members(topic)

    def _announce_again(self) -> None:
        if self._core is not None and self._rebalance is not None:
            self._core.heartbeats.announce_missing()

    def _released(self, queue: MessageQueue) -> None:
        if self._rebalance is not None and self._rebalance.locks.released(queue):
            self._is_due.set()

    async def _run(self, is_balanced: bool) -> None:
        """Have rounds until cancelled; given is whether the first one was balanced."""
        gap_ms = _QUICK_GAP_MS
        while True:
            interval_ms = self._group.rebalance_interval_ms if is_balanced else _GAP_MS
            gap_ms = await self._until_next(gap_ms, interval_ms)
            if self._second.is_abandoned:
                self._leaving = asyncio.create_task(self._abandon(), name="leave the group")
                return
            try:
                is_balanced = await self._round()
            except Exception:
                log.exception("group %s can't be rebalanced; trying again", self._group.group)
                is_balanced = False

    async def _until_next(self, gap_ms: int, interval_ms: int) -> int:
        """Wait until a round is due; return the least time between it and the one after."""
        await asyncio.sleep(gap_ms / 1_000)
        if self._is_due.is_set():
            return min(2 * gap_ms, _GAP_MS)
        left_ms = max(0, interval_ms - gap_ms)
        # Not wait_for: in Python 3.11 it drops a cancellation that comes with the event.
        with suppress(TimeoutError):
            async with asyncio.timeout(left_ms / 1_000):
                await self._is_due.wait()
        return _QUICK_GAP_MS

    async def _abandon(self) -> None:
        """Leave the group of a user who can't consume any more: others get the queues."""
        log.warning("%s leaves: its event loop was closed, and it was not", self)
        try:
            await self._close(UNREGISTER_MS)
        finally:
            await self._second.close()

    async def _round(self) -> bool:
        """Have one round, after the one in progress; return whether it is balanced."""
        async with self._turn:
            core, rebalance = self._running()
            before = dict(self._given)
            is_balanced = await self._settle(rebalance)
            now_ms = core.machine.clock.now_ms()
            newer = {
                topic: replace(subscription, sub_version=now_ms)
                for topic, subscription in self._subscriptions.items()
                if self._owned(topic) != before.get(topic, frozenset())
            }
            if newer:
                await self._announce(newer)
            return is_balanced

    async def _settle(self, rebalance: Rebalance) -> bool:
        """Assign queues: take lost ones away, wait for the last owners of new ones, give those."""
        waits = _HANDOVERS
        while True:
            self._is_due.clear()
            _, is_balanced = await rebalance.round(self._subscriptions)
            topics = sorted({*self._subscriptions, *self._given})
            for topic in topics:
                self._give(topic, rebalance.assigned(topic) & self._owned(topic))
            has_new = any(rebalance.assigned(topic) != self._owned(topic) for topic in topics)
            if not has_new or not rebalance.is_shared or not waits:
                break
            waits -= 1
            await asyncio.sleep(_HANDOVER_MS / 1_000)
            if not self._is_due.is_set():
                break
        for topic in topics:
            self._give(topic, rebalance.assigned(topic))
        return is_balanced

    async def _keep_locks(self) -> None:
        wait_ms = _GAP_MS
        while True:
            await self._until_due(wait_ms)
            try:
                _, rebalance = self._running()
                lost_topics, is_complete = await rebalance.locks.renew()
                for topic in sorted(lost_topics):
                    self._give(topic, rebalance.refresh_locked(topic))
                    self._is_due.set()
            except Exception:
                log.exception("locks of %s can't be renewed; trying again", self._group.group)
                is_complete = False
            wait_ms = self._group.lock_interval_ms if is_complete else _GAP_MS

    async def _until_due(self, wait_ms: int) -> None:
        """Wait for the next renewal of locks; a broken connection makes it due."""
        for begin_ms in range(0, wait_ms, _GAP_MS):
            await asyncio.sleep(min(_GAP_MS, wait_ms - begin_ms) / 1_000)
            if self._rebalance is not None and self._rebalance.locks.is_disturbed:
                return

    def _give(self, topic: str, queues: frozenset[MessageQueue]) -> None:
        if queues != self._owned(topic):
            log.info("%s owns %d queues of %s", self, len(queues), topic)
            self._given[topic] = queues
            self._second.call_back(partial(self._on_assigned, topic, queues))

    def _owned(self, topic: str) -> frozenset[MessageQueue]:
        return self._given.get(topic, frozenset())

    # Requests of brokers

    def listen(self, code: RequestCode, handler: Handler) -> None:
        """Handle requests of brokers for this group; call it before the start.

        The handler runs on the second loop and must not take long.
        """
        self._listeners.append((code, handler))

    def _notified(self, _connection: Connection, _request: Frame) -> Response:
        self._is_due.set()
        return Response()

    def _route_changed(self, topic: str, _route: PublishRoute) -> None:
        if topic in self._subscriptions:
            self._is_due.set()

    def _running(self) -> tuple[ClientCore, Rebalance]:
        if self._core is None or self._rebalance is None:
            raise NotRunning(f"{self} is not running", state="closed")
        return self._core, self._rebalance
