"""What happens to simulated brokers that elect their master, beside what happens to all servers.

===================== ============================================================== ==============
what                  how                                                            when allowed
===================== ============================================================== ==============
stop                  of the master by SIGTERM: it hands over
kill                  of the master or a follower, also in the middle of its work and
                      of the start that follows; of all at once
power loss            of the master, of a follower, of all                           SYNC_FLUSH
pause                 of the master or a follower, for less or more than a lease
loss of a disk        of any broker, which comes back with a new identity            another runs
                                                                                     in sync
consensus store       away; away from the master or another broker; makes changes and
                      does not answer
partition             of the master from all followers, which clients reach
===================== ============================================================== ==============

A partition, and what happens to the consensus store, come at the same time as what happens to
brokers.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack
from typing import Final

from orbitmq.broker.server import Broker
from orbitmq.randomness import Randomness
from orbitmq.store.settings import FlushMode
from orbitmq.testing.clocks import VirtualClock
from orbitmq.testing.links import MemoryHost, MemoryNetwork
from orbitmq.testing.simulation.elected_servers import ElectedServers, ElectingBroker
from orbitmq.testing.simulation.histories import History
from orbitmq.testing.simulation.plan import Plan
from orbitmq.testing.simulation.servers import SimulatedBroker
from orbitmq.testing.simulation.troubles import CALLS_MAX, MIDWAY_S, CommonTroubles, Trouble

__all__ = ["ElectedTroubles"]

_DOWN_S: Final = (0.01, 0.5, 4.0, 9.0)  # less and more than a lease, and an election
_APART_S: Final = (0.5, 4.0, 12.0)
_PAUSE_S: Final = (1.0, 4.0, 10.0)
_AWAITED_S: Final = 15
_SETTLE_S: Final = 120


class ElectedTroubles(CommonTroubles):
    """Makes the troubles of a run whose brokers elect their master."""

    def __init__(
        self,
        plan: Plan,
        servers: ElectedServers,
        network: MemoryNetwork,
        clock: VirtualClock,
        history: History,
        *,
        chances: tuple[Randomness, Randomness],
        hosts: Callable[[], list[MemoryHost]],
    ) -> None:
        super().__init__(plan, servers, network, clock, history, chances=chances, hosts=hosts)
        self._servers = servers
        self._seen: Broker | None = None
        self._ages: dict[ElectingBroker, tuple[int, int]] = {}  # the start that it is of, age
        self._operator: asyncio.Task[None] | None = None

    def server_kinds(self) -> Iterator[Trouble]:
        """Yield what may happen to the servers of this run."""
        yield from (self._restart_nameserver, self._stop_leader, self._kill_all)
        yield from (self._kill_leader, self._kill_leader_midway, self._pause_leader) * 2
        yield from (self._kill_follower, self._kill_follower_midway, self._pause_follower)
        yield from (self._slow_disk, self._full_disk, self._fail_write, self._fail_sync)
        yield from (self._set_clock, self._lose_disk, self._lose_disk_of_leader)
        if self._plan.flush_mode is FlushMode.SYNC:  # else acknowledged sends may be lost
            yield from (self._lose_power_of_leader, self._lose_power_of_follower)
            yield self._lose_power_of_all

    def network_kinds(self) -> Sequence[Trouble]:
        """Return what may happen to the network of this run, and to the consensus store."""
        return (
            *super().network_kinds(),
            self._part_leader,
            self._part_leader_from_consensus,
            self._part_broker_from_consensus,
            self._lose_consensus,
            self._lose_answers_of_consensus,
        )

    async def befall_servers(self) -> None:
        """Make one trouble after another; brokers that can't go on are started again."""
        self._operator = asyncio.create_task(self._servers.restart_ended())
        await super().befall_servers()

    async def operate(self) -> None:
        """Start brokers that ended because they can't go on, until cancelled."""
        assert self._operator is not None
        await self._operator

    async def settled(self) -> None:
        """Wait until there is a master, and all brokers are in sync."""
        for _ in range(_SETTLE_S):
            if not self._servers.differ():
                return
            await self._clock.sleep(1)
        self._history.faults.append(f"stuck: {self._servers.differ()} after {_SETTLE_S} s of calm")

    async def begin_again(self) -> None:
        """Start all brokers, and wait until they are in sync."""
        for broker in self._servers.all:
            await self._begin(broker)
        await self.settled()

    def ages(self) -> Iterator[tuple[SimulatedBroker, int]]:
        """Yield each broker that runs, and the age of its offsets of groups.

        A process that begins has what was saved, and a follower takes over what a new master has:
        both may be older. A master goes on from what it had last, as a follower or as a master.
        """
        leading = self._servers.leading
        if leading is not None and leading.broker is not self._seen:
            self._seen, self.master_again_ms = leading.broker, self._clock.monotonic_ms()
        for broker in self._servers.all:
            if not broker.has_role:
                continue
            starts, age = self._ages.get(broker, (0, 0))
            if starts != broker.starts or broker.broker.state.leadership is None:
                age += 1
            self._ages[broker] = broker.starts, age
            yield broker, age

    # Of the network

    def _pair(self) -> tuple[MemoryHost, MemoryHost]:
        """Return two hosts that talk to each other; often the master and a follower."""
        chance, leader = self._network_chance, self._leader_now(self._network_chance)
        if chance.below(2):
            return leader.host, self._other(leader, chance).host
        clients = [host for host in self._all_hosts() if host is not leader.host]
        return leader.host, chance.choice(clients)

    async def _part_leader(self) -> None:
        leader = self._leader_now(self._network_chance)
        others = [one.host for one in self._servers.all if one is not leader]
        for host in others:
            self._network.part(leader.host, host)
        await self._clock.sleep(self._network_chance.choice(_APART_S))
        for host in others:
            self._network.join(leader.host, host)

    async def _part_leader_from_consensus(self) -> None:
        await self._part_from_consensus(self._leader_now(self._network_chance))

    async def _part_broker_from_consensus(self) -> None:
        await self._part_from_consensus(self._network_chance.choice(self._servers.all))

    async def _part_from_consensus(self, broker: ElectingBroker) -> None:
        broker.cut_off(True)
        await self._clock.sleep(self._network_chance.choice(_APART_S))
        broker.cut_off(False)

    async def _lose_consensus(self) -> None:
        self._servers.consensus.is_away = True
        await self._clock.sleep(self._network_chance.choice(_APART_S))
        self._servers.consensus.is_away = False

    async def _lose_answers_of_consensus(self) -> None:
        broker = self._network_chance.choice(self._servers.all)
        broker.lose_answers(True)
        await self._clock.sleep(self._network_chance.choice(_APART_S))
        broker.lose_answers(False)

    # Of brokers

    async def _stop_leader(self) -> None:
        leader = await self._leader()
        async with leader.turn:
            if leader.is_running:
                await leader.stop()
            await self._stay_down()
            await self._begin(leader)

    async def _kill_leader(self) -> None:
        await self._end(await self._leader(), power=True)

    async def _kill_leader_midway(self) -> None:
        await self._end(await self._leader(), power=True, midway=True)

    async def _lose_power_of_leader(self) -> None:
        midway = bool(self._server_chance.below(2))
        await self._end(await self._leader(), power=False, midway=midway)

    async def _kill_follower(self) -> None:
        await self._end(await self._follower(), power=True)

    async def _kill_follower_midway(self) -> None:
        await self._end(await self._follower(), power=True, midway=True)

    async def _lose_power_of_follower(self) -> None:
        midway = bool(self._server_chance.below(2))
        await self._end(await self._follower(), power=False, midway=midway)

    async def _kill_all(self) -> None:
        await self._end_all(power=True)

    async def _lose_power_of_all(self) -> None:
        await self._end_all(power=False)

    async def _pause_leader(self) -> None:
        await self._stop_for_a_while(await self._leader())

    async def _pause_follower(self) -> None:
        await self._stop_for_a_while(await self._follower())

    async def _stop_for_a_while(self, broker: ElectingBroker) -> None:
        async with broker.turn:
            broker.pause()
            await self._clock.sleep(self._server_chance.choice(_PAUSE_S))
            broker.resume()

    async def _lose_disk(self) -> None:
        await self._replace_disk(self._server_chance.choice(self._servers.all))

    async def _lose_disk_of_leader(self) -> None:
        await self._replace_disk(await self._leader())

    async def _replace_disk(self, broker: ElectingBroker) -> None:
        """Lose a broker with its disk, if another has all that is acknowledged."""
        async with broker.turn:
            for _ in range(_AWAITED_S):
                if self._servers.others_in_sync(broker):
                    break
                await self._clock.sleep(1)
            else:
                return
            broker.end(power=False)
            broker.replace_disk()
            await self._stay_down()
            await self._begin(broker)

    async def _fail_sync(self) -> None:
        """Fail a sync, after which nothing is written any more; then start again."""
        broker = self._server_chance.choice(self._servers.all)
        self._fail_a_sync(broker)
        await self._pause()
        broker.disk.heal()
        await self._end(broker, power=True)

    # Starts and ends

    async def _leader(self) -> ElectingBroker:
        """Return the master, when there is one; if it takes long, any broker."""
        for _ in range(_AWAITED_S):
            if (leader := self._servers.leading) is not None:
                return leader
            await self._clock.sleep(1)
        return self._server_chance.choice(self._servers.all)

    async def _follower(self) -> ElectingBroker:
        return self._other(await self._leader(), self._server_chance)

    def _leader_now(self, chance: Randomness) -> ElectingBroker:
        return self._servers.leading or chance.choice(self._servers.all)

    def _other(self, broker: ElectingBroker, chance: Randomness) -> ElectingBroker:
        return chance.choice([one for one in self._servers.all if one is not broker])

    async def _stay_down(self) -> None:
        await self._clock.sleep(self._server_chance.choice(_DOWN_S))

    async def _end(self, broker: ElectingBroker, *, power: bool, midway: bool = False) -> None:
        async with broker.turn:
            if midway:
                await broker.exhaust(calls=self._server_chance.below(CALLS_MAX), most_s=MIDWAY_S)
            broker.end(power=power)
            await self._stay_down()
            await self._begin(broker, again=midway)

    async def _end_all(self, *, power: bool) -> None:
        async with AsyncExitStack() as turns:
            brokers = list(self._servers.all)
            for broker in brokers:
                await turns.enter_async_context(broker.turn)
            for broker in brokers:
                broker.end(power=power)
            while brokers:
                await self._stay_down()
                await self._begin(brokers.pop(self._server_chance.below(len(brokers))))

    async def _begin(self, broker: ElectingBroker, *, again: bool = False) -> None:
        """Start a broker; with ``again`` a first start may be killed too."""
        chance = self._server_chance
        if again and chance.below(2):
            power = bool(chance.below(2)) or self._plan.flush_mode is FlushMode.ASYNC
            if await broker.begins(calls=chance.below(CALLS_MAX)):
                return
            broker.end(power=power)
        if not await broker.run_again():
            self._history.faults.append(f"stuck: {broker.host.name} can't be started")
