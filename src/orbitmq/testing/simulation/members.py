"""Consumer groups of a simulated run: real consumers, which join, leave and die.

::

    join ──▶ a process on its own host ──┬── leave: closed, its offsets are committed
                                         └── die: killed; its peers see a reset, or nothing
"""

from collections.abc import Callable
from typing import Final

from orbitmq.client.consumer.push import Consumer
from orbitmq.client.core.machine import Machine
from orbitmq.client.core.second_loop import SameLoop
from orbitmq.errors import OrbitError
from orbitmq.message import properties
from orbitmq.message.model import StoredMessage
from orbitmq.message.names import retry_topic
from orbitmq.randomness import Randomness, SeededRandomness
from orbitmq.store.serving.lookup import MessageLookup
from orbitmq.testing.clocks import InlineWorkers, VirtualClock
from orbitmq.testing.links import MemoryHost, MemoryNetwork
from orbitmq.testing.processes import Killed, Process
from orbitmq.testing.simulation.histories import Delivery, History
from orbitmq.testing.simulation.plan import GroupPlan
from orbitmq.testing.simulation.servers import NAMESERVER

__all__ = ["Group"]

_MEMBERS_MAX: Final = 4
_FAILS_ONE_IN: Final = 25
_HANDLING_S: Final = (0.0, 0.0, 0.01, 0.4)


class _Failed(Exception):
    """A handler that does not want a message now."""


class _Member:
    def __init__(self, plan: GroupPlan, host: MemoryHost, clock: VirtualClock, seed: int) -> None:
        self.host = host
        self._plan = plan
        self._clock = clock
        self._chance = SeededRandomness(seed)
        self.process = Process(host.name)
        machine = Machine(
            network=host,
            clock=clock,
            workers=lambda _name: InlineWorkers(),
            randomness=SeededRandomness(seed + 1),
            environment=lambda _name: "",
            host="10.0.0.9",
            pid=seed,
            second_loop=SameLoop,
        )
        self.consumer = Consumer(
            plan.name,
            nameserver=str(NAMESERVER),
            subscribe={"orders": plan.tag or "*"},
            ordered=plan.ordered,
            consume_from="first",
            machine=machine,
            suspend_ms=200,
            stop_timeout_ms=3_000,
            heartbeat_interval_ms=5_000,
            poll_nameserver_interval_ms=5_000,
            rebalance_interval_ms=5_000,
            lock_interval_ms=5_000,
        )

    def handle_with(self, deliveries: list[Delivery]) -> None:
        """Note each delivery; sometimes fail."""
        group, chance = self._plan.name, self._chance

        async def handle(message: StoredMessage) -> None:
            await self._clock.sleep(chance.choice(_HANDLING_S))
            succeeded = chance.below(_FAILS_ONE_IN) > 0
            deliveries.append(
                Delivery(
                    group,
                    message.properties.get(properties.UNIQUE_KEY, ""),
                    message.flag,
                    message.queue_id,
                    message.queue_offset,
                    succeeded,
                    message.reconsume_times > 0,
                )
            )
            if not succeeded:
                raise _Failed

        self.consumer.on_message(handle)


class Group:
    """The members of one group."""

    def __init__(
        self,
        plan: GroupPlan,
        network: MemoryNetwork,
        clock: VirtualClock,
        history: History,
        *,
        seed: int,
    ) -> None:
        self.plan = plan
        self._network = network
        self._clock = clock
        self._history = history
        self._seed = seed
        self._chance: Randomness = SeededRandomness(seed)
        self._joined = 0
        self._members: list[_Member] = []
        self._gone: list[_Member] = []  # keeps the tasks of killed ones from being collected

    def __repr__(self) -> str:
        return f"<Group {self.plan.name} of {len(self._members)}>"

    @property
    def hosts(self) -> list[MemoryHost]:
        """The hosts of the members."""
        return [member.host for member in self._members]

    async def live(self) -> None:
        """Let members join, leave and die; in the end there is at least one."""
        for _ in range(self.plan.members):
            await self._join()
        for _ in range(self.plan.changes):
            await self._clock.sleep(self._chance.uniform(0.2, 8))
            change = self._chance.choice((self._join, self._leave, self._die))
            await change()
        if not self._members:
            await self._join()

    async def close(self) -> None:
        """Let all members leave."""
        while self._members:
            await self._leave()

    def is_done(self, lookup: MessageLookup, offset_of: Callable[[str, int], int]) -> bool:
        """Return whether all of the topic and of the retry topic is consumed, and committed."""
        return all(
            offset_of(topic, queue_id) >= lookup.max_offset(topic, queue_id)
            for topic in ("orders", retry_topic(self.plan.name))
            for queue_id in range(8)
            if lookup.max_offset(topic, queue_id) > 0
        )

    async def _join(self) -> None:
        if len(self._members) >= _MEMBERS_MAX:
            return
        self._joined += 1
        host = self._network.host(f"{self.plan.name}-{self._joined}")
        member = _Member(self.plan, host, self._clock, self._seed + 10 * self._joined)
        member.handle_with(self._history.deliveries)
        self._members.append(member)
        try:
            await member.process.run(member.consumer.start())
        except (OrbitError, Killed):
            self._remove(member)

    async def _leave(self) -> None:
        if not self._members:
            return
        member = self._members.pop(self._chance.below(len(self._members)))
        self._history.troubles += [f"a member of {self.plan.name} leaves", "over"]
        await member.process.run(member.consumer.close())
        self._remove(member)

    async def _die(self) -> None:
        if not self._members:
            return
        member = self._members[self._chance.below(len(self._members))]
        self._history.troubles += [f"a member of {self.plan.name} dies", "over"]
        self._remove(member)

    def _remove(self, member: _Member) -> None:
        if member in self._members:
            self._members.remove(member)
        self._gone.append(member)
        member.process.kill()
        member.host.crash(silent=self._chance.below(3) == 0)
