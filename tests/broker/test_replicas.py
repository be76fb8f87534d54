"""A master, a slave and a nameserver, in one process on virtual time: who has what, and when."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from orbitmq.broker.machine import Machine
from orbitmq.broker.server import Broker
from orbitmq.broker.settings import LiveSettings
from orbitmq.message.properties import encode
from orbitmq.nameserver.server import Nameserver
from orbitmq.nameserver.settings import NameserverSettings
from orbitmq.net.address import Address
from orbitmq.net.dialer import Dialer
from orbitmq.settings import from_arguments
from orbitmq.testing.clocks import InlineWorkers, VirtualClock, run_virtual
from orbitmq.testing.disks import SimulatedDisk
from orbitmq.testing.links import MemoryHost, MemoryNetwork
from orbitmq.wire.bodies.replication import HARuntimeInfo
from orbitmq.wire.bodies.route import TopicRouteData
from orbitmq.wire.codes import RequestCode, ResponseCode
from orbitmq.wire.fields import Header, NoFields
from orbitmq.wire.frame import Frame
from orbitmq.wire.headers.offset import (
    QueryConsumerOffset,
    QueryConsumerOffsetAnswer,
    UpdateConsumerOffset,
)
from orbitmq.wire.headers.pull import PullMessageAnswer
from orbitmq.wire.headers.route import GetRouteInfo
from tests.broker.exchanges import pull_header, send_header
from tests.replication.worlds import log_bytes

NAMESERVER = Address("127.0.0.1", 9876)
MASTER = Address("127.0.0.1", 10911)
SLAVE = Address("127.0.0.1", 10921)

SAID = (
    f"namesrvAddr={NAMESERVER}",
    "mappedFileSizeCommitLog=16384",
    "maxMessageSize=4096",
    "maxHashSlotNum=20",
    "maxIndexNum=40",
    "slaveReadEnable=true",
)


class Group:
    """The servers of one test; each broker has a disk of its own, which outlives it."""

    def __init__(self, clock: VirtualClock, *, role: str = "ASYNC_MASTER") -> None:
        self.clock = clock
        self.role = role
        self.network = MemoryNetwork()
        self.client = Dialer(network=self.network.host("client"))
        self.nameserver = Nameserver(
            NameserverSettings(listen_port=NAMESERVER.port, kv_config_path=""),
            network=self.network.host("nameserver"),
            clock=clock,
            workers=InlineWorkers(),
        )
        self.disks = {MASTER: SimulatedDisk(), SLAVE: SimulatedDisk()}
        self.hosts: dict[Address, MemoryHost] = {}

    async def start(self, address: Address, *more: str) -> Broker:
        said = [f"listenPort={address.port}", f"brokerRole={self.role}", *SAID, *more]
        if address == SLAVE:
            said += ["brokerRole=SLAVE", "brokerId=1"]
        host = self.hosts[address] = self.network.host(str(address))
        machine = Machine(
            network=host,
            disk=self.disks[address],
            clock=self.clock,
            workers=lambda _name, _count: InlineWorkers(),
        )
        broker = Broker(LiveSettings.load(from_arguments(said)), machine)
        await broker.start()
        return broker

    async def ask(self, address: Address, header: Header, **more: object) -> Frame:
        return await self.client.request(address, header, **more)  # type: ignore[arg-type]

    async def send(self, body: bytes, address: Address = MASTER) -> int:
        header = send_header("orders")
        return (await self.ask(address, header, body=body, timeout_ms=10_000)).code

    async def until(self, reached: Callable[[], bool], seconds: float = 60) -> None:
        async with asyncio.timeout(seconds):
            while not reached():
                await self.clock.sleep(0.2)


def run(test: Callable[[Group], Awaitable[None]], *, role: str = "ASYNC_MASTER") -> None:
    async def main(clock: VirtualClock) -> None:
        group = Group(clock, role=role)
        async with group.nameserver:
            await test(group)
            await group.client.close()

    run_virtual(main)


def same_log(master: Broker, slave: Broker) -> bool:
    return log_bytes(master.state.store) == log_bytes(slave.state.store)


def test_a_slave_finds_its_master_copies_it_and_shows_in_routes_and_status() -> None:
    async def scene(group: Group) -> None:
        master = await group.start(MASTER)
        for number in range(40):
            assert await group.send(b"%d" % number * 100) == ResponseCode.SUCCESS
        slave = await group.start(SLAVE)
        await group.until(lambda: same_log(master, slave))
        assert slave.state.store.log.first_offset == 0
        await group.until(lambda: "orders" in slave.state.topics.table)
        assert slave.state.topics.data_version == master.state.topics.data_version
        assert await group.send(b"more") == ResponseCode.SUCCESS
        await group.until(lambda: same_log(master, slave))
        route = TopicRouteData.from_json(
            (await group.ask(NAMESERVER, GetRouteInfo(topic="orders"))).body
        )
        [broker] = route.broker_datas
        assert dict(broker.broker_addrs) == {0: str(MASTER), 1: str(SLAVE)}
        code = RequestCode.GET_BROKER_HA_STATUS
        at_master = HARuntimeInfo.from_json((await group.ask(MASTER, NoFields(), code=code)).body)
        [connection] = at_master.ha_connection_info
        assert (at_master.in_sync_slave_nums, connection.diff, connection.in_sync) == (1, 0, True)
        at_slave = HARuntimeInfo.from_json((await group.ask(SLAVE, NoFields(), code=code)).body)
        assert not at_slave.master
        assert at_slave.ha_client_runtime_info.max_offset == master.state.store.log.end
        await slave.close()
        await master.close()

    run(scene)


def test_a_slave_that_finds_no_master_says_once_under_which_name_it_looks(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scene(group: Group) -> None:
        master = await group.start(MASTER)
        slave = await group.start(SLAVE, "brokerName=broker-aa")
        await group.clock.sleep(300)
        (line,) = [line for line in caplog.messages if "no master is known" in line]
        assert "brokerName=broker-aa in brokerClusterName=DefaultCluster" in line
        caplog.clear()
        await slave.close()
        slave = await group.start(SLAVE)
        await group.until(lambda: same_log(master, slave))
        await group.clock.sleep(300)
        assert "no master is known" not in caplog.text
        await slave.close()
        await master.close()

    run(scene)


def test_what_a_sync_master_acknowledges_is_on_the_slave() -> None:
    async def scene(group: Group) -> None:
        master, slave = await group.start(MASTER), await group.start(SLAVE)
        await group.until(lambda: master.state.acks.in_sync == 1)
        for number in range(30):
            assert await group.send(b"%d" % number) == ResponseCode.SUCCESS
            assert master.state.acks.reached == master.state.store.log.end
            assert same_log(master, slave)
        await master.close()
        assert slave.state.store.queues.queue("orders", 0) is not None
        await slave.close()

    run(scene, role="SYNC_MASTER")


def test_a_sync_master_says_whether_a_slave_was_late_or_not_there() -> None:
    async def scene(group: Group) -> None:
        master = await group.start(MASTER)
        began_ms = group.clock.monotonic_ms()
        assert await group.send(b"alone") == ResponseCode.SLAVE_NOT_AVAILABLE
        assert 3_000 <= group.clock.monotonic_ms() - began_ms < 3_200
        slave = await group.start(SLAVE)
        await group.until(lambda: master.state.acks.in_sync == 1)
        assert await group.send(b"copied") == ResponseCode.SUCCESS
        slave.replicas.replica._link._transport.pause_reading()  # type: ignore[union-attr]
        assert await group.send(b"late") == ResponseCode.FLUSH_SLAVE_TIMEOUT
        slave.replicas.replica._link._transport.resume_reading()  # type: ignore[union-attr]
        await group.until(lambda: same_log(master, slave))
        await slave.close()
        await master.close()

    run(scene, role="SYNC_MASTER")


def test_after_restarts_of_either_the_slave_catches_up() -> None:
    async def scene(group: Group) -> None:
        master, slave = await group.start(MASTER), await group.start(SLAVE)

        async def send_some() -> None:
            for number in range(30):
                assert await group.send(b"%d" % number * 90) == ResponseCode.SUCCESS

        await send_some()
        await slave.close()
        await send_some()
        slave = await group.start(SLAVE)
        await group.until(lambda: same_log(master, slave))
        await master.close()
        master = await group.start(MASTER)
        await send_some()
        await group.until(lambda: same_log(master, slave))
        await slave.close()
        await master.close()

    run(scene)


def test_a_slave_takes_no_sends_and_its_held_pulls_wake_on_arrival() -> None:
    async def scene(group: Group) -> None:
        master, slave = await group.start(MASTER), await group.start(SLAVE)
        await group.send(b"first")
        await group.until(lambda: "orders" in slave.state.topics.table)
        answer = await group.ask(SLAVE, send_header("orders", queue_id=0), body=b"no")
        assert answer.code == ResponseCode.SYSTEM_BUSY
        assert (answer.remark or "").startswith("[REJECTREQUEST]")
        await group.until(lambda: same_log(master, slave))
        young = pull_header("orders", 1, hold_ms=15_000)
        answer = await group.ask(SLAVE, young)  # the master is there, so it serves them
        assert answer.code == ResponseCode.PULL_RETRY_IMMEDIATELY
        assert answer.read(PullMessageAnswer).suggest_which_broker_id == 0
        await master.close()
        await group.until(lambda: not slave.state.follows())
        held = asyncio.create_task(group.ask(SLAVE, young))
        await group.clock.sleep(1)
        assert not held.done()
        answer = await group.ask(SLAVE, pull_header("orders", 0))
        assert answer.code == ResponseCode.SUCCESS
        assert answer.read(PullMessageAnswer).suggest_which_broker_id == 1
        master = await group.start(MASTER)
        await group.send(b"second")
        answer = await held
        assert answer.code == ResponseCode.SUCCESS
        assert b"second" in bytes(answer.body)
        await slave.close()
        await master.close()

    run(scene)


def test_a_slave_asks_for_the_topic_of_a_message_that_it_does_not_know() -> None:
    async def scene(group: Group) -> None:
        master, slave = await group.start(MASTER), await group.start(SLAVE)
        await group.clock.sleep(5)  # the next round would be in five seconds
        await group.send(b"first")
        await group.until(lambda: "orders" in slave.state.topics.table, seconds=2)
        await slave.close()
        await master.close()

    run(scene)


def test_offsets_go_to_the_slave_and_come_back_from_it() -> None:
    async def committed(group: Group, address: Address) -> int:
        header = QueryConsumerOffset(consumer_group="billing", topic="orders", queue_id=0)
        return (await group.ask(address, header)).read(QueryConsumerOffsetAnswer).offset

    async def commit(group: Group, address: Address, offset: int) -> None:
        header = UpdateConsumerOffset(
            consumer_group="billing", topic="orders", queue_id=0, commit_offset=offset
        )
        assert (await group.ask(address, header)).code == ResponseCode.SUCCESS

    async def scene(group: Group) -> None:
        master, slave = await group.start(MASTER), await group.start(SLAVE)
        for _ in range(9):
            await group.send(b"x")
        await group.ask(MASTER, pull_header("orders", 0, group="billing"))
        await commit(group, MASTER, 4)
        query = slave.state.offsets.query
        await group.until(lambda: query("billing", "orders", 0) == 4)
        await master.close()
        await commit(group, SLAVE, 7)
        master = await group.start(MASTER)
        back = master.state.offsets.query
        await group.until(lambda: back("billing", "orders", 0) == 7)
        assert await committed(group, SLAVE) == 7
        await commit(group, MASTER, 2)  # as an operator may
        await group.until(lambda: query("billing", "orders", 0) == 2)
        await slave.close()
        await master.close()

    run(scene)


def test_a_slave_knows_the_topics_that_it_has_messages_of_before_the_master_tells() -> None:
    async def scene(group: Group) -> None:
        master, slave = await group.start(MASTER), await group.start(SLAVE)
        await group.until(lambda: master.state.acks.in_sync == 1)
        began_ms = group.clock.monotonic_ms()
        assert await group.send(b"first") == ResponseCode.SUCCESS
        learned = slave.state.topics.table["orders"]
        assert learned.read_queue_nums == 1  # that of the message
        await slave.close()
        slave = await group.start(SLAVE, "haMasterAddress=127.0.0.1:9", "namesrvAddr=")
        assert slave.state.topics.table["orders"] == learned
        await slave.close()
        slave = await group.start(SLAVE)
        wanted = master.state.topics.table["orders"]
        await group.until(lambda: slave.state.topics.table["orders"] == wanted)
        assert slave.state.topics.data_version == master.state.topics.data_version
        assert group.clock.monotonic_ms() - began_ms < 10_000
        await slave.close()
        await master.close()

    run(scene, role="SYNC_MASTER")


@pytest.mark.parametrize(
    "properties",
    [
        {"DELAY": "18"},
        {"TIMER_DELAY_MS": "60000"},
        {"TRAN_MSG": "true", "PGROUP": "shop", "UNIQ_KEY": "7F00"},
    ],
)
def test_a_slave_knows_where_waiting_messages_will_go(properties: dict[str, str]) -> None:
    async def scene(group: Group) -> None:
        master, slave = await group.start(MASTER), await group.start(SLAVE)
        await group.until(lambda: master.state.acks.in_sync == 1)
        text = encode(properties).decode()
        header = send_header("orders", queue_id=2, properties=text)
        answer = await group.ask(MASTER, header, body=b"waits", timeout_ms=10_000)
        assert answer.code == ResponseCode.SUCCESS
        assert slave.state.topics.table["orders"].read_queue_nums == 3
        await slave.close()
        await master.close()

    run(scene, role="SYNC_MASTER")


def test_a_slave_without_the_offsets_of_its_master_does_not_say_that_there_are_none() -> None:
    async def query(group: Group) -> Frame:
        header = QueryConsumerOffset(consumer_group="billing", topic="orders", queue_id=0)
        return await group.ask(SLAVE, header)

    async def scene(group: Group) -> None:
        slave = await group.start(SLAVE)
        answer = await query(group)
        assert answer.code == ResponseCode.SYSTEM_BUSY
        assert "has not heard from its master" in (answer.remark or "")
        master = await group.start(MASTER)
        await group.until(lambda: slave.state.offsets.are_of_master)
        assert (await query(group)).code == ResponseCode.QUERY_NOT_FOUND
        await slave.close()
        await master.close()

    run(scene)


def test_logs_that_went_different_ways_are_named_and_kept(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scene(group: Group) -> None:
        master, slave = await group.start(MASTER), await group.start(SLAVE)
        await group.send(b"shared")
        await group.until(lambda: same_log(master, slave))
        await slave.close()
        await master.close()
        group.disks[MASTER] = SimulatedDisk()  # it comes back empty, and goes on
        master = await group.start(MASTER)
        for _ in range(5):
            await group.send(b"other")
        slave = await group.start(SLAVE)
        before = log_bytes(slave.state.store)
        await group.until(lambda: "went different ways" in caplog.text)
        assert log_bytes(slave.state.store) == before
        assert f"the log here ends at {slave.state.store.log.end}" in caplog.text
        await slave.close()
        await master.close()

    run(scene)
