"""Members of groups, connected to brokers, for operators.

A client is connected to several brokers. Each is asked, and a client counts once, with the address
that the first broker sees. What a broker does not know, such as buffered messages, it asks the
client: ``consumer_running_info``, ``consumer_status``.
"""

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from orbitmq.client.admin.requests import AdminRequests
from orbitmq.client.arguments import check_text
from orbitmq.errors import BrokerFailed, ConsumerNotOnline, NoRoute, OrbitError
from orbitmq.message.model import MessageQueue
from orbitmq.message.names import retry_topic
from orbitmq.net.address import Address
from orbitmq.wire.bodies.heartbeat import (
    ConsumeFromWhere,
    ConsumeType,
    MessageModel,
    SubscriptionData,
)
from orbitmq.wire.bodies.members import (
    Connection,
    ConsumerConnection,
    ProducerConnection,
    ProducerInfo,
    ProducerTableInfo,
)
from orbitmq.wire.bodies.offsets import ConsumerStatus
from orbitmq.wire.bodies.running import ConsumerRunningInfo
from orbitmq.wire.codes import RequestCode, ResponseCode, version_name
from orbitmq.wire.headers.heartbeat import (
    GetAllProducerInfo,
    GetConsumerConnectionList,
    GetConsumerRunningInfo,
    GetProducerConnectionList,
)
from orbitmq.wire.headers.offset import GetConsumerStatus

__all__ = ["ConnectedClient", "ConnectedProducer", "ConsumerAdmin", "ConsumerConnections"]

_RELAY_TIMEOUT_MS: Final = 12_000
"""A broker waits 10 s for the client that it asks (AdminBrokerProcessor.callConsumer in Java)."""


class ConnectedClient(msgspec.Struct, frozen=True, kw_only=True, order=True):
    """A client that is connected to brokers.

    Attributes:
        client_id: the id of its process, with its instance name.
        address: its address as a broker sees it.
        language: the language of its library, such as JAVA or PYTHON.
        version: the release of RocketMQ that it speaks, such as 5.4.0.
    """

    client_id: str
    address: str
    language: str
    version: str


class ConnectedProducer(ConnectedClient, frozen=True, kw_only=True, order=True):
    """A producer that is connected to brokers, with the time of its last heartbeat."""

    heartbeat_ms: int


class ConsumerConnections(msgspec.Struct, frozen=True, kw_only=True):
    """The connected consumers of a group, with what they have in common.

    Attributes:
        group: the group.
        clients: its members, by client id.
        consume_type: whether the program pulls, its client does, or the broker pops.
        message_model: whether members share the messages, or each gets all.
        consume_from: where the group starts in a queue without an offset.
        subscriptions: what it subscribes to, by topic.
    """

    group: str
    clients: tuple[ConnectedClient, ...]
    consume_type: ConsumeType | None
    message_model: MessageModel | None
    consume_from: ConsumeFromWhere | None
    subscriptions: Mapping[str, SubscriptionData]


