"""What all producers of one client share: connections, routes, heartbeats, and what brokers ask.

A core is shared by whoever has the same settings on the same loop; it is started with the first
and stays for a while after the last, so that one made and closed for each message costs little::

    acquire() ──▶ running ──▶ release() of the last ──▶ lingering ── acquire() ──▶ running
                                                             └── its time over ──▶ closed

Nothing here waits for the code of users: heartbeats and look-ups are tasks of their own.
"""

import asyncio
import logging
from typing import Final, Self
from weakref import WeakKeyDictionary

from orbitmq.client.core.broker_requests import Callbacks
from orbitmq.client.core.heartbeats import FAREWELL_MS, Membership
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
from orbitmq.wire.codes import RequestCode
from orbitmq.wire.fields import Header
from orbitmq.wire.frame import Buffer, Frame
from orbitmq.wire.session import Identity

__all__ = ["ClientCore"]

log = logging.getLogger("orbitmq.client")

_INSTANCES: Final = 2**53
"""Two clients of one process get different numbers, by chance; a JSON reader keeps all digits."""

_cores: "WeakKeyDictionary[asyncio.AbstractEventLoop, list[ClientCore]]" = WeakKeyDictionary()
_lingerings: WeakKeyDictionary[asyncio.AbstractEventLoop, set[asyncio.Task[None]]]
_lingerings = WeakKeyDictionary()


