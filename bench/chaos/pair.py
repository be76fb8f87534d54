"""Two nameservers, a master and its slave as processes, and the links that lead to them.

::

    clients ──▶ relay ──▶ master        the address in routes is that of the relay
    slave   ──▶ relay ──▶ master's port for slaves
"""

import asyncio
import os
import shutil
import signal
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Final, Self

from bench.chaos.plan import Configuration
from bench.chaos.relay import Relay
from orbitmq.errors import OrbitError
from orbitmq.net.address import Address
from orbitmq.net.blocking import BlockingConnection
from orbitmq.net.settings import NetSettings
from orbitmq.wire.bodies.replication import HARuntimeInfo
from orbitmq.wire.codes import RequestCode
from orbitmq.wire.fields import NoFields
from tests.interop import counterparts
from tests.interop.faketime import FakeClock
from tests.interop.java_server import free_port
from tests.interop.our_servers import LOOPBACK, SMALL_STORE, OurServer, a_nameserver
from tests.small_disks import small_disk

__all__ = ["Node", "NotInstalled", "Pair"]

_RELAYS: Final = "127.0.0.2"
_BROKER: Final = "pair"
_MIB: Final = 1024 * 1024
_PAGE: Final = 4096
_PORTS: Final = 4
_DISK_MIB: Final = 384
_FREE_MIB: Final = 64
"""Enough for the small files that a broker keeps beside its log."""
_QUICK: Final = NetSettings(request_timeout_ms=2_000, connect_timeout_ms=2_000)
_SETTINGS: Final = {
    "brokerName": _BROKER,
    "brokerIP1": _RELAYS,
    "listenHost": LOOPBACK,
    "inSyncReplicas": "2",
    "slaveTimeout": "1000",
    "slaveReadEnable": "true",
    "haSendHeartbeatInterval": "1000",
    "haHousekeepingInterval": "3000",
    **SMALL_STORE,
}


class Node:
    """A broker's process, its disk, its clock, and the links that lead to it."""

    def __init__(self, directory: Path, port: int) -> None:
        self.directory = directory
        self.port = port
        self.clients = Relay(Address(_RELAYS, self.port), Address(LOOPBACK, self.port))
        """What clients go through."""
        self.slaves = Relay(Address(_RELAYS, self.port + 1), Address(LOOPBACK, self.port + 1))
        """What the log goes through, when it is the master."""
        self.server: OurServer | None = None
        """None while it does not run."""
        self.clock: FakeClock | None = None
        """None if it goes by that of the machine."""

    def __repr__(self) -> str:
        return f"<Node {self.address} in {self.directory.name}>"

    @property
    def address(self) -> Address:
        """Where it listens itself."""
        return Address(LOOPBACK, self.port)

    async def start(self, settings: dict[str, str]) -> None:
        """Start its process; return when it serves."""
        said = {
            **settings,
            "listenPort": str(self.port),
            "storePathRootDir": str(self.directory / "store"),
        }
        arguments = [f"--set={name}={value}" for name, value in said.items()]
        server = OurServer(
            self.address, "broker", *arguments, advertised=self.clients.at, clock=self.clock
        )
        await asyncio.to_thread(server.start)
        self.server = server
        await self.clients.open()
        await self.slaves.open()

    async def kill(self) -> str:
        """Kill its process; return what it has logged."""
        assert self.server is not None
        logged = await asyncio.to_thread(self.server.kill)
        self.server = None
        await self.clients.close()
        await self.slaves.close()
        return logged

    def lose_disk(self) -> None:
        """Lose all its files; its process is dead."""
        for one in self.directory.iterdir():
            shutil.rmtree(one)

    def fill_disk(self) -> Callable[[], None]:
        """Fill its disk, while the broker goes on writing; return what makes room again."""
        path = self.directory / "ballast"
        with path.open("wb") as file:
            for step in (_MIB, _PAGE):
                with suppress(OSError):  # ENOSPC: the last step may be smaller
                    while True:
                        os.posix_fallocate(file.fileno(), os.fstat(file.fileno()).st_size, step)
        return path.unlink


class NotInstalled(Exception):
    """Something that a configuration needs is not on this machine."""


