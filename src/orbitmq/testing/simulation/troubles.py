"""What happens to a simulated cluster: to its servers, and at the same time to its network.

======================= ============================================================= ==============
what                    how                                                           when allowed
======================= ============================================================= ==============
stop, kill              of either broker, also in the middle of its work, and of the
                        start that follows; of the nameserver
power loss              unsynced pages are lost                                       of a master:
                                                                                      SYNC_FLUSH
loss of a disk          the slave's; the master's, then the slave is promoted         the other has
                                                                                      everything
failing, full, slow     a sync or a write fails, space runs out, tasks take longer
disk
clock                   is set forward, and back
network                 cut connections, partitions of hosts and of pairs, in one
                        direction or both, slow links
======================= ============================================================= ==============
"""

import errno
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Final, TypeAlias

from orbitmq.randomness import Randomness
from orbitmq.store.settings import FlushMode
from orbitmq.testing.clocks import VirtualClock
from orbitmq.testing.links import MemoryHost, MemoryNetwork
from orbitmq.testing.simulation.histories import History
from orbitmq.testing.simulation.plan import Plan, Replication
from orbitmq.testing.simulation.servers import Servers, SimulatedBroker, SimulatedServers
from orbitmq.wire.epoch_stream import LinkState

__all__ = ["CALLS_MAX", "MIDWAY_S", "CommonTroubles", "Trouble", "Troubles"]

Trouble: TypeAlias = Callable[[], Awaitable[None]]

_LONG_AGO_MS: Final = 1_000_000
CALLS_MAX: Final = 60
"""How many calls of its disk a broker makes at most before it is killed midway."""
MIDWAY_S: Final = 5.0
"""How long that is awaited."""
_CATCH_UP_S: Final = 20


class CommonTroubles(ABC):
    """Makes the troubles that all runs have.

    ``hosts`` returns those of all clients that live now.
    """

    def __init__(
        self,
        plan: Plan,
        servers: Servers,
        network: MemoryNetwork,
        clock: VirtualClock,
        history: History,
        *,
        chances: tuple[Randomness, Randomness],
        hosts: Callable[[], list[MemoryHost]],
    ) -> None:
        self._plan = plan
        self._all = servers
        self._network = network
        self._clock = clock
        self._history = history
        self._server_chance, self._network_chance = chances
        self._hosts = hosts
        self._active = 0
        self.may_diverge = False
        """Whether a slave may have what its master has lost."""
        self.age = 0
        """Grows whenever the master may have lost the latest offsets of groups."""
        self.master_again_ms = -_LONG_AGO_MS
        """When the master began to run again."""

    def __repr__(self) -> str:
        return f"<Troubles {len(self._history.troubles)}, {self._active} now>"

    def lost(self) -> int:
        """Return a number that grows whenever something may have been lost or late."""
        now_ms = self._clock.monotonic_ms() if self._active else 0
        return self._network.lost + len(self._history.troubles) + now_ms

    async def befall_servers(self) -> None:
        """Make one trouble after another."""
        chance = self._server_chance
        kinds = [
            kind
            for kind in self.server_kinds()
            if not self._plan.kinds or _name(kind) in self._plan.kinds
        ]
        for _ in range(self._plan.troubles):
            await self._clock.sleep(chance.uniform(0, 8))
            await self._make(chance.choice(kinds))

    async def befall_network(self) -> None:
        """Make one trouble after another."""
        chance = self._network_chance
        kinds = self.network_kinds()
        for _ in range(self._plan.troubles):
            await self._clock.sleep(chance.uniform(0, 8))
            await self._make(chance.choice(kinds))

    @abstractmethod
    def server_kinds(self) -> Iterator[Trouble]:
        """Yield what may happen to the servers of this run."""

    def network_kinds(self) -> Sequence[Trouble]:
        """Return what may happen to the network of this run."""
        return self._cut, self._part_host, self._part_pair, self._slow_pair, self._cut_pair

    @abstractmethod
    async def operate(self) -> None:
        """Do what an operator does, until cancelled."""

    @abstractmethod
    async def settled(self) -> None:
        """Wait until the servers have got over their troubles."""

    @abstractmethod
    async def begin_again(self) -> None:
        """Start what is read from at the end, after all brokers were stopped."""

    def ages(self) -> Iterator[tuple[SimulatedBroker, int]]:
        """Yield each broker whose offsets of groups are noted, and the age of these."""
        if (master := self._all.leading) is not None:
            yield master, self.age

    def heal(self) -> None:
        """End what disks and clocks suffer from."""
        for broker in self._all.brokers:
            broker.disk.heal()
            broker.slow_s = 0.0

    async def _make(self, trouble: Trouble) -> None:
        self._history.troubles.append(_name(trouble))
        self._active += 1
        await trouble()
        self._active -= 1
        self._history.troubles.append("over")

    async def _pause(self, chance: Randomness | None = None) -> None:
        await self._clock.sleep((chance or self._server_chance).choice((0.01, 0.5, 4.0)))

    # The network

    async def _cut(self) -> None:
        self._network.cut()

    async def _part_host(self) -> None:
        hosts = self._all_hosts()
        alone = self._network_chance.choice(hosts)
        others = [host for host in hosts if host is not alone]
        for host in others:
            self._network.part(alone, host)
        await self._pause(self._network_chance)
        for host in others:
            self._network.join(alone, host)

    async def _part_pair(self) -> None:
        one, other = self._pair()
        self._network.part(one, other, one_way=self._network_chance.below(3) == 0)
        await self._network_pause(one, other)

    async def _slow_pair(self) -> None:
        one, other = self._pair()
        self._network.slow_down(one, other, self._network_chance.uniform(0.05, 0.8))
        await self._network_pause(one, other)

    async def _cut_pair(self) -> None:
        self._network.cut(*self._pair())

    async def _network_pause(self, one: MemoryHost, other: MemoryHost) -> None:
        await self._clock.sleep(self._network_chance.choice((0.5, 4.0, 12.0)))
        self._network.join(one, other)

    def _all_hosts(self) -> list[MemoryHost]:
        servers = [broker.host for broker in self._all.brokers]
        return [self._all.nameserver.host, *servers, *self._hosts()]

    @abstractmethod
    def _pair(self) -> tuple[MemoryHost, MemoryHost]:
        """Return two hosts that talk to each other; often master and slave."""

    # Servers

    async def _restart_nameserver(self) -> None:
        self._all.nameserver.kill()
        await self._pause()
        await self._all.nameserver.start()

    # Disks and clocks

    async def _slow_disk(self) -> None:
        broker = self._any_broker()
        broker.slow_s = self._server_chance.uniform(0.1, 1.5)
        await self._pause()
        broker.slow_s = 0.0

    async def _full_disk(self) -> None:
        disk = self._any_broker().disk
        for operation in ("write", "allocate", "extend"):
            disk.fail(operation, "", errno.ENOSPC, times=None)
        await self._pause()
        disk.heal()

    async def _fail_write(self) -> None:
        disk = self._any_broker().disk
        disk.fail("write", "commitlog", errno.EIO, after=self._server_chance.below(10))
        await self._pause()
        disk.heal()

    def _fail_a_sync(self, broker: SimulatedBroker) -> None:
        broker.disk.fail("sync", "commitlog", errno.EIO, after=self._server_chance.below(10))

    async def _set_clock(self) -> None:
        """Set a clock forward, later back: it is never behind that of clients."""
        clock, by_ms = self._any_broker().clock, 1 + self._server_chance.below(8_000)
        clock.jump(by_ms)
        await self._pause()
        clock.jump(-by_ms)

    def _any_broker(self) -> SimulatedBroker:
        return self._server_chance.choice(list(self._all.brokers))


