"""Which groups have consumed a message, for operators (``messageTrackDetail`` in Java).

::

    group ── no consumer connected ──────────────▶ NOT_ONLINE
          ├─ its program pulls ──────────────────▶ PULL: only the program knows
          ├─ each consumer gets all messages ────▶ CONSUME_BROADCASTING: only they know
          └─ offset in the message's queue ─┬─ at or before it ────────▶ NOT_CONSUME_YET
                                            └─ behind it ─┬─ wanted ───▶ CONSUMED
                                                          └─ other tag ▶ CONSUMED_BUT_FILTERED
"""

import enum

import msgspec

from orbitmq.client.admin.consumers import ConsumerAdmin, ConsumerConnections
from orbitmq.client.admin.messages import MessageAdmin
from orbitmq.errors import ConsumerNotOnline, NoRoute, OrbitError
from orbitmq.message.model import MessageQueue, StoredMessage
from orbitmq.net.address import Address
from orbitmq.wire.bodies.group import GroupList
from orbitmq.wire.bodies.heartbeat import ConsumeType, MessageModel, SubscriptionData
from orbitmq.wire.bodies.stats import ConsumeStats
from orbitmq.wire.headers.query import GetConsumeStats, QueryTopicConsumeByWho

__all__ = ["MessageTrack", "TrackAdmin", "TrackType"]


class TrackType(enum.Enum):
    """What is known of a message and a group; the names are Java's."""

    CONSUMED = "CONSUMED"
    CONSUMED_BUT_FILTERED = "CONSUMED_BUT_FILTERED"
    PULL = "PULL"
    NOT_CONSUME_YET = "NOT_CONSUME_YET"
    NOT_ONLINE = "NOT_ONLINE"
    CONSUME_BROADCASTING = "CONSUME_BROADCASTING"
    UNKNOWN = "UNKNOWN"


class MessageTrack(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a group has consumed a message; ``remark`` says why that is not known."""

    group: str
    type: TrackType
    remark: str = ""


class TrackAdmin(MessageAdmin, ConsumerAdmin):
    """What an `Admin` does to find out who consumed a message."""

    async def message_track(self, topic: str, message_id: str) -> list[MessageTrack]:
        """Return which groups have consumed a message, by group; Java's ``messageTrackDetail``.

        Groups are those that have an offset in the topic, or are connected and subscribe to it. A
        consumed message is one behind the group's committed offset; the group may have had it
        delivered several times, or have given it up as a dead letter.

        Args:
            topic: the topic of the message.
            message_id: its unique id or its offset id.

        Raises:
            NotFound: there is no such message.
            NoRoute: no nameserver knows the topic.
            OrbitError: no broker of the topic answered.
        """
        message = await self.view_message(topic, message_id)
        brokers = await self._masters(self._wrapped(topic))
        header = QueryTopicConsumeByWho(topic=self._wrapped(topic))

        async def ask(address: Address) -> tuple[str, ...]:
            return (await self._body(await self._ask(address, header), GroupList)).group_list

        answers = await self._some_of(
            {name: ask(address) for name, address in brokers.items()}, f"the groups of {topic}"
        )
        groups = sorted({self._unwrapped(one) for found in answers.values() for one in found})
        return [await self._track(message, group, brokers) for group in groups]

    async def _track(
        self, message: StoredMessage, group: str, brokers: dict[str, Address]
    ) -> MessageTrack:
        try:
            connected = await self.consumer_connections(group)
            kind = await self._kind(message, connected, brokers)
        except ConsumerNotOnline as error:
            return MessageTrack(group=group, type=TrackType.NOT_ONLINE, remark=str(error))
        except OrbitError as error:
            return MessageTrack(group=group, type=TrackType.UNKNOWN, remark=str(error))
        return MessageTrack(group=group, type=kind)

    async def _kind(
        self, message: StoredMessage, connected: ConsumerConnections, brokers: dict[str, Address]
    ) -> TrackType:
        if connected.consume_type is ConsumeType.CONSUME_ACTIVELY:
            return TrackType.PULL
        if connected.message_model is MessageModel.BROADCASTING:
            return TrackType.CONSUME_BROADCASTING
        if connected.consume_type is not ConsumeType.CONSUME_PASSIVELY:
            return TrackType.UNKNOWN
        if await self._consumer_offset(message, connected.group, brokers) <= message.queue_offset:
            return TrackType.NOT_CONSUME_YET
        if _wants(connected.subscriptions.get(message.topic), message):
            return TrackType.CONSUMED
        return TrackType.CONSUMED_BUT_FILTERED

    async def _consumer_offset(
        self, message: StoredMessage, group: str, brokers: dict[str, Address]
    ) -> int:
        """Return the committed offset of a group in the queue of a message; 0 if it has none."""
        host = str(message.store_host)
        where = self._core.routes.where
        name = next((one for one, at in brokers.items() if at == where.address(host)), None)
        if name is None:
            raise NoRoute(
                f"{host}, where the message is stored, is not a master of {message.topic}",
                topic=message.topic,
                is_missing=False,
                answers={},
            )
        topic = self._wrapped(message.topic)
        header = GetConsumeStats(consumer_group=self._wrapped(group, "group"), topic=topic)
        stats = await self._body(await self._ask(brokers[name], header), ConsumeStats)
        found = stats.offset_table.get(MessageQueue(topic, name, message.queue_id))
        return 0 if found is None else found.consumer_offset


def _wants(subscription: SubscriptionData | None, message: StoredMessage) -> bool:
    """Return whether a subscription by tags selects a message; of others that is not known."""
    tags = () if subscription is None else subscription.tags_set
    return not tags or "*" in tags or message.tags in tags
