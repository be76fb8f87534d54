"""How a broker makes itself known: the same words to every nameserver, again and again.

::

    changed() ─┐
    30 s ──────┴──▶ register with all at once ──▶ wait for the next reason
    close() ──────▶ unregister from all

A nameserver that is down costs the others nothing: each is spoken to on its own, and the round ends
when the slowest has answered or its time is over.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from orbitmq.errors import InvalidBody, OrbitError, RequestTimeout
from orbitmq.net.address import Address
from orbitmq.net.dialer import Dialer
from orbitmq.wire.bodies.cluster import KVTable
from orbitmq.wire.bodies.registration import (
    BrokerRegistration,
    TopicConfigAndMappingTable,
    body_crc32,
)
from orbitmq.wire.codes import ResponseCode
from orbitmq.wire.frame import Frame
from orbitmq.wire.headers.route import RegisterBroker, UnregisterBroker

__all__ = ["BrokerIdentity", "Registration"]

log = logging.getLogger("orbitmq.broker")

_GATHER_MS: Final = 10
"""How long changes are gathered: a client that starts may make several topics in a row."""
_FAREWELL_MS: Final = 3_000
"""How long a stop waits for a nameserver, as Java's does."""
_PERIOD_MS_MIN: Final = 10_000
_PERIOD_MS_MAX: Final = 60_000
"""Java's bounds of ``registerNameServerPeriod``."""


class BrokerIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """Who registers."""

    cluster_name: str
    broker_name: str
    broker_id: int
    address: str
    """Where clients reach it."""
    ha_address: str
    """Where replicas would."""


class Registration:
    """Keeps a broker registered. ``run`` it as a task; ``close`` it in the end.

    Args:
        identity: who registers.
        nameservers: with whom.
        topics: returns the topic table as it is now.
        dialer: connections to the nameservers.
        period_ms: how often, without a change.
        timeout_ms: how long one answer may take.
        on_ordered: called with the names of the topics that a nameserver says are ordered.

    """

    def __init__(
        self,
        identity: BrokerIdentity,
        nameservers: Sequence[Address],
        topics: Callable[[], TopicConfigAndMappingTable],
        *,
        dialer: Dialer,
        period_ms: int,
        timeout_ms: int,
        on_ordered: Callable[[Sequence[str]], None] = lambda _topics: None,
    ) -> None:
        self._identity = identity
        self._nameservers = tuple(nameservers)
        self._topics = topics
        self._dialer = dialer
        self._period_s = min(max(period_ms, _PERIOD_MS_MIN), _PERIOD_MS_MAX) / 1000
        self._timeout_ms = timeout_ms
        self._on_ordered = on_ordered
        self._changed = asyncio.Event()
        self._failing: set[Address] = set()
        self._round = asyncio.Lock()
        self._asked = 0  # calls of ``register``
        self._covered = 0  # those of them that were made before a round that is over began
        self._taken = 0  # by how many nameservers, in that round

    def __repr__(self) -> str:
        places = ", ".join(map(str, self._nameservers))
        return f"<Registration of {self._identity.broker_name} with {places}>"

    def changed(self) -> None:
        """Have the topic table told soon; it has changed."""
        self._changed.set()

    async def run(self) -> None:
        """Register on every change and every period, until cancelled."""
        while True:
            try:
                async with asyncio.timeout(self._period_s):
                    await self._changed.wait()
                await asyncio.sleep(_GATHER_MS / 1000)
            except TimeoutError:
                pass
            await self.register()

    async def register(self) -> int:
        """Register with each nameserver; return how many took it.

        One round goes on at a time. All who call meanwhile share the next one: of a thousand topics
        made at once each would send the whole table otherwise.
        """
        self._asked = asked = self._asked + 1
        async with self._round:
            if self._covered < asked:
                covered = self._asked
                self._taken = await self._register_with_all()
                self._covered = covered
            return self._taken

    async def _register_with_all(self) -> int:
        self._changed.clear()
        who = self._identity
        body = BrokerRegistration(topics=self._topics()).to_json()
        header = RegisterBroker(
            broker_name=who.broker_name,
            broker_addr=who.address,
            cluster_name=who.cluster_name,
            ha_server_addr=who.ha_address,
            broker_id=who.broker_id,
            enable_acting_master=False,
            compressed=False,
            body_crc32=body_crc32(body),
        )
        told = [self._register(nameserver, header, body) for nameserver in self._nameservers]
        return sum(await asyncio.gather(*told))

    async def close(self) -> None:
        """Take the broker out of all routes; a nameserver that is down finds out by itself."""
        who = self._identity
        header = UnregisterBroker(
            broker_name=who.broker_name,
            broker_addr=who.address,
            cluster_name=who.cluster_name,
            broker_id=who.broker_id,
        )
        timeout_ms = min(self._timeout_ms, _FAREWELL_MS)
        await asyncio.gather(
            *(self._tell(one, header, b"", timeout_ms) for one in self._nameservers)
        )

    async def _register(self, nameserver: Address, header: RegisterBroker, body: bytes) -> bool:
        answer = await self._tell(nameserver, header, body, self._timeout_ms)
        if answer is None:
            return False
        if nameserver in self._failing:
            self._failing.discard(nameserver)
            log.info("nameserver %s is back", nameserver)
        self._read_order(nameserver, answer)
        return True

    async def _tell(
        self,
        nameserver: Address,
        header: RegisterBroker | UnregisterBroker,
        body: bytes,
        timeout_ms: int,
    ) -> Frame | None:
        """Return the answer of a nameserver; None if there is none, or it is no success."""
        try:
            answer = await self._dialer.request(nameserver, header, body, timeout_ms=timeout_ms)
        except OrbitError as error:
            self._note_failure(nameserver, str(error))
            if isinstance(error, RequestTimeout):
                self._give_up(nameserver)
            return None
        if answer.code != ResponseCode.SUCCESS:
            self._note_failure(nameserver, f"it answered {answer.code}: {answer.remark}")
            return None
        return answer

    def _give_up(self, nameserver: Address) -> None:
        """Have the next round dial anew: a connection that went silent stays so till it is idle."""
        connection = self._dialer.connections.get(nameserver)
        if connection is not None:
            connection.abort("the nameserver does not answer")

    def _read_order(self, nameserver: Address, answer: Frame) -> None:
        """Take in which topics are ordered; as in Java, one that is named no more stays so."""
        if not answer.body:
            return
        try:
            ordered = KVTable.from_json(answer.body).table
        except InvalidBody as error:
            log.warning("nameserver %s says nothing readable of order: %s", nameserver, error)
            return
        self._on_ordered(sorted(ordered))

    def _note_failure(self, nameserver: Address, reason: str) -> None:
        """Say once that a nameserver can't be told, not every period."""
        if nameserver not in self._failing:
            self._failing.add(nameserver)
            log.warning("nameserver %s does not know this broker: %s", nameserver, reason)
