"""A consensus store in memory: leases end by its clock; it can be away, and a client cut off.

>>> from orbitmq.failover.consensus import Change
>>> from orbitmq.testing.clocks import run_virtual
>>> async def main(clock: VirtualClock) -> bool:
...     client = SimulatedConsensus(clock).client("a")
...     lease = await client.grant(5)
...     await client.change({"k": 0}, [Change("k", b"v", lease)])
...     await asyncio.sleep(5)
...     return "k" in (await client.read("")).values
>>> run_virtual(main)
False
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from orbitmq.errors import ConsensusFailed
from orbitmq.failover.consensus import ABSENT, Change, Snapshot, StoredValue
from orbitmq.testing.clocks import VirtualClock

__all__ = ["SimulatedClient", "SimulatedConsensus"]

_ANSWER_S: Final = 0.005
_GIVE_UP_S: Final = 1.0


@dataclass(slots=True)
class _Lease:
    ttl_ms: int
    ends_ms: int


class SimulatedConsensus:
    """The servers: linearizable, and what they have is never lost."""

    def __init__(self, clock: VirtualClock) -> None:
        self.is_away = False
        """Whether no client gets an answer."""
        self._clock = clock
        self._revision = 1
        self._compacted = 0  # the history before this revision is gone
        self._removed_at = 0  # the revision of the last removal
        self._values: dict[str, tuple[StoredValue, int]] = {}
        self._leases: dict[int, _Lease] = {}
        self._given = 0
        self._waiting: list[tuple[SimulatedClient, asyncio.Event]] = []

    def __repr__(self) -> str:
        return f"<SimulatedConsensus at revision {self._revision}>"

    def client(self, name: str) -> "SimulatedClient":
        """Return a client's connection."""
        return SimulatedClient(self, name)

    def compact(self) -> None:
        """Forget the history: whoever waits for a change after an older revision can't know."""
        self._compacted = self._revision
        self._wake()

    # What clients call

    def grant(self, ttl_s: int) -> int:
        """Begin a lease."""
        self._given += 1
        self._leases[self._given] = _Lease(ttl_s * 1_000, self._now_ms() + ttl_s * 1_000)
        return self._given

    def keep_alive(self, lease: int) -> bool:
        """Keep a lease alive, unless it has ended."""
        self._expire()
        known = self._leases.get(lease)
        if known is None:
            return False
        known.ends_ms = self._now_ms() + known.ttl_ms
        return True

    def revoke(self, lease: int) -> None:
        """End a lease."""
        self._leases.pop(lease, None)
        self._remove([key for key, (_, owner) in self._values.items() if owner == lease])

    def read(self, prefix: str) -> Snapshot:
        """Return the keys that begin with ``prefix``."""
        self._expire()
        found = {k: v for k, (v, _) in sorted(self._values.items()) if k.startswith(prefix)}
        return Snapshot(self._revision, found)

    def change(self, expected: Mapping[str, int], changes: Sequence[Change]) -> bool:
        """Make all changes if each expected key still has its revision, and no lease has ended."""
        self._expire()
        for key, revision in expected.items():
            known = self._values.get(key)
            if (known[0].revision if known else ABSENT) != revision:
                return False
        for one in changes:
            if one.lease and one.lease not in self._leases:
                return False
        self._revision += 1
        for one in changes:
            if one.value is None:
                self._values.pop(one.key, None)
                self._removed_at = self._revision
            else:
                self._values[one.key] = (StoredValue(one.value, self._revision), one.lease)
        self._wake()
        return True

    async def wait(
        self, client: "SimulatedClient", prefix: str, revision: int, timeout_s: float
    ) -> None:
        """Return when a key with ``prefix`` may have changed after ``revision``, or time is up."""
        loop = asyncio.get_running_loop()
        until = loop.time() + timeout_s
        while not self._may_have_changed(prefix, revision):
            ends_ms = min((one.ends_ms for one in self._leases.values()), default=1 << 60)
            next_end_s = (ends_ms - self._now_ms()) / 1_000
            left_s = until - loop.time()
            if left_s <= 0:
                return
            changed = asyncio.Event()
            self._waiting.append((client, changed))
            try:
                async with asyncio.timeout(max(min(left_s, next_end_s), 0)):
                    await changed.wait()
            except TimeoutError:
                self._expire()

    def _may_have_changed(self, prefix: str, revision: int) -> bool:
        if max(self._compacted, self._removed_at) > revision:
            return True
        changed = (one.revision for key, (one, _) in self._values.items() if key.startswith(prefix))
        return max(changed, default=0) > revision

    # Inside

    def _now_ms(self) -> int:
        return self._clock.monotonic_ms()

    def _expire(self) -> None:
        now_ms = self._now_ms()
        for lease in [one for one, known in self._leases.items() if known.ends_ms <= now_ms]:
            self.revoke(lease)

    def _remove(self, keys: Sequence[str]) -> None:
        if not keys:
            return
        self._revision += 1
        for key in keys:
            del self._values[key]
        self._removed_at = self._revision
        self._wake()

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for client, changed in waiting:
            if not client.is_dead:
                changed.set()


class SimulatedClient:
    """One client's connection, which can be cut off, or lose the answer to a change.

    A call that gets no answer fails after a second of virtual time.
    """

    def __init__(self, servers: SimulatedConsensus, name: str) -> None:
        self._servers = servers
        self._name = name
        self.is_cut = False
        """Whether nothing reaches the servers."""
        self.is_dead = False
        """Whether its process was killed, so that nothing may wake it."""
        self.loses_answers = False
        """Whether changes are made, and their answers lost."""

    def __repr__(self) -> str:
        return f"<SimulatedClient {self._name}{', cut off' if self.is_cut else ''}>"

    async def grant(self, ttl_s: int) -> int:
        """Begin a lease."""
        await self._reach()
        return self._servers.grant(ttl_s)

    async def keep_alive(self, lease: int) -> bool:
        """Keep a lease alive; return False if it has ended."""
        await self._reach()
        return self._servers.keep_alive(lease)

    async def revoke(self, lease: int) -> None:
        """End a lease and remove its keys."""
        await self._reach()
        self._servers.revoke(lease)

    async def read(self, prefix: str) -> Snapshot:
        """Return the keys that begin with ``prefix``."""
        await self._reach()
        return self._servers.read(prefix)

    async def change(self, expected: Mapping[str, int], changes: Sequence[Change]) -> bool:
        """Make all changes if each expected key still has its revision."""
        await self._reach()
        succeeded = self._servers.change(expected, changes)
        if self.loses_answers:
            await self._no_answer()
        return succeeded

    async def wait(self, prefix: str, revision: int, timeout_s: float) -> None:
        """Return when a key may have changed, or time is up; a cut hears of no change."""
        await self._reach()
        await self._servers.wait(self, prefix, revision, timeout_s)
        await self._reach()

    async def close(self) -> None:
        """Do nothing: there is no connection."""

    async def _reach(self) -> None:
        if self.is_cut or self._servers.is_away:
            await self._no_answer()
        await asyncio.sleep(_ANSWER_S)

    async def _no_answer(self) -> None:
        await asyncio.sleep(_GIVE_UP_S)
        raise ConsensusFailed("no answer in time", address="etcd")
