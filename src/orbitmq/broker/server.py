"""A broker that serves: everything of the room, wired together, started and stopped in order.

::

    start   store ─▶ tables ─▶ delays ─▶ listeners ─▶ registration ─▶ the beat
    stop    registration ─▶ held pulls ─▶ listeners, drained ─▶ the beat ─▶ tables ─▶ store

The beat is what time moves: flushes, cleanings, delays, held pulls, expiry, statistics.
"""

import asyncio
import logging
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self

from msgspec.structs import replace

from orbitmq.broker.machine import Machine
from orbitmq.broker.periodic_jobs import Beat
from orbitmq.broker.registration import BrokerIdentity, Registration
from orbitmq.broker.settings import LiveSettings
from orbitmq.broker.state import State
from orbitmq.broker.wiring import Conversations, Place
from orbitmq.errors import InvalidInput
from orbitmq.message.host import Host
from orbitmq.net.address import Address
from orbitmq.net.dialer import Dialer
from orbitmq.net.exposure import check_exposure
from orbitmq.net.listener import Listener
from orbitmq.net.transport.own_host import own_host
from orbitmq.wire.bodies.registration import TopicConfigAndMappingTable
from orbitmq.wire.codes import READ, WRITE

__all__ = ["Broker"]

log = logging.getLogger("orbitmq.broker")

_PASSED_OVER_MS: Final = 5_000
_EXPIRE_MS: Final = 10_000
_SAMPLE_MS: Final = 1_000
_FIRST_ROUND_S: Final = 3
"""How long a start waits for nameservers: clients that know the address can be served already."""
_VIP_BELOW: Final = 2
"""Java's clients may send to the port two below, so that sends don't wait behind other requests."""


