"""Elected groups in trouble after trouble: what was acknowledged is there."""

import asyncio
import itertools
import os

import pytest

from orbitmq.randomness import SeededRandomness
from tests.broker.elected_world import Group, run
from tests.replication.worlds import log_bytes

SOAK = os.environ.get("ORBITMQ_SOAK") == "1"
SEEDS = 200 if SOAK else 6
TROUBLES = 10 if SOAK else 3


class Storm:
    """Two or three brokers; one or two at a time are in trouble while messages are sent.

    Some live behind a firewall that rejects, so that others take a master for gone.

    Every third time a broker that is killed loses power, too, and flushes before it acknowledges.
    """

    def __init__(self, group: Group, seed: int) -> None:
        self.group = group
        self.chance = SeededRandomness(seed)
        self.nodes = group.nodes[: 2 + seed % 2]
        self.well = list(self.nodes)
        self.is_over = False
        self.has_power = bool(seed % 3)
        self.said = () if self.has_power else ("flushDiskType=SYNC_FLUSH",)

    async def trouble(self) -> None:
        """Kill, stop or part brokers that are well, and mend it, some times."""
        for _ in range(TROUBLES):
            await self.group.clock.sleep(self.chance.uniform(0, 8))
            if not self.well:
                continue
            node = self.well.pop(self.chance.below(len(self.well)))
            kind = self.chance.below(7)
            if kind == 0:
                node.kill(power=self.has_power)
            elif kind == 1:
                await node.stop()
            elif kind <= 4:
                node.part(from_etcd=kind != 2, from_network=kind != 3)
            else:
                node.part(from_etcd=kind == 5, from_network=False)
                node.reject()
            await self.group.clock.sleep(self.chance.uniform(0, 20))
            if kind <= 1:
                await node.start(*self.said)
            else:
                node.heal()
            self.well.append(node)

    async def send(self) -> None:
        """Send messages to whoever takes itself for the master."""
        for number in itertools.count():
            for node in [one for one in self.nodes if one.leads]:
                await self.group.send(node, b"%d to %d" % (number, node.number), timeout_ms=4_000)
            await self.group.clock.sleep(0.05)
            if self.is_over:
                return

    async def rage(self) -> None:
        """Return when all is mended, and all brokers are in sync."""
        senders = [asyncio.create_task(self.send()) for _ in range(2)]
        await asyncio.gather(self.trouble(), self.trouble())
        await self.group.master()
        self.is_over = True
        await asyncio.gather(*senders)
        numbers = tuple(node.number for node in self.nodes)
        await self.group.until(
            lambda: any(node.leads and node.in_sync == numbers for node in self.nodes)
        )
        await self.group.until(lambda: len({node.log_end for node in self.nodes}) == 1)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_whatever_happens_nothing_acknowledged_is_lost(seed: int) -> None:
    async def story(group: Group) -> None:
        storm = Storm(group, seed)
        await group.start(len(storm.nodes), *storm.said)
        await storm.rage()
        first, *others = [log_bytes(node.broker.state.store) for node in storm.nodes]
        assert all(one == first for one in others)
        read = await group.read(await group.master())
        assert set(group.acknowledged) <= set(read)
        assert len(group.acknowledged) > 10

    run(story)
