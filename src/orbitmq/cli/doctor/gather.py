"""Asks a cluster for the facts that the checks judge. What can't be asked is a fact, too."""

import asyncio
import dataclasses
import os
from collections.abc import Awaitable, Mapping, Sequence
from typing import Final, TypeVar

from msgspec.structs import replace

from orbitmq.cli.doctor.facts import (
    BrokerFacts,
    ElectionFacts,
    Facts,
    GroupFacts,
    NameserverFacts,
    TopicFacts,
)
from orbitmq.client.admin.admin import Admin
from orbitmq.client.admin.consumers import ConsumerConnections
from orbitmq.client.admin.results import Broker
from orbitmq.client.settings import ClientSettings
from orbitmq.clock import Clock
from orbitmq.errors import (
    ConnectFailed,
    ConnectionClosed,
    ConsumerNotOnline,
    GroupNotFound,
    NoPermission,
    NoRoute,
    OrbitError,
    RemoteProtocolError,
    RequestNotSupported,
)
from orbitmq.message.names import dead_letter_topic
from orbitmq.net.address import Address

__all__ = ["gather", "skew_ms"]

_TIMEOUT_S: Final = 5.0
_VIP_BELOW: Final = 2
_SECOND_MS: Final = 1_000
_MEMBERS_ASKED: Final = 32
"""Members that are asked for their subscription: each answers through a broker."""

T = TypeVar("T")


async def gather(
    settings: ClientSettings,
    clock: Clock,
    *,
    topic: str | None = None,
    group: str | None = None,
    max_lag: int = 10_000,
) -> Facts:
    """Return all facts about a cluster, and about a topic and a group of it.

    Raises:
        NoNameserver: the settings name none.
    """
    async with Admin(client=settings) as admin:
        nameservers = await _nameservers(admin, topic)
        known = dict.fromkeys(broker for one in nameservers for broker in one.brokers)
        brokers = await asyncio.gather(*(_broker(admin, settings, clock, one) for one in known))
        is_any = bool(known)
        elections = await asyncio.gather(*(_election(admin, one) for one in _electing(brokers)))
        return Facts(
            nameservers=nameservers,
            brokers=tuple(sorted(brokers, key=lambda one: one.broker)),
            elections=tuple(elections),
            topic=await _topic(admin, topic) if topic is not None and is_any else _unasked(topic),
            group=await _group(admin, group) if group is not None and is_any else None,
            uses_tls=settings.tls_context() is not None,
            has_keys=bool(settings.access_key),
            max_lag=max_lag,
        )


def _unasked(topic: str | None) -> TopicFacts | None:
    return None if topic is None else TopicFacts(name=topic)


async def _nameservers(admin: Admin, topic: str | None) -> tuple[NameserverFacts, ...]:
    clusters = await admin.clusters_by_nameserver()
    routes = {} if topic is None else await admin.route_by_nameserver(topic)
    found = []
    for address, brokers in clusters.items():
        route = routes.get(address)
        if isinstance(brokers, OrbitError):
            is_other = isinstance(brokers, RequestNotSupported)
            said = "it looks like a broker, not a nameserver" if is_other else str(brokers)
            found.append(NameserverFacts(address=address, problem=said))
        else:
            has_route = None if isinstance(route, OrbitError) else route
            found.append(NameserverFacts(address=address, brokers=brokers, route=has_route))
    return tuple(found)


# Brokers


async def _broker(
    admin: Admin, settings: ClientSettings, clock: Clock, broker: Broker
) -> BrokerFacts:
    address = Address.parse(broker.address)
    port_problem = await _connect(address)
    vip_problem = None
    if broker.is_master and address.port > _VIP_BELOW:
        vip_problem = await _connect(Address(address.host, address.port - _VIP_BELOW))
    asked_ms = clock.now_ms()
    status = await _or_error(admin.broker_status(broker.address))
    answered_ms = clock.now_ms()
    if isinstance(status, OrbitError):
        return BrokerFacts(
            broker=broker,
            port_problem=port_problem,
            vip_problem=vip_problem,
            problem=str(status),
            is_refused=isinstance(status, NoPermission),
            speaks_other=port_problem is None
            and isinstance(status, _CLOSED)
            and await _answers_otherwise(settings, broker),
        )
    config = await _or_error(admin.broker_config(broker.address))
    is_refused = isinstance(config, NoPermission)
    replication = await _or_error(admin.replication(broker.address))
    return BrokerFacts(
        broker=broker,
        port_problem=port_problem,
        vip_problem=vip_problem,
        problem=str(config) if is_refused else None,
        is_refused=is_refused,
        status=status,
        config={} if isinstance(config, OrbitError) else config,
        skew_ms=None if status.now_ms is None else skew_ms(status.now_ms, asked_ms, answered_ms),
        replication=None if isinstance(replication, OrbitError) else replication,
    )


