"""Our producer's transactions on our broker, with its default schedule, in virtual time."""

import asyncio
import itertools
from collections.abc import Awaitable, Callable

import pytest

from orbitmq.broker.sending.half_messages import Decision
from orbitmq.client.core.machine import Machine
from orbitmq.client.producer.producer import Producer
from orbitmq.client.producer.transactions import TransactionState
from orbitmq.message.model import Message, StoredMessage
from orbitmq.randomness import SeededRandomness
from orbitmq.store.settings import FlushMode
from orbitmq.testing.clocks import InlineWorkers, VirtualClock, run_virtual
from orbitmq.testing.links import MemoryNetwork
from orbitmq.testing.simulation.servers import NAMESERVER, SimulatedServers

Story = Callable[["Scene"], Awaitable[None]]
UNKNOWN, COMMIT = TransactionState.UNKNOWN, TransactionState.COMMIT


class Scene:
    """A nameserver, a broker, and producers of one group, each on its own host."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self.network = MemoryNetwork()
        self.servers = SimulatedServers(
            self.network, clock, flush_mode=FlushMode.SYNC, sync_s=lambda: 0.001, seed=1
        )
        self.asked: list[tuple[str, bytes, int]] = []
        """By whom, about what, and when."""

    def producer(self, name: str, *answers: TransactionState) -> Producer:
        """Return a producer that answers checks as given, and with the last answer for ever."""
        given = list(answers)

        def check(message: StoredMessage) -> TransactionState:
            self.asked.append((name, message.body, self.clock.now_ms()))
            return given.pop(0) if len(given) > 1 else given[0]

        machine = Machine(
            network=self.network.host(name),
            clock=self.clock,
            workers=lambda _name: InlineWorkers(),
            randomness=SeededRandomness(len(name)),
            environment=lambda _name: "",
            host="127.0.0.1",
            pid=1,
        )
        return Producer(
            "payments",
            nameserver=str(NAMESERVER),
            machine=machine,
            transaction_listener=check if answers else None,
            topics=("orders",),
        )

    async def leave_open(self, producer: Producer, body: bytes) -> None:
        async with producer.transaction(Message("orders", body)) as begun:
            await begun.leave_undecided()

    def delivered(self) -> list[bytes]:
        store = self.servers.master.broker.state.store
        entries = [
            entry.commit_log_offset
            for queue in store.queues.queues_of("orders")
            for _, entry in queue.iterate(0)
        ]
        records = [store.record(offset) for offset in sorted(entries)]
        return [bytes(record.body) for record in records if record is not None]

    def times_s(self, since_ms: int) -> list[int]:
        return [(at_ms - since_ms) // 1000 for _, _, at_ms in self.asked]


def play(story: Story) -> None:
    async def main(clock: VirtualClock) -> None:
        scene = Scene(clock)
        await scene.servers.nameserver.start()
        await scene.servers.master.start()
        await story(scene)
        await scene.servers.master.stop()

    run_virtual(main)


def test_a_block_commits_and_an_error_rolls_back() -> None:
    async def story(scene: Scene) -> None:
        async with scene.producer("p") as producer:
            async with producer.transaction(Message("orders", b"paid")):
                assert scene.delivered() == []
            with pytest.raises(ValueError, match="no"):
                async with producer.transaction(Message("orders", b"refused")):
                    raise ValueError("no")
            await asyncio.sleep(100)
        assert scene.delivered() == [b"paid"]
        assert scene.asked == []

    play(story)


def test_the_schedule_is_java_s() -> None:
    async def story(scene: Scene) -> None:
        began_ms = scene.clock.now_ms()
        async with scene.producer("p", UNKNOWN) as producer:
            await scene.leave_open(producer, b"open")
            await asyncio.sleep(1_000)
        times = scene.times_s(began_ms)
        assert len(times) == 15
        assert 6 <= times[0] <= 36
        assert {later - earlier for earlier, later in itertools.pairwise(times)} <= {*range(29, 32)}
        assert scene.delivered() == []

    play(story)


def test_a_later_producer_of_the_group_decides() -> None:
    async def story(scene: Scene) -> None:
        async with scene.producer("first") as producer:
            await scene.leave_open(producer, b"orphan")
        await asyncio.sleep(3_600)  # an hour without a producer
        assert scene.delivered() == []
        async with scene.producer("second", UNKNOWN, COMMIT):
            await asyncio.sleep(70)
        assert [name for name, _, _ in scene.asked] == ["second", "second"]
        assert scene.delivered() == [b"orphan"]

    play(story)


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_a_broker_that_comes_back_goes_on(how: str) -> None:
    async def story(scene: Scene) -> None:
        servers = scene.servers

        async def restart() -> None:
            if how == "stop":
                await servers.master.stop()
            else:
                servers.master.end(power=True)
            await servers.master.start()

        async with scene.producer("p", UNKNOWN, COMMIT) as producer:
            async with producer.transaction(Message("orders", b"block")):
                await restart()
            await scene.leave_open(producer, b"open")
            await restart()
            await asyncio.sleep(150)
            await restart()
            await asyncio.sleep(150)
        assert sorted(scene.delivered()) == [b"block", b"open"]

    play(story)


@pytest.mark.parametrize("decision", Decision)
def test_an_end_just_before_a_stop_is_in_the_op_messages(decision: Decision) -> None:
    ended: list[object] = []

    async def story(scene: Scene) -> None:
        servers = scene.servers
        async with scene.producer("p") as producer:
            await scene.leave_open(producer, b"first")
            await scene.leave_open(producer, b"second")
            halves = servers.master.broker.state.halves
            second = halves.record(1)
            assert second is not None
            halves.end(second, decision, ended.append)
            await servers.master.stop()
        assert ended == [decision]
        await servers.master.start()
        halves = servers.master.broker.state.halves
        assert [halves.is_done(offset) for offset in (0, 1)] == [False, True]

    play(story)
