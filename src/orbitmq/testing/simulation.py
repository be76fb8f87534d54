"""Simulates a nameserver, a broker and clients in virtual time, with failures of all kinds.

One seed decides everything: what is sent, how long bytes and syncs take, what is lost, and when
something is killed. A seed always gives the same run.

::

    seed ─▶ plan ─▶ senders, pullers ┐
                    troubles         ┴─▶ calm ─▶ stop ─▶ files checked ─▶ start ─▶ all queues read

>>> history = simulate(7)
>>> broken_laws(history)
[]

The laws are in :mod:`orbitmq.testing.histories`. Further laws: no error is logged, no callback
raises, the files of the store agree, and offsets that a group had committed before an orderly stop
are never lost.
"""

import asyncio
import hashlib
import logging
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import msgspec

from orbitmq.net.address import Address
from orbitmq.randomness import SeededRandomness
from orbitmq.store.reader.reader import StoreReader
from orbitmq.store.reader.verify import verify
from orbitmq.store.settings import FlushMode
from orbitmq.testing.clocks import VirtualClock, run_virtual
from orbitmq.testing.disks import PowerLost
from orbitmq.testing.histories import History, Reader, broken_laws
from orbitmq.testing.links import MemoryNetwork
from orbitmq.testing.simulated_calls import Caller
from orbitmq.testing.simulated_clients import TAGS, Puller, Sender
from orbitmq.testing.simulated_servers import BROKER, DIRECTORY, NAMESERVER, SimulatedServers

__all__ = ["Plan", "broken_laws", "simulate"]

TOPIC: Final = "orders"

