"""Light queues of a whole broker: pulls that wait, offsets of their groups, and a restart."""

import asyncio
import json

from orbitmq.broker.machine import Machine
from orbitmq.broker.server import Broker
from orbitmq.broker.settings import LiveSettings
from orbitmq.message import scan
from orbitmq.net.dialer import Dialer
from orbitmq.settings import from_arguments
from orbitmq.testing.clocks import InlineWorkers, VirtualClock, run_virtual
from orbitmq.testing.disks import SimulatedDisk
from orbitmq.testing.links import MemoryNetwork
from orbitmq.wire.codes import ResponseCode
from orbitmq.wire.fields import Header
from orbitmq.wire.frame import Frame
from orbitmq.wire.headers.offset import (
    GetMaxOffset,
    GetMaxOffsetAnswer,
    QueryConsumerOffset,
    QueryConsumerOffsetAnswer,
    UpdateConsumerOffset,
)
from tests.broker.exchanges import pull_header, send_header

ALICE, GROUP = "%LMQ%alice", "%LMQ%GID@@alice"
NAMES = "INNER_MULTI_DISPATCH\x01%LMQ%alice,%LMQ%bob\x02"


class Running:
    """A broker in memory, and one connection to it."""

    def __init__(self, clock: VirtualClock, disk: SimulatedDisk) -> None:
        self._network = MemoryNetwork()
        said = (
            *("storePathRootDir=/store", "listenPort=10911", "mappedFileSizeCommitLog=8388608"),
            *("enableLmq=true", "enableMultiDispatch=true"),
        )
        machine = Machine(
            network=self._network,
            disk=disk,
            clock=clock,
            workers=lambda _name, _count: InlineWorkers(),
        )
        self.broker = Broker(LiveSettings.load(from_arguments(said)), machine)
        self._dialer = Dialer(network=self._network)

    async def __aenter__(self) -> "Running":
        await self.broker.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._dialer.close()
        await self.broker.close()

    async def ask(self, header: Header, body: bytes = b"") -> Frame:
        return await self._dialer.request(self.broker.address, header, body, timeout_ms=60_000)

    async def send(self, body: bytes) -> None:
        answer = await self.ask(send_header("orders", properties=NAMES), body)
        assert answer.code == ResponseCode.SUCCESS, answer.remark

    async def pulled(self, offset: int, hold_ms: int = 0) -> list[bytes]:
        answer = await self.ask(pull_header(ALICE, offset, group=GROUP, hold_ms=hold_ms))
        assert answer.code == ResponseCode.SUCCESS, answer.remark
        return [one.body for one in scan.decode_all(bytes(answer.body))]

    async def committed(self) -> int:
        query = QueryConsumerOffset(consumer_group=GROUP, topic=ALICE, queue_id=0)
        return (await self.ask(query)).read(QueryConsumerOffsetAnswer).offset

    async def end(self) -> int:
        answer = await self.ask(GetMaxOffset(topic=ALICE, queue_id=0))
        return answer.read(GetMaxOffsetAnswer).offset


def test_a_light_queue_is_pulled_committed_and_there_after_a_restart() -> None:
    disk = SimulatedDisk()

    async def first(clock: VirtualClock) -> None:
        async with Running(clock, disk) as running:
            await running.send(b"one")
            assert await running.pulled(0) == [b"one"]
            held = asyncio.create_task(running.pulled(1, hold_ms=20_000))
            await asyncio.sleep(1)
            await running.send(b"two")
            assert await asyncio.wait_for(held, 5) == [b"two"]
            commit = UpdateConsumerOffset(
                consumer_group=GROUP, topic=ALICE, queue_id=0, commit_offset=2
            )
            assert (await running.ask(commit)).code == ResponseCode.SUCCESS
            assert GROUP not in running.broker.state.groups.table
            assert ALICE not in running.broker.state.topics.table

    async def second(clock: VirtualClock) -> None:
        async with Running(clock, disk) as running:
            assert (await running.committed(), await running.end()) == (2, 2)
            await running.send(b"three")
            assert await running.pulled(0) == [b"one", b"two", b"three"]

    run_virtual(first)
    text = disk.open("/store/config/lmqConsumerOffset.json").read(10_000, 0)
    assert json.loads(text)["lmqOffsetTable"] == {f"{ALICE}@{GROUP}": 2}
    run_virtual(second)
