"""Lanes: all that sends to one topic share, made once for a route and used until it changes.

A lane has a slot for each queue, with the header's stamp and the connection at hand, so that the
next send to it looks nothing up::

    topic ──▶ Lane ── by turns, health, selector or key ──▶ Slot ── stamp ──▶ header
                                                              └── connection, if it is open
"""

from asyncio import get_running_loop
from collections.abc import Sequence
from typing import Final

from orbitmq.client.arguments import check_queue, check_queue_topic, check_selector
from orbitmq.client.core.client_core import ClientCore
from orbitmq.client.core.publish_route import DefaultTopic, PublishRoute
from orbitmq.client.producer.health.health import Health
from orbitmq.client.producer.sending.packing import Packer, Stamp
from orbitmq.client.producer.sending.queue_choice import QueueChoice, QueueSelector, select, sharded
from orbitmq.client.settings import ProducerSettings
from orbitmq.errors import ConnectFailed, InvalidInput
from orbitmq.message.model import Message, MessageQueue
from orbitmq.message.names import wrap_namespace
from orbitmq.net.address import Address
from orbitmq.net.connection import Connection

__all__ = ["Lane", "Lanes", "Slot", "Target", "target_of"]

Target = MessageQueue | QueueSelector | str | None
"""Where to: a queue, what a selector says, where a sharding key leads, or by plan."""

_LANES_MAX: Final = 100_000
"""Topics of one producer; beyond them the oldest lane is made anew when it is needed."""
_SLOTS_MAX: Final = 65_536
"""Queues of one topic; more can only be made up, and are not kept."""


def target_of(
    queue: MessageQueue | None,
    selector: QueueSelector | None = None,
    sharding_key: str | None = None,
) -> Target:
    """Return the one thing that says where to send; None if nothing does.

    Raises:
        InvalidInput: more than one does, or what was given is no queue, or no selector.

    """
    if queue is not None:
        check_queue(queue)
    if selector is not None:
        check_selector(selector)
    given = [one for one in (queue, selector, sharding_key) if one is not None]
    if len(given) > 1:
        raise InvalidInput(
            "queue, selector and sharding_key each say where to send; give one of them",
            field="queue",
        )
    return given[0] if given else None


class Slot:
    """One queue: where it is, and what makes the headers of parcels to it."""

    __slots__ = ("address", "connection", "queue", "stamp")

    def __init__(self, queue: MessageQueue, stamp: Stamp, address: Address | None) -> None:
        self.queue = queue
        """As the user knows it."""
        self.stamp = stamp
        self.address = address
        self.connection: Connection | None = None
        """The connection that was used last; it may have closed since."""

    @property
    def peer(self) -> str:
        """Whom the last send to it was made to; empty before the first."""
        return "" if self.connection is None else self.connection.peer

    def __repr__(self) -> str:
        return f"<Slot {self.queue.broker_name}:{self.queue.queue_id} at {self.address}>"


class Lane:
    """The way of one topic's messages, as long as its route stays the same."""

    def __init__(
        self, topic: str, route: PublishRoute, packer: Packer, choice: QueueChoice
    ) -> None:
        self.topic = topic
        self.route = route
        self._packer = packer
        self._choice = choice
        self._slots: dict[MessageQueue, Slot] = {}
        self.queues: Sequence[MessageQueue] = tuple(
            queue
            if queue.topic == topic
            else MessageQueue(topic, queue.broker_name, queue.queue_id)
            for queue in route.queues
        )
        """The queues that can be written to, as the user knows them."""
        self._ring: list[Slot | None] = [None] * len(self.queues)

    def __repr__(self) -> str:
        return f"<Lane of {self.topic}, {len(self.queues)} queues>"

    def slot_in_turn(self) -> Slot:
        """Return the slot for the running task's next send, where no health is learned."""
        ring = self._ring
        index = self._choice.next_position() % len(ring)
        slot = ring[index]
        if slot is None:
            slot = ring[index] = self.slot(self.queues[index])
        return slot

    def next_slot(self, now_ms: int, avoid: str | None = None) -> Slot:
        """Return the slot for the running task's next try; see ``QueueChoice.pick``."""
        queue = self._choice.pick(self.queues, now_ms, avoid)
        return self._slots.get(queue) or self.slot(queue)

    def aim(self, target: Target, message: Message) -> MessageQueue | None:
        """Return the queue that the caller wants; None if it is left to the plan.

        Raises:
            InvalidInput: it is a queue of another topic. What a selector raises passes as it is.

        """
        if target is None:
            return None
        if isinstance(target, str):
            return sharded(self.queues, target)
        if isinstance(target, MessageQueue):
            check_queue_topic(target, self.topic)
            return target
        return select(target, self.queues, message)

    def slot(self, queue: MessageQueue) -> Slot:
        """Return the slot of a queue; the broker decides about one that the route doesn't have."""
        slot = self._slots.get(queue)
        if slot is None:
            route = self.route
            wire_queue = MessageQueue(route.topic, queue.broker_name, queue.queue_id)
            broker = route.broker_of(wire_queue)
            slot = Slot(queue, self._packer.stamp(queue, broker), route.addresses.get(broker))
            if len(self._slots) < _SLOTS_MAX:
                self._slots[queue] = slot
        return slot


class Lanes:
    """The lanes of one producer, by topic.

    Args:
        core: knows routes, and gives connections.
        settings: the producer's.
        packer: makes stamps.
        health: what is known of brokers, shared by all topics.

    """

    def __init__(
        self, core: ClientCore, settings: ProducerSettings, packer: Packer, health: Health
    ) -> None:
        self._core = core
        self._packer = packer
        self._health = health
        self._namespace = core.settings.namespace
        self._default = DefaultTopic(settings.create_topic_key, settings.default_topic_queues)
        self._lanes: dict[str, Lane] = {}
        self._published = core.routes.published

    def __repr__(self) -> str:
        return f"<Lanes of {len(self._lanes)} topics>"

    def ready(self, topic: str) -> Lane | None:
        """Return the lane of a topic if its route is known: no waiting."""
        lane = self._lanes.get(topic)
        if lane is None or lane.route is not self._published.get(lane.route.topic):
            return None
        return lane

    async def lane(self, topic: str, *, must_exist: bool = False) -> Lane:
        """Return the lane of a topic, looked up if it is not known.

        Args:
            topic: the topic, as the user calls it.
            must_exist: whether a topic that a send would make is none.

        Raises:
            NoRoute, NameserversFailed: as ``Routes.publish_route`` does.

        """
        lane = self.ready(topic)
        if lane is not None and not (must_exist and lane.route.is_default):
            return lane
        wire_topic = wrap_namespace(self._namespace, topic)
        default = None if must_exist else self._default
        route = await self._core.routes.publish_route(wire_topic, default)
        before = self._lanes.get(topic)
        if before is not None and before.route is route:
            return before
        choice = QueueChoice(self._health, self._core.machine.randomness, get_running_loop())
        if before is not None:
            choice = before._choice
        elif len(self._lanes) >= _LANES_MAX:
            del self._lanes[next(iter(self._lanes))]
        lane = self._lanes[topic] = Lane(topic, route, self._packer, choice)
        return lane

    async def connect(self, slot: Slot) -> Connection:
        """Return the open connection to the broker of a slot.

        Raises:
            ConnectFailed: nobody answers there, or the broker has no master now.
            ConnectionClosed: the client is closed.

        """
        if slot.address is None:
            raise ConnectFailed(
                f"broker {slot.queue.broker_name} has no master now, and only masters take writes"
            )
        slot.connection = connection = await self._core.connection(slot.address)
        return connection