_RUN_S: Final = 1_800  # a run that takes longer in virtual time hangs
_CALM_S: Final = (
    15  # longer than delays and checks of half messages take, so that all are delivered
)
_CALLS_MAX: Final = 60
_SHORT_TIMES: Final = {"transaction_time_out": 2_000, "transaction_check_interval": 3_000}


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The parameters of a run."""

    seed: int
    flush_mode: FlushMode
    queues: int
    senders: int
    messages: int
    pause_s: float
    delay_s: float
    loss: int
    sync_s: float
    troubles: int

    @classmethod
    def from_seed(cls, seed: int) -> "Plan":
        """Return the parameters of a seed.

        >>> Plan.from_seed(3) == Plan.from_seed(3)
        True
        """
        chance = SeededRandomness(seed)
        return cls(
            seed=seed,
            flush_mode=chance.choice((FlushMode.ASYNC, FlushMode.SYNC, FlushMode.SYNC)),
            queues=1 + chance.below(4),
            senders=1 + chance.below(4),
            messages=20 + chance.below(60),
            pause_s=chance.choice((0.0, 0.1, 0.5)),
            delay_s=chance.choice((0.0, 0.001, 0.05)),
            loss=chance.choice((0, 0, 300, 60)),
            sync_s=chance.choice((0.0, 0.004, 0.3)),
            troubles=chance.below(12),
        )


def simulate(seed: int) -> History:
    """Run the simulation of a seed and return its history."""

    async def main(clock: VirtualClock) -> History:
        async with asyncio.timeout(_RUN_S):
            return await _Simulation(Plan.from_seed(seed), clock).run()

    return run_virtual(main)


class _Simulation:
    """One run: servers, disk, network, clients and failures."""

    def __init__(self, plan: Plan, clock: VirtualClock) -> None:
        self.plan = plan
        self.clock = clock
        self.history = History()
        # Each part has its own randomness, so that draws of one don't change the others.
        self._chance = SeededRandomness(plan.seed + 1)
        self._network = MemoryNetwork(
            delay_s=plan.delay_s,
            jitter_s=plan.delay_s,
            loss=plan.loss,
            chance=SeededRandomness(plan.seed + 2),
        )
        self._digest = hashlib.blake2b(digest_size=16)
        self._network.watch = self._watch
        sync_chance = SeededRandomness(plan.seed + 3)
        self._servers = SimulatedServers(
            self._network,
            clock,
            flush_mode=plan.flush_mode,
            sync_s=lambda: sync_chance.uniform(0, plan.sync_s),
            seed=plan.seed + 10_000,
            broker_settings=_SHORT_TIMES,
        )
        self._pullers: list[Puller] = []
        self._floor: dict[Reader, int] = {}
        self._goals: dict[int, int] = {}

    # The whole

    async def run(self) -> History:
        """Run the simulation and return its history."""
        watcher = _ErrorWatcher(self.history)
        logging.getLogger("orbitmq").addHandler(watcher)
        asyncio.get_running_loop().set_exception_handler(self._unhandled)
        try:
            await self._servers.start_nameserver()
            await self._start_broker()
            await self._live()
            await self._check_files()
            await self._read_all()
            await self._stop_broker()
        finally:
            logging.getLogger("orbitmq").removeHandler(watcher)
        for call in self._servers.disk.log:
            self._digest.update(repr(call).encode())
        self.history.digest = self._digest.hexdigest()
        return self.history

    async def _live(self) -> None:
        """Send and pull through all failures, until everything was sent and read."""
        callers = [self._caller(f"client-{number}") for number in range(self.plan.senders)]
        pulling = self._begin_pulling()
        async with asyncio.TaskGroup() as work:
            for number, caller in enumerate(callers):
                sender = Sender(
                    f"s{number}",
                    caller,
                    SeededRandomness(self.plan.seed + 100 + number),
                    NAMESERVER,
                    TOPIC,
                )
                work.create_task(
                    sender.run(
                        self.plan.messages, queues=self.plan.queues, pause_s=self.plan.pause_s
                    )
                )
            work.create_task(self._make_trouble())
        self._network.loss = 0
        await self.clock.sleep(_CALM_S)
        self._set_goals()
        for puller, task in pulling.items():
            self.history.read[puller.reader] = await task
        for caller in callers:
            await caller.close()

    def _begin_pulling(self) -> dict[Puller, "asyncio.Task[Any]"]:
        pulling = {}
        for queue_id in range(self.plan.queues):
            for number, tag in enumerate(("", TAGS[0])):
                reader = Reader(f"group-{tag or 'all'}", queue_id, tag)
                caller = self._caller(f"{reader.group}-{queue_id}")
                seed = self.plan.seed + 1_000 + 10 * queue_id + number
                puller = Puller(
                    reader, caller, SeededRandomness(seed), topic=TOPIC, starts=self._count_starts
                )
                run = puller.run(BROKER, partial(self._goals.get, queue_id))
                pulling[puller] = asyncio.create_task(run)
        self._pullers = list(pulling)
        return pulling

    def _set_goals(self) -> None:
        """Set the ends of the queues as goals of the pullers; all senders have finished."""
        lookup = self._servers.broker.state.store.lookup
        for queue_id in range(self.plan.queues):
            self._goals[queue_id] = lookup.max_offset(TOPIC, queue_id)

    async def _check_files(self) -> None:
        """Stop the broker, verify its files, and start it again."""
        await self._stop_broker()
        verdict = verify(StoreReader(DIRECTORY, self._servers.disk))
        self.history.faults += [f"damage: {damage}" for damage in verdict.damages]
        await self._start_broker()

    async def _read_all(self) -> None:
        """Read every queue from its beginning, with a new group."""
        self._set_goals()
        for queue_id in range(self.plan.queues):
            caller = self._caller(f"last-{queue_id}")
            puller = Puller(
                Reader("last", queue_id),
                caller,
                self._chance,
                topic=TOPIC,
                starts=self._count_starts,
            )
            goal = partial(self._goals.get, queue_id)
            self.history.stored[queue_id] = await puller.run(BROKER, goal)
            await caller.close()

    def _caller(self, name: str) -> Caller:
        return Caller(self._network.host(name), self.clock, self.history, self._count_troubles)

    def _count_troubles(self) -> int:
        return self._network.lost + len(self.history.troubles)

    def _count_starts(self) -> int:
        return self._servers.starts

    # Troubles

    async def _make_trouble(self) -> None:
        kinds: list[Callable[[], Any]] = [
            *(self._cut_connections, self._part_broker, self._part_nameserver),
            *(self._restart_nameserver, self._stop_and_start, self._kill_broker),
            self._kill_broker_midway,
        ]
        if self.plan.flush_mode is FlushMode.SYNC:  # else a power loss may lose acknowledged sends
            kinds += [self._lose_power, self._lose_power_midway]
        for _ in range(self.plan.troubles):
            await self.clock.sleep(self._chance.uniform(0, 6))
            kind = self._chance.choice(kinds)
            self.history.troubles.append(kind.__name__.strip("_"))
            await kind()
            self.history.troubles.append("over")

    async def _pause(self) -> None:
        await self.clock.sleep(self._chance.choice((0.01, 0.5, 4.0)))

    async def _cut_connections(self) -> None:
        self._network.cut()

    async def _part_broker(self) -> None:
        self._servers.broker_host.carries = False
        await self._pause()
        self._servers.broker_host.carries = True

    async def _part_nameserver(self) -> None:
        self._servers.nameserver_host.carries = False
        await self._pause()
        self._servers.nameserver_host.carries = True

    async def _restart_nameserver(self) -> None:
        self._servers.kill_nameserver()
        await self._pause()
        await self._servers.start_nameserver()

    async def _stop_and_start(self) -> None:
        await self._stop_broker()
        await self._pause()
        await self._start_broker()

    async def _kill_broker(self) -> None:
        self._servers.end_broker(power=True)
        await self._pause()
        await self._start_broker()

    async def _kill_broker_midway(self) -> None:
        await self._servers.exhaust_broker(calls=self._chance.below(_CALLS_MAX))
        self._servers.end_broker(power=True)
        await self._pause()
        await self._start_broker(again=True)

    async def _lose_power(self) -> None:
        self._servers.end_broker(power=False)
        await self._pause()
        await self._start_broker()

    async def _lose_power_midway(self) -> None:
        await self._servers.exhaust_broker(calls=self._chance.below(_CALLS_MAX))
        self._servers.end_broker(power=False)
        await self._pause()
        await self._start_broker(again=True)

    # Starts and stops

    async def _start_broker(self, *, again: bool = False) -> None:
        """Start the broker; with ``again`` a first start may be killed too."""
        calls = self._chance.below(_CALLS_MAX) if again and self._chance.below(2) else None
        power = bool(self._chance.below(2)) or self.plan.flush_mode is FlushMode.ASYNC
        if calls is None or not await self._servers.start_broker(calls=calls):
            if calls is not None:
                self._servers.end_broker(power=power)
            assert await self._servers.start_broker()
        self._check_progress()

    async def _stop_broker(self) -> None:
        """Stop the broker orderly; offsets committed before must never be lost."""
        floor = {
            puller.reader: offset
            for puller in self._pullers
            for starts, offset in [puller.committed]
            if offset and starts == self._servers.starts
        }
        await self._servers.stop_broker()
        self._floor |= floor

    def _check_progress(self) -> None:
        offsets = self._servers.broker.state.offsets
        for reader, floor in self._floor.items():
            offset = offsets.query(reader.group, TOPIC, reader.queue_id)
            if offset < floor:
                self.history.faults.append(
                    f"the offset of {reader} was {floor} at a clean stop and is {offset} now"
                )

    # Watching

    def _watch(self, source: Address, target: Address, data: bytes) -> None:
        self._digest.update(f"{self.clock.monotonic_ms()} {source} {target} ".encode())
        self._digest.update(data)

    def _unhandled(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if isinstance(error, PowerLost):
            self._servers.note_power_lost()
        else:
            self.history.faults.append(f"unhandled: {context['message']}: {error!r}")


class _ErrorWatcher(logging.Handler):
    """Records every logged error as a fault."""

    def __init__(self, history: History) -> None:
        super().__init__(logging.ERROR)
        self._history = history

    def emit(self, record: logging.LogRecord) -> None:
        self._history.faults.append(f"logged: {record.getMessage()}")
