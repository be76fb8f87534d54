"""The broker: all its parts, started and stopped in order.

::

    start   store, timers ─▶ tables ─▶ delays ─▶ listeners ─▶ replicas ─▶ jobs ─▶ registration
    stop    registration ─▶ held pulls ─▶ listeners, drained ─▶ jobs ─▶ replicas ─▶ tables ─▶ store

Periodic jobs are flushes, cleaning, delays, timers, checks of transactions, held pulls, expiry and
statistics.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Final, Self

from msgspec.structs import replace

from orbitmq.broker.leadership import GroupRole
from orbitmq.broker.machine import Machine
from orbitmq.broker.periodic_jobs import PeriodicJobs
from orbitmq.broker.registration import BrokerIdentity, Registration
from orbitmq.broker.replicas import Replicas
from orbitmq.broker.routes import TopicQueues
from orbitmq.broker.settings import LiveSettings
from orbitmq.broker.state import State
from orbitmq.broker.wiring import Endpoint, RequestHandlers
from orbitmq.errors import InvalidInput
from orbitmq.failover.member import LogPlace
from orbitmq.logs import LogLevel, set_log_level
from orbitmq.message.host import Host
from orbitmq.net.address import Address
from orbitmq.net.dialer import Dialer
from orbitmq.net.exposure import check_exposure
from orbitmq.net.listener import Listener
from orbitmq.net.transport.own_host import own_host
from orbitmq.settings import Property
from orbitmq.wire.bodies.registration import TopicConfigAndMappingTable
from orbitmq.wire.codes import READ, WRITE

__all__ = ["Broker"]

log = logging.getLogger("orbitmq.broker")

_PASSED_OVER_MS: Final = 5_000
_EXPIRE_MS: Final = 10_000
_SAMPLE_MS: Final = 1_000
_FIRST_ROUND_S: Final = 3
"""How long a start waits for nameservers; clients that know the address are served meanwhile."""
_OTHER_FILES: Final = 64
"""Descriptors for the log, connections to other servers and tools, beside files and clients."""
_VIP_BELOW: Final = 2
_FREE_PORT_TRIES: Final = 8
"""The distance of the VIP port, where sends don't wait behind other requests in Java."""


