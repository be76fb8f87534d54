"""Nameservers: their settings, their keys, and write permissions in all routes of a broker.

Nameservers don't know each other, so a change goes to each of them.
"""

from asyncio import gather
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

from orbitmq.client.admin.brokers import brokers_of, checked_properties
from orbitmq.client.admin.requests import AdminRequests
from orbitmq.client.admin.results import Broker
from orbitmq.client.arguments import check_text
from orbitmq.errors import NotFound, OrbitError, TopicNotFound
from orbitmq.net.address import Address
from orbitmq.wire.bodies.cluster import ClusterInfo, KVTable
from orbitmq.wire.bodies.route import TopicRouteData
from orbitmq.wire.codes import RequestCode
from orbitmq.wire.fields import Header, NoFields
from orbitmq.wire.frame import Frame
from orbitmq.wire.headers.route import (
    AddWritePermOfBroker,
    AddWritePermOfBrokerAnswer,
    DeleteKVConfig,
    GetKVConfig,
    GetKVConfigAnswer,
    GetKVListByNamespace,
    GetRouteInfo,
    PutKVConfig,
    WipeWritePermOfBroker,
    WipeWritePermOfBrokerAnswer,
)
from orbitmq.wire.json.properties_text import properties_from_text, properties_to_text

__all__ = ["NameserverAdmin"]

T = TypeVar("T")


class NameserverAdmin(AdminRequests):
    """What an `Admin` does with nameservers.

    All methods raise NameserversFailed or another OrbitError if a nameserver can't be reached or
    refuses; after a change, the notes of the error list all nameservers.
    """

    async def nameserver_config(self) -> dict[str, dict[str, str]]:
        """Return the settings of each nameserver by address, under Java's names."""
        code = RequestCode.GET_NAMESRV_CONFIG
        answers = await self._on_nameservers(NoFields(), code=code)
        return {address: properties_from_text(one.body) for address, one in answers.items()}

    async def set_nameserver_config(self, settings: Mapping[str, str]) -> tuple[str, ...]:
        """Change settings of all nameservers, and in their files; return the addresses."""
        text = properties_to_text(checked_properties(settings))
        code = RequestCode.UPDATE_NAMESRV_CONFIG
        return tuple(await self._on_nameservers(NoFields(), text, code=code))

    # What each of them knows

    async def clusters_by_nameserver(self) -> dict[str, tuple[Broker, ...] | OrbitError]:
        """Return the brokers that each nameserver knows, or why it did not answer, by address.

        All know the same brokers, unless one lacks it among its nameservers, or is cut off. ::

            for nameserver, brokers in (await admin.clusters_by_nameserver()).items():
                print(nameserver, brokers)
        """
        code = RequestCode.GET_BROKER_CLUSTER_INFO

        async def read(answer: Frame) -> tuple[Broker, ...]:
            return brokers_of(await self._body(answer, ClusterInfo))

        return await self._each_nameserver(NoFields(), read, code=code)

    async def route_by_nameserver(
        self, topic: str
    ) -> dict[str, TopicRouteData | OrbitError | None]:
        """Return the route that each nameserver has for a topic, None if it has none, by address.

        Or why it did not answer.
        """

        async def read(answer: Frame) -> TopicRouteData | None:
            return await self._body(answer, TopicRouteData)

        found = await self._each_nameserver(GetRouteInfo(topic=self._wrapped(topic)), read)
        return {
            address: None if isinstance(one, TopicNotFound) else one
            for address, one in found.items()
        }

    async def _each_nameserver(
        self,
        header: Header,
        read: Callable[[Frame], Awaitable[T]],
        *,
        code: int | None = None,
    ) -> dict[str, T | OrbitError]:
        nameservers = self._core.nameservers

        async def ask(address: Address) -> T | OrbitError:
            try:
                answer = await nameservers.ask(
                    address, header, b"", timeout_ms=self._timeout_ms, code=code
                )
                return await read(self._check(answer, address))
            except OrbitError as error:
                return error

        addresses = sorted(nameservers.addresses)
        return dict(zip(map(str, addresses), await gather(*map(ask, addresses)), strict=True))

    # Keys

    async def kv_config(self, namespace: str, key: str) -> str | None:
        """Return the value of a key; None if there is none."""
        _check_texts(namespace=namespace, key=key)
        try:
            answer = await self._ask_nameserver(GetKVConfig(namespace=namespace, key=key))
        except NotFound:
            return None
        return answer.read(GetKVConfigAnswer).value

    async def kv_namespace(self, namespace: str) -> dict[str, str]:
        """Return all keys of a namespace with their values; empty if there is none."""
        _check_texts(namespace=namespace)
        try:
            answer = await self._ask_nameserver(GetKVListByNamespace(namespace=namespace))
        except NotFound:
            return {}
        return (await self._body(answer, KVTable)).table

    async def set_kv_config(self, namespace: str, key: str, value: str) -> None:
        """Set a key on all nameservers."""
        _check_texts(namespace=namespace, key=key, value=value)
        await self._on_nameservers(PutKVConfig(namespace=namespace, key=key, value=value))

    async def delete_kv_config(self, namespace: str, key: str) -> None:
        """Delete a key on all nameservers, if it exists."""
        _check_texts(namespace=namespace, key=key)
        await self._on_nameservers(DeleteKVConfig(namespace=namespace, key=key))

    # Write permissions

    async def wipe_write_perm(self, broker: str) -> dict[str, int]:
        """Stop writes to a broker, by name: producers leave it when they refresh their routes.

        It lasts until ``add_write_perm``, or until the broker registers its topics again.

        Returns:
            How many topics were changed, by nameserver.
        """
        _check_texts(broker=broker)
        answers = await self._on_nameservers(WipeWritePermOfBroker(broker_name=broker))
        return {
            address: one.read(WipeWritePermOfBrokerAnswer).wipe_topic_count
            for address, one in answers.items()
        }

    async def add_write_perm(self, broker: str) -> dict[str, int]:
        """Allow writes to a broker again; return how many topics were changed, by nameserver."""
        _check_texts(broker=broker)
        answers = await self._on_nameservers(AddWritePermOfBroker(broker_name=broker))
        return {
            address: one.read(AddWritePermOfBrokerAnswer).add_topic_count
            for address, one in answers.items()
        }


def _check_texts(**given: object) -> None:
    for field, value in given.items():
        check_text(value, field)
