"""Which queue a message goes to: round-robin, by the health of brokers, or by a selector.

Each task goes round the queues of a topic on its own, as each thread does in Java: otherwise two
tasks that send alternately would each use the same half of the queues forever. A new task begins
one queue after the previous new task, so that tasks of a single send spread evenly too.

A selector chooses instead: ``producer.send(message, selector=by_hash("o-42"))``.
"""

import hashlib
import itertools
from asyncio import AbstractEventLoop, current_task
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator, Sequence
from contextvars import ContextVar
from typing import Final

from orbitmq.client.producer.health.health import Health, Standing
from orbitmq.errors import InvalidInput
from orbitmq.message.model import Message, MessageQueue
from orbitmq.message.tags import java_hash, java_long_hash
from orbitmq.randomness import Randomness

__all__ = [
    "ConsistentHash",
    "Cursor",
    "QueueChoice",
    "QueueSelector",
    "by_hash",
    "by_machine_room",
    "by_random",
    "by_sharding_key",
    "choose",
    "select",
    "sharded",
]

QueueSelector = Callable[[Sequence[MessageQueue], Message], MessageQueue]
"""Returns one of the queues for a message; there is at least one."""

_INT32_MIN: Final = -(2**31)
_INT32_MAX: Final = 2**31 - 1

_CURSORS_PER_TASK_MAX: Final = 1_024
"""A task that sends to more topics starts again with all of them."""

# The worst standing that a pass over the queues accepts. A retry is a probe only if there is no
# choice: it has less time left, and has met one bad broker already.
_PASSES: Final = (Standing.PROBE, Standing.BARRED)
_PASSES_OF_RETRY: Final = (Standing.GOOD, Standing.PROBE, Standing.BARRED)


class Cursor:
    """The position in a round of queues."""

    __slots__ = ("position",)

    def __init__(self, position: int) -> None:
        self.position = position


def choose(
    queues: Sequence[MessageQueue],
    cursor: Cursor,
    health: Health,
    now_ms: int,
    avoid: str | None = None,
) -> MessageQueue:
    """Return the next queue on a broker in good enough standing, and move the cursor behind it.

    Queues that are passed over have had their turn, as in Java. ``now_ms`` is on the clock of
    ``health``. ``avoid`` is the broker that has just failed this send; it is used only if there is
    no other.
    """
    queue = queues[cursor.position % len(queues)]
    good = not health.active or health.standing(queue.broker_name, now_ms) is Standing.GOOD
    if good and queue.broker_name != avoid:
        cursor.position += 1
        return queue
    if health.active:
        for worst in _PASSES if avoid is None else _PASSES_OF_RETRY:
            for queue in _round(queues, cursor):
                broker = queue.broker_name
                if broker != avoid and health.standing(broker, now_ms) <= worst:
                    return queue
        resort = health.last_resort({queue.broker_name for queue in queues}, now_ms)
        if resort is not None:
            return next(queue for queue in _round(queues, cursor) if queue.broker_name == resort)
    if avoid is not None:
        for queue in _round(queues, cursor):
            if queue.broker_name != avoid:
                return queue
    return next(_round(queues, cursor))


def _round(queues: Sequence[MessageQueue], cursor: Cursor) -> Iterator[MessageQueue]:
    for _ in range(len(queues)):
        queue = queues[cursor.position % len(queues)]
        cursor.position += 1
        yield queue


class _TaskCursors:
    """The cursors of one task, by the number of the choice."""

    __slots__ = ("by_choice", "owner")

    def __init__(self, owner: int) -> None:
        self.owner = owner
        self.by_choice: dict[int, Cursor] = {}


# A task inherits the context of the task that created it: the owner says whose cursors they are.
_cursors: ContextVar[_TaskCursors | None] = ContextVar("orbitmq_cursors", default=None)
_numbers = itertools.count()


