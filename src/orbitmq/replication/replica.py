"""The replica's end: a connection to the primary, kept up as long as the broker runs.

::

    no address ─▶ wait ─▶ connect ─▶ follow ─┬─ ended, silent, disk full ─▶ connect again
                                             └─ logs diverged ─▶ long pause, the error stays visible

It counts as followed once it has sent something: a port that only takes connections, or ends them,
may be another server's, and is logged once.

After a connection the next one follows in a moment, but no more than three in a second. While a
host refuses them, since nothing listens there, it tries more often.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import closing
from functools import partial
from typing import Final, cast

from orbitmq.clock import Clock
from orbitmq.errors import (
    ConnectionClosed,
    LogsDiverged,
    NetworkError,
    OrbitError,
    RemoteProtocolError,
)
from orbitmq.message.buffer import Buffer
from orbitmq.net.address import Address
from orbitmq.net.transport.network import Network
from orbitmq.net.transport.tcp import TcpNetwork
from orbitmq.replication.follower import Follower, LogRange, PrepareFirst
from orbitmq.replication.settings import ReplicationSettings
from orbitmq.store.message_store import MessageStore
from orbitmq.store.settings import FlushMode
from orbitmq.wire.epoch_stream import LinkState

__all__ = ["Replica"]

log = logging.getLogger("orbitmq.replication")

_CONNECT_S: Final = 3.0
_PAUSE_S: Final = 1.0
"""Java pauses for 5 s; a master that restarts is followed again sooner."""
_AT_ONCE: Final = 3
"""How many connections there may be within that pause."""
_MOMENT_S: Final = 0.05
"""A process that ends may close its port a moment after its connections."""
_REFUSED_PAUSE_S: Final = 0.2
_LONG_PAUSE_S: Final = 60.0
_TICK_S: Final = 0.5


async def _unknown() -> LogRange | None:
    return None


class Replica:
    """Copies the log of the primary at ``address``, which may change; ``run`` it as a task.

    ``follower`` speaks the classic stream or that with epochs. ``primary_range`` returns from where
    to where the primary's log goes; None if it is unknown.
    """

    def __init__(
        self,
        *,
        store: MessageStore,
        settings: Callable[[], ReplicationSettings],
        clock: Clock,
        follower: Follower,
        primary_range: Callable[[], Awaitable[LogRange | None]] = _unknown,
        network: Network | None = None,
    ) -> None:
        self._store = store
        self._clock = clock
        self._primary_range = primary_range
        self._network = network or TcpNetwork()
        self.follower = follower
        """What it has, and does."""
        self._address: Address | None = settings().master()
        self._is_fixed = self._address is not None
        self._changed = asyncio.Event()
        self._link: _PrimaryLink | None = None
        self._tried_ms: deque[int] = deque(maxlen=_AT_ONCE)
        self.on_refused: Callable[[Address], None] = lambda _address: None
        """Called when a host refuses a connection: nothing listens at that address."""
        self.failure: OrbitError | None = None
        """Why it doesn't follow now; None if it does."""
        self.heard_at_ms = 0
        """When something came from the primary, in milliseconds since 1970; 0: never."""
        self.said_at_ms = 0
        """When something was last reported to it."""

    def __repr__(self) -> str:
        return f"<Replica of {self._address}, {self.follower!r}>"

    @property
    def address(self) -> Address | None:
        """Where the primary listens for replicas."""
        return self._address

    def follow(self, address: Address | None) -> None:
        """Follow the primary at an address, unless ``haMasterAddress`` says which; None: nobody."""
        if self._is_fixed or address == self._address:
            return
        log.info("the primary to follow is %s; before, it was %s", address, self._address)
        self._address = address
        self._changed.set()
        if self._link is not None:
            self._link.end()

    async def run(self) -> None:
        """Follow until cancelled."""
        try:
            while True:
                self._changed.clear()
                if self._address is None:
                    await self._changed.wait()
                    continue
                pause_s = await self._follow_once(self._address)
                try:
                    async with asyncio.timeout(pause_s):
                        await self._changed.wait()
                except TimeoutError:
                    pass
        finally:
            if self._link is not None:
                self._link.end()
            self.follower.state = LinkState.SHUTDOWN

    async def _follow_once(self, address: Address) -> float:
        """Follow over one connection; return how long to wait before the next."""
        self._tried_ms.append(self._clock.monotonic_ms())
        try:
            with closing(self.follower.preparation()) as steps:
                for _ in steps:
                    await asyncio.sleep(0)  # others have their turn
            primary = await self._primary_range() if self.follower.is_empty else None
            link = _PrimaryLink(self.follower, self._store, self._clock, primary)
            async with asyncio.timeout(_CONNECT_S):
                await self._network.connect(link, address, tls=None)
        except (OSError, TimeoutError, OrbitError) as error:
            if self.failure is None:
                log.warning("the primary %s can't be followed, it is retried: %s", address, error)
            self.failure = error if isinstance(error, OrbitError) else OrbitError(str(error))
            if isinstance(error, ConnectionRefusedError):
                self.on_refused(address)
                return _REFUSED_PAUSE_S
            return _PAUSE_S
        link.on_followed = partial(self._followed, self._store.log.end)
        self._link, before = link, self.failure
        while not link.closed.is_set():
            try:
                async with asyncio.timeout(_TICK_S):
                    await link.closed.wait()
            except TimeoutError:
                link.tick()
            self.heard_at_ms = link.heard_at_ms or self.heard_at_ms
            self.said_at_ms = link.said_at_ms or self.said_at_ms
        self._link = None
        self.failure = link.failure
        if self.failure is None:
            log.warning("the connection to the primary %s ended", address)
        elif str(self.failure) != str(before):
            # A broken stream is asked for again; the others need somebody to look.
            passes = isinstance(self.failure, RemoteProtocolError | NetworkError)
            level = logging.WARNING if passes else logging.ERROR
            log.log(level, "the primary %s is not followed: %s", address, self.failure)
        return _LONG_PAUSE_S if isinstance(self.failure, LogsDiverged) else self._pause_s()

    def _followed(self, offset: int) -> None:
        log.info("following the primary %s from offset %d on", self._address, offset)
        self.failure = None

    def _pause_s(self) -> float:
        """Return how long to wait after a connection."""
        if len(self._tried_ms) < _AT_ONCE:
            return _MOMENT_S
        since_s = (self._clock.monotonic_ms() - self._tried_ms[0]) / 1_000
        return max(_MOMENT_S, _PAUSE_S - since_s)