class ConsumerAdmin(AdminRequests):
    """What an `Admin` does with connected producers and consumers."""

    async def consumer_connections(self, group: str) -> ConsumerConnections:
        """Return the connected consumers of a group.

        Raises:
            ConsumerNotOnline: there are none.
            OrbitError: no broker answered; if only some did, that is logged.
        """
        wire_group = self._wrapped(group, "group")
        header = GetConsumerConnectionList(consumer_group=wire_group)

        async def ask(address: Address) -> ConsumerConnection | None:
            try:
                answer = await self._ask(address, header)
            except ConsumerNotOnline:
                return None  # but perhaps on another broker
            return await self._body(answer, ConsumerConnection)

        brokers = await self._group_brokers(group)
        answers = await self._some_of(
            {name: ask(address) for name, address in brokers.items()},
            f"the list of consumers of {group}",
        )
        found = [one for one in answers.values() if one is not None and one.connection_set]
        if not found:
            raise _not_online(group)
        subscriptions = {
            self._unwrapped(topic): one for topic, one in found[0].subscription_table.items()
        }
        return ConsumerConnections(
            group=group,
            clients=_clients(one for answer in found for one in answer.connection_set),
            consume_type=found[0].consume_type,
            message_model=found[0].message_model,
            consume_from=found[0].consume_from_where,
            subscriptions=subscriptions,
        )

    async def producer_connections(self, group: str, topic: str) -> tuple[ConnectedClient, ...]:
        """Return the connected producers of a group, by client id.

        Args:
            group: the group.
            topic: a topic that they send to, whose brokers are asked.

        Raises:
            NoRoute: no nameserver knows the topic.
            BrokerFailed: no broker knows the group.
            OrbitError: no broker answered; if only some did, that is logged.
        """
        header = GetProducerConnectionList(producer_group=self._wrapped(group, "group"))
        unknown: list[BrokerFailed] = []

        async def ask(address: Address) -> tuple[Connection, ...]:
            try:
                answer = await self._ask(address, header)
            except BrokerFailed as error:  # Java's answer for a group without producers
                unknown.append(error)
                return ()
            return (await self._body(answer, ProducerConnection)).connection_set

        brokers = await self._masters(self._wrapped(topic))
        answers = await self._some_of(
            {name: ask(address) for name, address in brokers.items()},
            f"the list of producers of {group}",
        )
        found = _clients(one for connections in answers.values() for one in connections)
        if unknown and not found:
            raise unknown[0]
        return found

    async def all_producers(
        self, *, on: str | None = None
    ) -> dict[str, tuple[ConnectedProducer, ...]]:
        """Return the connected producers of all groups, by group, then client id.

        Args:
            on: the name of a broker or a cluster, or the address of a broker; all masters if None.

        Raises:
            NoRoute: there is no such cluster or broker.
            OrbitError: no broker answered; if only some did, that is logged.
        """

        async def ask(address: Address) -> ProducerTableInfo:
            return await self._body(
                await self._ask(address, GetAllProducerInfo()), ProducerTableInfo
            )

        brokers = await self._brokers(on)
        answers = await self._some_of(
            {name: ask(address) for name, address in brokers.items()}, "the list of producers"
        )
        found: dict[str, dict[str, ConnectedProducer]] = {}
        for table in answers.values():
            for group in filter(self._is_ours, table.data):
                clients = found.setdefault(self._unwrapped(group), {})
                for one in table.data[group]:
                    clients.setdefault(one.client_id, _producer(one))
        return {group: tuple(sorted(found[group].values())) for group in sorted(found)}

    async def consumer_running_info(
        self, group: str, client_id: str, *, stack: bool = False
    ) -> ConsumerRunningInfo:
        """Return what a consumer says about itself: settings, queues, buffers and throughput.

        Args:
            group: its group.
            client_id: its id, from ``consumer_connections``.
            stack: whether to ask for the stacks of its threads too (``jstack`` of the result).

        Raises:
            ConsumerNotOnline: it is not connected.
            BrokerError: it did not answer the broker; code 207 means in time.
            OrbitError: no broker can be reached.
        """
        check_text(client_id, "client_id")
        header = GetConsumerRunningInfo(
            consumer_group=self._wrapped(group, "group"), client_id=client_id, jstack_enable=stack
        )
        # One of the brokers is enough: consumers are connected to all.
        address = await self._broker_of(group, client_id)
        answer = await self._ask(address, header, timeout_ms=_RELAY_TIMEOUT_MS)
        return await self._body(answer, ConsumerRunningInfo)

    async def consumer_status(
        self, topic: str, group: str, *, client_id: str | None = None
    ) -> dict[str, dict[MessageQueue, int]]:
        """Return the offset of each queue as the consumers of a group have it, by client id.

        Brokers have what was committed, which is some seconds older.

        Args:
            topic: the topic.
            group: the group.
            client_id: the only consumer to ask; all of them if None.

        Raises:
            ConsumerNotOnline: no consumer of the group is connected.
            NoRoute: no nameserver knows the topic.
            OrbitError: no broker can be reached.
        """
        header = GetConsumerStatus(
            topic=self._wrapped(topic),
            group=self._wrapped(group, "group"),
            client_addr=client_id,
        )
        address = await self._broker_of(group, client_id)
        answer = await self._ask(
            address,
            header,
            timeout_ms=_RELAY_TIMEOUT_MS,
            code=RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS,
        )
        status = await self._body(answer, ConsumerStatus)
        return {
            client: {
                msgspec.structs.replace(queue, topic=self._unwrapped(queue.topic)): offset
                for queue, offset in sorted(offsets.items())
            }
            for client, offsets in sorted(status.consumer_table.items())
        }

    async def _broker_of(self, group: str, client_id: str | None) -> Address:
        """Return a broker that a consumer is connected to.

        Raise ConsumerNotOnline if none is, and the error of a broker that may be one.
        """
        header = GetConsumerConnectionList(consumer_group=self._wrapped(group, "group"))
        failure: OrbitError | None = None
        for address in (await self._group_brokers(group)).values():
            try:
                answer = await self._body(await self._ask(address, header), ConsumerConnection)
            except OrbitError as error:
                if failure is None or isinstance(failure, ConsumerNotOnline):
                    failure = error
                continue
            if client_id is None or any(
                one.client_id == client_id for one in answer.connection_set
            ):
                return address
        raise failure or _not_online(group, client_id)

    async def _group_brokers(self, group: str) -> dict[str, Address]:
        """Return the brokers of a group: those that have its retry topic, by broker name."""
        topic = retry_topic(self._wrapped(group, "group"))
        try:
            return await self._masters(topic)
        except NoRoute as error:
            if not error.is_missing:
                raise
            raise _not_online(group) from error


def _producer(info: ProducerInfo) -> ConnectedProducer:
    return ConnectedProducer(
        client_id=info.client_id,
        address=info.remote_ip.removeprefix("/"),  # Java's socket addresses print with one
        language=info.language or "",
        version=version_name(info.version),
        heartbeat_ms=info.last_update_timestamp,
    )


def _clients(connections: Iterable[Connection]) -> tuple[ConnectedClient, ...]:
    """Return each client once, by client id."""
    found: dict[str, ConnectedClient] = {}
    for one in connections:
        client = ConnectedClient(
            client_id=one.client_id,
            address=one.client_addr,
            language=one.language or "",
            version=version_name(one.version),
        )
        found.setdefault(one.client_id, client)
    return tuple(sorted(found.values()))


def _not_online(group: str, client_id: str | None = None) -> ConsumerNotOnline:
    who = (
        f"consumer {client_id:.80} of group {group}" if client_id else f"consumer of group {group}"
    )
    return ConsumerNotOnline(
        ResponseCode.CONSUMER_NOT_ONLINE, f"no {who} is connected; check that it runs"
    )