class Troubles(CommonTroubles):
    """Makes the troubles of a run with a master, and a slave if there is one.

    ``sample`` notes the progress of groups; it is called after each start of the master.
    """

    def __init__(
        self,
        plan: Plan,
        servers: SimulatedServers,
        network: MemoryNetwork,
        clock: VirtualClock,
        history: History,
        *,
        chances: tuple[Randomness, Randomness],
        hosts: Callable[[], list[MemoryHost]],
        sample: Callable[[], None],
    ) -> None:
        super().__init__(plan, servers, network, clock, history, chances=chances, hosts=hosts)
        self._servers = servers
        self._sample = sample

    def server_kinds(self) -> Iterator[Trouble]:
        """Yield what may happen to the servers of this run."""
        yield from (self._restart_nameserver, self._restart_master, self._kill_master)
        yield from (self._kill_master_midway, self._slow_disk, self._full_disk, self._fail_write)
        yield from (self._set_clock, self._fail_sync)
        if self._plan.flush_mode is FlushMode.SYNC:  # else acknowledged sends may be lost
            yield from (self._lose_power, self._lose_power_midway)
        if self._plan.replication.has_slave:
            yield from (self._restart_slave, self._kill_slave, self._kill_slave_midway)
            yield from (self._lose_power_of_slave, self._lose_disk_of_slave)
        if self._plan.replication is Replication.SYNC:
            yield from (self._lose_disk_of_master,) * 2

    async def operate(self) -> None:
        """Replace a slave whenever it can't follow, until cancelled."""
        while True:
            await self.replace_diverged()
            await self._clock.sleep(2)

    async def begin_again(self) -> None:
        """Start the master, which all queues are read from."""
        await self.start_master()

    async def settled(self) -> None:
        """Return at once: who is the master is no question."""

    async def replace_diverged(self) -> None:
        """Empty a slave that can't follow, as an operator does after a look at both logs."""
        slave = self._servers.slave
        if slave is None or not slave.is_running:
            return
        if slave.broker.replicas.replica.follower.state is not LinkState.SUSPEND:
            return
        slave.end(power=True)
        self._servers.empty_slave()
        self.may_diverge = False
        await slave.start()

    def _pair(self) -> tuple[MemoryHost, MemoryHost]:
        """Return two hosts that talk to each other; often master and slave."""
        chance, servers = self._network_chance, self._servers
        if servers.slave is not None and chance.below(2):
            return servers.master.host, servers.slave.host
        hosts = self._all_hosts()
        clients = [host for host in hosts if host is not servers.master.host]
        return servers.master.host, chance.choice(clients)

    # Servers

    async def _restart_master(self) -> None:
        await self._servers.master.stop()
        await self._pause()
        await self.start_master()

    async def _kill_master(self) -> None:
        await self._end_master(power=True)

    async def _kill_master_midway(self) -> None:
        await self._end_master(power=True, midway=True)

    async def _lose_power(self) -> None:
        await self._end_master(power=False)

    async def _lose_power_midway(self) -> None:
        await self._end_master(power=False, midway=True)

    async def _restart_slave(self) -> None:
        slave = self._slave()
        await slave.stop()
        await self._pause()
        await self._start_slave()

    async def _kill_slave(self) -> None:
        await self._end_slave(power=True)

    async def _kill_slave_midway(self) -> None:
        await self._end_slave(power=True, midway=True)

    async def _lose_power_of_slave(self) -> None:
        await self._end_slave(power=False, midway=bool(self._server_chance.below(2)))

    async def _lose_disk_of_slave(self) -> None:
        self._slave().end(power=False)
        self._servers.empty_slave()
        await self._pause()
        await self._start_slave()

    async def _lose_disk_of_master(self) -> None:
        """Lose the master with its disk; the slave is promoted, if it ever had everything.

        For a while before, the slave gets nothing more: nothing more may be acknowledged.
        """
        servers = self._servers
        for _ in range(_CATCH_UP_S):
            await self.replace_diverged()
            if servers.follows():
                break
            await self._clock.sleep(1)
        else:
            return
        slave = self._slave()
        self._network.part(servers.master.host, slave.host)
        await self._pause()
        self._network.join(servers.master.host, slave.host)
        self._note_reused(seen_at=servers.master, lost_by=slave)
        servers.master.end(power=False)
        await slave.stop()
        servers.promote()
        self.age += 1
        self._history.promotions += 1
        await self._pause()
        await self.start_master()
        await self._start_slave()

    async def _fail_sync(self) -> None:
        """Fail a sync, after which nothing is written any more; then start again."""
        broker = self._any_broker()
        self._fail_a_sync(broker)
        await self._pause()
        broker.disk.heal()
        if broker is self._servers.master:
            await self._end_master(power=True)
        else:
            await self._end_slave(power=True)

    # Starts and ends

    def _slave(self) -> SimulatedBroker:
        slave = self._servers.slave
        assert slave is not None
        return slave

    async def _end_master(self, *, power: bool, midway: bool = False) -> None:
        master = self._servers.master
        if midway:
            await master.exhaust(calls=self._server_chance.below(CALLS_MAX), most_s=MIDWAY_S)
        master.end(power=power)
        self.age += 1
        self.may_diverge = self.may_diverge or not power
        await self._pause()
        await self.start_master(again=midway)

    async def start_master(self, *, again: bool = False) -> None:
        """Start the master; with ``again`` a first start may be killed too."""
        chance, master = self._server_chance, self._servers.master
        if again and chance.below(2):
            power = bool(chance.below(2)) or self._plan.flush_mode is FlushMode.ASYNC
            if await master.start(calls=chance.below(CALLS_MAX)):
                self._note_again()
                return
            master.end(power=power)
            self.may_diverge = self.may_diverge or not power
        assert await master.start()
        self._note_again()

    def _note_again(self) -> None:
        """Note that the master runs again, and what it has."""
        self.master_again_ms = self._clock.monotonic_ms()
        slave = self._servers.slave
        if self.may_diverge and slave is not None and slave.is_running:
            self._note_reused(seen_at=slave, lost_by=self._servers.master)
        self._sample()

    def _note_reused(self, *, seen_at: SimulatedBroker, lost_by: SimulatedBroker) -> None:
        """Note the queues in which consumers may have read at one what the other hasn't."""
        seen, kept = (
            one.broker.state.store.queues.ends().get("orders", {}) for one in (seen_at, lost_by)
        )
        self._history.reused |= {
            queue_id for queue_id, end in seen.items() if kept.get(queue_id, 0) < end
        }

    async def _end_slave(self, *, power: bool, midway: bool = False) -> None:
        slave = self._slave()
        if midway:
            await slave.exhaust(calls=self._server_chance.below(CALLS_MAX), most_s=MIDWAY_S)
        if not power:  # it may have less now than it has said
            slave.promised = max(slave.promised, slave.log_end)
        slave.end(power=power)
        await self._pause()
        await self._start_slave()

    async def _start_slave(self) -> None:
        assert await self._slave().start()


def _name(trouble: Trouble) -> str:
    return trouble.__name__.strip("_").replace("_", " ")
