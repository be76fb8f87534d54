"""Topics, for operators."""

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from orbitmq.client.admin.nameservers import NameserverAdmin
from orbitmq.client.admin.results import QueueStats, TopicStats
from orbitmq.client.arguments import check_text
from orbitmq.errors import InvalidInput, InvalidTopic, NoRoute, OrbitError
from orbitmq.message import names
from orbitmq.message.model import MessageQueue
from orbitmq.message.names import AUTO_CREATE_TOPIC
from orbitmq.net.address import Address
from orbitmq.wire.bodies.route import TopicRouteData
from orbitmq.wire.bodies.stats import TopicStatsTable
from orbitmq.wire.bodies.topic import TopicConfig, TopicFilterType, TopicList
from orbitmq.wire.codes import RequestCode
from orbitmq.wire.fields import Header, NoFields
from orbitmq.wire.headers.admin import CreateTopic, DeleteTopic, GetTopicConfig
from orbitmq.wire.headers.query import GetTopicStatsInfo
from orbitmq.wire.headers.route import DeleteTopicFromNamesrv, GetTopicsByCluster

__all__ = ["TopicAdmin"]

_CREATE_TRIES: Final = 5
"""Java's (MQAdminImpl)."""
_ORDER_CONFIG: Final = "ORDER_TOPIC_CONFIG"
_NO_FIELDS: Final = NoFields()


