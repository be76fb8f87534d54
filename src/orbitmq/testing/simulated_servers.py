"""The servers of a simulated run: a nameserver and a broker that are started, stopped and killed.

::

    absent ── start ──▶ running ── stop ───────▶ absent, everything acknowledged is on disk
                           │
                           ├────── end ────────▶ absent, everything written is there
                           └── end, no power ──▶ absent, everything synced is there

The broker's disk outlives it; so do the hosts of both.
"""

import asyncio
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from orbitmq.broker.machine import Machine
from orbitmq.broker.server import Broker
from orbitmq.broker.settings import BrokerSettings, LiveSettings
from orbitmq.nameserver.server import Nameserver
from orbitmq.nameserver.settings import NameserverSettings
from orbitmq.net.address import Address
from orbitmq.randomness import SeededRandomness
from orbitmq.store.settings import FlushMode, StoreSettings
from orbitmq.testing.clocks import InlineWorkers, LateWorkers, VirtualClock
from orbitmq.testing.disks import PowerLost, SimulatedDisk
from orbitmq.testing.links import MemoryNetwork
from orbitmq.testing.processes import Process

__all__ = ["BROKER", "DIRECTORY", "NAMESERVER", "SimulatedServers"]

NAMESERVER: Final = Address("127.0.0.1", 9876)
BROKER: Final = Address("127.0.0.1", 10911)
DIRECTORY: Final = "/store"

_WITHOUT_END: Final = 1 << 60
_DEFAULTS: Final[Mapping[str, Any]] = MappingProxyType({})


class SimulatedServers:
    """A nameserver and a broker, each a process on its own host.

    ``sync_s`` returns how long the next task of a worker takes. ``seed`` decides what survives a
    power loss, and the random choices of the broker. ``broker_settings`` are fields of
    BrokerSettings. ``starts`` counts the starts of the broker.
    """

    def __init__(
        self,
        network: MemoryNetwork,
        clock: VirtualClock,
        *,
        flush_mode: FlushMode,
        sync_s: Callable[[], float],
        seed: int,
        broker_settings: Mapping[str, Any] = _DEFAULTS,
    ) -> None:
        self._clock = clock
        self._flush_mode = flush_mode
        self._sync_s = sync_s
        self._seed = seed
        self._broker_settings = broker_settings
        self.disk = SimulatedDisk(SeededRandomness(seed), clock=clock)
        self.nameserver_host = network.host("nameserver")
        self.broker_host = network.host("broker")
        self.starts = 0
        self._processes: list[Process] = []  # keeps the tasks of killed ones from being collected
        self._nameserver = self._begin("nameserver")
        self._process = self._begin("broker")
        self._broker: Broker | None = None
        self._power_lost = asyncio.Event()

    def __repr__(self) -> str:
        return f"<SimulatedServers broker started {self.starts} times>"

    @property
    def broker(self) -> Broker:
        """The broker that runs or ran last."""
        assert self._broker is not None, "start the broker first"
        return self._broker

    # The nameserver

    async def start_nameserver(self) -> None:
        """Start a nameserver without routes."""
        self._nameserver = self._begin("nameserver")
        nameserver = Nameserver(
            NameserverSettings(listen_port=NAMESERVER.port, kv_config_path=""),
            network=self.nameserver_host,
            clock=self._clock,
            workers=InlineWorkers(),
        )
        await self._nameserver.run(nameserver.start())

    def kill_nameserver(self) -> None:
        """Kill the process of the nameserver."""
        self._nameserver.kill()
        self.nameserver_host.crash()

    # The broker

    async def start_broker(self, *, calls: int = _WITHOUT_END) -> bool:
        """Start the broker; return whether it started within ``calls`` calls of its disk.

        If it did not, the caller must end it like a running one.
        """
        self.starts += 1
        self._process = self._begin(f"broker {self.starts}")
        self._power_lost.clear()
        self.disk.cut_power(after=calls)
        start = asyncio.create_task(self._process.run(self._started()))
        lost = asyncio.create_task(self._power_lost.wait())
        await asyncio.wait([start, lost], return_when=asyncio.FIRST_COMPLETED)
        lost.cancel()
        try:
            if not start.done():
                start.cancel()  # nothing waits for it, and the kill that follows is no fault
                return False
            self._broker = await start
        except PowerLost:
            return False
        self.disk.cut_power(after=_WITHOUT_END)
        return True

    async def stop_broker(self) -> None:
        """Stop the broker orderly."""
        await self._process.run(self.broker.close())

    async def exhaust_broker(self, *, calls: int) -> None:
        """Let the broker make ``calls`` calls of its disk; return when it tries the next one."""
        self._power_lost.clear()
        self.disk.cut_power(after=calls)
        await self._power_lost.wait()

    def end_broker(self, *, power: bool) -> None:
        """Kill the broker; without ``power`` everything that was not synced may be lost."""
        self._process.kill()
        self.broker_host.crash(silent=not power)
        if power:
            self.disk.kill()
        else:
            self.disk.crash()

    def note_power_lost(self) -> None:
        """Note that the disk refused a call; called from the loop's exception handler."""
        self._power_lost.set()

    def _begin(self, name: str) -> Process:
        process = Process(name)
        self._processes.append(process)
        return process

    async def _started(self) -> Broker:
        broker = Broker(self._settings(), self._machine())
        await broker.start()
        return broker

    def _settings(self) -> LiveSettings:
        return LiveSettings(
            BrokerSettings(
                listen_port=BROKER.port,
                namesrv_addr=str(NAMESERVER),
                store_path_root_dir=DIRECTORY,
                **self._broker_settings,
            ),
            StoreSettings(
                segment_bytes=16 * 1024,
                max_message_bytes=4 * 1024,
                queue_file_entries=20,
                index_slots=20,
                index_entries=40,
                # The checksum of a record covers only its body: without a seal the last records may
                # lose the end of their properties in a power loss.
                append_crc=True,
                flush_mode=self._flush_mode,
            ),
            now_ms=self._clock.now_ms(),
        )

    def _machine(self) -> Machine:
        return Machine(
            network=self.broker_host,
            disk=self.disk,
            clock=self._clock,
            workers=lambda _name, _count: LateWorkers(self._sync_s),
            randomness=SeededRandomness(self._seed + self.starts),
            pid=self.starts,
        )
