"""One run: a pair and its clients, fault after fault, and what is stored when all is well again.

::

    calm ─▶ fault ─▶ mended ─▶ the slave follows, and a send is acknowledged ─▶ the next round
    at the end: senders stop ─▶ readers have all ─▶ both brokers are read ─▶ both logs are compared
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

from bench.chaos.clients import QUEUES, TOPIC, Clients, key_of
from bench.chaos.elected import Elected
from bench.chaos.history import History, Round
from bench.chaos.pair import Node, Pair
from bench.chaos.plan import Configuration, Fault, faults
from bench.chaos.relay import Slow
from orbitmq.clock import Clock
from orbitmq.net.blocking import BlockingConnection
from orbitmq.randomness import Randomness
from tests.broker.exchanges import pulled
from tests.interop.java_server import PATIENT
from tests.interop.waiting import until, until_async

__all__ = ["Chaos", "inflict", "logs_of"]

_SENDERS: Final = 4
_HEALED_S: Final = 90.0
_LOOK_S: Final = 0.1
_NEAR_BYTES: Final = 256 * 1024
_SLOW: Final = Slow(delay_s=0.05, bytes_per_s=64 * 1024)
_TRACEBACK: Final = "Traceback (most recent call last)"
_EXCERPT: Final = 1_000
_HOUR_S: Final = 3_600
"""More than anything lasts that a broker waits for, but for files that expire."""


class Chaos:
    """A run of one configuration in a directory of its own.

    Args:
        configuration: the settings, and the faults that may come.
        directory: where the files go.
        chance: decides the order of the faults, and the pauses between them.
        clock: what moments are noted by.
        pause_s: between two sends of a sender.
        lasting_s: how long a fault lasts that is not over at once.
        say: told about each round.
    """

    def __init__(
        self,
        configuration: Configuration,
        directory: Path,
        chance: Randomness,
        clock: Clock,
        *,
        pause_s: float = 0.03,
        lasting_s: float = 4.0,
        say: Callable[[str], None] = print,
    ) -> None:
        self.history = History()
        self._configuration = configuration
        self._directory = directory
        self._chance = chance
        self._clock = clock
        self._pause_s = pause_s
        self._lasting_s = lasting_s
        self._say = say

    def __repr__(self) -> str:
        return f"<Chaos {self._configuration.name}, {len(self.history.rounds)} rounds>"

    async def run(self, seconds: float) -> History:
        """Go through rounds for so long, at least through one; return the history.

        Raise CannotMount if it needs small disks, and they can't be mounted here.
        """
        deadline = self._now() + seconds
        pair = (Elected if self._configuration.is_elected else Pair)(
            self._directory, self._configuration
        )
        async with pair:
            clients = Clients(
                pair.names, self.history, self._clock, pause_s=self._pause_s, senders=_SENDERS
            )
            async with clients:
                await self._healed(pair, clients, "the start")
                for fault in faults(self._configuration.faults, self._chance):
                    await self._round(fault, pair, clients)
                    if self._now() >= deadline or self.history.troubles:
                        break
                await clients.stop_sending()
                await self._settle(pair)
            await pair.kill(*pair.nodes)
            master = logs_of(pair.master)
            if any(logs_of(node) != master for node in pair.nodes):
                self.history.troubles.append("the logs of master and slave differ")
        for logged in pair.logged:
            if _TRACEBACK in logged:
                at = logged.index(_TRACEBACK)
                self.history.troubles.append(f"a server logged: {logged[at : at + _EXCERPT]}")
        return self.history

    def _now(self) -> float:
        return self._clock.monotonic_ms() / 1000

    async def _round(self, fault: Fault, pair: Pair, clients: Clients) -> None:
        one = Round(fault, began=self._now())
        self.history.rounds.append(one)
        await asyncio.sleep(self._chance.uniform(0.3, 1.5))
        one.fault_at = self._now()
        await inflict(fault, pair, self._lasting_s)
        if await self._healed(pair, clients, fault):
            one.healed_at = self._now()
            took_s = one.healed_at - one.fault_at
            self._say(f"{self._configuration.name}: {fault}; all well after {took_s:.1f} s")

    async def _healed(self, pair: Pair, clients: Clients, after: str) -> bool:
        """Wait until a send is acknowledged and the slaves follow; return whether they do."""
        mended_at = self._now()
        while self._now() < mended_at + _HEALED_S:
            if clients.accepted_since(mended_at) and await self._is_near(pair):
                return True
            await asyncio.sleep(_LOOK_S)
        self.history.troubles.append(f"not healed {_HEALED_S:.0f} s after {after}")
        return False

    async def _is_near(self, pair: Pair) -> bool:
        behind = await pair.behind()
        return behind is not None and behind < _NEAR_BYTES

    async def _settle(self, pair: Pair) -> None:
        """Wait until the slave has all, and the readers; note what both brokers have."""
        deadline = self._now() + _HEALED_S  # then the laws tell what is missing
        while self._now() < deadline:
            if await pair.behind() == 0:
                break
            await asyncio.sleep(_LOOK_S)
        self.history.stored = await asyncio.to_thread(self._stored, pair.master)
        with suppress(TimeoutError):  # it asks for topics every ten seconds
            for node in pair.nodes:
                await asyncio.to_thread(until, partial(self._is_copied, node), what="the copy")
        wanted = {
            (queue, offset)
            for queue, keys in self.history.stored.items()
            for offset in range(len(keys))
        }
        with suppress(TimeoutError):
            await until_async(
                lambda: self._is_read(wanted), what="readers have all", seconds=_HEALED_S
            )

    def _is_copied(self, node: Node) -> bool:
        self.history.copied = self._stored(node)
        return self.history.copied == self.history.stored

    def _is_read(self, wanted: set[tuple[int, int]]) -> bool:
        """Return whether each reader had a message at each offset; it may have been another one."""
        return all(
            wanted
            <= {(one.queue, one.offset) for one in self.history.deliveries if one.reader == reader}
            for reader in self.history.readers
        )

    def _stored(self, node: Node) -> dict[int, list[str]]:
        found: dict[int, list[str]] = {}
        with BlockingConnection(node.address, settings=PATIENT) as connection:
            for queue in range(QUEUES):
                messages = pulled(connection, TOPIC, queue_id=queue)
                if [one.queue_offset for one in messages] != list(range(len(messages))):
                    self.history.troubles.append(f"queue {queue} of {node} has gaps or repeats")
                times = [one.store_timestamp_ms for one in messages]
                if times != sorted(times):
                    self.history.troubles.append(f"store times of queue {queue} of {node} go back")
                found[queue] = [key_of(one.body) for one in messages]
        return found


async def inflict(fault: Fault, pair: Pair, lasting_s: float) -> None:
    """Do something bad to a pair, and undo it: a dead process is started again."""
    master, slave = pair.master, pair.slave
    match fault:
        case Fault.MASTER_KILLED:
            await pair.kill(master)
            await pair.start(master)
        case Fault.SLAVE_KILLED:
            await pair.kill(slave)
            await pair.start(slave)
        case Fault.BOTH_KILLED:
            await pair.kill(master, slave)
            await pair.start(master, slave)
        case Fault.NAMESERVERS_KILLED:
            await pair.restart_nameservers()
        case Fault.MASTER_PAUSED | Fault.SLAVE_PAUSED:
            node = master if fault is Fault.MASTER_PAUSED else slave
            pair.pause(node)
            await asyncio.sleep(lasting_s)
            pair.resume(node)
        case Fault.CLIENTS_RESET:
            await master.clients.reset()
        case Fault.CLIENTS_CUT | Fault.SLAVE_CUT:
            relay = master.clients if fault is Fault.CLIENTS_CUT else master.slaves
            relay.cut()
            await asyncio.sleep(lasting_s)
            relay.mend()
        case Fault.CLIENTS_SLOW | Fault.SLAVE_SLOW:
            relay = master.clients if fault is Fault.CLIENTS_SLOW else master.slaves
            relay.slow = _SLOW
            await asyncio.sleep(lasting_s)
            relay.mend()
        case Fault.DISK_LOST:
            await _lose_disk(pair)
        case Fault.DISK_LOST_WHILE_CUT:
            master.slaves.cut()
            await asyncio.sleep(lasting_s)
            await _lose_disk(pair)
            master.slaves.mend()
        case Fault.MASTER_DISK_FULL | Fault.SLAVE_DISK_FULL:
            node = master if fault is Fault.MASTER_DISK_FULL else slave
            empty = await asyncio.to_thread(node.fill_disk)
            await asyncio.sleep(lasting_s)
            empty()
        case Fault.LEADER_PAUSED:
            pair.pause(master)
            await pair.replaced()
            pair.resume(master)
        case Fault.LEADER_KILLED | Fault.LEADER_LOST:
            await pair.kill(master)
            if fault is Fault.LEADER_LOST:
                await asyncio.to_thread(master.lose_disk)
            await pair.replaced()
            await pair.start(master)
        case _:
            await _set_clock(fault, pair, lasting_s)


async def _set_clock(fault: Fault, pair: Pair, lasting_s: float) -> None:
    """Set a clock wrong, and right again; some processes don't live to see that."""
    master = pair.master
    node = pair.slave if fault in (Fault.CLOCK_OF_SLAVE, Fault.CLOCK_LOST) else master
    is_behind = fault in (Fault.CLOCK_BEHIND, Fault.CLOCK_LOST)
    await pair.set_clock(node, -_HOUR_S if is_behind else _HOUR_S)
    await asyncio.sleep(lasting_s)
    if fault is Fault.CLOCK_LOST:
        await _lose_disk(pair)
    if fault in (Fault.CLOCK_KILLED, Fault.CLOCK_LEADER_KILLED):
        await pair.kill(master)
    await pair.set_clock(node, 0)
    if fault is Fault.CLOCK_LEADER_KILLED:
        await pair.replaced()
    if master.server is None:
        await pair.start(master)


async def _lose_disk(pair: Pair) -> None:
    await pair.kill(pair.master)
    await asyncio.to_thread(pair.master.lose_disk)
    await pair.promote()


def logs_of(node: Node) -> dict[str, bytes]:
    """Return the files of a broker's log, without files of zeros made in advance."""
    files = sorted((node.directory / "store" / "commitlog").iterdir())
    found = {one.name: one.read_bytes() for one in files}
    return {name: data for name, data in found.items() if data.rstrip(b"\0")}