class ClientCore:
    """The shared part of clients; get one by ``acquire``, and ``release`` it in the end.

    Attributes:
        settings: what it was made with.
        machine: what it stands on.
        client_id: the id that brokers know it by.
        nameservers, routes, membership, callbacks, requests: its parts.
        workers: threads for what would hold up the loop.
        user_workers: threads for the functions of users, which may take long: nothing of ours
            waits behind them.

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
        self._starting: asyncio.Task[None] | None = None
        self._lingering: asyncio.Task[None] | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._is_closed = False
        self.workers = machine.workers("orbitmq-client")
        self.user_workers = machine.workers("orbitmq-user-code")
        self.callbacks = Callbacks()
        self._dialer = Dialer(
            identity=Identity(credentials=settings.credentials),
            settings=settings.net,
            tls=settings.tls_context(),
            handler=self.callbacks,
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
        self.membership = Membership(
            self.client_id,
            dialer=self._dialer,
            masters=lambda: self.routes.cache.masters,
            timeout_ms=settings.request_timeout_ms,
            fields=self._fields,
        )
        self.routes.when_changed(self._greet)
        self.requests = Requests(
            client_id=self.client_id,
            clock=machine.clock,
            randomness=machine.randomness,
            introduce=self.introduce,
        )
        self.callbacks.listen(
            RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT,
            lambda _connection, request: self.requests.take_reply(request),
        )

    def __repr__(self) -> str:
        return f"<ClientCore {self.client_id}, {self._users} users, {self.nameservers!r}>"

    # Life

    @classmethod
    async def acquire(cls, settings: ClientSettings, machine: Machine | None = None) -> Self:
        """Return the core for these settings on this loop, started; ``release`` it in the end.

        Without an instance name of their own, those with the same settings share one.

        Raises:
            NoNameserver: nothing says whom to ask for routes, or the list can't be fetched.
            InvalidInput: a client of this instance name runs with other settings, or TLS files
                can't be used.

        """
        cores = _cores.setdefault(asyncio.get_running_loop(), [])
        core = _shared(cores, settings, machine)
        if core is None:
            core = cls(settings, machine)
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
        """Give it back; the last one to do so leaves it lingering, then it closes."""
        check_process(self._process, self)
        self._users -= 1
        if self._users:
            return
        if self.settings.linger_ms:
            self._lingering = asyncio.create_task(self._linger(), name=f"linger {self.client_id}")
            lingerings = _lingerings.setdefault(asyncio.get_running_loop(), set())
            lingerings.add(self._lingering)
            self._lingering.add_done_callback(lingerings.discard)
        else:
            await self._close()

    @classmethod
    async def close_unused(cls) -> None:
        """Close the cores of this loop that linger; return when those being closed are, too.

        For who ends a loop: a core whose closing is cancelled leaves its connections open.
        """
        loop = asyncio.get_running_loop()
        for core in [one for one in _cores.get(loop, ()) if one._lingering is not None]:
            core._stop_lingering()
            await core._close()
        if lingerings := _lingerings.get(loop):
            await asyncio.wait(lingerings)

    async def _started(self) -> None:
        if self._starting is None:
            self._starting = asyncio.create_task(self._start(), name=f"start {self.client_id}")
        # One caller's cancellation must not take the start away from the others.
        await asyncio.shield(self._starting)

    async def _start(self) -> None:
        await self.nameservers.start()
        settings = self.settings
        for name, work in (
            ("nameservers", self.nameservers.run()),
            ("routes", self.routes.run(settings.poll_nameserver_interval_ms)),
            ("heartbeats", self.membership.run(settings.heartbeat_interval_ms)),
        ):
            self._tasks.append(asyncio.create_task(work, name=f"{name} of {self.client_id}"))
        log.debug("client %s asks %r", self.client_id, self.nameservers)

    async def _linger(self) -> None:
        try:
            await asyncio.sleep(self.settings.linger_ms / 1000)
        finally:
            # Its time is over, or the loop ends; unless somebody has it again.
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
        await self.membership.close()
        await self.routes.close()
        await self._dialer.close()
        self.workers.close()
        self.user_workers.close(wait=False)
        log.debug("client %s is closed", self.client_id)

    # Groups

    def register_producer(self, group: str, owner: object) -> None:
        """Be in a producer group; ``unregister_producer`` with the same owner in the end.

        Raises:
            InvalidGroup: the client has an instance name of its own, and a producer of this group.

        """
        owners = self._owners.setdefault(group, [])
        if owners and self.settings.instance_name != DEFAULT_INSTANCE:
            raise InvalidGroup(
                f"producer group {group} is in use in instance {self.settings.instance_name}; "
                "share that producer, or give another group or instance_name",
                field="group",
            )
        owners.append(owner)
        self.membership.join(group)

    async def unregister_producer(
        self, group: str, owner: object, timeout_ms: int = FAREWELL_MS
    ) -> None:
        """Leave a group, once for each owner; after the last, brokers are told in that time."""
        owners = self._owners.get(group, [])
        if owner in owners:
            owners.remove(owner)
            if not owners:
                del self._owners[group]
            await self.membership.leave(group, timeout_ms)

    async def introduce(self, topic: str) -> None:
        """Return when the brokers of a topic know this client, as far as they can be reached.

        Raises:
            NoRoute, NameserversFailed: as ``Routes.publish_route`` does.

        """
        route = await self.routes.publish_route(topic)
        await self.membership.introduce(set(route.addresses.values()))

    # Connections

    def open_connection(self, address: Address) -> Connection | None:
        """Return the connection to an address if it is open now: no waiting, no dial."""
        connection = self._dialer.connections.get(address)
        return connection if connection is not None and connection.is_open else None

    async def connection(self, address: Address) -> Connection:
        """Return the open connection to an address, dialled if there is none.

        A broker that is dialled hears from us at once.

        Raises:
            ConnectFailed: nobody answers there, or the TLS handshake failed.
            ConnectionClosed: the client is closed.
            WrongProcess: the process has been forked since the client was made.

        """
        connection = await self._dialer.connection(address)
        if self.routes.cache.has_master(address):
            self.membership.met(address, connection)
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
        """Send a request to a broker, in the client's namespace, and return the answer.

        Raises:
            OrbitError: whatever ``connection`` and ``Connection.request`` raise.

        """
        await self.connection(address)  # a broker that has to be dialled hears from us, too
        return await self._dialer.request(
            address,
            header,
            body,
            timeout_ms=self.settings.request_timeout_ms if timeout_ms is None else timeout_ms,
            code=code,
            fields=self._fields,
        )

    def _greet(self, _topic: str, route: PublishRoute) -> None:
        for address in route.addresses.values():
            self.membership.greet(address)


def _shared(
    cores: "list[ClientCore]", settings: ClientSettings, machine: Machine | None
) -> "ClientCore | None":
    """Return the core that these settings mean, among those of a loop.

    Raises:
        InvalidInput: the instance name is that of one with other settings.

    """
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
                f"instance {settings.instance_name} runs with another {', '.join(other)}; close "
                "it first, or give another instance_name",
                field=other[0],
            )
    return None


def _same_client(one: ClientSettings, other: ClientSettings) -> bool:
    return all(getattr(one, field) == getattr(other, field) for field in _CLIENT_FIELDS)


_CLIENT_FIELDS: Final = ("client_ip", "instance_name", "unit_name", "namespace", "namespace_v2")
"""What tells one client from another."""
