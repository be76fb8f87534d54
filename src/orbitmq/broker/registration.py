"""Registration of a broker with its nameservers, on every change and every 30 s.

::

    changed(), a connection lost ─┐
    30 s ─────────────────────────┴──▶ register with all at once ──▶ wait for the next reason
    1, 2, 4 … s after that ──────────▶ register with those that could not be reached
    close() ─────────────────────────▶ unregister from all

A nameserver that is down does not delay the others: all are called at once, and the round ends when
the slowest has answered or timed out. One that was restarted knows nobody, and clients find no
master that was elected meanwhile: so the loss of a connection is a reason to register (Java waits
for the next period).
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Sequence
from math import inf
from typing import Final

import msgspec

from orbitmq.errors import ConnectFailed, ConnectionClosed, InvalidBody, OrbitError
from orbitmq.net.address import Address
from orbitmq.net.connection import Connection
from orbitmq.net.dialer import Dialer
from orbitmq.wire.bodies.cluster import KVTable
from orbitmq.wire.bodies.registration import (
    BrokerRegistration,
    TopicConfigAndMappingTable,
    body_crc32,
)
from orbitmq.wire.codes import ResponseCode
from orbitmq.wire.frame import Frame
from orbitmq.wire.headers.route import RegisterBroker, RegisterBrokerAnswer, UnregisterBroker

__all__ = ["BrokerIdentity", "Registration"]

log = logging.getLogger("orbitmq.broker")

_GATHER_MS: Final = 10
"""How long changes are collected: a starting client may create several topics in a row."""
_UNREGISTER_MS: Final = 3_000
"""How long a stop waits for a nameserver, as in Java."""
_AGAIN_S: Final = 1.0
"""How soon one that could not be reached is tried again; it doubles until the next full round."""
_PERIOD_MS_MIN: Final = 10_000
_PERIOD_MS_MAX: Final = 60_000
"""Java's limits of ``registerNameServerPeriod``."""


class BrokerIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """The broker that registers."""

    cluster_name: str
    broker_name: str
    broker_id: int
    address: str
    """Its address for clients."""
    ha_address: str
    """Its address for replicas."""


