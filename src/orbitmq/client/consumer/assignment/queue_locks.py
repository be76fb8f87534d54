"""The locks of an ordered consumer: a queue is consumed by the member that holds its lock.

::

            lock: granted                    not wanted any more
    free ─────────────────▶ assigned ────────────────────────────▶ releasing
     ▲ ▲                       │  refused, or not renewed for 30 s     │ │
     │ └── released() ─── lost ◀───────────────────────────────────────┘ │
     └──── released(): unlock ───────────────────────────────────────────┘

- Locks of assigned and releasing queues are renewed. The broker keeps a lock for 60 s.
- A queue that was taken away is ``released`` when the consumer has finished what was in hand and
  has stored the offset; not before can another member, or this one, lock it. Java unlocks after
  20 s in any case.
- A broker that restarts forgets all locks. So a member whose connection broke renews what it has
  at once, and locks nothing else there for one interval: the others renew meanwhile. Java's members
  do neither.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable
from typing import Final, NamedTuple

from orbitmq.client.core.client_core import ClientCore
from orbitmq.client.core.periodic import cancel_all
from orbitmq.errors import BrokerError, OrbitError
from orbitmq.message.model import MessageQueue
from orbitmq.net.address import Address
from orbitmq.net.connection import Connection
from orbitmq.wire.bodies.locks import LockedQueues, LockRequest, UnlockRequest
from orbitmq.wire.codes import ResponseCode
from orbitmq.wire.headers.heartbeat import LockBatchMq, UnlockBatchMq

__all__ = ["LOCK_VALID_MS", "QueueLocks", "Renewed"]

log = logging.getLogger("orbitmq.client")

LOCK_VALID_MS: Final = 30_000
"""How long a lock is trusted after the broker granted it; half of the broker's own time."""
_TIMEOUT_MS: Final = 1_000

MasterOf = Callable[[MessageQueue], Address | None]


class Renewed(NamedTuple):
    """The result of a renewal."""

    lost_topics: set[str]
    """Topics with fewer assigned queues than before."""
    is_complete: bool
    """Whether all brokers answered."""


class _Reached(NamedTuple):
    """The connection to a broker, and when it replaced one that broke; None for the first."""

    connection: Connection
    since_ms: int | None