class QueueChoice:
    """Chooses among the queues of one topic, round-robin and by health.

    ``health`` is shared by all topics; ``randomness`` decides where the first round begins.
    """

    __slots__ = ("_health", "_loop", "_number", "_randomness", "_starts")

    def __init__(
        self,
        health: Health,
        randomness: Randomness,
        loop: AbstractEventLoop | None = None,
    ) -> None:
        self._health = health
        self._randomness = randomness
        self._loop = loop
        self._number = next(_numbers)
        self._starts = itertools.count(randomness.below(_INT32_MAX))

    def pick(
        self, queues: Sequence[MessageQueue], now_ms: int, avoid: str | None = None
    ) -> MessageQueue:
        """Return the queue for the running task's next attempt; see :func:`choose`."""
        if not self._health.active and avoid is None:  # most sends: nothing to look at
            return queues[self.next_position() % len(queues)]
        cursor = self._cursor()
        if avoid is not None and self._health.active:
            # As in 5.x: otherwise all retries after one failure would go to the same neighbour.
            cursor.position = self._randomness.below(len(queues))
        return choose(queues, cursor, self._health, now_ms, avoid)

    def next_position(self) -> int:
        """Return the running task's position in its round, and move it on.

        For callers without health and without a broker to avoid: the queue is the one at this
        position, modulo their number.
        """
        cursors = _cursors.get()
        if cursors is not None and cursors.owner == id(current_task(self._loop)):
            cursor = cursors.by_choice.get(self._number) or self._cursor()
        else:
            cursor = self._cursor()
        position = cursor.position
        cursor.position = position + 1
        return position

    def _cursor(self) -> Cursor:
        owner = id(current_task())
        cursors = _cursors.get()
        if cursors is None or cursors.owner != owner:
            cursors = _TaskCursors(owner)
            _cursors.set(cursors)
        cursor = cursors.by_choice.get(self._number)
        if cursor is None:
            if len(cursors.by_choice) >= _CURSORS_PER_TASK_MAX:
                cursors.by_choice.clear()
            cursor = cursors.by_choice[self._number] = Cursor(next(self._starts))
        return cursor


def select(
    selector: QueueSelector, queues: Sequence[MessageQueue], message: Message
) -> MessageQueue:
    """Return the queue that a selector chooses; raise InvalidInput if it is not one of the topic.

    Errors of the selector itself pass unchanged.
    """
    queue: object = selector(queues, message)
    if not isinstance(queue, MessageQueue) or queue.topic != queues[0].topic:
        returned = queue if isinstance(queue, MessageQueue) else type(queue).__name__
        raise InvalidInput(
            f"the selector returned {returned}; it must return one of the {len(queues)} queues "
            f"of {queues[0].topic} that it is given",
            field="selector",
        )
    return queue


def by_hash(argument: str | int, *, as_long: bool = False) -> QueueSelector:
    """Return a selector by the hash that Java has of the argument (SelectMessageQueueByHash).

    Args:
        argument: equal arguments go to the same queue while the number of queues is the same.
        as_long: whether the Java side uses a Long. An int outside the range of an Integer is
            always a Long.

    Raises:
        InvalidInput: the argument is neither str nor int, so its hash in Java is unknown.

    >>> queues = [MessageQueue("orders", "broker-a", number) for number in range(7)]
    >>> by_hash("order-1")(queues, Message("orders", b"paid")).queue_id
    6
    """
    if isinstance(argument, bool) or not isinstance(argument, str | int):
        raise InvalidInput(
            f"by_hash takes a str or an int, not {type(argument).__name__}", field="argument"
        )
    if isinstance(argument, str):
        index = abs(java_hash(argument))
    elif as_long or not _INT32_MIN <= argument <= _INT32_MAX:
        index = abs(java_long_hash(argument))
    else:
        index = abs(argument)
    return lambda queues, _message: queues[index % len(queues)]


def by_random(randomness: Randomness) -> QueueSelector:
    """Return a selector that chooses at random (SelectMessageQueueByRandom)."""
    return lambda queues, _message: randomness.choice(queues)


