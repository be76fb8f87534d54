"""Consumer groups and their settings on brokers (Java: subscription groups)."""

from typing import TypedDict, Unpack

from msgspec.structs import replace

from orbitmq.client.admin.requests import AdminRequests
from orbitmq.errors import GroupNotFound
from orbitmq.message import names
from orbitmq.net.address import Address
from orbitmq.wire.bodies.group import (
    GroupForbidden,
    GroupList,
    GroupRetryPolicy,
    SubscriptionGroupConfig,
    SubscriptionGroupTable,
)
from orbitmq.wire.bodies.topic import TopicList
from orbitmq.wire.codes import RequestCode, ResponseCode
from orbitmq.wire.fields import NoFields
from orbitmq.wire.headers.admin import (
    DeleteSubscriptionGroup,
    GetAllSubscriptionGroup,
    UpdateGroupForbidden,
)
from orbitmq.wire.headers.query import QueryTopicConsumeByWho, QueryTopicsByConsumer

__all__ = ["GroupAdmin", "GroupOptions"]


class GroupOptions(TypedDict, total=False):
    """The settings of a group, under Java's names; see ``SubscriptionGroupConfig``."""

    consume_enable: bool
    consume_broadcast_enable: bool
    consume_from_min_enable: bool
    consume_message_orderly: bool
    consume_timeout_minute: int
    retry_max_times: int
    retry_queue_nums: int
    group_retry_policy: GroupRetryPolicy
    broker_id: int
    which_broker_when_consume_slowly: int
    notify_consumer_ids_changed_enable: bool