class QueueLocks:
    """The locks of one member.

    ``master_of`` returns the broker that has a queue; members renew their locks each interval.
    """

    def __init__(
        self, core: ClientCore, group: str, master_of: MasterOf, *, interval_ms: int
    ) -> None:
        self._core = core
        self._group = group
        self._master_of = master_of
        self._interval_ms = interval_ms
        self._clock = core.machine.clock
        self._locked_ms: dict[MessageQueue, int] = {}
        self._assigned: set[MessageQueue] = set()
        self._dropping: set[MessageQueue] = set()  # releasing or lost
        self._asked: set[MessageQueue] = set()  # a broker may have locked them for us
        self._unlocking: set[asyncio.Task[None]] = set()
        self._reached: dict[Address, _Reached] = {}
        self._renewed_on: dict[Address, Connection] = {}
        self._failing: set[Address] = set()

    def __repr__(self) -> str:
        return (
            f"<QueueLocks of {self._group}: {len(self._assigned)} assigned, "
            f"{len(self._dropping)} being dropped>"
        )

    def assigned(self, topic: str) -> frozenset[MessageQueue]:
        """Return the assigned queues of a topic."""
        return frozenset(queue for queue in self._assigned if queue.topic == topic)

    async def settle(self, topic: str, wanted: Iterable[MessageQueue]) -> frozenset[MessageQueue]:
        """Give up queues of a topic that are not wanted, lock new ones; return the assigned ones.

        A queue that is locked by another member, not released yet, or of a broker that may have
        restarted, is left out for now.
        """
        wanted = set(wanted)
        self._take_away(self.assigned(topic) - wanted)
        asked = wanted - self._assigned - self._dropping
        self._asked |= asked
        granted, unanswered = await self._lock_all(asked, takes=True)
        self._asked -= asked - unanswered
        self._note(granted)
        self._assigned |= granted
        return self.assigned(topic)

    async def renew(self) -> Renewed:
        """Renew all locks; a refused or expired one is lost."""
        asked = set(self._locked_ms)
        self._renewed_on.clear()
        granted, unanswered = await self._lock_all(asked)
        self._note(granted & self._locked_ms.keys())
        now_ms = self._clock.monotonic_ms()
        expired = asked - granted - unanswered
        expired |= {
            queue
            for queue in unanswered
            if now_ms - self._locked_ms.get(queue, now_ms) > LOCK_VALID_MS
        }
        lost = self._assigned & expired
        for queue in expired:
            self._locked_ms.pop(queue, None)
        self._take_away(lost)
        if lost:
            log.warning("consumer group %s lost the locks of %d queues", self._group, len(lost))
        return Renewed({queue.topic for queue in lost}, not unanswered)

    @property
    def is_disturbed(self) -> bool:
        """Whether the connection to a broker with locks broke since they were renewed."""
        return bool(self._locked_ms) and any(
            self._core.open_connection(address) is not connection
            for address, connection in self._renewed_on.items()
        )

    def released(self, queue: MessageQueue) -> bool:
        """Unlock a queue that was taken away; return whether it was."""
        if queue not in self._dropping:
            return False
        self._dropping.discard(queue)
        if self._locked_ms.pop(queue, None) is not None:
            task = asyncio.create_task(self._unlock([queue]), name=f"unlock {queue}")
            self._unlocking.add(task)
            task.add_done_callback(self._unlocking.discard)
        return True

    async def close(self, timeout_ms: int) -> None:
        """Unlock all queues; wait for the answers up to the timeout."""
        held = self._locked_ms.keys() | self._asked
        for state in (self._locked_ms, self._assigned, self._dropping):
            state.clear()
        tasks = [*self._unlocking, asyncio.create_task(self._unlock(held))]
        try:
            await asyncio.wait(tasks, timeout=timeout_ms / 1_000)
        finally:
            await cancel_all(tasks)

    def _take_away(self, queues: Iterable[MessageQueue]) -> None:
        self._assigned.difference_update(queues)
        self._dropping.update(queues)

    def _note(self, locked: Iterable[MessageQueue]) -> None:
        now_ms = self._clock.monotonic_ms()
        self._locked_ms.update(dict.fromkeys(locked, now_ms))

    # Requests

    def _may_take(self, address: Address) -> bool:
        """Return whether the members have had the time to renew the locks of a broker."""
        connection, last = self._core.open_connection(address), self._reached.get(address)
        if last is None or connection is None:
            return last is None
        now_ms = self._clock.monotonic_ms()
        if last.connection is not connection:
            last = self._reached[address] = _Reached(connection, now_ms)
        return last.since_ms is None or now_ms - last.since_ms >= self._interval_ms

    async def _lock_all(
        self, queues: Iterable[MessageQueue], *, takes: bool = False
    ) -> tuple[set[MessageQueue], set[MessageQueue]]:
        """Lock queues at their masters; return the locked ones, and those without an answer."""
        by_master, unanswered = self._by_master(queues)
        if takes:
            by_master = {one: some for one, some in by_master.items() if self._may_take(one)}
        granted: set[MessageQueue] = set()
        answers = await asyncio.gather(
            *(self._lock(address, some) for address, some in by_master.items())
        )
        for asked, locked in zip(by_master.values(), answers, strict=True):
            if locked is None:
                unanswered.update(asked)
            else:
                granted |= locked
        return granted, unanswered

    async def _lock(self, address: Address, queues: list[MessageQueue]) -> set[MessageQueue] | None:
        body = LockRequest(
            client_id=self._core.client_id, consumer_group=self._group, mq_set=tuple(queues)
        )
        try:
            answer = await self._core.request(
                address, LockBatchMq(), body.to_json(), timeout_ms=_TIMEOUT_MS
            )
            if answer.code != ResponseCode.SUCCESS:
                raise BrokerError.of(answer.code, answer.remark, address=str(address))
            if (connection := self._core.open_connection(address)) is not None:
                self._renewed_on[address] = connection
                self._reached.setdefault(address, _Reached(connection, None))
            locked = set(LockedQueues.from_json(answer.body).locked) & set(queues)
        except OrbitError as error:
            if address not in self._failing:  # it is asked each second
                self._failing.add(address)
                log.warning("%d queues of %s can't be locked: %s", len(queues), self._group, error)
            return None
        if address in self._failing:
            self._failing.discard(address)
            log.info("queues of %s can be locked at %s again", self._group, address)
        return locked

    async def _unlock(self, queues: Iterable[MessageQueue]) -> None:
        requests: list[Coroutine[object, object, None]] = [
            self._unlock_at(address, some) for address, some in self._by_master(queues)[0].items()
        ]
        await asyncio.gather(*requests)

    async def _unlock_at(self, address: Address, queues: list[MessageQueue]) -> None:
        body = UnlockRequest(
            client_id=self._core.client_id, consumer_group=self._group, mq_set=tuple(queues)
        )
        try:
            await self._core.request(
                address, UnlockBatchMq(), body.to_json(), timeout_ms=_TIMEOUT_MS
            )
        except OrbitError as error:  # the lock ends by itself
            log.debug("queues of %s can't be unlocked: %s", self._group, error)

    def _by_master(
        self, queues: Iterable[MessageQueue]
    ) -> tuple[dict[Address, list[MessageQueue]], set[MessageQueue]]:
        """Return queues by their master, and those without one now."""
        by_master: dict[Address, list[MessageQueue]] = {}
        homeless: set[MessageQueue] = set()
        for queue in sorted(queues):
            address = self._master_of(queue)
            if address is None:
                homeless.add(queue)
            else:
                by_master.setdefault(address, []).append(queue)
        return by_master, homeless