def by_machine_room(rooms: Collection[str], randomness: Randomness) -> QueueSelector:
    """Return a selector that chooses at random among the queues in some machine rooms.

    Brokers must be named ``room@broker``, as for consumers with AllocateMessageQueueByMachineRoom;
    Java's SelectMessageQueueByMachineRoom is not implemented. The selector raises InvalidInput if
    no broker of the topic is in any of the rooms.
    """
    allowed = frozenset(rooms)

    def selector(queues: Sequence[MessageQueue], _message: Message) -> MessageQueue:
        near = [queue for queue in queues if queue.broker_name.partition("@")[0] in allowed]
        if not near:
            raise InvalidInput(
                f"no broker of {queues[0].topic} is in one of the {len(allowed)} machine rooms; "
                "brokers of a room are named room@broker",
                field="selector",
            )
        return randomness.choice(near)

    return selector


def by_sharding_key(key: str) -> QueueSelector:
    """Return a selector by the key that keeps messages in order; see :func:`sharded`."""
    return lambda queues, _message: sharded(queues, key)


def sharded(queues: Sequence[MessageQueue], key: str) -> MessageQueue:
    """Return the queue of a sharding key.

    It is the queue that Java's proxy uses for a message group of that name, so that both kinds of
    clients keep one order (SendMessageActivity). Few keys move when queues are added at the end.

    >>> sharded([MessageQueue("orders", "broker-a", number) for number in range(4)], "order-1")
    MessageQueue(topic='orders', broker_name='broker-a', queue_id=3)
    """
    return queues[_jump(java_hash(key), len(queues))]


def _jump(number: int, buckets: int) -> int:
    """Return the bucket of a number: the jump consistent hash, on the generator that Guava uses."""
    state = number & 0xFFFF_FFFF_FFFF_FFFF
    bucket = 0
    while True:
        state = (2862933555777941757 * state + 1) & 0xFFFF_FFFF_FFFF_FFFF
        jump = (bucket + 1) / (((state >> 33) + 1) / 2**31)
        if jump >= buckets:
            return bucket
        bucket = int(jump)


class ConsistentHash:
    """A ring of queues: when queues are added or removed, only the keys next to them move.

    The ring is the same as in Java's ConsistentHashRouter. Create one per topic and keep it: the
    ring is built once for a list of queues.

    >>> ring = ConsistentHash()
    >>> queues = [MessageQueue("orders", "broker-a", number) for number in range(4)]
    >>> ring.by("o-42")(queues, Message("orders", b"paid")) in queues
    True

    Args:
        points_per_queue: how often each queue is on the ring; more points share more evenly.
    """

    def __init__(self, points_per_queue: int = 100) -> None:
        if not 1 <= points_per_queue <= 1_000:
            raise InvalidInput(
                f"points_per_queue is {points_per_queue}; it must be from 1 to 1000",
                field="points_per_queue",
            )
        self._points_per_queue = points_per_queue
        self._queues: tuple[MessageQueue, ...] = ()
        self._points: list[int] = []
        self._owners: list[MessageQueue] = []

    def by(self, key: str) -> QueueSelector:
        """Return a selector by the key."""
        point = _point(key)

        def selector(queues: Sequence[MessageQueue], _message: Message) -> MessageQueue:
            if queues is not self._queues and tuple(queues) != self._queues:
                self._build(tuple(queues))
            return self._owners[bisect_left(self._points, point) % len(self._points)]

        return selector

    def _build(self, queues: tuple[MessageQueue, ...]) -> None:
        ring = {
            _point(f"{_java_text(queue)}-{number}"): queue
            for queue in queues
            for number in range(self._points_per_queue)
        }
        self._queues = queues
        self._points = sorted(ring)
        self._owners = [ring[point] for point in self._points]


def _point(text: str) -> int:
    return int.from_bytes(hashlib.md5(text.encode(), usedforsecurity=False).digest()[:4], "big")


def _java_text(queue: MessageQueue) -> str:
    return (
        f"MessageQueue [topic={queue.topic}, brokerName={queue.broker_name}, "
        f"queueId={queue.queue_id}]"
    )
