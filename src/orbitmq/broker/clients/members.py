"""The connected consumers and producers of each group, known by their heartbeats.

A client is identified by its connection. It is removed when it unregisters, when the connection
closes, or when no heartbeat came for two minutes. Laws:

- The last heartbeat sets consume type and subscriptions of its whole group, so members must have
  equal subscriptions; if they differ, they overwrite each other (ConsumerGroupInfo in Java).
- Of two subscriptions to one topic the one with the higher version wins.
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
    """When its last heartbeat came, by the monotonic clock."""


class ConsumerGroup:
    """The connected consumers of one group."""

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
        """Whether each member consumes all queues, so that there is nothing to rebalance."""
        return self.message_model is MessageModel.BROADCASTING

    def client_ids(self) -> list[str]:
        """Return the ids of the clients, in the order in which they joined."""
        return [member.client_id for member in self.members.values()]

    def update(self, data: ConsumerData, member: Member) -> bool:
        """Process a heartbeat; return whether the client is new to the group."""
        self.consume_type = data.consume_type
        self.message_model = data.message_model
        self.consume_from_where = data.consume_from_where
        is_new = member.connection not in self.members
        self.members[member.connection] = member
        return is_new

    def subscribe(self, subscriptions: tuple[SubscriptionData, ...]) -> bool:
        """Replace the subscriptions; return whether the set of topics changed."""
        wanted = {one.topic: one for one in subscriptions}
        changed = wanted.keys() != self.subscriptions.keys()
        for topic, new in wanted.items():
            old = self.subscriptions.get(topic)
            if old is not None and old.sub_version >= new.sub_version:
                wanted[topic] = old
        self.subscriptions = wanted
        return changed


class Members:
    """All clients of a broker, by group."""

    def __init__(self) -> None:
        self._consumers: dict[str, ConsumerGroup] = {}
        self._producers: dict[str, dict[Connection, Member]] = {}
        # By client id: the connections of its producers, and in how many groups each is.
        self._producer_ids: dict[str, dict[Connection, int]] = {}
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

    def producer(self, client_id: str) -> Connection | None:
        """Return the connection of a client with a producer, the latest one; None if it is gone."""
        found = self._producer_ids.get(client_id)
        return None if found is None else next(reversed(found))

    def producer_groups(self) -> list[str]:
        """Return the names of all groups with a producer, sorted."""
        return sorted(self._producers)

    def subscription(self, group: str, topic: str) -> SubscriptionData | None:
        """Return a group's subscription to a topic; None if it isn't subscribed."""
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

    # Joining and leaving

    def join_consumers(
        self, data: ConsumerData, member: Member, *, with_subscriptions: bool = True
    ) -> bool:
        """Process a consumer's heartbeat; return whether its group should rebalance."""
        group = self._consumers.get(data.group_name)
        if group is None:
            group = self._consumers[data.group_name] = ConsumerGroup(data.group_name)
        is_new = group.update(data, member)
        if is_new:
            log.info("consumer %s joined group %s", member.client_id, group.name)
        changed = with_subscriptions and group.subscribe(data.subscription_data_set)
        return is_new or changed

    def fingerprint_changed(
        self, group: str, fingerprint: int, *, with_subscriptions: bool = True
    ) -> bool:
        """Note the fingerprint of a group's subscriptions; return whether it should send them.

        It should if they differ from those of another member, and if it omitted them and this
        broker, restarted, has none. Java's broker does not ask then, and pulls fail because the
        subscriptions are missing.
        """
        known = self._fingerprints.get(group)
        self._fingerprints[group] = fingerprint
        found = self._consumers.get(group)
        has_any = with_subscriptions or (found is not None and bool(found.subscriptions))
        return not has_any or (known is not None and known != fingerprint)

    def join_producers(self, group: str, member: Member) -> None:
        """Process a producer's heartbeat."""
        found = self._producers.setdefault(group, {})
        known = found.get(member.connection)
        found[member.connection] = member
        if known is None or known.client_id != member.client_id:
            if known is not None:
                self._forget_producer(known)
            groups = self._producer_ids.setdefault(member.client_id, {})
            groups[member.connection] = groups.get(member.connection, 0) + 1

    def leave_consumers(self, group: str, connection: Connection) -> bool:
        """Remove a consumer; return whether it was there."""
        found = self._consumers.get(group)
        if found is None or found.members.pop(connection, None) is None:
            return False
        if not found.members:
            del self._consumers[group]
            self._fingerprints.pop(group, None)
            log.info("the last consumer of group %s left", group)
        return True

    def leave_producers(self, group: str, connection: Connection) -> None:
        """Remove a producer."""
        found = self._producers.get(group)
        member = None if found is None else found.pop(connection, None)
        if member is not None:
            self._forget_producer(member)
        if found is not None and not found:
            del self._producers[group]

    def drop(self, connection: Connection) -> list[str]:
        """Remove a client whose connection closed; return the consumer groups it was in."""
        for group in [name for name, found in self._producers.items() if connection in found]:
            self.leave_producers(group, connection)
        left = [group.name for group in self._consumers.values() if connection in group.members]
        for name in left:
            self.leave_consumers(name, connection)
        return left

    def silent(self, seen_before_ms: int) -> list[Connection]:
        """Return the connections of clients without a heartbeat since a time, each once.

        The caller closes them, which removes the clients.
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

    def _forget_producer(self, member: Member) -> None:
        """Count one group less; Java forgets a client that leaves one of several groups."""
        groups = self._producer_ids[member.client_id]
        groups[member.connection] -= 1
        if not groups[member.connection]:
            del groups[member.connection]
        if not groups:
            del self._producer_ids[member.client_id]