def _electing(brokers: Sequence[BrokerFacts]) -> list[BrokerFacts]:
    """Return one broker of each name whose brokers elect their master in etcd."""
    elected = [one for one in brokers if one.config.get("enableControllerMode") == "true"]
    ours = [one for one in elected if "etcdEndpoints" in one.config]  # Java's ask controllers
    return list({one.broker.name: one for one in ours}.values())


async def _election(admin: Admin, one: BrokerFacts) -> ElectionFacts:
    name = one.broker.name
    facts = ElectionFacts(
        name=name,
        cluster=one.broker.cluster,
        asked=one.broker.address,
        in_sync_min=int(one.config.get("minInSyncReplicas", "1")),
    )
    found = await _or_error(admin.sync_state([name], controller=one.broker.address))
    if isinstance(found, OrbitError):
        return dataclasses.replace(facts, problem=str(found))
    state = found.replicas_info_table.get(name)
    problem = None if state is not None else f"{facts.asked} does not know it"
    return dataclasses.replace(facts, state=state, problem=problem)


def skew_ms(said_ms: int, asked_ms: int, answered_ms: int) -> int:
    """Return how far a clock is ahead of ours, at least; 0 if both may agree.

    It was read between the question and the answer, and tells whole seconds.

    >>> skew_ms(said_ms=10_000, asked_ms=10_400, answered_ms=10_450)
    0
    >>> skew_ms(said_ms=90_000, asked_ms=10_400, answered_ms=10_450)
    79550
    >>> skew_ms(said_ms=5_000, asked_ms=10_400, answered_ms=10_450)
    -4401
    """
    least, most = said_ms - answered_ms, said_ms + _SECOND_MS - 1 - asked_ms
    return least if least > 0 else min(most, 0)


_CLOSED: Final = (ConnectFailed, ConnectionClosed, RemoteProtocolError)
"""How a server ends a conversation in the wrong language."""


async def _answers_otherwise(settings: ClientSettings, broker: Broker) -> bool:
    """Return whether a broker answers with TLS if we use none, or without if we do."""
    if settings.tls_context() is None:
        other = replace(settings, tls=True, tls_verify=False)
    else:
        other = replace(settings, tls=False, ssl_context=None)
    async with Admin(client=replace(other, instance_name="doctor")) as admin:
        answer = await _or_error(admin.broker_status(broker.address))
    return not isinstance(answer, _CLOSED)


async def _connect(address: Address) -> str | None:
    """Return why no connection to an address is possible; None if it is."""
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            _, writer = await asyncio.open_connection(address.host, address.port)
    except TimeoutError:
        return f"no answer in {_TIMEOUT_S:.0f} s"
    except OSError as error:
        number = error.errno or 0  # below 0: of name resolution
        return os.strerror(number) if number > 0 else error.strerror or str(error)
    writer.close()
    return None


async def _or_error(work: Awaitable[T]) -> T | OrbitError:
    try:
        return await work
    except OrbitError as error:
        return error


# The topic and the group


async def _topic(admin: Admin, name: str) -> TopicFacts:
    try:
        return TopicFacts(name=name, configs=await admin.topic_config(name))
    except NoRoute:
        return TopicFacts(name=name)  # check_route says so
    except OrbitError as error:
        return TopicFacts(name=name, problem=str(error))


async def _group(admin: Admin, name: str) -> GroupFacts:
    try:
        configs = await admin.group_config(name)
        members = await _members(admin, name)
        return GroupFacts(
            name=name,
            configs=configs,
            progress=await admin.progress(name),
            members=members,
            subscriptions={} if members is None else await _subscriptions(admin, members),
            dead_letters=await _dead_letters(admin, name),
        )
    except GroupNotFound:
        return GroupFacts(name=name)
    except OrbitError as error:
        return GroupFacts(name=name, problem=str(error))


async def _members(admin: Admin, group: str) -> ConsumerConnections | None:
    try:
        return await admin.consumer_connections(group)
    except ConsumerNotOnline:
        return None


async def _subscriptions(
    admin: Admin, members: ConsumerConnections
) -> dict[str, Mapping[str, str]]:
    """Return what members say that they subscribe to; those that don't answer are left out."""
    ids = [one.client_id for one in members.clients][:_MEMBERS_ASKED]
    answers = await asyncio.gather(
        *(_or_error(admin.consumer_running_info(members.group, one)) for one in ids)
    )
    return {
        client: {one.topic: one.sub_string or "*" for one in answer.subscription_set}
        for client, answer in zip(ids, answers, strict=True)
        if not isinstance(answer, OrbitError)
    }


async def _dead_letters(admin: Admin, group: str) -> int:
    try:
        return (await admin.topic_stats(dead_letter_topic(group))).messages
    except NoRoute:
        return 0
