"""Brokers that elect their master, a nameserver and a client, on virtual time."""

import asyncio
from collections.abc import Awaitable, Callable

from orbitmq.broker.elected import ElectedBroker
from orbitmq.broker.machine import Machine
from orbitmq.broker.server import Broker
from orbitmq.broker.settings import LiveSettings
from orbitmq.errors import OrbitError
from orbitmq.message import scan
from orbitmq.nameserver.server import Nameserver
from orbitmq.nameserver.settings import NameserverSettings
from orbitmq.net.address import Address
from orbitmq.net.dialer import Dialer
from orbitmq.randomness import SeededRandomness
from orbitmq.settings import from_arguments
from orbitmq.testing.clocks import InlineWorkers, VirtualClock, run_virtual
from orbitmq.testing.consensus import SimulatedClient, SimulatedConsensus
from orbitmq.testing.disks import SimulatedDisk
from orbitmq.testing.links import MemoryNetwork
from orbitmq.testing.processes import Process
from orbitmq.wire.bodies.route import TopicRouteData
from orbitmq.wire.codes import ResponseCode
from orbitmq.wire.fields import Header
from orbitmq.wire.frame import Frame
from orbitmq.wire.headers.pull import PullMessageAnswer
from orbitmq.wire.headers.route import GetRouteInfo
from tests.broker.exchanges import pull_header, send_header

NAMESERVER = Address("127.0.0.1", 9876)
TOPIC = "orders"

SAID = (
    f"namesrvAddr={NAMESERVER}",
    "enableControllerMode=true",
    "etcdEndpoints=127.0.0.1:2379",
    "mappedFileSizeCommitLog=65536",
    "maxMessageSize=4096",
    "maxHashSlotNum=20",
    "maxIndexNum=40",
    "slaveReadEnable=true",
)


class Node:
    """One broker of the group: its disk outlives its process."""

    def __init__(self, group: "Group", number: int) -> None:
        self.group = group
        self.number = number
        self.address = Address("127.0.0.1", 10_901 + 10 * number)
        self.host = group.network.host(f"node-{number}")
        self.disk = SimulatedDisk()
        self.client: SimulatedClient = group.consensus.client(f"node-{number}")
        self.elected: ElectedBroker | None = None
        self._process: Process | None = None

    def __repr__(self) -> str:
        return f"<Node {self.number}, {self.elected}>"

    @property
    def broker(self) -> Broker:
        assert self.elected is not None
        return self.elected.broker

    @property
    def leads(self) -> bool:
        """Whether it is the master, and its inside is ready."""
        inside = None if self.elected is None else self.elected._inside
        return inside is not None and inside.state.leadership is not None and self.holds

    @property
    def serves_as_slave(self) -> bool:
        """Whether it is a slave, and its inside is ready."""
        inside = None if self.elected is None else self.elected._inside
        return inside is not None and inside.state.is_slave

    @property
    def holds(self) -> bool:
        return self.elected is not None and self.elected.member.holds()

    @property
    def log_end(self) -> int:
        return self.broker.state.store.log.end

    @property
    def in_sync(self) -> tuple[int, ...]:
        assert self.elected is not None
        state = self.elected.member.standing.state
        return () if state is None else state.in_sync

    @property
    def epoch(self) -> int:
        assert self.elected is not None
        state = self.elected.member.standing.state
        return 0 if state is None else state.epoch

    async def start(self, *more: str) -> "Node":
        self._process = Process(f"node-{self.number}")
        self.group.processes.append(self._process)
        self.elected = await self._process.run(self._started(more))
        return self

    async def _started(self, more: tuple[str, ...]) -> ElectedBroker:
        said = [f"listenPort={self.address.port}", *SAID, *more]
        settings = LiveSettings.load(from_arguments(said))
        elected = ElectedBroker(settings, self.machine(), consensus=self.client)
        try:
            await elected.start()
        except BaseException:
            await elected.close()
            raise
        return elected

    def machine(self) -> Machine:
        return Machine(
            network=self.host,
            disk=self.disk,
            clock=self.group.clock,
            workers=lambda _name, _count: InlineWorkers(),
            randomness=SeededRandomness(self.number),
        )

    def kill(self, *, power: bool = True) -> None:
        """Kill its process, as the system would; without ``power`` what was not synced is lost."""
        assert self._process is not None
        self._process.kill()
        self.client.is_dead = True
        self.client = self.group.consensus.client(f"node-{self.number}")
        self.host.crash()
        if power:
            self.disk.kill()
        else:
            self.disk.crash()
        self.elected = None

    async def stop(self) -> None:
        assert self._process is not None
        assert self.elected is not None
        await self._process.run(self.elected.close())
        self.elected = None

    def part(self, *, from_etcd: bool = True, from_network: bool = True) -> None:
        """Cut it off."""
        self.client.is_cut = from_etcd
        self.host.carries = not from_network

    def reject(self) -> None:
        """Let a firewall reject what it and the other brokers say to each other."""
        for other in self.others:
            self.group.network.reject(self.host, other.host)

    @property
    def others(self) -> "list[Node]":
        return [one for one in self.group.nodes if one is not self]

    def heal(self) -> None:
        self.client.is_cut = False
        self.host.carries = True
        for other in self.others:
            self.group.network.join(self.host, other.host)


