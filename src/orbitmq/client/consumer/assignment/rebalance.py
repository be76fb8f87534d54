"""One round of rebalancing: which queues of each topic this member owns now.

::

    round ──▶ each topic: route ── missing ───────────────────────▶ nothing changes
                            │
                            ├─ broadcasting ──────────────────────▶ all its queues
                            │
                            └─ clustering: members ── no answer ──▶ nothing changes, again in 1 s
                                              │
                                       strategy(sorted queues, sorted members)
                                              │
                                              └─ ordered: lock ── not all ──▶ the locked ones,
                                                                              again in 1 s

A broker that doesn't list this member gets a heartbeat and is asked again; if it still doesn't, the
member owns nothing, since the others share its queues (as in Java).
"""

import asyncio
import logging
from collections.abc import Iterable
from contextlib import suppress
from typing import Final, NamedTuple

import msgspec

from orbitmq.client.consumer.assignment.queue_locks import QueueLocks
from orbitmq.client.consumer.assignment.strategies import in_java_order
from orbitmq.client.consumer.settings import Strategy
from orbitmq.client.core.client_core import ClientCore
from orbitmq.client.core.subscribe_route import SubscribeRoute, subscribe_route
from orbitmq.errors import BrokerError, NoRoute, OrbitError
from orbitmq.message.model import MessageQueue
from orbitmq.message.names import is_retry_topic
from orbitmq.net.address import Address
from orbitmq.wire.bodies.group import ConsumerIdList
from orbitmq.wire.bodies.heartbeat import ConsumeFromWhere, ConsumeType, MessageModel
from orbitmq.wire.codes import ResponseCode
from orbitmq.wire.headers.heartbeat import GetConsumerListByGroup

__all__ = ["GroupDescription", "Rebalance", "Round"]

log = logging.getLogger("orbitmq.client")

_RETRY_LOOKUPS_SOON: Final = 10
"""How often a missing retry topic is looked up each second: the broker creates that of a new group
with its first heartbeat, and the nameserver knows it a moment later."""


class GroupDescription(msgspec.Struct, frozen=True, kw_only=True):
    """A consumer group as this member takes part in it; ``group`` is the name on the wire."""

    group: str
    consume_type: ConsumeType
    message_model: MessageModel
    consume_from_where: ConsumeFromWhere
    unit_mode: bool = False
    ordered: bool = False
    strategy: Strategy
    rebalance_interval_ms: int
    lock_interval_ms: int

    @property
    def needs_locks(self) -> bool:
        """Whether queues must be locked: each member of a broadcasting group has them all."""
        return self.ordered and self.message_model is MessageModel.CLUSTERING


class Round(NamedTuple):
    """The result of a round."""

    changed: dict[str, frozenset[MessageQueue]]
    """The queues of the topics whose assignment changed."""
    is_balanced: bool
    """Whether the next round may wait for the whole interval."""


