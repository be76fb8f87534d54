"""Long polling: pulls that found nothing are held until a message arrives.

::

    hold ──▶ held ──┬── a message arrives that matches     ──▶ released by ``arrived``
                    ├── its timeout expires                ──▶ released by ``due``
                    ├── only other messages arrive for 5 s ──▶ released by ``passed_over``
                    ├── offsets in its queue are reset     ──▶ released by ``of_queue``
                    └── its connection closes              ──▶ dropped

Laws:

- A pull is released or dropped exactly once.
- A released pull is served again and then answered, whatever it finds. So a filter that accepts too
  much costs an empty answer, and no message is missed.
- Pulls of one queue are released in the order in which they came.
"""

from collections.abc import Callable, Iterable, Iterator
from heapq import heappop, heappush
from itertools import count

import msgspec

from orbitmq.message import flags
from orbitmq.net.connection import Connection
from orbitmq.net.refusal import Refusal
from orbitmq.store.dispatch import Dispatched
from orbitmq.store.serving.pull_reader import RecordFilter
from orbitmq.wire.codes import ResponseCode
from orbitmq.wire.frame import Frame

__all__ = ["HeldPull", "HeldPulls"]

Wants = Callable[[int], bool]
PropertiesOf = Callable[[Dispatched], str | None]


class HeldPull(msgspec.Struct, eq=False):
    """A pull that waits."""

    connection: Connection
    request: Frame
    """The pull as it came, to be served again."""
    topic: str
    queue_id: int
    until_ms: int
    """When it is answered in any case, by the monotonic clock."""
    wants: Wants | None = None
    """Accepts or rejects a tags code; None accepts all."""
    record_filter: RecordFilter | None = None
    """Accepts or rejects the properties of a message; None accepts all."""
    is_held: bool = True
    is_passed_over: bool = False


class HeldPulls:
    """All pulls that a broker holds, at most ``capacity``: each keeps a request in memory."""

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
        """Hold a pull; return False if none can be held, see ``refusal``."""
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
        """Return the refusal of a pull that can't be held; clients wait before they pull again."""
        if self._is_closed:
            return Refusal(
                ResponseCode.SERVICE_NOT_AVAILABLE, "the broker is stopping; pull from another one"
            )
        return Refusal(
            ResponseCode.SYSTEM_BUSY,
            f"[OVERLOAD]system busy, start flow control for a while: {self._count} pulls are held, "
            "the limit of pullThreadPoolQueueCapacity",
        )

    def arrived(
        self, arrivals: Iterable[Dispatched], properties_of: PropertiesOf = lambda _arrival: None
    ) -> list[HeldPull]:
        """Release the pulls that match one of these messages.

        ``properties_of`` returns the text of a message's properties; with None it counts as a
        match.
        """
        woken: list[HeldPull] = []
        by_queue = self._by_queue
        for arrival in arrivals:
            waiting = by_queue.get((arrival.topic, arrival.queue_id))
            if waiting is None:
                continue
            properties: str | None = None
            for pull in list(waiting):
                matches = (
                    pull.wants is None
                    or pull.wants(arrival.tags_code)
                    or arrival.sys_flag & flags.INNER_BATCH  # its messages have tags of their own
                )
                if matches and pull.record_filter is not None:
                    properties = properties or properties_of(arrival)
                    matches = properties is None or pull.record_filter.matches(properties)
                if matches:
                    self._release(pull)
                    woken.append(pull)
                elif not pull.is_passed_over:
                    pull.is_passed_over = True
                    self._passed_over.append(pull)
        return woken

    def passed_over(self) -> list[HeldPull]:
        """Release the pulls in whose queues only other messages arrived.

        Called every few seconds, it keeps a group's offset close to the end of its queue, as Java's
        check of held pulls every 5 s does.
        """
        passed, self._passed_over = self._passed_over, []
        held = [pull for pull in passed if pull.is_held]
        for pull in held:
            self._release(pull)
        return held

    def of_queue(self, topic: str, queue_id: int) -> list[HeldPull]:
        """Release all pulls of a queue, the newest first.

        After a rebalance the older ones may be of a member that doesn't have the queue any more.
        """
        pulls = list(reversed(self._by_queue.get((topic, queue_id), {})))
        for pull in pulls:
            self._release(pull)
        return pulls

    def due(self, now_ms: int) -> list[HeldPull]:
        """Release the pulls whose timeout expired."""
        return list(self._take_due(now_ms))

    def close(self) -> list[HeldPull]:
        """Release all pulls and hold no more: a stop waits for their answers."""
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
        """Remove a pull; its connection stays known, so that it is watched only once."""
        pull.is_held = False
        self._count -= 1
        key = (pull.topic, pull.queue_id)
        waiting = self._by_queue[key]
        del waiting[pull]
        if not waiting:
            del self._by_queue[key]
        del self._by_connection[pull.connection][pull]
        # Released pulls stay in the heap until their timeout; a heap mostly of those is rebuilt.
        if len(self._by_time) > 2 * self._count + 1024:
            self._by_time = [entry for entry in self._by_time if entry[2].is_held]
            self._by_time.sort()
