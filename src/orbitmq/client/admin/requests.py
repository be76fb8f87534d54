"""What the parts of an `Admin` share: its client, names, and requests to brokers and nameservers.

::

    _ask                one server, by address          raises BrokerError for any code but SUCCESS
    _ask_queue          the master of a queue's broker
    _ask_nameserver     the first nameserver that answers
    _on_nameservers     each nameserver
    _on_brokers         the same work on several brokers; all must succeed
    _some_of            work on several servers; one must succeed

Which brokers, by name::

    _masters            the masters of a topic's brokers
    _brokers_of_topic   a topic's brokers: the master, or a replica if there is none
    _brokers            the masters of a cluster, of a broker, or of all; or one address

Names are given and returned without namespace: it is added to requests, and removed from answers.
Lists leave out the names of other namespaces.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, TypeVar

from msgspec.structs import replace

from orbitmq.client.arguments import check_queue, check_text
from orbitmq.client.core.client_core import ClientCore
from orbitmq.client.core.nameservers import not_a_nameserver
from orbitmq.client.core.publish_route import MASTER_ID
from orbitmq.client.core.subscribe_route import SubscribeRoute, subscribe_route
from orbitmq.errors import (
    BrokerError,
    InvalidInput,
    NoRoute,
    NotRunning,
    OrbitError,
    WrongLoop,
)
from orbitmq.message import names
from orbitmq.message.model import MessageQueue
from orbitmq.net.address import Address
from orbitmq.net.bodies import read_body
from orbitmq.wire.bodies.cluster import ClusterInfo
from orbitmq.wire.bodies.route import TopicRouteData
from orbitmq.wire.codes import RequestCode, ResponseCode
from orbitmq.wire.fields import Header, NoFields
from orbitmq.wire.frame import Buffer, Frame
from orbitmq.wire.json.body import Body

__all__ = ["TIMEOUT_MS", "AdminRequests"]

log = logging.getLogger("orbitmq.client")

TIMEOUT_MS: Final = 6_000
"""Java's (MQAdminImpl)."""

B = TypeVar("B", bound=Body)
H = TypeVar("H", bound=Header)
T = TypeVar("T")