class Rebalance:
    """The queues of one member; they change in rounds."""

    def __init__(self, core: ClientCore, group: GroupDescription) -> None:
        self._core = core
        self._group = group
        self._silent: set[str] = set()
        self._retry_lookups = 0
        self.is_shared = False
        """Whether others may still have the queues of the last round: members without locks."""
        self._assigned: dict[str, frozenset[MessageQueue]] = {}
        self.locks = QueueLocks(
            core, group.group, self._master_of, interval_ms=group.lock_interval_ms
        )
        """The locks of an ordered consumer; unused otherwise."""

    def __repr__(self) -> str:
        count = sum(map(len, self._assigned.values()))
        return f"<Rebalance of {self._group.group}: {count} queues>"

    def assigned(self, topic: str) -> frozenset[MessageQueue]:
        """Return the queues of a topic that this member owns since the last round."""
        return self._assigned.get(topic, frozenset())

    async def round(self, topics: Iterable[str]) -> Round:
        """Assign queues of all topics of the group, and take away those of other topics."""
        topics = list(topics)
        self.is_shared = False
        gone = [topic for topic in self._assigned if topic not in topics]
        outcomes = await asyncio.gather(
            *map(self._topic, topics), *(self._set(topic, frozenset()) for topic in gone)
        )
        changed = {one: self._assigned[one] for one, is_changed, _ in outcomes if is_changed}
        for topic in gone:
            del self._assigned[topic]
        return Round(changed, all(is_balanced for _, _, is_balanced in outcomes))

    def refresh_locked(self, topic: str) -> frozenset[MessageQueue]:
        """Return the queues of a topic whose locks are left, which are the assigned ones now."""
        self._assigned[topic] = self.locks.assigned(topic)
        return self._assigned[topic]

    async def route(self, topic: str) -> SubscribeRoute:
        """Return the route of a topic, looked up if it is not cached; raise NoRoute and others."""
        known = self._core.routes.cache.get(topic)
        data = await self._core.routes.route(topic) if known is None else known.data
        return subscribe_route(topic, data, self._core.routes.where)

    async def members(self, topic: str) -> list[str]:
        """Return the client ids of the group, in Java's order, by a random broker of a topic.

        Raise OrbitError if it does not answer.
        """
        brokers = tuple((await self.route(topic)).brokers.values())
        if not brokers:
            text = f"no broker of topic {topic} has an address"
            raise NoRoute(text, topic=topic, is_missing=False, answers={})
        address = brokers[self._core.machine.randomness.below(len(brokers))]
        with suppress(BrokerError):  # it may know no member of the group
            clients = await self._ask(address)
            if self._core.client_id in clients:
                return in_java_order(clients)
        await self._core.heartbeats.beat(address)
        return in_java_order(await self._ask(address))

    async def _ask(self, address: Address) -> set[str]:
        header = GetConsumerListByGroup(consumer_group=self._group.group)
        answer = await self._core.request(address, header)
        if answer.code != ResponseCode.SUCCESS:
            raise BrokerError.of(answer.code, answer.remark, address=str(address))
        return set(ConsumerIdList.from_json(answer.body).consumer_id_list)

    # One topic: its name, whether its queues changed, and whether it is balanced

    async def _topic(self, topic: str) -> tuple[str, bool, bool]:
        try:
            route = await self.route(topic)
            wanted = await self._wanted(route)
        except NoRoute as error:
            self._note(topic, error)
            return topic, False, self._may_wait(topic, error)
        except OrbitError as error:
            self._note(topic, error)
            return topic, False, False
        except Exception:  # of the user's strategy
            log.exception("strategy %s failed on %s", self._group.strategy.name, topic)
            return topic, False, False
        self._silent.discard(topic)
        return await self._set(topic, wanted)

    async def _wanted(self, route: SubscribeRoute) -> frozenset[MessageQueue]:
        group = self._group
        if group.message_model is MessageModel.BROADCASTING:
            return frozenset(route.queues)
        clients = await self.members(route.topic)
        if not route.queues or not clients:
            return frozenset()
        self.is_shared |= len(clients) > 1 and not group.needs_locks
        own = group.strategy.assign(group.group, self._core.client_id, route.queues, clients)
        return frozenset(own)

    async def _set(self, topic: str, wanted: frozenset[MessageQueue]) -> tuple[str, bool, bool]:
        assigned = wanted
        if self._group.needs_locks:
            assigned = await self.locks.settle(topic, wanted)
        is_changed = assigned != self._assigned.get(topic, frozenset())
        self._assigned[topic] = assigned
        return topic, is_changed, assigned == wanted

    def _master_of(self, queue: MessageQueue) -> Address | None:
        known = self._core.routes.cache.get(queue.topic)
        if known is None:
            return None
        route = subscribe_route(queue.topic, known.data, self._core.routes.where)
        return route.master_of(queue)

    def _may_wait(self, topic: str, error: NoRoute) -> bool:
        """Return whether a topic without a route is looked up after the whole interval only."""
        if not is_retry_topic(topic):
            return error.is_missing
        self._retry_lookups += 1
        return self._retry_lookups > _RETRY_LOOKUPS_SOON

    def _note(self, topic: str, error: OrbitError) -> None:
        """Log the first of several failures in a row."""
        if topic not in self._silent:
            self._silent.add(topic)
            level = logging.DEBUG if is_retry_topic(topic) else logging.WARNING
            log.log(level, "queues of %s can't be assigned now: %s", topic, error)
