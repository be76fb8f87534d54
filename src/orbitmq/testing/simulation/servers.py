"""The servers of a simulated run: a nameserver, a master, and a slave if there is one.

Brokers that elect their master are in `orbitmq.testing.simulation.elected_servers`.

::

    absent ── start ──▶ running ── stop ───────▶ absent, everything acknowledged is on disk
                           │
                           ├────── end ────────▶ absent, everything written is there
                           └── end, no power ──▶ absent, everything synced is there

The disk of a broker outlives it; so do the hosts of all.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, Protocol

from msgspec.structs import replace

from orbitmq.broker.machine import Machine
from orbitmq.broker.server import Broker
from orbitmq.broker.settings import BrokerRole, BrokerSettings, LiveSettings
from orbitmq.failover.settings import FailoverSettings
from orbitmq.nameserver.server import Nameserver
from orbitmq.nameserver.settings import NameserverSettings
from orbitmq.net.address import Address
from orbitmq.randomness import SeededRandomness
from orbitmq.replication.settings import ReplicationSettings
from orbitmq.store.settings import FlushMode, StoreSettings
from orbitmq.testing.clocks import InlineWorkers, LateWorkers, VirtualClock, VirtualLoop
from orbitmq.testing.disks import PowerLost, SimulatedDisk
from orbitmq.testing.links import MemoryHost, MemoryNetwork
from orbitmq.testing.processes import Process
from orbitmq.testing.simulation.plan import Replication

__all__ = [
    "DIRECTORY",
    "IN_TIME",
    "MASTER",
    "NAMESERVER",
    "WITHOUT_END",
    "Numbers",
    "Server",
    "Servers",
    "SimulatedBroker",
    "SimulatedNameserver",
    "SimulatedServers",
]

NAMESERVER: Final = Address("127.0.0.1", 9876)
MASTER: Final = Address("127.0.0.1", 10911)
DIRECTORY: Final = "/store"

IN_TIME: Final = ReplicationSettings(
    slave_timeout_ms=1_000, housekeeping_ms=6_000, heartbeat_ms=2_000
)
"""Times that are shorter than clients wait for an answer."""

_SLAVE: Final = Address("127.0.0.1", 10921)
WITHOUT_END: Final = 1 << 60
"""More calls of its disk than a broker makes."""
_DEFAULTS: Final[Mapping[str, Any]] = MappingProxyType({})
_ROLES: Final = {
    Replication.NONE: BrokerRole.ASYNC_MASTER,
    Replication.ASYNC: BrokerRole.ASYNC_MASTER,
    Replication.SYNC: BrokerRole.SYNC_MASTER,
}


@dataclass(frozen=True, kw_only=True)
class Numbers:
    """What all brokers have; ``sync_s`` returns how long the next task of a worker takes."""

    flush_mode: FlushMode
    sync_s: Callable[[], float]
    replication: ReplicationSettings
    failover: FailoverSettings | None = None
    timer_log_file_bytes: int = StoreSettings().timer_log_file_bytes


class SimulatedBroker:
    """A broker, a process on its own host, with a disk and a clock of its own.

    ``starts`` counts its starts. ``slow_s`` is added to the time that a task of a worker takes.
    ``promised`` is where the log of its peer ended when this broker lost something: until it has
    that again, it does not have all that was acknowledged.
    """

    def __init__(
        self, host: MemoryHost, settings: BrokerSettings, numbers: Numbers, *, seed: int
    ) -> None:
        self.host = host
        self._settings = settings
        self._numbers = numbers
        self._seed = seed
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        self.clock = VirtualClock(loop)
        self.starts = 0
        self.slow_s = 0.0
        self.promised = 0
        self.disks_made = 0
        self.disk = self._new_disk()
        self._processes: list[Process] = []  # keeps the tasks of killed ones from being collected
        self._server: Server | None = None
        self._power_lost = asyncio.Event()
        self._is_running = False

    def __repr__(self) -> str:
        return f"<SimulatedBroker {self.host.name}, started {self.starts} times>"

    @property
    def broker(self) -> Broker:
        """The broker that runs or ran last."""
        assert isinstance(self._server, Broker), "start the broker first"
        return self._server

    @property
    def is_running(self) -> bool:
        """Whether it was started, and neither stopped nor ended."""
        return self._is_running

    @property
    def log_end(self) -> int:
        """Where its log ends, or ended when it ran."""
        return 0 if self._server is None else self.broker.state.store.log.end

    def replace_disk(self, disk: SimulatedDisk | None = None) -> SimulatedDisk:
        """Give it another disk, or an empty one; return the old one."""
        assert not self._is_running
        before, self.disk = self.disk, disk or self._new_disk()
        self._server = None
        return before

    def _new_disk(self) -> SimulatedDisk:
        self.disks_made += 1
        chance = SeededRandomness(self._seed + 1_000_000 * self.disks_made)
        return SimulatedDisk(chance, clock=self.clock)

    async def start(self, *, calls: int = WITHOUT_END) -> bool:
        """Start the broker; return whether it started within ``calls`` calls of its disk.

        If it did not, the caller must end it like a running one.
        """
        self.starts += 1
        self._processes.append(Process(f"{self.host.name} {self.starts}"))
        self._power_lost.clear()
        self.disk.when_out = self._power_lost.set
        self.disk.cut_power(after=calls)
        start = asyncio.create_task(self._processes[-1].run(self._started()))
        lost = asyncio.create_task(self._power_lost.wait())
        await asyncio.wait([start, lost], return_when=asyncio.FIRST_COMPLETED)
        lost.cancel()
        try:
            if not start.done():
                start.cancel()  # nothing waits for it, and the kill that follows is no fault
                return False
            self._server = await start
        except PowerLost:
            return False
        self.disk.cut_power(after=WITHOUT_END)
        self._is_running = True
        return True

    async def stop(self) -> None:
        """Stop the broker orderly."""
        assert self._server is not None
        await self._processes[-1].run(self._server.close())
        self._is_running = False

    async def exhaust(self, *, calls: int, most_s: float) -> None:
        """Let the broker make ``calls`` calls of its disk; return when it tries the next one.

        A broker with nothing to do makes no calls: then return after ``most_s``.
        """
        self._power_lost.clear()
        self.disk.cut_power(after=calls)
        try:
            async with asyncio.timeout(most_s):
                await self._power_lost.wait()
        except TimeoutError:
            pass

    def end(self, *, power: bool) -> None:
        """Kill the broker; without ``power`` everything that was not synced may be lost."""
        self._processes[-1].kill()
        self.host.crash(silent=not power)
        if power:
            self.disk.kill()
        else:
            self.disk.crash()
        self._is_running = False

    def discard(self) -> None:
        """Let go of what kills have dropped, as `Process.discard`."""
        for process in self._processes:
            process.discard()

    async def _started(self) -> "Server":
        broker = Broker(self.live_settings(), self.machine())
        await broker.start()
        return broker

    def live_settings(self) -> LiveSettings:
        """Return what it is started with."""
        return LiveSettings(
            self._settings,
            StoreSettings(
                segment_bytes=16 * 1024,
                max_message_bytes=4 * 1024,
                queue_file_entries=20,
                index_slots=20,
                index_entries=40,
                # The checksum of a record covers only its body: without a seal the last records may
                # lose the end of their properties in a power loss.
                append_crc=True,
                timer_log_file_bytes=self._numbers.timer_log_file_bytes,
                flush_mode=self._numbers.flush_mode,
                # From level 3 on they are delays of failed messages, which should not take long.
                message_delay_level="1s 5s 2s 2s 2s 2s 2s 2s 2s 2s 2s 2s 2s 2s 2s 2s 2s 2s",
            ),
            replication=self._numbers.replication,
            failover=self._numbers.failover,
            now_ms=self.clock.now_ms(),
        )

    def machine(self) -> Machine:
        """Return what a start runs on."""
        return Machine(
            network=self.host,
            disk=self.disk,
            clock=self.clock,
            workers=lambda _name, _count: LateWorkers(lambda: self._numbers.sync_s() + self.slow_s),
            randomness=SeededRandomness(self._seed + self.starts),
            pid=self.starts,
        )


class Server(Protocol):
    """What runs in the process of a broker."""

    async def close(self) -> None:
        """Stop orderly."""
        ...


class SimulatedNameserver:
    """A nameserver, a process on its own host."""

    def __init__(self, network: MemoryNetwork, clock: VirtualClock) -> None:
        self.host = network.host("nameserver")
        self._clock = clock
        self._processes: list[Process] = []

    def __repr__(self) -> str:
        return f"<SimulatedNameserver, started {len(self._processes)} times>"

    async def start(self) -> None:
        """Start it without routes."""
        self._processes.append(Process("nameserver"))
        nameserver = Nameserver(
            NameserverSettings(listen_port=NAMESERVER.port, kv_config_path=""),
            network=self.host,
            clock=self._clock,
            workers=InlineWorkers(),
        )
        await self._processes[-1].run(nameserver.start())

    def kill(self) -> None:
        """Kill its process."""
        self._processes[-1].kill()
        self.host.crash()


class Servers(Protocol):
    """The servers of a run, with or without elections."""

    nameserver: SimulatedNameserver

    @property
    def brokers(self) -> Iterator[SimulatedBroker]:
        """All brokers, the master first, if there is one."""
        ...

    @property
    def leading(self) -> SimulatedBroker | None:
        """The master, if it runs."""
        ...

    def masters(self) -> Iterator[tuple[int, str]]:
        """Yield epoch and name of each broker that accepts messages as an elected master."""
        ...

    def differ(self) -> str:
        """Return why not all brokers have everything yet; empty if they have."""
        ...

    def discard(self) -> None:
        """Let go of killed processes, at the end of a run."""
        ...


class SimulatedServers:
    """A nameserver and the brokers of one name.

    ``sync_s`` returns how long the next task of a worker takes. ``seed`` decides what survives a
    power loss, and the random choices of brokers. ``broker_settings`` are fields of BrokerSettings.
    """

    def __init__(
        self,
        network: MemoryNetwork,
        clock: VirtualClock,
        *,
        flush_mode: FlushMode,
        sync_s: Callable[[], float],
        seed: int,
        replication: Replication = Replication.NONE,
        broker_settings: Mapping[str, Any] = _DEFAULTS,
    ) -> None:
        self.nameserver = SimulatedNameserver(network, clock)
        numbers = Numbers(flush_mode=flush_mode, sync_s=sync_s, replication=IN_TIME)
        settings = BrokerSettings(
            listen_port=MASTER.port,
            namesrv_addr=str(NAMESERVER),
            store_path_root_dir=DIRECTORY,
            broker_role=_ROLES[replication],
            slave_read_enable=replication.has_slave,
            **broker_settings,
        )
        self.master = SimulatedBroker(network.host("master"), settings, numbers, seed=seed)
        self.slave: SimulatedBroker | None = None
        if replication.has_slave:
            settings = replace(
                settings, listen_port=_SLAVE.port, broker_role=BrokerRole.SLAVE, broker_id=1
            )
            host = network.host("slave")
            self.slave = SimulatedBroker(host, settings, numbers, seed=seed + 500_000)

    def __repr__(self) -> str:
        return f"<SimulatedServers {', '.join(map(repr, self.brokers))}>"

    @property
    def brokers(self) -> Iterator[SimulatedBroker]:
        """All brokers, the master first."""
        yield self.master
        if self.slave is not None:
            yield self.slave

    @property
    def leading(self) -> SimulatedBroker | None:
        """The master, if it runs."""
        return self.master if self.master.is_running else None

    def masters(self) -> Iterator[tuple[int, str]]:
        """Yield nothing: nobody is elected."""
        yield from ()

    def differ(self) -> str:
        """Return why the slave, if there is one, does not have everything yet."""
        slave = self.slave
        if slave is None or (slave.log_end == self.master.log_end and slave.is_running):
            return ""
        if not slave.is_running:
            return "the slave does not run"
        ends = f"{slave.log_end} of {self.master.log_end}"
        return f"the slave has {ends} bytes, {slave.broker.replicas.replica.failure}"

    def discard(self) -> None:
        """Let go of killed processes, at the end of a run."""
        for broker in self.brokers:
            broker.discard()

    def follows(self) -> bool:
        """Return whether the slave runs and has all that was promised to be there."""
        slave = self.slave
        return slave is not None and slave.is_running and slave.log_end >= slave.promised

    def promote(self) -> None:
        """Give the disk of the ended slave to the ended master, whose own is lost.

        The slave gets an empty one. That is what an operator does after the loss of a disk.
        """
        assert self.slave is not None
        self.slave.promised = self.slave.log_end
        self.master.replace_disk(self.slave.replace_disk())

    def empty_slave(self) -> None:
        """Replace the disk of the ended slave, which then copies its master anew."""
        assert self.slave is not None
        self.slave.replace_disk()
        self.slave.promised = self.master.log_end