class Broker:
    """A broker; an async context manager, or ``start`` and ``close``. Created on its event loop.

    ``insecure`` allows an address that other machines reach, though there is no access control.
    ``progress`` is called during recovery, on a worker, with the bytes done and in total. ``role``
    is what the broker is in a group with elections; `ElectedBroker` gives it. Raise InvalidInput
    if the address is not loopback and ``insecure`` is False, a TLS file can't be used, or the
    settings want elections and there is no role.
    """

    def __init__(
        self,
        settings: LiveSettings,
        machine: Machine | None = None,
        *,
        insecure: bool = False,
        progress: Callable[[int, int], None] = lambda _done, _total: None,
        role: GroupRole | None = None,
    ) -> None:
        check_exposure(settings.broker.listen_host, insecure=insecure)
        if settings.failover.enabled and role is None:
            raise InvalidInput(
                "enableControllerMode is true, and this program starts brokers that take no part "
                "in elections; start this one by orbitmq broker -c FILE",
                field="enabled",
            )
        self.settings = settings
        self._machine = machine or Machine()
        self._progress = progress
        self._listeners: list[Listener] = []
        self._server_tls = settings.tls.server_context()
        self.role = role
        """What it is in a group with elections."""
        leadership = None if role is None else role.leadership
        self._dialer = self._new_dialer() if role is None else role.dialer
        self._registration: Registration | None = None
        self._register_later_until = 0.0
        self._registering: asyncio.Task[None] | None = None
        self.state = State(
            settings, self._machine, self._register_topics, self._store_host, leadership
        )
        """Its state; read it, don't change it."""
        self.replicas = Replicas(self.state, self._dialer, role)
        """What copies its log, or what it copies."""
        endpoint = Endpoint(
            advertised=lambda: self.advertised,
            store_host=self._store_host,
            announce=self._announce,
            replication=self.replicas.status,
            epochs=self.replicas.epoch_cache,
            role=role,
            queues_of=TopicQueues(
                settings.broker.nameservers(),
                self._dialer,
                self._machine.clock,
                lambda: settings.broker.load_balance_poll_name_server_interval,
            ).of,
        )
        self._request_handlers = RequestHandlers(self.state, endpoint)
        self.handlers = self._request_handlers.handlers
        """Its handlers by request code."""
        self.state.store.on_arrival = self._request_handlers.pulls.arrived
        self._jobs = PeriodicJobs(self._machine.clock)
        self._add_jobs()

    def __repr__(self) -> str:
        return f"<Broker {self.settings.broker.broker_name} {self.address}>"

    @property
    def address(self) -> Address:
        """Where it listens; before the start, the address in its settings."""
        if self._listeners:
            return self._listeners[0].address
        return Address(self.settings.broker.listen_host, self.settings.broker.listen_port)

    @property
    def advertised(self) -> Address:
        """The address in routes: ``brokerIP1``, or one that fits the address it listens on."""
        host = self.settings.broker.broker_ip1 or self.address.host
        if host in ("0.0.0.0", "::"):
            host = own_host()
        return Address(host, self.address.port)

    # Start and stop

    async def start(self) -> None:
        """Recover the store, listen, and register with the nameservers.

        Raise StoreError if the store can't be used, and InvalidInput if the address can't be
        listened on.
        """
        if (level := self.settings.broker.log_level) is not LogLevel.INFO:
            set_log_level(level)  # or else it is left to the program around it
        await self.state.open(self._progress)
        await self._listen()
        await self.replicas.start(self.address)
        self._jobs.start()
        await self._register()
        log.info(
            "broker %s of %s listens on %s; its address for clients is %s",
            self.settings.broker.broker_name,
            self.settings.broker.broker_cluster_name,
            self.address,
            self.advertised,
        )

    def reload(self, properties: Iterable[Property]) -> None:
        """Take over what can be changed of settings read again, and log what needs a restart.

        Raise InvalidSetting, and change nothing, if one can't be used.
        """
        changed, fixed = self.settings.reload(properties, self._machine.clock.now_ms())
        log.info("settings reloaded; changed: %s", ", ".join(sorted(changed)) or "none")
        if fixed:
            log.warning("these settings need a restart to change: %s", ", ".join(sorted(fixed)))
        self._request_handlers.config.apply(changed)

    async def close(self, *, for_good: bool = True) -> None:
        """Unregister, answer requests in flight, and save everything.

        With ``for_good`` False the broker goes on in another role: it stays registered meanwhile,
        and sends wait no more for replicas, which follow another master. Raise StoreError if the
        disk failed, after saving what could be saved.
        """
        if self._registering is not None:
            self._registering.cancel()
        if self._registration is not None and for_good:
            await self._registration.close()
        self._request_handlers.pulls.close()
        if self.state.is_slave or not for_good:
            await self.replicas.close()
        await asyncio.gather(*(listener.close() for listener in self._listeners))
        if self._listeners:
            await self.state.flushed()
        self._jobs.stop()
        await self.replicas.close()
        if self.role is None:
            await self._dialer.close()
        await self.state.stop_saving_topics()
        try:
            if self._listeners:
                await self._save()
        finally:
            try:
                self.state.store.close()
            finally:
                self.state.workers.close()
                self._listeners.clear()

    async def _save(self) -> None:
        try:
            self.state.store.dispatch_all()  # from which a slave learns topics
        finally:
            await self.state.persistence.save_all()

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
        tries = _FREE_PORT_TRIES if wanted.port == 0 else 1
        while True:
            listener = await self._listen_on(wanted)
            port = listener.address.port - _VIP_BELOW
            second = self._listener(Address(wanted.host, port))
            tries -= 1
            try:
                if port > 0:
                    await second.start()
                    self._listeners.append(second)
                return
            except OSError as error:
                if tries:  # another free port may have a free one below it
                    self._listeners.remove(listener)
                    await listener.close()
                    continue
                log.warning(
                    "can't listen on port %d (%s); clients with vipChannelEnabled can't send here",
                    port,
                    error.strerror or error,
                )
                return

    async def _listen_on(self, wanted: Address) -> Listener:
        listener = self._listener(wanted)
        try:
            await listener.start()
        except OSError as error:
            raise InvalidInput(
                f"can't listen on {wanted}: {error.strerror or error}; choose another port",
                field="listen_port",
            ) from error
        self._listeners.append(listener)
        return listener

    def _listener(self, address: Address) -> Listener:
        # The store has half of the descriptors; clients must not take those, nor the last ones.
        room = self._machine.disk.files_at_once() - _OTHER_FILES
        net = self.settings.net
        return Listener(
            address,
            self.handlers,
            settings=replace(net, connections_max=min(net.connections_max, room)),
            tls=self._server_tls,
            mode=self.settings.tls.mode,
            network=self._machine.network,
            take_leading=self._request_handlers.sends.plain.of,
        )

    async def _register(self) -> None:
        broker = self.settings.broker
        nameservers = broker.nameservers()
        if not nameservers:
            log.warning("namesrvAddr is not set: clients can't find this broker by its topics")
            return
        advertised = self.advertised
        identity = BrokerIdentity(
            cluster_name=broker.broker_cluster_name,
            broker_name=broker.broker_name,
            broker_id=broker.broker_id,
            address=str(advertised),
            ha_address=self.place().ha_address,
        )
        self._registration = Registration(
            identity,
            nameservers,
            self._topic_table,
            dialer=self._dialer,
            period_ms=broker.register_name_server_period,
            timeout_ms=broker.register_broker_timeout_mills,
            on_ordered=self.state.topics.mark_ordered,
            on_master=self.replicas.follow,
        )
        self._registering = asyncio.create_task(self._registration.run())
        try:
            async with asyncio.timeout(_FIRST_ROUND_S):
                await self._registration.register()
        except TimeoutError:
            log.warning("a nameserver does not answer; registration is retried in the background")
            self._registration.changed()

    def _new_dialer(self) -> Dialer:
        return Dialer(
            settings=self.settings.net,
            network=self._machine.network,
            tls=self.settings.tls.client_context(),
        )

    def place(self) -> LogPlace:
        """Return how far the log is, and where the broker is reached, for its group."""
        advertised = self.advertised
        return LogPlace(
            address=str(advertised),
            ha_address=str(Address(advertised.host, self.replicas.ha_port(advertised.port))),
            log_epoch=max(self.replicas.epochs.last_epoch, 0),
            log_end=self.state.store.log.end,
            is_learner=self.settings.replication.is_learner,
            all_ack=self.settings.replication.all_ack_in_sync_set,
        )

    def _topic_table(self) -> TopicConfigAndMappingTable | None:
        """Return the topic table to register: no topic has more permission than the broker.

        Return None while this may not be the master any more, which its id says.
        """
        leadership = self.state.leadership
        if leadership is not None and not leadership.holds():
            return None
        permission = self.settings.broker.broker_permission
        topics = dict(self.state.topics.table)
        if permission != READ | WRITE:
            topics = {
                name: replace(topic, perm=topic.perm & permission) for name, topic in topics.items()
            }
        version = self.state.topics.data_version
        if self.role is not None:  # of two masters a nameserver takes the one with the later epoch
            version = replace(version, state_version=self.role.epoch)
        return TopicConfigAndMappingTable(data_version=version, topic_config_table=topics)

    def _store_host(self) -> Host:
        """Return the address in message ids, which is an IP address even if routes have a name."""
        advertised = self.advertised
        try:
            return Host.parse(str(advertised))
        except InvalidInput:
            return Host.parse(str(Address(own_host(), advertised.port)))

    def _add_jobs(self) -> None:
        add, state, pulls = self._jobs.add, self.state, self._request_handlers.pulls
        add(state.store.tick)
        add(pulls.tick)
        if not state.is_slave:
            self._add_master_jobs()
        add(lambda: state.stats.sample(state.clock.now_ms()), _SAMPLE_MS)
        add(pulls.serve_passed_over, _PASSED_OVER_MS)
        add(
            state.persistence.save_changed,
            lambda: self.settings.broker.flush_consumer_offset_interval,
        )
        add(self._expire_members, _EXPIRE_MS)

    def _add_master_jobs(self) -> None:
        """Add what a slave leaves to its master."""
        add, state = self._jobs.add, self.state
        add(self.replicas.tick)
        add(lambda: state.delays.tick(state.store.now_ms()))
        add(lambda: state.timers.tick(state.clock.now_ms()))
        add(state.halves.tick)
        add(lambda: state.checks.tick(state.clock.now_ms()))
        add(state.checks.begin_round, lambda: self.settings.broker.transaction_check_interval)

    def _expire_members(self) -> None:
        self._request_handlers.members.expire(self.settings.broker.channel_expired_timeout)

    # Registration of changes

    async def _register_topics(self) -> None:
        """Register changed topics; sends wait, so after a timeout the background task does it."""
        if self._registration is None:
            return
        now = asyncio.get_running_loop().time()
        if now < self._register_later_until:
            self._registration.changed()
            return
        try:
            async with asyncio.timeout(_REGISTER_S):
                await self._registration.register()
        except TimeoutError:
            self._register_later_until = now + _REGISTER_PAUSE_S
            self._registration.changed()

    async def _announce(self) -> None:
        if self._registration is not None:
            await self._registration.register()


_REGISTER_S: Final = 1.0
"""How long a send to a new topic waits for its registration. Not less: on a busy machine that may
take a while, and a consumer that subscribes next would find no queues and look again in 20 s."""
_REGISTER_PAUSE_S: Final = 30.0
"""How long sends don't wait after a registration that was too slow."""