class AdminRequests:
    """Requests of an operator; ``_running`` is the client while there is one."""

    def __init__(self, timeout_ms: int, namespace: str) -> None:
        self._timeout_ms = timeout_ms
        self._namespace = namespace
        self._running: ClientCore | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def _core(self) -> ClientCore:
        if self._running is None:
            raise NotRunning(
                "the admin is not started, or is closed; use 'async with', or start()",
                state="not running",
            )
        if asyncio.get_running_loop() is not self._loop:
            raise WrongLoop(
                "an admin belongs to the event loop that it was started on, and was used on "
                "another; create one per loop, or use orbitmq.blocking.Admin from threads"
            )
        return self._running

    # Requests

    async def _request(
        self,
        address: Address,
        header: Header,
        body: Buffer = b"",
        *,
        timeout_ms: int | None = None,
        code: int | None = None,
    ) -> Frame:
        """Return the answer of a broker, with any code."""
        timeout_ms = self._timeout_ms if timeout_ms is None else timeout_ms
        return await self._core.request(address, header, body, timeout_ms=timeout_ms, code=code)

    async def _ask(
        self,
        address: Address,
        header: Header,
        body: Buffer = b"",
        *,
        timeout_ms: int | None = None,
        code: int | None = None,
    ) -> Frame:
        """Return the answer of a broker; raise BrokerError unless it is a success."""
        answer = await self._request(address, header, body, timeout_ms=timeout_ms, code=code)
        return self._check(answer, address)

    async def _ask_queue(self, queue: MessageQueue, header: Header, kind: type[H]) -> H:
        """Return the answer of the master of a queue's broker, as its typed header."""
        answer = await self._ask(await self._master_of(queue), header)
        return answer.read(kind)

    async def _ask_nameserver(
        self, header: Header, body: Buffer = b"", *, code: int | None = None
    ) -> Frame:
        """Return the answer of the first nameserver that answers; it must be a success."""
        nameservers = self._core.nameservers
        answer = await nameservers.request(header, body, timeout_ms=self._timeout_ms, code=code)
        return self._check_nameserver(answer, next(nameservers.in_turn()))

    async def _on_nameservers(
        self, header: Header, body: Buffer = b"", *, code: int | None = None
    ) -> dict[str, Frame]:
        """Return the answer of each nameserver, by address; raise unless all are successes."""
        nameservers = self._core.nameservers

        async def ask(address: Address) -> Frame:
            answer = await nameservers.ask(
                address, header, body, timeout_ms=self._timeout_ms, code=code
            )
            return self._check(answer, address)

        return await self._all_of({str(one): ask(one) for one in sorted(nameservers.addresses)})

    async def _on_brokers(
        self, brokers: Mapping[str, Address], work: Callable[[Address], Awaitable[T]]
    ) -> dict[str, T]:
        """Do the same work on several brokers at once; return the results by broker name."""
        return await self._all_of({name: work(address) for name, address in brokers.items()})

    async def _body(self, answer: Frame, kind: type[B]) -> B:
        return await read_body(kind, answer.body, self._core.workers)

    @staticmethod
    def _check(answer: Frame, asked: Address) -> Frame:
        if answer.code != ResponseCode.SUCCESS:
            raise BrokerError.of(answer.code, answer.remark, address=str(asked))
        return answer

    @classmethod
    def _check_nameserver(cls, answer: Frame, asked: Address) -> Frame:
        """Check the answer to a request that all nameservers know."""
        if answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
            raise BrokerError.of(answer.code, not_a_nameserver(asked))
        return cls._check(answer, asked)

    @staticmethod
    async def _all_of(work: Mapping[str, Awaitable[T]]) -> dict[str, T]:
        """Do all of the work in parallel; raise the first error with a note on each part."""
        results = dict(
            zip(work, await asyncio.gather(*work.values(), return_exceptions=True), strict=True)
        )
        failures = [one for one in results.values() if isinstance(one, BaseException)]
        if failures:
            for name, one in results.items():
                failures[0].add_note(f"{name}: {one if isinstance(one, BaseException) else 'done'}")
            raise failures[0]
        return {name: one for name, one in results.items() if not isinstance(one, BaseException)}

    @staticmethod
    async def _some_of(work: Mapping[str, Awaitable[T]], what: str) -> dict[str, T]:
        """Do all of the work in parallel; return what succeeded, and log what did not.

        Raise the first error if nothing succeeded.
        """
        results = dict(
            zip(work, await asyncio.gather(*work.values(), return_exceptions=True), strict=True)
        )
        failures = [one for one in results.values() if isinstance(one, BaseException)]
        for failure in failures:
            if len(failures) == len(results) or not isinstance(failure, OrbitError):
                raise failure
            log.warning("%s is incomplete: %s", what, failure)
        return {name: one for name, one in results.items() if not isinstance(one, BaseException)}

    # Brokers

    async def _cluster_info(self) -> ClusterInfo:
        answer = await self._ask_nameserver(NoFields(), code=RequestCode.GET_BROKER_CLUSTER_INFO)
        return await self._body(answer, ClusterInfo)

    async def _brokers(self, on: str | None) -> dict[str, Address]:
        """Return the masters of all brokers, of a cluster or of a broker; or one address.

        Raise NoRoute if there is no such cluster or broker, or none with a master.
        """
        where = self._core.routes.where
        if on is not None and ":" in on:
            Address.parse(on)
            address = where.address(on)
            return {on: address} if address else {}
        info = await self._cluster_info()
        found = {
            name: address
            for name, broker in sorted(info.broker_addr_table.items())
            if on in (None, name, broker.cluster)
            and (address := where.address(broker.broker_addrs.get(MASTER_ID, "")))
        }
        if not found:
            what = "there is no broker" if on is None else f"no cluster and no broker is named {on}"
            raise NoRoute(
                f"{what} with a master; orbitmq cluster nodes and Admin.clusters() list them",
                topic=on or "",
                is_missing=True,
                answers={},
            )
        return found

    async def _broker(self, broker: str) -> Address:
        """Return the master of a broker, or the address if it is one."""
        check_text(broker, "broker")
        found = await self._brokers(broker)
        if set(found) != {broker}:
            raise InvalidInput(
                f"broker is {broker!r}; it must be the name or the address of one broker",
                field="broker",
            )
        return found[broker]

    async def _brokers_of_topic(self, topic: str) -> dict[str, Address]:
        """Return the master of each broker of a topic, or a replica if it has none."""
        route = await self._readable_route(topic)
        if not route.brokers:
            raise NoRoute(
                f"no broker of topic {route.topic} has an address; check that its brokers run",
                topic=route.topic,
                is_missing=False,
                answers={},
            )
        return dict(route.brokers)

    async def _readable_route(self, topic: str) -> SubscribeRoute:
        """Return where a topic can be read; its queues have their names on the wire."""
        routes, wrapped = self._core.routes, self._wrapped(topic)
        return subscribe_route(wrapped, await routes.route(wrapped), routes.where)

    async def _master_of(self, queue: MessageQueue) -> Address:
        """Return the address of a queue's master; refresh the route if it is unknown."""
        topic = self._wrapped(queue.topic)
        address = self._known_master(topic, queue)
        if address is None:
            await self._core.routes.route(topic)
            address = self._known_master(topic, queue)
        if address is None:
            raise NoRoute(
                f"broker {queue.broker_name} is not in the route of topic {topic}, or has no "
                "master; get the queues of the topic again",
                topic=topic,
                is_missing=False,
                answers={},
            )
        return address

    def _known_master(self, topic: str, queue: MessageQueue) -> Address | None:
        known = self._core.routes.cache.get(topic)
        if known is None:
            return None
        leader = known.route.broker_of(replace(queue, topic=topic))
        return self._masters_in(known.data).get(leader)

    async def _masters(self, topic: str) -> dict[str, Address]:
        found = self._masters_in(await self._core.routes.route(topic))
        if not found:
            raise NoRoute(
                f"no broker of topic {topic} has a master; check that its brokers run",
                topic=topic,
                is_missing=False,
                answers={},
            )
        return found

    def _masters_in(self, route: TopicRouteData) -> dict[str, Address]:
        where = self._core.routes.where
        return {
            broker.broker_name: address
            for broker in sorted(route.broker_datas, key=lambda one: one.broker_name)
            if (address := where.address(broker.broker_addrs.get(MASTER_ID, "")))
        }

    # Names

    def _topic_of(self, queue: MessageQueue) -> str:
        check_queue(queue)
        return self._wrapped(queue.topic)

    def _wrapped(self, name: str, field: str = "topic") -> str:
        """Return a topic or a group as it is on the wire."""
        check_text(name, field)
        return names.wrap_namespace(self._namespace, name)

    def _is_ours(self, name: str) -> bool:
        """Return whether a name on the wire is in the namespace, or a system name."""
        return names.wrap_namespace(self._namespace, name) == name

    def _unwrapped(self, name: str) -> str:
        return names.strip_namespace(name, self._namespace)

    def _unwrapped_queue(self, queue: MessageQueue) -> MessageQueue:
        return replace(queue, topic=self._unwrapped(queue.topic)) if self._namespace else queue