class Broker:
    """A broker; an async context manager, or ``start`` and ``close``. Made on its loop.

    Args:
        settings: the settings in force.
        machine: what it stands on.
        insecure: allow an address that other machines reach. Whoever reaches it can change it.
        progress: called with how far a recovery has come, and how far it has to go, in bytes, on
            a thread of its own.

    Raises:
        InvalidInput: the address is not loopback, and ``insecure`` was not said.

    """

    def __init__(
        self,
        settings: LiveSettings,
        machine: Machine | None = None,
        *,
        insecure: bool = False,
        progress: Callable[[int, int], None] = lambda _done, _total: None,
    ) -> None:
        check_exposure(settings.broker.listen_host, insecure=insecure)
        self.settings = settings
        self._machine = machine or Machine()
        self._progress = progress
        self._listeners: list[Listener] = []
        self._dialer = Dialer(settings=settings.net, network=self._machine.network)
        self._registration: Registration | None = None
        self._tell_later_until = 0.0
        self._registering: asyncio.Task[None] | None = None
        self.state = State(settings, self._machine, self._tell_topics)
        """What it knows and keeps; to be read, not changed."""
        place = Place(
            advertised=lambda: self.advertised,
            store_host=self._store_host,
            announce=self._announce,
        )
        self._conversations = Conversations(self.state, place)
        self.handlers = self._conversations.handlers
        """What it answers."""
        self.state.store.on_arrival = self._conversations.pulls.arrived
        self._beat = Beat(self._machine.clock)
        self._set_the_beat()

    def __repr__(self) -> str:
        return f"<Broker {self.settings.broker.broker_name} {self.address}>"

    @property
    def address(self) -> Address:
        """Where it listens; before the start, where it is meant to."""
        if self._listeners:
            return self._listeners[0].address
        return Address(self.settings.broker.listen_host, self.settings.broker.listen_port)

    @property
    def advertised(self) -> Address:
        """Where routes send clients: ``brokerIP1``, or an address that fits where it listens."""
        host = self.settings.broker.broker_ip1 or self.address.host
        if host in ("0.0.0.0", "::"):
            host = own_host()
        return Address(host, self.address.port)

    # Life

    async def start(self) -> None:
        """Recover the store, listen, and register.

        Raises:
            StoreError: the store can't be used; the message says why.
            InvalidInput: the address can't be listened on.

        """
        await self.state.open(self._progress)
        await self._listen()
        self._beat.start()
        await self._register()
        log.info(
            "broker %s of %s listens on %s, and is known as %s",
            self.settings.broker.broker_name,
            self.settings.broker.broker_cluster_name,
            self.address,
            self.advertised,
        )

    async def close(self) -> None:
        """Leave the routes, answer what was asked, and put everything on the disk.

        Raises:
            StoreError: the disk failed; what could be kept was.

        """
        if self._registering is not None:
            self._registering.cancel()
        if self._registration is not None:
            await self._registration.close()
        self._conversations.pulls.close()
        await asyncio.gather(*(listener.close() for listener in self._listeners))
        if self._listeners:
            await self.state.flushed()
        self._beat.stop()
        await self._dialer.close()
        try:
            if self._listeners:
                await self.state.persistence.save_all()
        finally:
            try:
                self.state.store.close()
            finally:
                self.state.workers.close()
                self._listeners.clear()

    async def __aenter__(self) -> Self:
        try:
            await self.start()
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    # Start

    async def _listen(self) -> None:
        wanted = Address(self.settings.broker.listen_host, self.settings.broker.listen_port)
        listener = self._listener(wanted)
        try:
            await listener.start()
        except OSError as error:
            raise InvalidInput(
                f"{wanted} can't be listened on: {error.strerror or error}", field="listen_port"
            ) from error
        self._listeners.append(listener)
        port = listener.address.port - _VIP_BELOW
        second = self._listener(Address(wanted.host, port))
        try:
            if port > 0:
                await second.start()
                self._listeners.append(second)
        except OSError as error:
            log.warning(
                "port %d can't be listened on (%s); clients with vipChannelEnabled can't send here",
                port,
                error.strerror or error,
            )

    def _listener(self, address: Address) -> Listener:
        return Listener(
            address, self.handlers, settings=self.settings.net, network=self._machine.network
        )

    async def _register(self) -> None:
        broker = self.settings.broker
        nameservers = broker.nameservers()
        if not nameservers:
            log.warning("namesrvAddr is not set: clients find this broker only by its address")
            return
        advertised = self.advertised
        identity = BrokerIdentity(
            cluster_name=broker.broker_cluster_name,
            broker_name=broker.broker_name,
            broker_id=broker.broker_id,
            address=str(advertised),
            ha_address=str(Address(advertised.host, advertised.port + 1)),
        )
        self._registration = Registration(
            identity,
            nameservers,
            self._topic_table,
            dialer=self._dialer,
            period_ms=broker.register_name_server_period,
            timeout_ms=broker.register_broker_timeout_mills,
            on_ordered=self.state.topics.mark_ordered,
        )
        self._registering = asyncio.create_task(self._registration.run())
        try:
            async with asyncio.timeout(_FIRST_ROUND_S):
                await self._registration.register()
        except TimeoutError:
            log.warning("a nameserver does not answer; it is told again and again")
            self._registration.changed()

    def _topic_table(self) -> TopicConfigAndMappingTable:
        """Return what nameservers are told: a broker that may not be written lends it to no topic.

        Java cuts the permission of every topic in the same way.
        """
        permission = self.settings.broker.broker_permission
        topics = dict(self.state.topics.table)
        if permission != READ | WRITE:
            topics = {
                name: replace(topic, perm=topic.perm & permission) for name, topic in topics.items()
            }
        return TopicConfigAndMappingTable(
            data_version=self.state.topics.data_version, topic_config_table=topics
        )

    def _store_host(self) -> Host:
        """Return the address that message ids carry; a name that routes may have is no address."""
        advertised = self.advertised
        try:
            return Host.parse(str(advertised))
        except InvalidInput:
            return Host.parse(str(Address(own_host(), advertised.port)))

    def _set_the_beat(self) -> None:
        add, state, pulls = self._beat.add, self.state, self._conversations.pulls
        add(state.store.tick)
        add(pulls.tick)
        add(lambda: state.delays.tick(state.clock.now_ms()))
        add(lambda: state.stats.sample(state.clock.now_ms()), _SAMPLE_MS)
        add(pulls.serve_passed_over, _PASSED_OVER_MS)
        add(
            state.persistence.save_changed,
            lambda: self.settings.broker.flush_consumer_offset_interval,
        )
        add(self._expire_members, _EXPIRE_MS)

    def _expire_members(self) -> None:
        self._conversations.members.expire(self.settings.broker.channel_expired_timeout)

    # Changes

    async def _tell_topics(self) -> None:
        """Register what has changed; sends wait for it, so what takes long is left to ``run``."""
        if self._registration is None:
            return
        now = asyncio.get_running_loop().time()
        if now < self._tell_later_until:
            self._registration.changed()
            return
        try:
            async with asyncio.timeout(_TELL_S):
                await self._registration.register()
        except TimeoutError:
            self._tell_later_until = now + _TELL_PAUSE_S
            self._registration.changed()

    async def _announce(self) -> None:
        if self._registration is not None:
            await self._registration.register()


_TELL_S: Final = 0.1
"""How long a send to a new topic waits for nameservers to hear of it."""
_TELL_PAUSE_S: Final = 30.0
"""For so long none does after one that was slow."""