class _PrimaryLink(asyncio.Protocol):
    def __init__(
        self,
        follower: Follower,
        store: MessageStore,
        clock: Clock,
        primary: LogRange | None,
    ) -> None:
        self._follower = follower
        self._store = store
        self._clock = clock
        self._primary = primary
        self._transport: asyncio.Transport | None = None
        self._was_ended = False
        self.closed = asyncio.Event()
        self.on_followed: Callable[[], None] = lambda: None
        """Called when the first bytes of the stream were taken."""
        self.failure: OrbitError | None = None
        self.heard_at_ms = 0
        self.said_at_ms = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass
        self._guarded(
            lambda: self._say(self._follower.connected(self._primary, self._clock.monotonic_ms()))
        )

    def connection_lost(self, _exc: Exception | None) -> None:
        self._follower.disconnected()
        if not self._was_ended and not self.heard_at_ms:
            self.failure = ConnectionClosed(
                "it ended the connection before it sent anything; if it goes on, that may not be "
                "the haListenPort of a master"
            )
        self.closed.set()

    def data_received(self, data: Buffer) -> None:
        if not self.closed.is_set() and self.failure is None:
            is_first, self.heard_at_ms = not self.heard_at_ms, self._clock.now_ms()
            self._guarded(lambda: self._take(data))
            if is_first and self.failure is None:
                self.on_followed()

    def _take(self, data: Buffer) -> None:
        before = self._store.log.end
        try:
            self._follower.receive(data, self._clock.monotonic_ms())
        finally:
            self._report()
            end = self._store.log.end
            if end != before and self._store.settings.flush_mode is FlushMode.SYNC:
                self._store.when_durable(end, lambda _durable: self._report())
                self._store.flush_soon()

    def tick(self) -> None:
        if self._follower.is_silent(self._clock.monotonic_ms()):
            self.failure = ConnectionClosed("it is silent, so the connection is closed")
            self.end()
        else:
            self._report()

    def end(self) -> None:
        self._was_ended = True
        if self._transport is not None:
            self._transport.abort()

    def _report(self) -> None:
        self._say(self._follower.report_due(self._clock.monotonic_ms()))

    def _say(self, data: bytes) -> None:
        if data and self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)
            self.said_at_ms = self._clock.now_ms()

    def _guarded(self, step: Callable[[], None]) -> None:
        """Do a step; end the connection if it fails."""
        try:
            step()
        except PrepareFirst:
            self.end()
        except OrbitError as error:
            self.failure = error
            self.end()
