"""Heartbeats to all masters, which name the client and its groups.

::

    join(group), a new broker, a new connection ──▶ a heartbeat at once
    every 30 s ───────────────────────────────────▶ a heartbeat to all masters
    leave(group) ─────────────────────────────────▶ UNREGISTER_CLIENT to connected masters

Each broker has a task of its own: one that is down, or doesn't answer, does not delay the others.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from orbitmq.client.core.periodic import cancel_all, run_periodically
from orbitmq.errors import OrbitError
from orbitmq.net.address import Address
from orbitmq.net.connection import Connection
from orbitmq.net.dialer import Dialer
from orbitmq.wire.bodies.heartbeat import HeartbeatData, ProducerData
from orbitmq.wire.codes import ResponseCode
from orbitmq.wire.headers.heartbeat import Heartbeat, UnregisterClient

__all__ = ["INNER_GROUP", "UNREGISTER_MS", "Heartbeats"]

log = logging.getLogger("orbitmq.client")

INNER_GROUP: Final = "CLIENT_INNER_PRODUCER"
"""A group that Java's clients are always in (MixAll); tools expect to see it."""
UNREGISTER_MS: Final = 1_000
"""How long a close waits for brokers to unregister it; they would notice by themselves."""


class _Acknowledged(NamedTuple):
    """The last heartbeat that a broker answered: connection, version of groups, its release."""

    connection: Connection
    version: int
    release: int


