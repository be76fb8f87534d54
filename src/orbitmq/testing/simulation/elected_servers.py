"""The servers of a run whose brokers elect their master: a nameserver and two or three brokers.

The consensus store is in memory. It can be away, a broker can be cut off from it, and a killed
process says nothing to it any more. A broker that can't go on ends its process, and is started
again, as whatever restarts processes does.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from msgspec.structs import replace

from orbitmq.broker.elected import ElectedBroker
from orbitmq.broker.server import Broker
from orbitmq.broker.settings import BrokerSettings
from orbitmq.errors import OrbitError
from orbitmq.failover.group import GroupKeys, GroupView
from orbitmq.failover.settings import FailoverSettings
from orbitmq.store.settings import FlushMode
from orbitmq.testing.clocks import VirtualClock
from orbitmq.testing.consensus import SimulatedConsensus
from orbitmq.testing.links import MemoryHost, MemoryNetwork
from orbitmq.testing.simulation.servers import (
    DIRECTORY,
    IN_TIME,
    MASTER,
    NAMESERVER,
    WITHOUT_END,
    Numbers,
    Server,
    SimulatedBroker,
    SimulatedNameserver,
)

__all__ = ["ElectedServers", "ElectingBroker"]

_APART: Final = 10  # ports, from one broker to the next
_FAILOVER: Final = FailoverSettings(
    enabled=True,
    etcd_endpoints="127.0.0.1:2379",  # replaced by the store in memory
    lease_ms=3_000,
    beat_ms=800,
)
_NOT_CAUGHT_UP_MS: Final = 5_000  # short, so that the in-sync set changes in a run
_TIMER_LOG_FILE_BYTES: Final = 64 * 1024  # each change of a role may make one anew
_TRIES: Final = 120


class ElectingBroker(SimulatedBroker):
    """A broker of a group that elects its master.

    Hold ``turn`` while it is ended or started: two may want to do so.
    """

    def __init__(
        self,
        host: MemoryHost,
        settings: BrokerSettings,
        numbers: Numbers,
        *,
        seed: int,
        consensus: SimulatedConsensus,
    ) -> None:
        super().__init__(host, settings, numbers, seed=seed)
        self.turn = asyncio.Lock()
        self._consensus = consensus
        self._client = consensus.client(host.name)
        self._is_cut_off = False
        self._last: Broker | None = None

    @property
    def elected(self) -> ElectedBroker | None:
        """What runs in its process, or ran last."""
        assert self._server is None or isinstance(self._server, ElectedBroker)
        return self._server

    @property
    def broker(self) -> Broker:
        """The inside of the broker, or the one before while the role changes."""
        if self.elected is not None and self.elected.has_role:
            self._last = self.elected.broker
        assert self._last is not None, "start the broker first"
        return self._last

    @property
    def broker_id(self) -> int:
        """Its id in the group; 0 before it has one."""
        return 0 if self.elected is None else self.elected.member.broker_id

    @property
    def has_ended(self) -> bool:
        """Whether it can't go on, so that its process ends."""
        return self._is_running and self.elected is not None and self.elected.has_ended

    @property
    def has_role(self) -> bool:
        """Whether it runs, and its role is not being changed."""
        return self._is_running and self.elected is not None and self.elected.has_role

    @property
    def epoch(self) -> int:
        """The epoch in which it accepts messages now; 0 if it doesn't."""
        leadership = self.broker.state.leadership if self.has_role else None
        return leadership.state.epoch if leadership is not None and leadership.holds() else 0

    def cut_off(self, is_cut_off: bool) -> None:
        """Cut it off from the consensus store, or end that."""
        self._is_cut_off = self._client.is_cut = is_cut_off

    def lose_answers(self, is_lost: bool) -> None:
        """Let the consensus store make its changes and not answer, or end that."""
        self._client.loses_answers = is_lost

    def pause(self) -> None:
        """Stop its process, as SIGSTOP does."""
        self._processes[-1].pause()

    def resume(self) -> None:
        """Let its process go on."""
        self._processes[-1].resume()

    def end(self, *, power: bool) -> None:
        """Kill the broker; without ``power`` everything that was not synced may be lost."""
        super().end(power=power)
        self._client.is_dead = True

    async def begins(self, *, calls: int) -> bool:
        """Start the broker; return whether it runs, as `start` does; if not, end it."""
        try:
            return await self.start(calls=calls)
        except OrbitError:
            return False  # such as a broker without an id, while the consensus store is away

    async def run_again(self) -> bool:
        """Start the ended broker, as often as it takes; return whether it runs."""
        for _ in range(_TRIES):
            if await self.begins(calls=WITHOUT_END):
                return True
            self.end(power=True)
            await asyncio.sleep(1)
        return False

    async def _started(self) -> Server:
        self._client = self._consensus.client(self.host.name)
        self._client.is_cut = self._is_cut_off
        elected = ElectedBroker(self.live_settings(), self.machine(), consensus=self._client)
        await elected.start()
        return elected


