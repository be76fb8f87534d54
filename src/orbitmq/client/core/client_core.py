"""What the users of one client share: connections, routes, heartbeats, requests of brokers.

Producers with the same settings on the same loop share a core. It is started for the first one and
lingers after the last, so that a producer per message does not cost too much::

    acquire() ──▶ running ──▶ release() of the last ──▶ lingering ── acquire() ──▶ running
                                                             └── after keep_open_ms ──▶ closed

A member of a consumer group without an instance name has a core of its own, since brokers tell the
members of a group apart by their client ids.

No user code runs in the tasks of the core: heartbeats and route look-ups can't be delayed by it.
"""

import asyncio
import logging
from functools import partial
from typing import Final, Self
from weakref import WeakKeyDictionary

from orbitmq.client.core.broker_requests import BrokerRequests
from orbitmq.client.core.heartbeats import UNREGISTER_MS, Heartbeats
from orbitmq.client.core.loop_thread import before_loop_ends
from orbitmq.client.core.machine import Machine
from orbitmq.client.core.nameservers import Nameservers
from orbitmq.client.core.publish_route import BrokerAddresses, PublishRoute
from orbitmq.client.core.request_reply import Requests
from orbitmq.client.core.routes import Routes
from orbitmq.client.settings import DEFAULT_INSTANCE, ClientSettings
from orbitmq.errors import ConnectionClosed, InvalidGroup, InvalidInput
from orbitmq.net.address import Address
from orbitmq.net.connection import Connection
from orbitmq.net.dialer import Dialer
from orbitmq.net.fork import check_process, process_token
from orbitmq.wire.bodies.heartbeat import ConsumerData
from orbitmq.wire.codes import RequestCode
from orbitmq.wire.fields import Header
from orbitmq.wire.frame import Buffer, Frame
from orbitmq.wire.session import Identity

__all__ = ["ClientCore"]

log = logging.getLogger("orbitmq.client")

_INSTANCES: Final = 2**53
"""Random numbers tell the clients of a process apart; JSON readers keep all digits up to this."""

_cores: "WeakKeyDictionary[asyncio.AbstractEventLoop, list[ClientCore]]" = WeakKeyDictionary()
_lingerings: WeakKeyDictionary[asyncio.AbstractEventLoop, set[asyncio.Task[None]]]
_lingerings = WeakKeyDictionary()