class GroupAdmin(AdminRequests):
    """What an `Admin` does with groups.

    ``on`` names the brokers: a cluster, a broker, or the address of a broker; None is all masters.
    """

    async def groups(
        self, *, on: str | None = None, include_system: bool = False
    ) -> dict[str, tuple[str, ...]]:
        """Return the brokers of each group, sorted.

        Without ``include_system``, groups that RocketMQ makes for itself are left out; with a
        namespace, those of others.

        Raises:
            OrbitError: a broker refused or failed; the notes of the error list all brokers.
        """
        tables = await self._on_brokers(await self._brokers(on), self._group_table)
        found: dict[str, list[str]] = {}
        for broker, table in tables.items():
            for group in table.subscription_group_table:
                if self._is_ours(group) and (include_system or not names.is_system_group(group)):
                    found.setdefault(self._unwrapped(group), []).append(broker)
        return {group: tuple(found[group]) for group in sorted(found)}

    async def _group_table(self, address: Address) -> SubscriptionGroupTable:
        answer = await self._ask(address, GetAllSubscriptionGroup())
        return await self._body(answer, SubscriptionGroupTable)

    async def group_config(
        self, group: str, *, on: str | None = None
    ) -> dict[str, SubscriptionGroupConfig]:
        """Return the settings of a group by broker name; brokers without the group are left out.

        Raises:
            GroupNotFound: no broker has the group.
            OrbitError: a broker refused or failed.
        """
        wrapped = self._wrapped(group, "group")
        # A broker that is asked for one group creates it (autoCreateSubscriptionGroup).
        tables = await self._on_brokers(await self._brokers(on), self._group_table)
        found = {
            name: replace(table.subscription_group_table[wrapped], group_name=group)
            for name, table in tables.items()
            if wrapped in table.subscription_group_table
        }
        if not found:
            raise GroupNotFound(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"no broker has group {wrapped}"
            )
        return found

    async def create_group(
        self, group: str, *, on: str | None = None, **settings: Unpack[GroupOptions]
    ) -> tuple[str, ...]:
        """Create a group, or replace all its settings; return the broker names.

        Raises:
            InvalidGroup: the name is invalid.
            OrbitError: a broker refused or failed; the notes of the error list all brokers.
        """
        wrapped = self._wrapped(group, "group")
        names.check_group(wrapped)
        brokers = await self._brokers(on)
        config = SubscriptionGroupConfig(group_name=wrapped, **settings)
        await self._on_brokers(brokers, lambda address: self._put_group(address, config))
        return tuple(brokers)

    async def update_group(
        self, group: str, *, on: str | None = None, **settings: Unpack[GroupOptions]
    ) -> tuple[str, ...]:
        """Change some settings of a group where it exists; return the broker names.

        Raises:
            GroupNotFound: no broker has the group.
            OrbitError: a broker refused or failed; the notes of the error list all brokers.
        """
        before = await self.group_config(group, on=on)
        brokers = await self._brokers(on)
        # Attributes are sent as changes: none.
        fixed = {"group_name": self._wrapped(group, "group"), "attributes": {}}
        await self._all_of(
            {
                name: self._put_group(brokers[name], replace(config, **settings, **fixed))
                for name, config in before.items()
            }
        )
        return tuple(before)

    async def _put_group(self, address: Address, config: SubscriptionGroupConfig) -> None:
        code = RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP
        await self._ask(address, NoFields(), config.to_json(), code=code)

    async def delete_group(
        self, group: str, *, clean_offsets: bool = False, on: str | None = None
    ) -> tuple[str, ...]:
        """Delete a group; return the names of the brokers that were asked.

        Its retry and dead letter topics remain, since messages may be in them: see
        ``delete_topic``. ``clean_offsets`` deletes its offsets as well.

        Raises:
            OrbitError: a broker refused or failed; the notes of the error list all brokers.
        """
        header = DeleteSubscriptionGroup(
            group_name=self._wrapped(group, "group"), clean_offset=clean_offsets
        )
        brokers = await self._brokers(on)
        await self._on_brokers(brokers, lambda address: self._ask(address, header))
        return tuple(brokers)

    # Groups and topics

    async def topic_groups(self, topic: str) -> list[str]:
        """Return the groups that have offsets in a topic, or consumers of it that are connected.

        Raises:
            NoRoute: no nameserver knows the topic.
            OrbitError: a broker refused or failed.
        """
        header = QueryTopicConsumeByWho(topic=self._wrapped(topic))

        async def ask(address: Address) -> GroupList:
            return await self._body(await self._ask(address, header), GroupList)

        found = await self._on_brokers(await self._brokers_of_topic(topic), ask)
        groups = {one for each in found.values() for one in each.group_list}
        return sorted(map(self._unwrapped, filter(self._is_ours, groups)))

    async def group_topics(self, group: str) -> list[str]:
        """Return the topics in which a group has offsets.

        Raises:
            OrbitError: a broker refused or failed.
        """
        header = QueryTopicsByConsumer(group=self._wrapped(group, "group"))

        async def ask(address: Address) -> TopicList:
            return await self._body(await self._ask(address, header), TopicList)

        found = await self._on_brokers(await self._brokers(None), ask)
        topics = {one for each in found.values() for one in each.topic_list}
        return sorted(map(self._unwrapped, filter(self._is_ours, topics)))

    async def group_readable(self, group: str, topic: str) -> bool:
        """Return whether a group may read a topic; errors as ``set_group_readable``."""
        found = await self._forbidden(group, topic, readable=None)
        return all(one.readable is not False for one in found.values())

    async def set_group_readable(
        self, group: str, topic: str, *, readable: bool
    ) -> tuple[str, ...]:
        """Forbid a group to read a topic, or allow it again; return the broker names.

        Raises:
            NoRoute: no nameserver knows the topic.
            OrbitError: a broker refused or failed; the notes of the error list all brokers.
        """
        return tuple(await self._forbidden(group, topic, readable=readable))

    async def _forbidden(
        self, group: str, topic: str, *, readable: bool | None
    ) -> dict[str, GroupForbidden]:
        wrapped = self._wrapped(topic)
        header = UpdateGroupForbidden(
            group=self._wrapped(group, "group"), topic=wrapped, readable=readable
        )

        async def ask(address: Address) -> GroupForbidden:
            return await self._body(await self._ask(address, header), GroupForbidden)

        return await self._on_brokers(await self._masters(wrapped), ask)