class ElectedServers:
    """A nameserver and ``count`` brokers of one name that elect their master.

    The arguments are those of `SimulatedServers`. With fewer than ``min_in_sync`` brokers in sync a
    master refuses messages.
    """

    def __init__(
        self,
        network: MemoryNetwork,
        clock: VirtualClock,
        *,
        count: int,
        min_in_sync: int,
        flush_mode: FlushMode,
        sync_s: Callable[[], float],
        seed: int,
        broker_settings: Mapping[str, Any],
    ) -> None:
        self.nameserver = SimulatedNameserver(network, clock)
        self.consensus = SimulatedConsensus(clock)
        numbers = Numbers(
            flush_mode=flush_mode,
            sync_s=sync_s,
            replication=replace(
                IN_TIME,
                not_caught_up_ms_max=_NOT_CAUGHT_UP_MS,
                min_in_sync_replicas=min_in_sync,
            ),
            failover=_FAILOVER,
            timer_log_file_bytes=_TIMER_LOG_FILE_BYTES,
        )
        settings = BrokerSettings(
            namesrv_addr=str(NAMESERVER),
            store_path_root_dir=DIRECTORY,
            slave_read_enable=True,
            **broker_settings,
        )
        self._keys = GroupKeys.of(
            _FAILOVER.etcd_key_prefix, settings.broker_cluster_name, settings.broker_name
        )
        self.all = tuple(
            ElectingBroker(
                network.host(f"broker-{number}"),
                replace(settings, listen_port=MASTER.port + _APART * number),
                numbers,
                seed=seed + 300_000 * number,
                consensus=self.consensus,
            )
            for number in range(count)
        )

    def __repr__(self) -> str:
        return f"<ElectedServers {', '.join(map(repr, self.all))}>"

    @property
    def brokers(self) -> Iterator[SimulatedBroker]:
        """All brokers, the master first, if there is one."""
        yield from sorted(self.all, key=lambda one: not one.epoch)

    @property
    def leading(self) -> ElectingBroker | None:
        """The broker that accepts messages as the master."""
        return max((one for one in self.all if one.epoch), key=lambda one: one.epoch, default=None)

    def masters(self) -> Iterator[tuple[int, str]]:
        """Yield the epoch and the name of each broker that accepts messages as the master."""
        for broker in self.all:
            if epoch := broker.epoch:
                yield epoch, broker.host.name

    def view(self) -> GroupView:
        """Return what the group has agreed on."""
        return GroupView.of(self._keys, self.consensus.read(self._keys.base))

    def others_in_sync(self, broker: ElectingBroker) -> list[ElectingBroker]:
        """Return the other brokers that run and have all that is acknowledged."""
        state = self.view().state
        in_sync = () if state is None else state.in_sync
        others = [one for one in self.all if one is not broker and one.is_running]
        return [one for one in others if one.broker_id in in_sync]

    def differ(self) -> str:
        """Return why not all brokers are in sync, with the same log; empty if they are."""
        leading, state = self.leading, self.view().state
        if leading is None or state is None:
            return "no master is there"
        if absent := [one.host.name for one in self.all if not one.is_running]:
            return f"{absent} do not run"
        if state.in_sync != tuple(sorted(one.broker_id for one in self.all)):
            return f"in sync are only {state.in_sync}"
        end = leading.broker.state.store.confirmed
        if any(one.log_end != end for one in self.all):
            return f"the logs end at {[one.log_end for one in self.all]}, confirmed is {end}"
        return ""

    def discard(self) -> None:
        """Let go of killed processes, at the end of a run."""
        for broker in self.all:
            broker.discard()

    async def restart_ended(self) -> None:
        """Start each broker that has ended because it can't go on, until cancelled."""
        while True:
            for broker in self.all:
                async with broker.turn:
                    if broker.has_ended:
                        broker.end(power=True)
                        await broker.run_again()
            await asyncio.sleep(1)