class ClientCore:
    """The shared part of clients; ``acquire`` one, and ``release`` it when done.

    ``workers`` are threads for work that would block the loop, ``user_workers`` those for functions
    of users, which may take long.
    """

    def __init__(self, settings: ClientSettings, machine: Machine | None = None) -> None:
        self.settings = settings
        self._given_machine = machine
        self.machine = machine = machine or Machine()
        number = machine.randomness.below(_INSTANCES)
        self.client_id = settings.client_id(machine.host, f"{machine.pid}#{number}")
        self._process = process_token()
        self._users = 0
        self._owners: dict[str, list[object]] = {}
        self._consumers: dict[str, object] = {}
        self._is_shared = True
        self._starting: asyncio.Task[None] | None = None
        self._lingering: asyncio.Task[None] | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._is_closed = False
        self.workers = machine.workers("orbitmq-client")
        self.user_workers = machine.workers("orbitmq-user-code")
        self.broker_requests = BrokerRequests()
        self._dialer = Dialer(
            identity=Identity(credentials=settings.credentials),
            settings=settings.net,
            tls=settings.tls_context(),
            handler=self.broker_requests,
            network=machine.network,
        )
        self.nameservers = Nameservers(settings, self._dialer, machine)
        self.routes = Routes(
            self.nameservers,
            BrokerAddresses(settings),
            workers=self.workers,
            clock=machine.clock,
            timeout_ms=settings.request_timeout_ms,
        )
        self._fields = dict(settings.header_fields)
        self.heartbeats = Heartbeats(
            client_id=self.client_id,
            dialer=self._dialer,
            masters=lambda: self.routes.cache.masters,
            slaves=lambda: self.routes.cache.slaves,
            timeout_ms=settings.request_timeout_ms,
            fields=self._fields,
        )
        self.routes.when_changed(self._announce_route)
        self.requests = Requests(
            client_id=self.client_id,
            clock=machine.clock,
            randomness=machine.randomness,
            announce=self.announce,
        )
        self.broker_requests.listen(
            RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT,
            lambda _connection, request: self.requests.take_reply(request),
        )

    def __repr__(self) -> str:
        return f"<ClientCore {self.client_id}, {self._users} users, {self.nameservers!r}>"

    # Life

    @classmethod
    async def acquire(
        cls,
        settings: ClientSettings,
        machine: Machine | None = None,
        *,
        is_shared: bool = True,
    ) -> Self:
        """Return the started core for these settings on this loop; ``release`` it when done.

        Callers with equal settings get the same core, unless ``is_shared`` is False. Raise
        NoNameserver if none is configured or the list can't be fetched, and InvalidInput if a
        client with this instance name runs with other settings or TLS files can't be used.
        """
        _forget_closed_loops()
        cores = _cores.setdefault(asyncio.get_running_loop(), [])
        core = _shared(cores, settings, machine) if is_shared else None
        if core is None:
            core = cls(settings, machine)
            core._is_shared = is_shared
            if is_shared:
                cores.append(core)
        assert isinstance(core, cls)
        core._users += 1
        core._stop_lingering()
        try:
            await core._started()
        except BaseException:
            core._users -= 1
            if not core._users:
                await core._close()
            raise
        return core

    async def release(self) -> None:
        """Release the core; after the last release it lingers, then closes."""
        check_process(self._process, self)
        self._users -= 1
        if self._users:
            return
        if self.settings.keep_open_ms and self._is_shared:
            self._lingering = asyncio.create_task(self._linger(), name=f"linger {self.client_id}")
            lingerings = _lingerings.setdefault(asyncio.get_running_loop(), set())
            lingerings.add(self._lingering)
            self._lingering.add_done_callback(lingerings.discard)
        else:
            await self._close()

    @classmethod
    async def close_unused(cls, *, close_used: bool = False) -> None:
        """Close the lingering cores of this loop, and wait for those that are closing.

        Call it before the loop ends: a core whose closing is cancelled leaves connections open.
        With ``close_used``, cores that were never released are closed as well.
        """
        loop = asyncio.get_running_loop()
        for core in list(_cores.get(loop, ())):
            if close_used or core._lingering is not None:
                core._stop_lingering()
                await core._close()
        if lingerings := _lingerings.get(loop):
            await asyncio.wait(lingerings)

    async def _started(self) -> None:
        if self._starting is None:
            self._starting = asyncio.create_task(self._start(), name=f"start {self.client_id}")
        # Cancelling one caller must not cancel the start for the others.
        await asyncio.shield(self._starting)

    async def _start(self) -> None:
        await self.nameservers.start()
        settings = self.settings
        for name, work in (
            ("nameservers", self.nameservers.run()),
            ("routes", self.routes.run(settings.poll_nameserver_interval_ms)),
            ("heartbeats", self.heartbeats.run(settings.heartbeat_interval_ms)),
        ):
            self._tasks.append(asyncio.create_task(work, name=f"{name} of {self.client_id}"))
        log.debug("client %s is started with %r", self.client_id, self.nameservers)

    async def _linger(self) -> None:
        try:
            await asyncio.sleep(self.settings.keep_open_ms / 1000)
        finally:
            # The time has passed, or the loop ends; unless the core was acquired again.
            if self._lingering is asyncio.current_task():
                await self._close()

    def _stop_lingering(self) -> None:
        if self._lingering is not None:
            self._lingering.cancel()
            self._lingering = None

    async def _close(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        cores = _cores.get(asyncio.get_running_loop(), [])
        if self in cores:
            cores.remove(self)
        tasks = [*self._tasks, *([self._starting] if self._starting else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self.requests.close(ConnectionClosed("the client was closed"))
        await self.heartbeats.close()
        await self.routes.close()
        await self._dialer.close()
        self.workers.close()
        self.user_workers.close(wait=False)
        log.debug("client %s is closed", self.client_id)

    # Groups

    def register_producer(self, group: str, owner: object) -> None:
        """Add a producer group; call ``unregister_producer`` with the same owner when done.

        Raise InvalidGroup if another producer of this group uses the same instance name.
        """
        owners = self._owners.setdefault(group, [])
        if owners and self.settings.instance_name != DEFAULT_INSTANCE:
            raise InvalidGroup(
                f"instance {self.settings.instance_name} already has a producer of group {group}; "
                "share that producer, or give another group or instance_name",
                field="group",
            )
        owners.append(owner)
        self.heartbeats.join(group)

    async def unregister_producer(
        self, group: str, owner: object, timeout_ms: int = UNREGISTER_MS
    ) -> None:
        """Remove a group for one owner; after the last one, brokers unregister it."""
        owners = self._owners.get(group, [])
        if owner in owners:
            owners.remove(owner)
            if not owners:
                del self._owners[group]
            await self.heartbeats.leave(group, timeout_ms)

    def register_consumer(self, data: ConsumerData, owner: object) -> None:
        """Add a consumer group, or change its subscriptions; brokers get a heartbeat at once.

        Raise InvalidGroup if another owner has a consumer of this group.
        """
        if self._consumers.setdefault(data.group_name, owner) is not owner:
            raise InvalidGroup(
                f"instance {self.settings.instance_name} already has a consumer of group "
                f"{data.group_name}; give another group or instance_name",
                field="group",
            )
        self.heartbeats.subscribe(data)

    async def unregister_consumer(
        self, group: str, owner: object, timeout_ms: int = UNREGISTER_MS
    ) -> None:
        """Remove a consumer group; brokers unregister it, so that its other members rebalance."""
        if self._consumers.get(group) is owner:
            del self._consumers[group]
            await self.heartbeats.unsubscribe(group, timeout_ms)

    async def announce(self, topic: str) -> None:
        """Wait until the reachable brokers of a topic know this client."""
        route = await self.routes.publish_route(topic)
        await self.heartbeats.announce_all(set(route.addresses.values()))

    # Connections

    def open_connection(self, address: Address) -> Connection | None:
        """Return the connection to an address if it is open now; never dials."""
        connection = self._dialer.connections.get(address)
        return connection if connection is not None and connection.is_open else None

    async def connection(self, address: Address) -> Connection:
        """Return an open connection to an address; a new one starts with a heartbeat."""
        connection = await self._dialer.connection(address)
        if self.routes.cache.has_master(address):
            self.heartbeats.announce_on(address, connection)
        return connection

    async def request(
        self,
        address: Address,
        header: Header,
        body: Buffer = b"",
        *,
        timeout_ms: int | None = None,
        code: int | None = None,
    ) -> Frame:
        """Send a request in the client's namespace to a broker, and return the answer."""
        await self.connection(address)  # sends a heartbeat if it has to dial
        return await self._dialer.request(
            address,
            header,
            body,
            timeout_ms=self.settings.request_timeout_ms if timeout_ms is None else timeout_ms,
            code=code,
            fields=self._fields,
        )

    async def oneway(self, address: Address, header: Header) -> None:
        """Send a request in the client's namespace to a broker that won't be answered.

        It may be lost without an error. Raise the errors of ``Connection.oneway`` and of dialling.
        """
        connection = await self.connection(address)
        connection.oneway(header, fields=self._fields)

    def _announce_route(self, _topic: str, route: PublishRoute) -> None:
        for address in route.addresses.values():
            self.heartbeats.announce(address)


def _forget_closed_loops() -> None:
    """Drop what loops left open: it refers to its loop, which would stay in memory."""
    for by_loop in (_cores, _lingerings):
        for ref in by_loop.keyrefs():  # a copy: other threads may add loops
            if (loop := ref()) is not None and loop.is_closed():
                by_loop.pop(loop, None)


def _shared(
    cores: "list[ClientCore]", settings: ClientSettings, machine: Machine | None
) -> "ClientCore | None":
    """Return the core with these settings; raise InvalidInput if its instance name has others."""
    here = process_token()
    for core in cores:
        if core._process is not here or core._given_machine is not machine:
            continue
        if core.settings == settings:
            return core
        if settings.instance_name != DEFAULT_INSTANCE and _same_client(core.settings, settings):
            fields = settings.__struct_fields__
            other = [one for one in fields if getattr(settings, one) != getattr(core.settings, one)]
            raise InvalidInput(
                f"instance {settings.instance_name} is running with a different "
                f"{', '.join(other)}; close it first, or give another instance_name",
                field=other[0],
            )
    return None


def _same_client(one: ClientSettings, other: ClientSettings) -> bool:
    return all(getattr(one, field) == getattr(other, field) for field in _CLIENT_FIELDS)


_CLIENT_FIELDS: Final = ("client_ip", "instance_name", "unit_name", "namespace", "namespace_v2")
"""Settings with equal values in these fields belong to the same client."""

# Of a user whose close was cancelled, the core was not released.
before_loop_ends(partial(ClientCore.close_unused, close_used=True))
