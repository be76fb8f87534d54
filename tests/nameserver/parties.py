"""Brokers, as they register, and a nameserver in virtual time on a network in memory."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from orbitmq.nameserver.server import Nameserver
from orbitmq.nameserver.settings import NameserverSettings
from orbitmq.net.dialer import Dialer
from orbitmq.testing.clocks import InlineWorkers, VirtualClock, run_virtual
from orbitmq.testing.links import MemoryNetwork
from orbitmq.wire.bodies.registration import BrokerRegistration, TopicConfigAndMappingTable
from orbitmq.wire.bodies.topic import DataVersion, TopicConfig
from orbitmq.wire.fields import Header
from orbitmq.wire.frame import Frame
from orbitmq.wire.headers.route import RegisterBroker, UnregisterBroker

T = TypeVar("T")

CLUSTER = "DefaultCluster"
ADDRESS = "10.0.0.1:10911"
REPLICA = "10.0.0.2:10911"


def who(
    name: str = "broker-a",
    address: str = ADDRESS,
    *,
    broker_id: int = 0,
    cluster: str = CLUSTER,
    acting_master: bool | None = False,
    timeout_ms: int | None = None,
    zone: str | None = None,
) -> RegisterBroker:
    host, _, port = address.partition(":")
    return RegisterBroker(
        broker_name=name,
        broker_addr=address,
        cluster_name=cluster,
        ha_server_addr=f"{host}:{int(port) + 1}",
        broker_id=broker_id,
        enable_acting_master=acting_master,
        heartbeat_timeout_millis=timeout_ms,
        zone=zone,
    )


def farewell(of: RegisterBroker) -> UnregisterBroker:
    return UnregisterBroker(
        broker_name=of.broker_name,
        broker_addr=of.broker_addr,
        cluster_name=of.cluster_name,
        broker_id=of.broker_id,
    )


def topics(
    *names: str,
    counter: int = 1,
    state_version: int = 0,
    queues: int = 4,
    perm: int = 6,
    sys_flag: int = 0,
    filter_servers: tuple[str, ...] = (),
) -> BrokerRegistration:
    table = TopicConfigAndMappingTable(
        data_version=DataVersion(counter=counter, state_version=state_version, timestamp=1),
        topic_config_table={
            name: TopicConfig(
                topic_name=name,
                perm=perm,
                read_queue_nums=queues,
                write_queue_nums=queues,
                topic_sys_flag=sys_flag,
            )
            for name in names
        },
    )
    return BrokerRegistration(topics=table, filter_server_list=filter_servers)


class Party:
    """A nameserver, and connections to it."""

    def __init__(self, nameserver: Nameserver, network: MemoryNetwork, clock: VirtualClock) -> None:
        self.nameserver = nameserver
        self.network = network
        self.clock = clock

    async def ask(
        self,
        header: Header,
        body: bytes = b"",
        *,
        by: Dialer | None = None,
        code: int | None = None,
    ) -> Frame:
        """Ask the nameserver, on a connection of its own unless ``by`` has one."""
        if by is not None:
            return await by.request(self.nameserver.address, header, body, code=code)
        async with Dialer(network=self.network) as dialer:
            return await dialer.request(self.nameserver.address, header, body, code=code)

    def dialer(self) -> Dialer:
        """Return a client whose connection lasts until it closes it."""
        return Dialer(network=self.network)


def with_nameserver(
    scenario: Callable[[Party], Awaitable[T]], settings: NameserverSettings | None = None
) -> T:
    """Run a scenario with a nameserver that keeps its texts in memory, unless told otherwise."""

    async def main(clock: VirtualClock) -> T:
        network = MemoryNetwork()
        nameserver = Nameserver(
            settings or NameserverSettings(kv_config_path=""),
            network=network,
            clock=clock,
            workers=InlineWorkers(),
        )
        async with nameserver:
            return await scenario(Party(nameserver, network, clock))

    return run_virtual(main)
