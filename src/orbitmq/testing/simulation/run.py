"""One run: everything that a seed decides, from the first start to the last read.

>>> history = simulate(7)
>>> len(history.attempts) > 10
True
"""

import asyncio
import hashlib
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

from orbitmq.message.names import retry_topic
from orbitmq.net.address import Address
from orbitmq.randomness import SeededRandomness
from orbitmq.store.message_store import MessageStore
from orbitmq.store.queues.consume_queue import ConsumeQueue
from orbitmq.store.reader.reader import StoreReader
from orbitmq.store.reader.verify import verify
from orbitmq.testing.clocks import VirtualClock, run_virtual
from orbitmq.testing.disks import PowerLost
from orbitmq.testing.links import MemoryHost, MemoryNetwork
from orbitmq.testing.simulation.calls import DISK_TROUBLES, Caller
from orbitmq.testing.simulation.elected_servers import ElectedServers
from orbitmq.testing.simulation.elected_troubles import ElectedTroubles
from orbitmq.testing.simulation.histories import History, Progress, Reader, Reign
from orbitmq.testing.simulation.members import Group
from orbitmq.testing.simulation.plan import Plan, Replication
from orbitmq.testing.simulation.routes import ByRoute, Fixed, Master
from orbitmq.testing.simulation.senders import TAGS, Puller, Sender
from orbitmq.testing.simulation.servers import (
    DIRECTORY,
    MASTER,
    NAMESERVER,
    Servers,
    SimulatedBroker,
    SimulatedServers,
)
from orbitmq.testing.simulation.troubles import CommonTroubles, Troubles

__all__ = ["simulate", "simulate_plan"]

TOPIC: Final = "orders"

_RUN_S: Final = 3_600  # a run that takes longer in virtual time hangs
_CALM_S: Final = (
    20  # longer than delays and checks of half messages take, so that all are delivered
)
_SETTLE_S: Final = 300
_QUIET_S: Final = 6  # longer than a failed message waits for its next delivery
_SAMPLE_S: Final = 0.5
_SPLIT_MS: Final = 90_000  # how long members may see their group differently after a loss
_REJOIN_MS: Final = 15_000  # how long, after a start of the master: a heartbeat and a rebalance
_GIVES_UP_S: Final = 10.0
_DIVERGED: Final = "find out which"  # in what both ends of a stream say of other logs
_PIECE: Final = 1 << 20
_SHORT_TIMES: Final = {
    "transaction_time_out": 2_000,
    "transaction_check_interval": 3_000,
    "channel_expired_timeout": 15_000,
    "register_name_server_period": 10_000,
}


def simulate(seed: int) -> History:
    """Run the simulation of a seed and return its history."""
    return simulate_plan(Plan.from_seed(seed))


def simulate_plan(plan: Plan) -> History:
    """Run the simulation of a plan and return its history."""

    async def main(clock: VirtualClock) -> History:
        async with asyncio.timeout(_RUN_S):
            return await _Simulation(plan, clock).run()

    return run_virtual(main)


