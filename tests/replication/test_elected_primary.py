"""The port of an elected primary, and replicas that connect to it, on a network in memory."""

import asyncio
from collections.abc import Awaitable, Callable

from orbitmq.net.address import Address
from orbitmq.replication.elected_primary import ElectedPrimary
from orbitmq.replication.replica import Replica
from orbitmq.replication.settings import ReplicationSettings
from orbitmq.testing.clocks import VirtualClock, run_virtual
from orbitmq.testing.links import MemoryNetwork
from tests.replication.worlds import Node, fill, same

HERE = Address("127.0.0.1", 10912)
SETTINGS = ReplicationSettings()


class Scene:
    """An elected primary, whose proposals are agreed to at once, and what connects to it."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self.network = MemoryNetwork(delay_s=0.001)
        self.node = Node(1)
        self.node.lead(3, 30)
        self.in_sync = self.node.in_sync
        self.in_sync.on_proposed = self.in_sync.agreed
        self.primary = ElectedPrimary(
            tail=self.node.store.tail,
            epochs=self.node.epochs,
            in_sync=self.in_sync,
            settings=lambda: SETTINGS,
            clock=clock,
            network=self.network,
        )
        self.node.store.on_written = self.primary.written

    def run(
        self, node: Node, settings: ReplicationSettings = SETTINGS, *, saved_at_once: int = 1 << 20
    ) -> "asyncio.Task[None]":
        """Let a broker follow, until the task is cancelled."""
        follower = node.follower(settings)
        follower.saved_at_once = saved_at_once
        replica = Replica(
            store=node.store,
            settings=lambda: settings,
            clock=self.clock,
            follower=follower,
            network=self.network,
        )
        replica.follow(HERE)
        return asyncio.create_task(replica.run())

    async def go_on(self, seconds: float) -> None:
        for _ in range(int(seconds * 2)):
            await self.clock.sleep(0.5)
            self.primary.tick()


def play(scene: Callable[[Scene], Awaitable[None]]) -> None:
    async def main(clock: VirtualClock) -> None:
        world = Scene(clock)
        await world.primary.start(HERE)
        await scene(world)
        await world.primary.close()

    run_virtual(main)


async def ended(*tasks: "asyncio.Task[None]") -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def test_replicas_get_everything_and_become_members() -> None:
    async def scene(world: Scene) -> None:
        nodes = [Node(2), Node(3)]
        tasks = [world.run(node) for node in nodes]
        await world.go_on(2)
        fill(world.node.store, 7, first=30)
        await world.go_on(1)
        assert all(same(world.node, node) for node in nodes)
        assert world.in_sync.members == {1, 2, 3}
        assert world.in_sync.confirmed == world.node.store.log.end
        await ended(*tasks)
        await world.go_on(1)
        assert list(world.primary.links) == []
        assert world.in_sync.members == {1}

    play(scene)


def test_a_replica_that_has_much_to_cut_comes_back_when_it_is_saved() -> None:
    async def scene(world: Scene) -> None:
        node = Node(2)
        node.lead(3, 30)
        node.lead(4, 20, first=500)
        task = world.run(node, saved_at_once=0)
        await world.go_on(3)
        assert same(world.node, node)
        assert len(node.disk.list("/store/cutlog")) == 1
        assert world.in_sync.members == {1, 2}
        await ended(task)

    play(scene)


def test_a_learner_gets_everything_and_is_never_waited_for() -> None:
    async def scene(world: Scene) -> None:
        node = Node(2)
        task = world.run(node, ReplicationSettings(is_learner=True))
        await world.go_on(2)
        assert same(world.node, node)
        assert world.in_sync.members == {1}
        assert world.in_sync.acked(2) == world.node.store.log.end
        await ended(task)

    play(scene)


def test_what_is_confirmed_reaches_the_replicas_without_new_messages() -> None:
    async def scene(world: Scene) -> None:
        nodes = [Node(2), Node(3)]
        tasks = [world.run(node) for node in nodes]
        await world.go_on(1)
        world.network.delay_s = 0.2
        fill(world.node.store, 1, first=30)
        await world.go_on(2)
        followers = [link.feed for link in world.primary.links]
        assert len(followers) == 2
        assert world.in_sync.confirmed == world.node.store.log.end
        await ended(*tasks)

    play(scene)


def test_of_two_connections_of_a_broker_the_newer_counts() -> None:
    async def scene(world: Scene) -> None:
        one, again, proposed = Node(2), Node(2), list[frozenset[int]]()

        def agree(who: frozenset[int]) -> None:
            proposed.append(who)
            world.in_sync.agreed(who)

        world.in_sync.on_proposed = agree
        tasks = [world.run(one)]
        await world.go_on(2)
        [first] = world.primary.links
        tasks.append(world.run(again))
        await world.clock.sleep(0.01)
        assert first not in list(world.primary.links)
        assert proposed == [{1, 2}]  # it has not left meanwhile
        await ended(*tasks)
        await world.go_on(1)
        assert world.in_sync.members == {1}

    play(scene)


def test_a_cut_network_is_noticed_and_mends() -> None:
    async def scene(world: Scene) -> None:
        node = Node(2)
        task = world.run(node)
        await world.go_on(2)
        world.network.carries = False
        fill(world.node.store, 9, first=30)
        await world.go_on(30)
        assert world.in_sync.members == {1}
        assert world.in_sync.confirmed == world.node.store.log.end
        world.network.carries = True
        await world.go_on(5)
        assert same(world.node, node)
        assert world.in_sync.members == {1, 2}
        await ended(task)

    play(scene)


def test_nobody_is_followed_for_a_while() -> None:
    async def scene(world: Scene) -> None:
        node = Node(2)
        replica = Replica(
            store=node.store,
            settings=lambda: SETTINGS,
            clock=world.clock,
            follower=node.follower(),
            network=world.network,
        )
        task = asyncio.create_task(replica.run())
        await world.go_on(1)
        assert node.store.log.end == 0
        replica.follow(HERE)
        await world.go_on(1)
        assert same(world.node, node)
        replica.follow(None)
        await world.go_on(2)
        assert list(world.primary.links) == []
        await ended(task)

    play(scene)


def test_a_replica_that_reads_slowly_is_not_buffered_for() -> None:
    async def scene(world: Scene) -> None:
        node = Node(2)
        task = world.run(node)
        await world.go_on(1)
        [link] = world.primary.links
        link.pause_writing()
        for number in range(20):
            fill(world.node.store, 50, first=100 + number * 50)
            await world.clock.sleep(0.01)
        assert link.feed.position < world.node.store.log.end - 100_000
        link.resume_writing()
        await world.go_on(2)
        assert same(world.node, node)
        await ended(task)

    play(scene)