class Pair:
    """A master and a slave; an async context manager, whose end kills everything."""

    def __init__(self, directory: Path, configuration: Configuration, *, brokers: int = 2) -> None:
        self.configuration = configuration
        self.logged: list[str] = []
        """What dead processes had logged."""
        self.directory = directory
        self.nameservers = [a_nameserver(directory / f"names-{number}") for number in (1, 2)]
        # Ports of one block: none of them listens yet, and a broker has four.
        first = free_port(below=2, above=_PORTS * brokers)
        self.nodes = [
            Node(directory / f"broker-{number + 1}", first + _PORTS * number)
            for number in range(brokers)
        ]
        self.master = self.nodes[0]
        self.stack = AsyncExitStack()
        """What ends with it."""

    def __repr__(self) -> str:
        return f"<Pair {self.configuration.name}, master {self.master}>"

    @property
    def names(self) -> str:
        """The nameservers, as clients are told."""
        return ";".join(str(one.address) for one in self.nameservers)

    @property
    def slave(self) -> Node:
        """A broker that is not the master."""
        return next(node for node in self.nodes if node is not self.master)

    async def __aenter__(self) -> Self:
        if self.configuration.has_own_clocks and counterparts.faketime_library() is None:
            raise NotInstalled("there is no libfaketime: run 'make counterparts'")
        for number in (1, 2):
            (self.directory / f"names-{number}").mkdir(parents=True)
        for node in self.nodes:
            node.directory.mkdir(parents=True)
            if self.configuration.has_small_disks:
                self.stack.enter_context(small_disk(node.directory, _DISK_MIB))
            if self.configuration.has_own_clocks:
                node.clock = FakeClock(self.directory / f"clock-of-{node.directory.name}")
        for server in self.nameservers:
            await asyncio.to_thread(server.start)
        await self.start(*self.nodes)
        return self

    async def __aexit__(self, *_error: object) -> None:
        try:
            for node in self.nodes:
                if node.server is not None:
                    self.logged.append(await node.kill())
            for server in self.nameservers:
                with suppress(AssertionError):  # it does not run
                    self.logged.append(await asyncio.to_thread(server.kill))
        finally:
            await self.stack.aclose()

    async def start(self, *nodes: Node) -> None:
        """Start brokers on their files, one after the other."""
        for node in nodes:
            small = {"mappedFileSizeCommitLog": str(_FREE_MIB * _MIB)}
            said = {
                **_SETTINGS,
                "namesrvAddr": self.names,
                "flushDiskType": self.configuration.flush,
                **(small if self.configuration.has_small_disks else {}),
                **self.role_of(node),
            }
            await node.start(said)

    def role_of(self, node: Node) -> dict[str, str]:
        """Return the settings that make a broker what it is."""
        if node is self.master:
            return {"brokerRole": self.configuration.role}
        return {"brokerRole": "SLAVE", "brokerId": "1"}

    async def kill(self, *nodes: Node) -> None:
        """Kill some brokers at the same time."""
        self.logged += await asyncio.gather(*(node.kill() for node in nodes))

    async def promote(self) -> None:
        """Make the slave the master, as an operator does, and the other an empty slave."""
        before = self.master
        await self.kill(self.slave)
        self.master = self.slave
        await self.start(self.master, before)

    async def replaced(self) -> None:
        """Wait until another broker is the master; only elections do that by themselves."""
        raise NotImplementedError

    async def restart_nameservers(self) -> None:
        """Kill both nameservers, which forget everything, and start them again."""
        for server in self.nameservers:
            self.logged.append(await asyncio.to_thread(server.kill))
        for server in self.nameservers:
            await asyncio.to_thread(server.start)

    def pause(self, node: Node) -> None:
        """Stop a process without its knowledge."""
        assert node.server is not None
        node.server.signal(signal.SIGSTOP)

    def resume(self, node: Node) -> None:
        """Let a stopped process go on."""
        assert node.server is not None
        node.server.signal(signal.SIGCONT)

    async def set_clock(self, node: Node, ahead_s: int) -> None:
        """Set a broker's clock ahead of the machine's, or behind; return when it goes by that."""
        assert node.clock is not None
        seen_by = None if node.server is None else node.address
        await asyncio.to_thread(node.clock.set, ahead_s, seen_by=seen_by)

    async def behind(self) -> int | None:
        """Return by how many bytes a slave is behind; None if not all follow."""
        return await asyncio.to_thread(self._behind)

    def _behind(self) -> int | None:
        try:
            with BlockingConnection(self.master.address, settings=_QUICK) as connection:
                answer = connection.request(NoFields(), code=RequestCode.GET_BROKER_HA_STATUS)
            found = HARuntimeInfo.from_json(answer.body).ha_connection_info
        except OrbitError:
            return None
        slaves = len(self.nodes) - 1
        # A connection that is not closed yet counts as a slave that is far behind.
        behind = sorted(one.diff for one in found if one.slave_ack_offset >= 0)
        return behind[slaves - 1] if len(behind) >= slaves else None