class Registration:
    """Keeps a broker registered. ``run`` it as a task, and ``close`` it at the end.

    It registers every ``period_ms`` even without a change, and waits ``timeout_ms`` for each
    answer. ``on_ordered`` is called with the topics in a nameserver's order configuration, and
    ``on_master`` with the addresses of a slave's master: for clients, and for slaves. Nothing is
    registered while ``topics`` returns None: another broker may have its id by now.
    """

    def __init__(
        self,
        identity: BrokerIdentity,
        nameservers: Sequence[Address],
        topics: Callable[[], TopicConfigAndMappingTable | None],
        *,
        dialer: Dialer,
        period_ms: int,
        timeout_ms: int,
        on_ordered: Callable[[Sequence[str]], None] = lambda _topics: None,
        on_master: Callable[[str, str], None] = lambda _master, _ha: None,
    ) -> None:
        self._identity = identity
        self._nameservers = tuple(nameservers)
        self._topics = topics
        self._dialer = dialer
        self._period_s = min(max(period_ms, _PERIOD_MS_MIN), _PERIOD_MS_MAX) / 1000
        self._timeout_ms = timeout_ms
        self._on_ordered = on_ordered
        self._on_master = on_master
        self._is_changed = False
        self._news = asyncio.Event()
        self._failing: set[Address] = set()
        self._gone: set[Address] = set()  # of these, those that could not be reached
        self._watched: dict[Address, Connection] = {}
        self._round = asyncio.Lock()
        self._calls = 0  # of ``register``
        self._covered = 0  # those made before the last finished round began
        self._accepted = 0  # nameservers that accepted that round

    def __repr__(self) -> str:
        addresses = ", ".join(map(str, self._nameservers))
        return f"<Registration of {self._identity.broker_name} with {addresses}>"

    def changed(self) -> None:
        """Register soon, since the topic table changed."""
        self._is_changed = True
        self._news.set()

    async def run(self) -> None:
        """Register on every change and every period, until cancelled."""
        time = asyncio.get_running_loop().time
        due, again_s = time() + self._period_s, _AGAIN_S
        while True:
            again = time() + again_s if self._gone else inf
            is_time = not await self._has_news_until(min(due, again))
            if self._is_changed:
                await asyncio.sleep(_GATHER_MS / 1000)
            if self._is_changed or (is_time and due <= again):
                await self.register()
                due, again_s = time() + self._period_s, _AGAIN_S
            elif is_time:
                again_s *= 2
                async with self._round:
                    await self._register_with(tuple(self._gone))

    async def _has_news_until(self, deadline: float) -> bool:
        """Wait for a change, or a nameserver that is gone; return False if there was none."""
        try:
            async with asyncio.timeout_at(deadline):
                await self._news.wait()
        except TimeoutError:
            return False
        self._news.clear()
        return True

    async def register(self) -> int:
        """Register with each nameserver; return how many accepted.

        One round runs at a time. Calls during a round share the next one: otherwise each of a
        thousand new topics would send the whole table.
        """
        self._calls = call = self._calls + 1
        async with self._round:
            if self._covered < call:
                covered = self._calls
                self._is_changed = False
                self._accepted = await self._register_with(self._nameservers)
                self._covered = covered
            return self._accepted

    async def _register_with(self, nameservers: Collection[Address]) -> int:
        topics = self._topics()
        if topics is None:
            return 0
        broker = self._identity
        body = BrokerRegistration(topics=topics).to_json()
        header = RegisterBroker(
            broker_name=broker.broker_name,
            broker_addr=broker.address,
            cluster_name=broker.cluster_name,
            ha_server_addr=broker.ha_address,
            broker_id=broker.broker_id,
            enable_acting_master=False,
            compressed=False,
            body_crc32=body_crc32(body),
        )
        calls = [self._register(nameserver, header, body) for nameserver in nameservers]
        return sum(await asyncio.gather(*calls))

    async def close(self) -> None:
        """Unregister from all nameservers; one that is down notices by missing registrations."""
        broker = self._identity
        header = UnregisterBroker(
            broker_name=broker.broker_name,
            broker_addr=broker.address,
            cluster_name=broker.cluster_name,
            broker_id=broker.broker_id,
        )
        timeout_ms = min(self._timeout_ms, _UNREGISTER_MS)
        await asyncio.gather(
            *(self._request(one, header, b"", timeout_ms) for one in self._nameservers)
        )

    async def _register(self, nameserver: Address, header: RegisterBroker, body: bytes) -> bool:
        answer = await self._request(nameserver, header, body, self._timeout_ms)
        if answer is None:
            return False
        self._gone.discard(nameserver)
        self._watch(nameserver)
        if nameserver in self._failing:
            self._failing.discard(nameserver)
            log.info("nameserver %s accepts registrations again", nameserver)
        self._read_order(nameserver, answer)
        self._read_master(answer)
        return True

    async def _request(
        self,
        nameserver: Address,
        header: RegisterBroker | UnregisterBroker,
        body: bytes,
        timeout_ms: int,
    ) -> Frame | None:
        """Return the successful answer of a nameserver, or None; a failure is logged."""
        try:
            answer = await self._dialer.request(nameserver, header, body, timeout_ms=timeout_ms)
        except OrbitError as error:
            self._note_failure(nameserver, str(error))
            if isinstance(error, ConnectFailed | ConnectionClosed):
                self._gone.add(nameserver)
                self._news.set()
            return None
        if answer.code != ResponseCode.SUCCESS:
            self._note_failure(nameserver, f"it answered with code {answer.code}: {answer.remark}")
            return None
        return answer

    def _watch(self, nameserver: Address) -> None:
        """Register again when the connection that it registered by is lost."""
        connection = self._dialer.connections.get(nameserver)
        if connection is not None and self._watched.get(nameserver) is not connection:
            self._watched[nameserver] = connection
            connection.when_closed(lambda lost: self._lost(nameserver, lost))

    def _lost(self, nameserver: Address, connection: Connection) -> None:
        if self._watched.get(nameserver) is connection:
            del self._watched[nameserver]
            self.changed()

    def _read_order(self, nameserver: Address, answer: Frame) -> None:
        """Read which topics are ordered; as in Java, a topic never stops being ordered."""
        if not answer.body:
            return
        try:
            ordered = KVTable.from_json(answer.body).table
        except InvalidBody as error:
            log.warning("nameserver %s sent an invalid order configuration: %s", nameserver, error)
            return
        self._on_ordered(sorted(ordered))

    def _read_master(self, answer: Frame) -> None:
        """Read where the master is, which a nameserver tells to a slave alone."""
        read = answer.read(RegisterBrokerAnswer)
        if self._identity.broker_id and read.master_addr and read.ha_server_addr:
            self._on_master(read.master_addr, read.ha_server_addr)

    def _note_failure(self, nameserver: Address, reason: str) -> None:
        """Log the first of several failures with a nameserver."""
        if nameserver not in self._failing:
            self._failing.add(nameserver)
            log.warning(
                "registration with nameserver %s failed, it is retried: %s", nameserver, reason
            )