class Group:
    """A nameserver, a simulated etcd, and up to three brokers."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self.network = MemoryNetwork(delay_s=0.001)
        self.consensus = SimulatedConsensus(clock)
        self.nodes = [Node(self, number) for number in (1, 2, 3)]
        self.client = Dialer(network=self.network.host("client"))
        self.acknowledged: list[bytes] = []
        self.processes: list[Process] = []  # kept, since what is collected would clean up

    async def start(self, count: int, *more: str) -> list[Node]:
        """Start brokers one after the other; return them when all are in sync."""
        nodes = self.nodes[:count]
        for node in nodes:
            await node.start(*more)
            await self.until(lambda: any(one.leads for one in nodes))
        wanted = tuple(one.number for one in nodes)
        await self.until(lambda: all(one.in_sync == wanted for one in nodes))
        return nodes

    async def until(self, reached: Callable[[], object], seconds: float = 120) -> None:
        async with asyncio.timeout(seconds):
            while not reached():
                await self.clock.sleep(0.05)

    async def master(self) -> Node:
        """Return the master, when there is one; the one before may not have heard of it."""
        await self.until(lambda: any(node.leads for node in self.nodes))
        return max((node for node in self.nodes if node.leads), key=lambda one: one.epoch)

    async def ask(self, address: Address, header: Header, **more: object) -> Frame:
        return await self.client.request(address, header, **more)  # type: ignore[arg-type]

    async def send(self, node: Node, body: bytes, timeout_ms: int = 10_000) -> Frame | None:
        """Send a message; return the answer, None if there is none."""
        try:
            answer = await self.ask(
                node.address, send_header(TOPIC), body=body, timeout_ms=timeout_ms
            )
        except OrbitError:
            return None
        if answer.code == ResponseCode.SUCCESS:
            self.acknowledged.append(body)
        return answer

    async def send_many(self, node: Node, name: str, count: int = 20) -> None:
        for number in range(count):
            answer = await self.send(node, b"%s %d" % (name.encode(), number))
            assert answer is not None
            assert answer.code == ResponseCode.SUCCESS, answer.remark

    async def read(self, node: Node) -> list[bytes]:
        """Return the bodies of a queue, as consumers see them."""
        bodies: list[bytes] = []
        offset = 0
        while True:
            answer = await self.ask(node.address, pull_header(TOPIC, offset))
            if answer.code == ResponseCode.SYSTEM_BUSY:
                await self.clock.sleep(0.1)
                continue
            offset = answer.read(PullMessageAnswer).next_begin_offset
            if answer.code != ResponseCode.SUCCESS:
                return bodies
            bodies += [one.body for one in scan.decode_all(answer.body)]

    async def route(self) -> dict[int, str]:
        """Return the addresses of the brokers by id, as clients learn them."""
        answer = await self.ask(NAMESERVER, GetRouteInfo(topic=TOPIC))
        if answer.code != ResponseCode.SUCCESS:
            return {}
        (broker,) = TopicRouteData.from_json(answer.body).broker_datas
        return dict(broker.broker_addrs)


def run(story: Callable[[Group], Awaitable[None]]) -> None:
    async def main(clock: VirtualClock) -> None:
        group = Group(clock)
        nameserver = Nameserver(
            NameserverSettings(listen_port=NAMESERVER.port, kv_config_path=""),
            network=group.network.host("nameserver"),
            clock=clock,
            workers=InlineWorkers(),
        )
        async with nameserver:
            await story(group)
            for node in group.nodes:
                if node.elected is not None:
                    node.heal()
                    await node.stop()
            await group.client.close()
        for process in group.processes:
            process.discard()

    run_virtual(main)
