"""Who we are, told to every master again and again: heartbeats, and a farewell.

::

    join(group), a broker met, a connection made anew ──▶ a heartbeat at once
    every 30 s ─────────────────────────────────────────▶ a heartbeat to all masters
    leave(group) ───────────────────────────────────────▶ UNREGISTER_CLIENT to those connected

Each broker is spoken to on its own: one that is down, or doesn't answer, costs the others nothing.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from orbitmq.client.core.periodic import again_and_again, give_up
from orbitmq.errors import OrbitError
from orbitmq.net.address import Address
from orbitmq.net.connection import Connection
from orbitmq.net.dialer import Dialer
from orbitmq.wire.bodies.heartbeat import HeartbeatData, ProducerData
from orbitmq.wire.codes import ResponseCode
from orbitmq.wire.headers.heartbeat import Heartbeat, UnregisterClient

__all__ = ["FAREWELL_MS", "INNER_GROUP", "Membership"]

log = logging.getLogger("orbitmq.client")

INNER_GROUP: Final = "CLIENT_INNER_PRODUCER"
"""A group that Java's clients are always in (MixAll); tools expect to see it."""
FAREWELL_MS: Final = 1_000
"""How long a stop waits, at most, for brokers to hear of it; they would notice by themselves."""


class _Greeting(NamedTuple):
    """Which connection carried a heartbeat, which groups it named, and which release answered."""

    connection: Connection
    version: int
    release: int


