"""Who is connected: the consumers and producers of each group, as their heartbeats say.

A client is known by its connection. It is forgotten when it says so, when the connection closes, or
when no heartbeat came for two minutes. Laws:

- The last heartbeat speaks for its whole group: how it consumes, and which topics it subscribes to.
  Members of one group that disagree take the subscription from each other (ConsumerGroupInfo in
  Java; its documents ask for equal subscriptions, and so do ours).
- Of two subscriptions to one topic the one with the higher version holds.
"""

import logging

import msgspec

from orbitmq.net.connection import Connection
from orbitmq.wire.bodies.heartbeat import (
    ConsumeFromWhere,
    ConsumerData,
    ConsumeType,
    MessageModel,
    SubscriptionData,
)

__all__ = ["ConsumerGroup", "Member", "Members"]

log = logging.getLogger("orbitmq.broker")


class Member(msgspec.Struct, eq=False):
    """A client in a group."""

    connection: Connection
    client_id: str
    language: str
    version: int
    seen_ms: int
    """When its last heartbeat came, by the clock that never goes back."""


class ConsumerGroup:
    """The consumers of one group that are connected now."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.members: dict[Connection, Member] = {}
        self.subscriptions: dict[str, SubscriptionData] = {}
        self.consume_type: ConsumeType | None = None
        self.message_model: MessageModel | None = None
        self.consume_from_where: ConsumeFromWhere | None = None

    def __repr__(self) -> str:
        topics = sorted(self.subscriptions)
        return f"<ConsumerGroup {self.name} {len(self.members)} members, topics {topics}>"

    @property
    def is_broadcasting(self) -> bool:
        """Whether each member consumes all queues, so that nobody needs to know of the others."""
        return self.message_model is MessageModel.BROADCASTING

    def client_ids(self) -> list[str]:
        """Return the ids of the clients, in the order in which they came."""
        return [member.client_id for member in self.members.values()]

    def update(self, data: ConsumerData, member: Member) -> bool:
        """Take a heartbeat in; return whether the client is new to the group."""
        self.consume_type = data.consume_type
        self.message_model = data.message_model
        self.consume_from_where = data.consume_from_where
        is_new = member.connection not in self.members
        self.members[member.connection] = member
        return is_new

    def subscribe(self, subscriptions: tuple[SubscriptionData, ...]) -> bool:
        """Take subscriptions in; return whether topics came or went."""
        wanted = {one.topic: one for one in subscriptions}
        changed = wanted.keys() != self.subscriptions.keys()
        for topic, new in wanted.items():
            old = self.subscriptions.get(topic)
            if old is not None and old.sub_version >= new.sub_version:
                wanted[topic] = old
        self.subscriptions = wanted
        return changed


class Members:
    """All clients of a broker by group."""

    def __init__(self) -> None:
        self._consumers: dict[str, ConsumerGroup] = {}
        self._producers: dict[str, dict[Connection, Member]] = {}
        self._fingerprints: dict[str, int] = {}

    def __repr__(self) -> str:
        return f"<Members {len(self._consumers)} consumer, {len(self._producers)} producer groups>"

    # Asking

    def consumers(self, group: str) -> ConsumerGroup | None:
        """Return a consumer group; None if none of its clients is connected."""
        return self._consumers.get(group)

    def producers(self, group: str) -> list[Member]:
        """Return the producers of a group."""
        return list(self._producers.get(group, {}).values())

    def producer_groups(self) -> list[str]:
        """Return the names of all groups with a producer, sorted."""
        return sorted(self._producers)

    def subscription(self, group: str, topic: str) -> SubscriptionData | None:
        """Return what a group wants of a topic; None if it isn't subscribed."""
        found = self._consumers.get(group)
        return None if found is None else found.subscriptions.get(topic)

    def consumer(self, group: str, client_id: str) -> Member | None:
        """Return a client of a consumer group; None if it isn't connected."""
        found = self._consumers.get(group)
        if found is None:
            return None
        return next((one for one in found.members.values() if one.client_id == client_id), None)

    def groups_of(self, topic: str) -> list[str]:
        """Return the groups with a consumer subscribed to a topic, sorted."""
        return sorted(
            group.name for group in self._consumers.values() if topic in group.subscriptions
        )

    # Coming and going

    def join_consumers(
        self, data: ConsumerData, member: Member, *, with_subscriptions: bool = True
    ) -> bool:
        """Take a consumer's heartbeat in; return whether its group should rebalance."""
        group = self._consumers.get(data.group_name)
        if group is None:
            group = self._consumers[data.group_name] = ConsumerGroup(data.group_name)
        is_new = group.update(data, member)
        if is_new:
            log.info("consumer %s of group %s is connected", member.client_id, group.name)
        changed = with_subscriptions and group.subscribe(data.subscription_data_set)
        return is_new or changed

    def fingerprint_changed(
        self, group: str, fingerprint: int, *, with_subscriptions: bool = True
    ) -> bool:
        """Note the fingerprint of a group's subscriptions; return whether it should send them.

        It should if they differ from what another member said. It also should if it left them out
        and this broker has none: it was restarted. Java's broker doesn't ask then, and pulls fail
        for want of subscriptions.
        """
        known = self._fingerprints.get(group)
        self._fingerprints[group] = fingerprint
        found = self._consumers.get(group)
        has_any = with_subscriptions or (found is not None and bool(found.subscriptions))
        return not has_any or (known is not None and known != fingerprint)

    def join_producers(self, group: str, member: Member) -> None:
        """Take a producer's heartbeat in."""
        self._producers.setdefault(group, {})[member.connection] = member

    def leave_consumers(self, group: str, connection: Connection) -> bool:
        """Forget a consumer; return whether it was there."""
        found = self._consumers.get(group)
        if found is None or found.members.pop(connection, None) is None:
            return False
        if not found.members:
            del self._consumers[group]
            self._fingerprints.pop(group, None)
            log.info("consumer group %s has no member any more", group)
        return True

    def leave_producers(self, group: str, connection: Connection) -> None:
        """Forget a producer."""
        found = self._producers.get(group)
        if found is not None and found.pop(connection, None) is not None and not found:
            del self._producers[group]

    def drop(self, connection: Connection) -> list[str]:
        """Forget a client whose connection is gone; return the consumer groups it was in."""
        for group in [name for name, found in self._producers.items() if connection in found]:
            self.leave_producers(group, connection)
        left = [group.name for group in self._consumers.values() if connection in group.members]
        for name in left:
            self.leave_consumers(name, connection)
        return left

    def silent(self, seen_before_ms: int) -> list[Connection]:
        """Return the connections of clients without a heartbeat since a moment, each once.

        The caller closes them, which drops them.
        """
        tables = [group.members for group in self._consumers.values()]
        tables += self._producers.values()
        silent = {
            member.connection: None
            for table in tables
            for member in table.values()
            if member.seen_ms < seen_before_ms
        }
        return list(silent)
