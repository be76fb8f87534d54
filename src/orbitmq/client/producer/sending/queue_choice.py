"""Which queue a message goes to: by turns, by the health of brokers, or by what the caller says.

By turns, each task goes round the queues of a topic on its own, as each thread does in Java: two
tasks that send alternately would else meet the same half of the queues forever. A new task begins
one queue further than the new task before it, so that tasks of a single send spread evenly too.

A selector chooses instead of all that: ``producer.send(message, selector=by_hash("o-42"))``.
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
    "QueueChoice",
    "QueueSelector",
    "Turn",
    "by_hash",
    "by_machine_room",
    "by_random",
    "by_sharding_key",
    "choose",
    "select",
    "sharded",
]

QueueSelector = Callable[[Sequence[MessageQueue], Message], MessageQueue]
"""Returns one of the queues, of which there is at least one, for a message."""

_INT32_MIN: Final = -(2**31)
_INT32_MAX: Final = 2**31 - 1

_TURNS_PER_TASK_MAX: Final = 1_024
"""A task that sends to more topics begins anew with all of them."""

# The worst standing that a pass over the queues takes. A retry is no probe while it has a choice:
# it has less time left, and has met one bad broker already.
_PASSES: Final = (Standing.PROBE, Standing.BARRED)
_PASSES_OF_RETRY: Final = (Standing.GOOD, Standing.PROBE, Standing.BARRED)


class Turn:
    """Where a round of queues has got to."""

    __slots__ = ("position",)

    def __init__(self, position: int) -> None:
        self.position = position


def choose(
    queues: Sequence[MessageQueue],
    turn: Turn,
    health: Health,
    now_ms: int,
    avoid: str | None = None,
) -> MessageQueue:
    """Return the next queue in turn on a broker that deserves it, and move the turn behind it.

    Args:
        queues: at least one.
        turn: where the round is; queues that are passed over have had their turn, as in Java.
        health: what is known of the brokers.
        now_ms: the time, on the clock that ``health`` is told.
        avoid: the broker that has just failed this send; taken only if there is no other.

    """
    queue = queues[turn.position % len(queues)]
    good = not health.active or health.standing(queue.broker_name, now_ms) is Standing.GOOD
    if good and queue.broker_name != avoid:
        turn.position += 1
        return queue
    if health.active:
        for worst in _PASSES if avoid is None else _PASSES_OF_RETRY:
            for queue in _round(queues, turn):
                broker = queue.broker_name
                if broker != avoid and health.standing(broker, now_ms) <= worst:
                    return queue
        resort = health.last_resort({queue.broker_name for queue in queues}, now_ms)
        if resort is not None:
            return next(queue for queue in _round(queues, turn) if queue.broker_name == resort)
    if avoid is not None:
        for queue in _round(queues, turn):
            if queue.broker_name != avoid:
                return queue
    return next(_round(queues, turn))


def _round(queues: Sequence[MessageQueue], turn: Turn) -> Iterator[MessageQueue]:
    for _ in range(len(queues)):
        queue = queues[turn.position % len(queues)]
        turn.position += 1
        yield queue


class _TaskTurns:
    """The turns of one task, by the number of the choice."""

    __slots__ = ("by_choice", "owner")

    def __init__(self, owner: int) -> None:
        self.owner = owner
        self.by_choice: dict[int, Turn] = {}


# A task inherits the context of the one that made it: hence the owner, whose turns are not its own.
_turns: ContextVar[_TaskTurns | None] = ContextVar("orbitmq_turns", default=None)
_numbers = itertools.count()


class QueueChoice:
    """Chooses the queues of one topic, by turns; every topic of a producer has a choice of its own.

    Args:
        health: what is known of brokers, shared by all topics.
        randomness: where the first round begins.
        loop: the producer's; None: the running one.

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
        """Return the queue for the running task's next try; see :func:`choose`."""
        if not self._health.active and avoid is None:  # most sends: nothing to look at
            return queues[self.next_position() % len(queues)]
        turn = self._turn()
        if avoid is not None and self._health.active:
            # As 5.x: else all the retries after one failure would go to the same neighbour.
            turn.position = self._randomness.below(len(queues))
        return choose(queues, turn, self._health, now_ms, avoid)

    def next_position(self) -> int:
        """Return where the running task is in its round, and move it on.

        For callers that know that nothing is learned and nobody is to be avoided: the queue is the
        one at this position, modulo their number.
        """
        turns = _turns.get()
        if turns is not None and turns.owner == id(current_task(self._loop)):
            turn = turns.by_choice.get(self._number) or self._turn()
        else:
            turn = self._turn()
        position = turn.position
        turn.position = position + 1
        return position

    def _turn(self) -> Turn:
        owner = id(current_task())
        turns = _turns.get()
        if turns is None or turns.owner != owner:
            turns = _TaskTurns(owner)
            _turns.set(turns)
        turn = turns.by_choice.get(self._number)
        if turn is None:
            if len(turns.by_choice) >= _TURNS_PER_TASK_MAX:
                turns.by_choice.clear()
            turn = turns.by_choice[self._number] = Turn(next(self._starts))
        return turn


def select(
    selector: QueueSelector, queues: Sequence[MessageQueue], message: Message
) -> MessageQueue:
    """Return what a selector chooses, once it is known to be a queue of the topic.

    Raises:
        InvalidInput: it is not. What the selector itself raises passes as it is.

    """
    queue: object = selector(queues, message)
    if not isinstance(queue, MessageQueue) or queue.topic != queues[0].topic:
        told = queue if isinstance(queue, MessageQueue) else type(queue).__name__
        raise InvalidInput(
            f"the selector returned {told}; it must return one of the {len(queues)} queues "
            f"of {queues[0].topic} that it is given",
            field="selector",
        )
    return queue


def by_hash(argument: str | int, *, as_long: bool = False) -> QueueSelector:
    """Return a selector by the hash that Java has of the argument (SelectMessageQueueByHash).

    Args:
        argument: what to go by: one argument, one queue, while their number stays the same.
        as_long: whether the Java side has a Long where we have an int. One out of the range of
            an Integer always is.

    Raises:
        InvalidInput: something else was given, whose hash in Java is anybody's guess.

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
    """Return a selector that leaves it to chance (SelectMessageQueueByRandom)."""
    return lambda queues, _message: randomness.choice(queues)


def by_machine_room(rooms: Collection[str], randomness: Randomness) -> QueueSelector:
    """Return a selector of queues in some machine rooms, by chance.

    Brokers are then named ``room@broker``, as AllocateMessageQueueByMachineRoom has it for
    consumers; Java's SelectMessageQueueByMachineRoom is an empty shell. The selector raises
    InvalidInput if no broker of the topic is in any of the rooms.
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

    It is the one that Java's proxy gives to a message group of that name, so that both kinds of
    clients keep one order (SendMessageActivity). Where queues are added at the end, few keys move.

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
    """A ring of queues: when some come or go, only the keys next to them move.

    The ring is that of Java's ConsistentHashRouter. Make one per topic and keep it: the ring is
    built once for a list of queues.

    >>> ring = ConsistentHash()
    >>> queues = [MessageQueue("orders", "broker-a", number) for number in range(4)]
    >>> ring.by("o-42")(queues, Message("orders", b"paid")) in queues
    True

    Args:
        points_per_queue: how often each queue stands on the ring; more of them share more evenly.

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