class Membership:
    """The groups of one client, and who has been told of them.

    Args:
        client_id: the id that brokers know the client by.
        dialer: connections to brokers.
        masters: where the masters of all known routes are.
        timeout_ms: how long an answer may take.
        fields: what every request carries besides its own fields.

    """

    def __init__(
        self,
        client_id: str,
        *,
        dialer: Dialer,
        masters: Callable[[], Iterable[Address]],
        timeout_ms: int,
        fields: dict[str, str],
    ) -> None:
        self._client_id = client_id
        self._dialer = dialer
        self._masters = masters
        self._timeout_ms = timeout_ms
        self._fields = fields
        self._groups: dict[str, int] = {}
        self._version = 0
        self._greeted: dict[Address, _Greeting] = {}
        self._beating: dict[tuple[Address, int], asyncio.Task[bool]] = {}
        self._failing: set[Address] = set()

    def __repr__(self) -> str:
        return f"<Membership of {self._client_id} in {', '.join(self.groups) or 'no group'}>"

    @property
    def groups(self) -> list[str]:
        """The producer groups, without the inner one."""
        return list(self._groups)

    def join(self, group: str) -> None:
        """Be in a group from now on, once more if already; masters hear of it at once."""
        self._groups[group] = self._groups.get(group, 0) + 1
        if self._groups[group] == 1:
            self._version += 1
            for address in self._masters():
                self._beat(address)

    async def leave(self, group: str, timeout_ms: int = FAREWELL_MS) -> None:
        """Be in a group once less; after the last time, those we are connected to hear of it.

        Args:
            group: the group.
            timeout_ms: how long to wait, at most, until they say that they have.

        """
        self._groups[group] -= 1
        if self._groups[group]:
            return
        del self._groups[group]
        self._version += 1
        left = [group] if self._groups else [group, INNER_GROUP]
        await self._say_farewell(left, min(timeout_ms, FAREWELL_MS))

    def greet(self, address: Address) -> None:
        """Have a broker hear of our groups, unless it has."""
        if self._groups and not self._knows_us(address):
            self._beat(address)

    def met(self, address: Address, connection: Connection) -> None:
        """Greet a broker on a connection that it has not heard from us on."""
        greeting = self._greeted.get(address)
        if self._groups and (greeting is None or greeting.connection is not connection):
            self._beat(address)

    def release_of(self, address: Address | None) -> int:
        """Return the release that a broker is of, as its answers number it; 0 if it isn't known."""
        greeting = None if address is None else self._greeted.get(address)
        return 0 if greeting is None else greeting.release

    async def introduce(self, addresses: Iterable[Address]) -> None:
        """Return when brokers have heard of our groups, or can't be told.

        Those that have, on a connection that is open, are not told again. Those that could not be
        told the last time are, and nobody waits for them.
        """
        unaware = [address for address in addresses if not self._knows_us(address)]
        beats = [(self._beat(address), address in self._failing) for address in unaware]
        if awaited := [beat for beat, is_failing in beats if not is_failing]:
            await asyncio.wait(awaited)

    async def beat_all(self) -> None:
        """Send a heartbeat to all masters; return when each has answered, or its time is over."""
        masters = list(self._masters())
        self._greeted = {one: told for one, told in self._greeted.items() if one in masters}
        self._failing.intersection_update(masters)
        if self._groups and masters:
            await asyncio.wait([self._beat(address) for address in masters])

    async def run(self, interval_ms: int) -> None:
        """Send heartbeats again and again, until cancelled."""
        work = lambda: self.beat_all()  # noqa: E731, PLW0108 - found anew each time, as it is now
        await again_and_again(interval_ms, work, "heartbeats can't be sent")

    async def close(self) -> None:
        """Give up heartbeats on their way."""
        await give_up(self._beating.values())

    def _knows_us(self, address: Address) -> bool:
        greeting = self._greeted.get(address)
        return (
            greeting is not None
            and greeting.version == self._version
            and greeting.connection.is_open
        )

    def _beat(self, address: Address) -> asyncio.Task[bool]:
        """Have a heartbeat sent; one with the same groups that is on its way serves as well."""
        key = address, self._version
        beat = self._beating.get(key)
        if beat is None:
            beat = asyncio.create_task(self._heartbeat(*key), name=f"heartbeat to {address}")
            self._beating[key] = beat
            beat.add_done_callback(lambda _done: self._beating.pop(key, None))
        return beat

    async def _heartbeat(self, address: Address, version: int) -> bool:
        body = HeartbeatData(
            client_id=self._client_id,
            producer_data_set=tuple(
                ProducerData(group_name=group) for group in (INNER_GROUP, *self._groups)
            ),
        ).to_json()
        try:
            connection = await self._dialer.connection(address)
            answer = await connection.request(
                Heartbeat(), body, timeout_ms=self._timeout_ms, fields=self._fields
            )
        except OrbitError as error:
            return self._note_failure(address, str(error))
        if answer.code != ResponseCode.SUCCESS:
            return self._note_failure(address, f"it answered {answer.code}: {answer.remark}")
        self._greeted[address] = _Greeting(connection, version, answer.version)
        if address in self._failing:
            self._failing.discard(address)
            log.info("broker %s hears heartbeats again", address)
        return True

    def _note_failure(self, address: Address, reason: str) -> bool:
        """Say once that a broker hears nothing, not every time."""
        if address not in self._failing:
            self._failing.add(address)
            log.warning("broker %s hears no heartbeat: %s", address, reason)
        return False

    async def _say_farewell(self, groups: Iterable[str], timeout_ms: int) -> None:
        """Tell all of them at once; one that has no time left to answer in is told all the same."""
        open_ones = [
            connection
            for address in self._masters()
            if (connection := self._dialer.connections.get(address)) and connection.is_open
        ]
        farewells = [
            asyncio.create_task(self._unregister(connection, group))
            for group in groups
            for connection in open_ones
        ]
        if farewells:
            try:
                await asyncio.wait(farewells, timeout=timeout_ms / 1_000)
            finally:
                await give_up(farewells)

    async def _unregister(self, connection: Connection, group: str) -> None:
        header = UnregisterClient(client_id=self._client_id, producer_group=group)
        try:
            await connection.request(header, timeout_ms=FAREWELL_MS, fields=self._fields)
        except OrbitError as error:
            log.debug("%s hears no farewell: %s", connection.peer, error)