class TopicAdmin(NameserverAdmin):
    """What an `Admin` does with topics."""

    # Queries

    async def topics(self, *, cluster: str = "", include_system: bool = True) -> list[str]:
        """Return the names of all topics, or of those of a cluster, sorted.

        Without ``include_system``, topics that RocketMQ makes for itself are left out: reserved
        names, and topics named after clusters and brokers. With a namespace, only its topics and
        reserved names are returned.

        Raises:
            NameserversFailed: no nameserver answered.
            BrokerError: a nameserver refused the request.
        """
        if cluster:
            found = await self._topic_list(GetTopicsByCluster(cluster=cluster))
        else:
            found = await self._topic_list(code=RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
        if not include_system:
            named = await self._topic_list(code=RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS)
            system = {*named, *map(names.reply_topic, named)}
            found = [one for one in found if one not in system and not names.is_system_topic(one)]
        return sorted(map(self._unwrapped, filter(self._is_ours, found)))

    async def _topic_list(
        self, header: Header = _NO_FIELDS, code: RequestCode | None = None
    ) -> Sequence[str]:
        answer = await self._ask_nameserver(header, code=code)
        return (await self._body(answer, TopicList)).topic_list

    async def route(self, topic: str) -> TopicRouteData:
        """Return the route of a topic: its brokers and queues.

        Raises:
            NoRoute: no nameserver knows the topic.
            NameserversFailed: no nameserver answered.
        """
        return await self._core.routes.route(self._wrapped(topic))

    async def queues(self, topic: str) -> tuple[MessageQueue, ...]:
        """Return the writable queues of a topic.

        Raises:
            NoRoute: there are none.
            NameserversFailed: no nameserver answered.
        """
        wrapped = self._wrapped(topic)
        await self._core.routes.route(wrapped)
        route = await self._core.routes.publish_route(wrapped, None)
        return tuple(replace(queue, topic=topic) for queue in route.queues)

    async def topic_stats(self, topic: str) -> TopicStats:
        """Return the offsets of all queues of a topic.

        Raises:
            NoRoute: no nameserver knows the topic.
            OrbitError: a broker refused or failed; the notes of the error list all brokers.
        """
        header = GetTopicStatsInfo(topic=self._wrapped(topic))

        async def ask(address: Address) -> TopicStatsTable:
            return await self._body(await self._ask(address, header), TopicStatsTable)

        found = (await self._on_brokers(await self._brokers_of_topic(topic), ask)).values()
        queues = (
            QueueStats(
                queue=self._unwrapped_queue(queue),
                min_offset=one.min_offset,
                max_offset=one.max_offset,
                last_stored_ms=one.last_update_timestamp,
            )
            for table in found
            for queue, one in table.offset_table.items()
        )
        return TopicStats(
            topic=topic,
            queues=tuple(sorted(queues, key=lambda one: one.queue)),
            put_tps=sum(table.topic_put_tps for table in found),
        )

    async def topic_config(self, topic: str) -> dict[str, TopicConfig]:
        """Return the settings of a topic by broker name; errors as ``topic_stats``."""
        found = await self._topic_configs(topic)
        return {name: replace(one, topic_name=topic) for name, (_, one) in found.items()}

    async def _topic_configs(
        self, topic: str, on: str | None = None
    ) -> dict[str, tuple[Address, TopicConfig]]:
        wrapped = self._wrapped(topic)

        async def ask(address: Address) -> tuple[Address, TopicConfig]:
            answer = await self._ask(address, GetTopicConfig(topic=wrapped))
            return address, await self._body(answer, TopicConfig)

        brokers = await (self._masters(wrapped) if on is None else self._brokers(on))
        return await self._on_brokers(brokers, ask)

    # Changes

    async def create_topic(
        self,
        topic: str,
        *,
        queues: int = 4,
        perm: int = 6,
        is_ordered: bool = False,
        attributes: Mapping[str, str] | None = None,
        on: str = AUTO_CREATE_TOPIC,
    ) -> tuple[str, ...]:
        """Create a topic, or replace all its settings; return the broker names.

        Args:
            topic: its name.
            queues: the number of queues on each broker.
            perm: 4 to read, 2 to write, 6 both.
            is_ordered: whether it is marked as an ordered topic.
            attributes: attributes such as ``{"message.type": "FIFO"}``.
            on: a cluster, a broker, or a topic whose brokers to use; by default the brokers that
                create topics automatically.

        Raises:
            InvalidTopic: the name is invalid, or that of a system topic.
            NoRoute: ``on`` has no master.
            OrbitError: a broker refused or failed; the notes of the error list all brokers.
        """
        wrapped = self._wrapped(topic)
        names.check_topic(wrapped)
        if names.is_system_topic(wrapped):
            raise InvalidTopic(
                f"topic {wrapped} is a system topic of RocketMQ; give another name", field="topic"
            )
        header = CreateTopic(
            topic=wrapped,
            default_topic=on,
            read_queue_nums=queues,
            write_queue_nums=queues,
            perm=perm,
            topic_filter_type=TopicFilterType.SINGLE_TAG,
            topic_sys_flag=0,
            order=is_ordered,
            attributes=_changes(attributes or {}),
        )
        masters = await self._masters_on(on)
        await self._all_of({name: self._create(at, header) for name, at in masters.items()})
        return tuple(masters)

    async def _masters_on(self, on: str) -> dict[str, Address]:
        try:
            return await self._masters(on)
        except NoRoute as error:
            if not error.is_missing:
                raise
            text = (
                f"no cluster, broker or topic is named {on}; orbitmq topic list --all shows the "
                "names that exist"
            )
            if on == AUTO_CREATE_TOPIC:
                text = (
                    "no broker of this cluster creates topics automatically; name the brokers to "
                    "use: on=, with the name of a cluster or a broker"
                )
            raise NoRoute(text, topic=on, is_missing=True, answers=error.answers) from error

    async def _create(self, address: Address, header: CreateTopic) -> None:
        """Create the topic on one broker, with retries; the request is idempotent."""
        for left in reversed(range(_CREATE_TRIES)):
            try:
                await self._ask(address, header)
                return
            except OrbitError as error:
                if not left or not error.retriable:
                    raise

    async def update_topic(
        self,
        topic: str,
        *,
        read_queues: int | None = None,
        write_queues: int | None = None,
        perm: int | None = None,
        is_ordered: bool | None = None,
        attributes: Mapping[str, str | None] | None = None,
        on: str | None = None,
    ) -> tuple[str, ...]:
        """Change some settings of a topic, and keep the others; return the broker names.

        Args:
            topic: its name.
            read_queues: the queues that consumers read; to remove queues, lower ``write_queues``
                first and this when the others are consumed.
            write_queues: the queues that producers send to.
            perm: 4 to read, 2 to write, 6 both.
            is_ordered: whether it is marked as an ordered topic.
            attributes: attributes to set; None as a value removes one.
            on: a cluster, a broker, or the address of a broker; None is all brokers of the topic.

        Raises:
            NoRoute: no nameserver knows the topic.
            OrbitError: a broker refused or failed; the notes of the error list all brokers.
        """
        given = {
            "read_queue_nums": read_queues,
            "write_queue_nums": write_queues,
            "perm": perm,
            "order": is_ordered,
        }
        changes = {name: value for name, value in given.items() if value is not None}
        found = await self._topic_configs(topic, on)

        def header(config: TopicConfig) -> CreateTopic:
            config = replace(config, **changes)
            return CreateTopic(
                topic=config.topic_name,
                default_topic=AUTO_CREATE_TOPIC,
                read_queue_nums=config.read_queue_nums,
                write_queue_nums=config.write_queue_nums,
                perm=config.perm,
                topic_filter_type=config.topic_filter_type or TopicFilterType.SINGLE_TAG,
                topic_sys_flag=config.topic_sys_flag,
                order=config.order,
                attributes=_changes(attributes or {}),
            )

        await self._all_of(
            {name: self._create(address, header(one)) for name, (address, one) in found.items()}
        )
        return tuple(found)

    async def delete_topic(self, topic: str, *, cluster: str | None = None) -> None:
        """Delete a topic with its messages, from one cluster or from all.

        It is deleted from masters and slaves, then from the routes of all nameservers.

        Raises:
            NoRoute: there is no such cluster.
            OrbitError: a server refused or failed; the notes of the error list all servers.
        """
        wrapped = self._wrapped(topic)
        brokers = await self._members(cluster)
        await self._on_brokers(brokers, lambda one: self._ask(one, DeleteTopic(topic=wrapped)))
        await self._on_nameservers(DeleteTopicFromNamesrv(topic=wrapped, cluster_name=cluster))
        if cluster is None:
            await self.delete_kv_config(_ORDER_CONFIG, wrapped)

    async def _members(self, cluster: str | None) -> dict[str, Address]:
        """Return masters and slaves, by advertised address."""
        info = await self._cluster_info()
        found = {
            advertised: address
            for broker in info.broker_addr_table.values()
            if cluster in (None, broker.cluster)
            for advertised in broker.broker_addrs.values()
            if (address := self._core.routes.where.address(advertised))
        }
        if not found:
            raise NoRoute(
                f"no cluster is named {cluster}; orbitmq cluster list and Admin.clusters() list "
                "them",
                topic=cluster or "",
                is_missing=True,
                answers={},
            )
        return found

    # The order of ordered topics

    async def order_config(self, topic: str) -> dict[str, int]:
        """Return the number of queues by broker that producers of an ordered topic use.

        Empty if it is not set: then it follows the brokers that are alive.
        """
        text = await self.kv_config(_ORDER_CONFIG, self._wrapped(topic))
        return _order_of(text or "")

    async def set_order_config(self, topic: str, queues: Mapping[str, int]) -> None:
        """Fix the number of queues by broker, so that keys keep their queue if a broker is down.

        Raises:
            InvalidInput: there is no broker, or a number of queues is not positive.
            OrbitError: a nameserver refused or failed.
        """
        for name, count in queues.items():
            check_text(name, "queues")
            if count < 1 or set(name) & set(":;"):
                raise InvalidInput(
                    f"queues of {name[:60]!r} is {count}; it must be a broker name and a number "
                    "from 1",
                    field="queues",
                )
        if not queues:
            raise InvalidInput("queues is empty; use delete_order_config", field="queues")
        text = ";".join(f"{name}:{count}" for name, count in sorted(queues.items()))
        await self.set_kv_config(_ORDER_CONFIG, self._wrapped(topic), text)

    async def delete_order_config(self, topic: str) -> None:
        """Delete the order config of a topic."""
        await self.delete_kv_config(_ORDER_CONFIG, self._wrapped(topic))


def _changes(attributes: Mapping[str, str | None]) -> str:
    """Return changes of attributes as a request has them.

    >>> _changes({"message.type": "FIFO", "cleanup.policy": None})
    '+message.type=FIFO,-cleanup.policy'
    """
    return ",".join(
        f"-{name}" if value is None else f"+{name}={value}" for name, value in attributes.items()
    )


def _order_of(text: str) -> dict[str, int]:
    """Return the queues by broker; parts that can't be read are left out, as Java's clients do.

    >>> _order_of("broker-a:4;broker-b:8")
    {'broker-a': 4, 'broker-b': 8}
    """
    parts = (part.rpartition(":") for part in text.split(";"))
    return {name: int(count) for name, colon, count in parts if colon and count.isdecimal()}