@dataclass(kw_only=True, eq=False, repr=False)
class Heartbeats:
    """Sends the heartbeats of one client, and remembers which brokers know its groups.

    ``masters`` returns the addresses of the masters in all known routes; ``fields`` are added to
    every request.
    """

    client_id: str
    dialer: Dialer
    masters: Callable[[], Iterable[Address]]
    timeout_ms: int
    fields: dict[str, str]
    _groups: dict[str, int] = field(default_factory=dict, init=False)
    _version: int = field(default=0, init=False)
    _acknowledged: dict[Address, _Acknowledged] = field(default_factory=dict, init=False)
    _beating: dict[tuple[Address, int], asyncio.Task[bool]] = field(
        default_factory=dict, init=False
    )
    _failing: set[Address] = field(default_factory=set, init=False)

    def __repr__(self) -> str:
        return f"<Heartbeats of {self.client_id} in {', '.join(self.groups) or 'no group'}>"

    @property
    def groups(self) -> list[str]:
        """The producer groups, without ``INNER_GROUP``."""
        return list(self._groups)

    def join(self, group: str) -> None:
        """Add a group, or count it once more; masters get a heartbeat with a new one at once."""
        self._groups[group] = self._groups.get(group, 0) + 1
        if self._groups[group] == 1:
            self._version += 1
            for address in self.masters():
                self._beat(address)

    async def leave(self, group: str, timeout_ms: int = UNREGISTER_MS) -> None:
        """Undo one ``join``; the last one unregisters the group at connected masters.

        It waits for their answers up to the timeout, and never longer than ``UNREGISTER_MS``.
        """
        self._groups[group] -= 1
        if self._groups[group]:
            return
        del self._groups[group]
        self._version += 1
        left = [group] if self._groups else [group, INNER_GROUP]
        await self._unregister_all(left, min(timeout_ms, UNREGISTER_MS))

    def announce(self, address: Address) -> None:
        """Send a heartbeat to a broker unless it knows our groups."""
        if self._groups and not self._knows_us(address):
            self._beat(address)

    def announce_on(self, address: Address, connection: Connection) -> None:
        """Send a heartbeat to a broker unless it answered one on this connection."""
        last = self._acknowledged.get(address)
        if self._groups and (last is None or last.connection is not connection):
            self._beat(address)

    def release_of(self, address: Address | None) -> int:
        """Return the release of a broker, as its answers number it; 0 if it is unknown."""
        last = None if address is None else self._acknowledged.get(address)
        return 0 if last is None else last.release

    async def announce_all(self, addresses: Iterable[Address]) -> None:
        """Wait until brokers know our groups, or their heartbeats failed.

        A broker that knows them, on an open connection, gets no heartbeat. One whose last heartbeat
        failed gets one, but is not waited for.
        """
        unaware = [address for address in addresses if not self._knows_us(address)]
        beats = [(self._beat(address), address in self._failing) for address in unaware]
        if awaited := [beat for beat, is_failing in beats if not is_failing]:
            await asyncio.wait(awaited)

    async def beat_all(self) -> None:
        """Send a heartbeat to all masters; wait until each has answered or timed out."""
        masters = list(self.masters())
        known = self._acknowledged.items()
        self._acknowledged = {address: last for address, last in known if address in masters}
        self._failing.intersection_update(masters)
        if self._groups and masters:
            await asyncio.wait([self._beat(address) for address in masters])

    async def run(self, interval_ms: int) -> None:
        """Send heartbeats to all masters after each interval, until cancelled."""
        work = lambda: self.beat_all()  # noqa: E731, PLW0108 - looked up each time, for tests
        await run_periodically(interval_ms, work, "heartbeats can't be sent")

    async def close(self) -> None:
        """Cancel the heartbeats in flight."""
        await cancel_all(self._beating.values())

    def _knows_us(self, address: Address) -> bool:
        last = self._acknowledged.get(address)
        return last is not None and last.version == self._version and last.connection.is_open

    def _beat(self, address: Address) -> asyncio.Task[bool]:
        """Send a heartbeat, unless one with the same groups is in flight; return its task."""
        key = address, self._version
        beat = self._beating.get(key)
        if beat is None:
            beat = asyncio.create_task(self._heartbeat(*key), name=f"heartbeat to {address}")
            self._beating[key] = beat
            beat.add_done_callback(lambda _done: self._beating.pop(key, None))
        return beat

    async def _heartbeat(self, address: Address, version: int) -> bool:
        body = HeartbeatData(
            client_id=self.client_id,
            producer_data_set=tuple(
                ProducerData(group_name=group) for group in (INNER_GROUP, *self._groups)
            ),
        ).to_json()
        try:
            connection = await self.dialer.connection(address)
            answer = await connection.request(
                Heartbeat(), body, timeout_ms=self.timeout_ms, fields=self.fields
            )
        except OrbitError as error:
            return self._note_failure(address, str(error))
        if answer.code != ResponseCode.SUCCESS:
            return self._note_failure(address, f"it answered {answer.code}: {answer.remark}")
        self._acknowledged[address] = _Acknowledged(connection, version, answer.version)
        if address in self._failing:
            self._failing.discard(address)
            log.info("broker %s answers heartbeats again", address)
        return True

    def _note_failure(self, address: Address, reason: str) -> bool:
        """Log the first of several failures in a row."""
        if address not in self._failing:
            self._failing.add(address)
            log.warning("broker %s does not answer heartbeats: %s", address, reason)
        return False

    async def _unregister_all(self, groups: Iterable[str], timeout_ms: int) -> None:
        """Unregister groups at all connected masters in parallel, even if there is no time left."""
        open_ones = [
            connection
            for address in self.masters()
            if (connection := self.dialer.connections.get(address)) and connection.is_open
        ]
        requests = [
            asyncio.create_task(self._unregister(connection, group))
            for group in groups
            for connection in open_ones
        ]
        if requests:
            try:
                await asyncio.wait(requests, timeout=timeout_ms / 1_000)
            finally:
                await cancel_all(requests)

    async def _unregister(self, connection: Connection, group: str) -> None:
        header = UnregisterClient(client_id=self.client_id, producer_group=group)
        try:
            await connection.request(header, timeout_ms=UNREGISTER_MS, fields=self.fields)
        except OrbitError as error:
            log.debug("%s did not unregister this client: %s", connection.peer, error)
