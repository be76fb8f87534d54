"""Pulls that found nothing and wait for a message: Java's long polling.

::

    hold ──▶ held ──┬── a message arrives that it may want  ──▶ given back by ``arrived``
                    ├── its time is over                    ──▶ given back by ``due``
                    ├── only unwanted ones came, for a while ──▶ given back by ``passed_over``
                    ├── an operator moved a group in its queue ─▶ given back by ``of_queue``
                    └── its connection is gone              ──▶ dropped

Laws:

- A pull is given back or dropped exactly once.
- What is given back is served again and then answered, whatever it finds. So a filter that lets too
  much through costs an empty answer, and nothing is missed.
- Pulls of one queue are given back in the order in which they came.
"""

from collections.abc import Callable, Iterable, Iterator
from heapq import heappop, heappush
from itertools import count
from typing import Protocol

import msgspec

from orbitmq.net.connection import Connection
from orbitmq.net.refusal import Refusal
from orbitmq.wire.codes import ResponseCode
from orbitmq.wire.frame import Frame

__all__ = ["Arrival", "HeldPull", "HeldPulls"]

Wants = Callable[[int], bool]


class Arrival(Protocol):
    """A message that consumers can see from now on, as far as a held pull has to know it."""

    @property
    def topic(self) -> str:
        """Its topic."""
        ...

    @property
    def queue_id(self) -> int:
        """Its queue."""
        ...

    @property
    def tags_code(self) -> int:
        """The hash of its tags."""
        ...


class HeldPull(msgspec.Struct, eq=False):
    """A pull that waits.

    Attributes:
        connection: who gets the answer.
        request: the pull as it came, to be served again.
        topic: the topic, and
        queue_id: the queue that it waits for.
        until_ms: when it is answered in any case, by the clock that never goes back.
        wants: tells from a tags code whether the consumer may want a message; None wants all.

    """

    connection: Connection
    request: Frame
    topic: str
    queue_id: int
    until_ms: int
    wants: Wants | None = None
    is_held: bool = True
    is_passed_over: bool = False


class HeldPulls:
    """All pulls that a broker holds.

    Args:
        capacity: how many there may be; each keeps a request and its header in memory.

    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._by_queue: dict[tuple[str, int], dict[HeldPull, None]] = {}
        self._by_connection: dict[Connection, dict[HeldPull, None]] = {}
        self._by_time: list[tuple[int, int, HeldPull]] = []
        self._passed_over: list[HeldPull] = []
        self._numbers = count()
        self._count = 0
        self._is_closed = False

    def __len__(self) -> int:
        return self._count

    def __repr__(self) -> str:
        return f"<HeldPulls {self._count} of {len(self._by_queue)} queues>"

    def hold(self, pull: HeldPull) -> bool:
        """Keep a pull; return False if it may not be: see ``refusal``."""
        if self._count >= self._capacity:
            return False
        self._count += 1
        self._by_queue.setdefault((pull.topic, pull.queue_id), {})[pull] = None
        of_connection = self._by_connection.get(pull.connection)
        if of_connection is None:
            self._by_connection[pull.connection] = {pull: None}
            pull.connection.when_closed(self._drop)
        else:
            of_connection[pull] = None
        heappush(self._by_time, (pull.until_ms, next(self._numbers), pull))
        return True

    def refusal(self) -> Refusal:
        """Return why no pull is held any more, in words that have a client wait before the next."""
        if self._is_closed:
            return Refusal(ResponseCode.SERVICE_NOT_AVAILABLE, "the broker stops; try another one")
        return Refusal(
            ResponseCode.SYSTEM_BUSY,
            f"[OVERLOAD]system busy, start flow control for a while: {self._count} pulls wait, as "
            "many as pullThreadPoolQueueCapacity allows",
        )

    def arrived(self, arrivals: Iterable[Arrival]) -> list[HeldPull]:
        """Give back the pulls that may want one of these messages."""
        woken: list[HeldPull] = []
        by_queue = self._by_queue
        for arrival in arrivals:
            waiting = by_queue.get((arrival.topic, arrival.queue_id))
            if waiting is None:
                continue
            for pull in list(waiting):
                if pull.wants is None or pull.wants(arrival.tags_code):
                    self._release(pull)
                    woken.append(pull)
                elif not pull.is_passed_over:
                    pull.is_passed_over = True
                    self._passed_over.append(pull)
        return woken

    def passed_over(self) -> list[HeldPull]:
        """Give back the pulls past which messages went that they didn't want.

        Called every few seconds it lets a group's progress follow its queue, as Java's check of
        held pulls each 5 s does.
        """
        passed, self._passed_over = self._passed_over, []
        held = [pull for pull in passed if pull.is_held]
        for pull in held:
            self._release(pull)
        return held

    def of_queue(self, topic: str, queue_id: int) -> list[HeldPull]:
        """Give back all pulls of a queue, whatever they want."""
        pulls = list(self._by_queue.get((topic, queue_id), ()))
        for pull in pulls:
            self._release(pull)
        return pulls

    def due(self, now_ms: int) -> list[HeldPull]:
        """Give back the pulls whose time is over."""
        return list(self._take_due(now_ms))

    def close(self) -> list[HeldPull]:
        """Give back all pulls, and hold no more: the broker stops, and waits for answers."""
        self._capacity = 0
        self._is_closed = True
        return list(self._take_due(None))

    def _take_due(self, now_ms: int | None) -> Iterator[HeldPull]:
        while self._by_time and (now_ms is None or self._by_time[0][0] <= now_ms):
            pull = heappop(self._by_time)[2]
            if pull.is_held:
                self._release(pull)
                yield pull

    def _drop(self, connection: Connection) -> None:
        for pull in list(self._by_connection.get(connection, ())):
            self._release(pull)
        self._by_connection.pop(connection, None)

    def _release(self, pull: HeldPull) -> None:
        """Forget a pull. Its connection stays known, so that it is listened to only once."""
        pull.is_held = False
        self._count -= 1
        key = (pull.topic, pull.queue_id)
        waiting = self._by_queue[key]
        del waiting[pull]
        if not waiting:
            del self._by_queue[key]
        del self._by_connection[pull.connection][pull]
        # Those given back early stay in the heap till their time; a heap of those alone is rebuilt.
        if len(self._by_time) > 2 * self._count + 1024:
            self._by_time = [entry for entry in self._by_time if entry[2].is_held]
            self._by_time.sort()