class _Simulation:
    """Servers, disks, network, clients and failures."""

    def __init__(self, plan: Plan, clock: VirtualClock) -> None:
        self.plan = plan
        self.clock = clock
        self.history = History(groups=plan.groups, elects=plan.replication is Replication.ELECTED)
        # Each part has its own randomness, so that draws of one don't change the others.
        self._chance = SeededRandomness(plan.seed + 1)
        self._network = MemoryNetwork(
            delay_s=plan.delay_s,
            jitter_s=plan.delay_s,
            loss=plan.loss,
            gives_up_s=_GIVES_UP_S,
            chance=SeededRandomness(plan.seed + 2),
        )
        self._digest = hashlib.blake2b(digest_size=16)
        self._network.watch = self._watch
        sync_chance = SeededRandomness(plan.seed + 3)
        self._servers, self._troubles = self._world(lambda: sync_chance.uniform(0, plan.sync_s))
        self._groups = [
            Group(group, self._network, clock, self.history, seed=plan.seed + 20_000 * number)
            for number, group in enumerate(plan.groups, start=1)
        ]
        self._callers: list[MemoryHost] = []
        self._sampled: dict[str, dict[tuple[str, str, int], Progress]] = {}  # by broker
        self._lost_before = (0, 0)
        self._goals: dict[int, int] = {}

    def _world(self, sync_s: Callable[[], float]) -> tuple[Servers, CommonTroubles]:
        plan, network, clock = self.plan, self._network, self.clock
        seed, chances = plan.seed + 10_000, (plan.seed + 4, plan.seed + 5)
        server_chance, network_chance = map(SeededRandomness, chances)
        if plan.replication is Replication.ELECTED:
            group = ElectedServers(
                network,
                clock,
                count=plan.brokers,
                min_in_sync=plan.min_in_sync,
                flush_mode=plan.flush_mode,
                sync_s=sync_s,
                seed=seed,
                broker_settings=_SHORT_TIMES,
            )
            return group, ElectedTroubles(
                plan,
                group,
                network,
                clock,
                self.history,
                chances=(server_chance, network_chance),
                hosts=self._client_hosts,
            )
        servers = SimulatedServers(
            network,
            clock,
            flush_mode=plan.flush_mode,
            sync_s=sync_s,
            seed=seed,
            replication=plan.replication,
            broker_settings=_SHORT_TIMES,
        )
        return servers, Troubles(
            plan,
            servers,
            network,
            clock,
            self.history,
            chances=(server_chance, network_chance),
            hosts=self._client_hosts,
            sample=self._sample,
        )

    # The whole

    async def run(self) -> History:
        """Run the simulation and return its history."""
        watcher = _ErrorWatcher(self.history, self._troubles)
        logging.getLogger("orbitmq").addHandler(watcher)
        asyncio.get_running_loop().set_exception_handler(self._unhandled)
        try:
            await self._servers.nameserver.start()
            for broker in self._servers.brokers:
                await broker.start()
            with self._sampling():
                await self._live()
                await self._stop()
                await self._troubles.begin_again()
                await self._read_all()
            for broker in reversed(list(self._servers.brokers)):
                if broker.is_running:
                    await broker.stop()
        finally:
            logging.getLogger("orbitmq").removeHandler(watcher)
        self.history.starts = sum(broker.starts for broker in self._servers.brokers)
        for broker in self._servers.brokers:
            for call in broker.disk.log:
                self._digest.update(repr(call).encode())
        self.history.digest = self._digest.hexdigest()
        logging.disable()  # what was killed may say that it can't clean up
        self._servers.discard()
        logging.disable(logging.NOTSET)
        return self.history

    async def _live(self) -> None:
        """Send and consume through all failures, until everything was sent, read and copied."""
        callers = [self._caller(f"client-{number}") for number in range(self.plan.senders)]
        pulling = self._begin_pulling()
        async with asyncio.TaskGroup() as work:
            for number, caller in enumerate(callers):
                chance = SeededRandomness(self.plan.seed + 100 + number)
                sender = Sender(f"s{number}", caller, chance, NAMESERVER, TOPIC)
                work.create_task(
                    sender.run(
                        self.plan.messages, queues=self.plan.queues, pause_s=self.plan.pause_s
                    )
                )
            living = [work.create_task(group.live()) for group in self._groups]
            work.create_task(self._troubles.befall_network())
            await self._troubles.befall_servers()
            self._troubles.heal()
            operator = asyncio.create_task(self._troubles.operate())
            await asyncio.gather(*living)
        self._network.loss = 0
        await self._troubles.settled()
        await self.clock.sleep(_CALM_S)
        self._set_goals()
        for puller, task in pulling.items():
            self.history.read[puller.reader] = await task
        await self._settle()
        operator.cancel()
        for group in self._groups:
            await group.close()
        for caller in callers:
            await caller.close()

    def _begin_pulling(self) -> dict[Puller, "asyncio.Task[Any]"]:
        pulling = {}
        for queue_id in range(self.plan.queues):
            for number, tag in enumerate(("", TAGS[0])):
                reader = Reader(f"group-{tag or 'all'}", queue_id, tag)
                caller = self._caller(f"{reader.group}-{queue_id}")
                chance = SeededRandomness(self.plan.seed + 1_000 + 10 * queue_id + number)
                puller = Puller(reader, caller, chance, topic=TOPIC)
                run = puller.run(self._master(caller), partial(self._goals.get, queue_id))
                pulling[puller] = asyncio.create_task(run)
        return pulling

    def _set_goals(self) -> None:
        """Set the ends of the queues as goals of the pullers; all senders have finished."""
        lookup = self._store.lookup
        for queue_id in range(self.plan.queues):
            self._goals[queue_id] = lookup.max_offset(TOPIC, queue_id)

    async def _settle(self) -> None:
        """Wait until groups have consumed all, and the slave has all, for a while."""
        quiet_since = self.clock.monotonic_ms()
        end_ms = quiet_since + _SETTLE_S * 1_000
        while self.clock.monotonic_ms() - quiet_since < _QUIET_S * 1_000:
            await self.clock.sleep(1)
            waits = self._waits_for()
            if not waits:
                continue
            quiet_since = self.clock.monotonic_ms()
            if quiet_since > end_ms:
                self.history.faults.append(f"stuck: {waits} after {_SETTLE_S} s of calm")
                return

    def _waits_for(self) -> str:
        """Return what is not done yet, or nothing."""
        if (leading := self._servers.leading) is None:
            return "no master is there"
        for group in self._groups:
            query = partial(leading.broker.state.offsets.query, group.plan.name)
            if not group.is_done(self._store.lookup, query):
                return f"{group.plan.name} has not consumed all"
        return self._servers.differ()

    async def _stop(self) -> None:
        """Keep what each broker has; stop them, the slave first, and verify their files."""
        for broker in self._servers.brokers:
            name, store = broker.host.name, broker.broker.state.store
            self.history.logs[name] = _log_of(store)
            self.history.queues[name] = dict(_queues_of(store))
        for broker in reversed(list(self._servers.brokers)):
            await broker.stop()
            verdict = verify(StoreReader(DIRECTORY, broker.disk))
            self.history.faults += [
                f"damage: of {broker.host.name}: {damage}" for damage in verdict.damages
            ]

    async def _read_all(self) -> None:
        """Read every queue from its beginning, with a new group."""
        self._set_goals()
        for queue_id in range(self.plan.queues):
            caller = self._caller(f"last-{queue_id}")
            puller = Puller(Reader("last", queue_id), caller, self._chance, topic=TOPIC)
            goal = partial(self._goals.get, queue_id)
            self.history.stored[queue_id] = await puller.run(self._master(caller), goal)
            await caller.close()

    # Parts

    @property
    def _store(self) -> MessageStore:
        return next(self._servers.brokers).broker.state.store

    def _master(self, caller: Caller) -> Master:
        is_elected = self.plan.replication is Replication.ELECTED
        return ByRoute(caller, NAMESERVER, TOPIC) if is_elected else Fixed(MASTER)

    def _caller(self, name: str) -> Caller:
        host = self._network.host(name)
        self._callers.append(host)
        return Caller(host, self.clock, self.history, self._troubles.lost)

    def _client_hosts(self) -> list[MemoryHost]:
        return [*self._callers, *(host for group in self._groups for host in group.hosts)]

    # Watching

    @contextmanager
    def _sampling(self) -> Iterator[None]:
        """Note the progress of groups, often."""

        async def sample() -> None:
            while True:
                self._sample()
                await self.clock.sleep(_SAMPLE_S)

        task = asyncio.create_task(sample())
        yield
        task.cancel()
        self._sample()

    def _sample(self) -> None:
        now_ms = self.clock.monotonic_ms()
        if self._network.lost != self._lost_before[0]:
            self._lost_before = (self._network.lost, now_ms)
        # Two members that don't hear of each other may own a queue, and brokers store any offset.
        # A master that has just begun again has not heard of all members yet.
        is_split = self._network.lost > 0 and now_ms - self._lost_before[1] < _SPLIT_MS
        for broker, age in self._troubles.ages():
            is_again = now_ms - self._troubles.master_again_ms < _REJOIN_MS
            self._sample_of(broker, age, is_split=is_split or is_again)

    def _sample_of(self, broker: SimulatedBroker, age: int, *, is_split: bool) -> None:
        offsets, now_ms = broker.broker.state.offsets, self.clock.monotonic_ms()
        name = broker.host.name
        readers = [(group.name, retry_topic(group.name)) for group in self.plan.groups]
        readers += [(f"group-{tag}", TOPIC) for tag in ("all", TAGS[0])]
        found = {
            (group, topic, queue_id): offset
            for group, retries in readers
            for topic in dict.fromkeys((TOPIC, retries))
            for queue_id, offset in offsets.of(group, topic).items()
        }
        shared = {group.name for group in self.plan.groups}
        sampled = self._sampled.setdefault(name, {})
        for place in dict.fromkeys((*sampled, *found)):
            of_place = -now_ms if is_split and place[0] in shared else age
            sample = Progress(*place, of_place, found.get(place, -1), name)
            before = sampled.get(place)
            if before is not None and self._is_of_before(before, sample):
                continue
            if before != sample:
                sampled[place] = sample
                self.history.progress.append(sample)

    def _is_of_before(self, before: Progress, now: Progress) -> bool:
        """Return whether an offset is only what a master that started again has in its files.

        While it was gone, members began at the offset of its slave, which may be older, and commit
        that next.
        """
        is_again = 0 <= before.age < now.age and before.offset == now.offset
        return is_again and self.plan.replication.has_slave and not self.history.elects

    def _watch(self, source: Address, target: Address, data: bytes) -> None:
        if self.history.elects:
            self._note_reign()
        self._digest.update(f"{self.clock.monotonic_ms()} {source} {target} ".encode())
        self._digest.update(data)

    def _note_reign(self) -> None:
        """Note who accepts messages; called for each write, so also for each acknowledgement."""
        reigns, masters = self.history.reigns, tuple(self._servers.masters())
        if not reigns or reigns[-1].masters != masters:
            reigns.append(Reign(self.clock.monotonic_ms(), masters))

    def _unhandled(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        # A killed consumer says that it was not closed, when its memory is freed.
        if not isinstance(error, PowerLost | ResourceWarning):
            self.history.faults.append(f"unhandled: {context['message']}: {error!r}")


def _log_of(store: MessageStore) -> bytes:
    tail, position, pieces = store.tail, store.tail.first_offset, []
    while piece := tail.piece(position, _PIECE):
        pieces.append(bytes(piece))
        position += len(piece)
    return b"".join(pieces)


def _queues_of(store: MessageStore) -> Iterator[tuple[str, bytes]]:
    for queue in store.queues:
        assert isinstance(queue, ConsumeQueue)
        entries = (queue.entries(at, 1) for at in range(queue.min_offset, queue.max_offset))
        yield f"{queue.topic}/{queue.queue_id}", b"".join(entries)


class _ErrorWatcher(logging.Handler):
    """Records every logged error as a fault, but those that follow from a trouble."""

    def __init__(self, history: History, troubles: CommonTroubles) -> None:
        super().__init__(logging.ERROR)
        self._history = history
        self._troubles = troubles

    def emit(self, record: logging.LogRecord) -> None:
        message = record.getMessage()
        error = record.exc_info[1] if record.exc_info else None
        if any(trouble in f"{message} {error}" for trouble in DISK_TROUBLES):
            return
        if _DIVERGED not in message:
            self._history.faults.append(f"logged: {message}")
        elif not self._troubles.may_diverge:
            self._history.faults.append(f"diverged: {message}")
