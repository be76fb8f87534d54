"""Heartbeats to all brokers that need them, which name the client and its groups.

::

    join(group), a new broker, a new connection ──▶ a heartbeat at once
    subscribe(consumer), also with changes ───────▶ a heartbeat at once
    every 30 s ───────────────────────────────────▶ a heartbeat to all
    leave(group), unsubscribe(group) ─────────────▶ UNREGISTER_CLIENT to those connected

Masters get them all; slaves only those of a client with consumers, which may pull from them.

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
from orbitmq.wire.bodies.heartbeat import ConsumerData, HeartbeatData, ProducerData
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

    ``masters`` and ``slaves`` return the addresses of brokers in all known routes; ``fields`` are
    added to every request.
    """

    client_id: str
    dialer: Dialer
    masters: Callable[[], Iterable[Address]]
    slaves: Callable[[], Iterable[Address]] = tuple
    timeout_ms: int
    fields: dict[str, str]
    _consumers: dict[str, ConsumerData] = field(default_factory=dict, init=False)
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
            self._changed()

    async def leave(self, group: str, timeout_ms: int = UNREGISTER_MS) -> None:
        """Undo one ``join``; the last one unregisters the group at connected masters.

        It waits for their answers up to the timeout, and never longer than ``UNREGISTER_MS``.
        """
        self._groups[group] -= 1
        if self._groups[group]:
            return
        del self._groups[group]
        self._version += 1
        left = UnregisterClient(client_id=self.client_id, producer_group=group)
        await self._unregister_all(left, timeout_ms, list(self.masters()))

    def subscribe(self, consumer: ConsumerData) -> None:
        """Add a consumer group, or replace what is known of it; brokers get a heartbeat at once."""
        self._consumers[consumer.group_name] = consumer
        self._changed()

    async def unsubscribe(self, group: str, timeout_ms: int = UNREGISTER_MS) -> None:
        """Remove a consumer group, and unregister it at connected brokers, as ``leave`` does."""
        brokers = self._brokers
        del self._consumers[group]
        self._version += 1
        left = UnregisterClient(client_id=self.client_id, consumer_group=group)
        await self._unregister_all(left, timeout_ms, brokers)

    @property
    def _is_member(self) -> bool:
        return bool(self._groups or self._consumers)

    @property
    def _brokers(self) -> list[Address]:
        """The brokers that get heartbeats."""
        return list(dict.fromkeys([*self.masters(), *(self.slaves() if self._consumers else ())]))

    def _changed(self) -> None:
        self._version += 1
        for address in self._brokers:
            self._beat(address)

    def announce(self, address: Address) -> None:
        """Send a heartbeat to a broker unless it knows our groups."""
        if self._is_member and not self._knows_us(address):
            self._beat(address)

    def announce_missing(self) -> None:
        """Send a heartbeat to all brokers that don't know our groups."""
        for address in self._brokers:
            self.announce(address)

    def announce_on(self, address: Address, connection: Connection) -> None:
        """Send a heartbeat to a broker unless it answered one on this connection."""
        last = self._acknowledged.get(address)
        if self._is_member and (last is None or last.connection is not connection):
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
        """Send a heartbeat to all brokers; wait until each has answered or timed out."""
        brokers = self._brokers
        known = self._acknowledged.items()
        self._acknowledged = {address: last for address, last in known if address in brokers}
        self._failing.intersection_update(brokers)
        if self._is_member and brokers:
            await asyncio.wait([self._beat(address) for address in brokers])

    async def beat(self, address: Address) -> bool:
        """Send a heartbeat to a broker; return whether it answered."""
        return await self._beat(address)

    async def announced(self) -> None:
        """Wait until all brokers know our groups, or their heartbeats failed."""
        await self.announce_all(self._brokers)

    async def run(self, interval_ms: int) -> None:
        """Send heartbeats to all brokers after each interval, until cancelled."""
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
            consumer_data_set=tuple(self._consumers.values()),
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

    async def _unregister_all(
        self, left: UnregisterClient, timeout_ms: int, brokers: list[Address]
    ) -> None:
        """Unregister at all connected brokers in parallel, even if there is no time left."""
        headers = [left]
        if not self._is_member:
            inner = UnregisterClient(client_id=self.client_id, producer_group=INNER_GROUP)
            headers.append(inner)
        open_ones = [
            connection
            for address in brokers
            if (connection := self.dialer.connections.get(address)) and connection.is_open
        ]
        requests = [
            asyncio.create_task(self._unregister(connection, header))
            for header in headers
            for connection in open_ones
        ]
        if requests:
            try:
                await asyncio.wait(requests, timeout=min(timeout_ms, UNREGISTER_MS) / 1_000)
            finally:
                await cancel_all(requests)

    async def _unregister(self, connection: Connection, header: UnregisterClient) -> None:
        try:
            await connection.request(header, timeout_ms=UNREGISTER_MS, fields=self.fields)
        except OrbitError as error:
            log.debug("%s did not unregister this client: %s", connection.peer, error)
