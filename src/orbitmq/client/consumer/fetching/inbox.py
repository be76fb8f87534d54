"""The messages of one queue that this client owns (Java: ProcessQueue). Pure.

::

    put() ──▶ waiting ── take() ──▶ in hand ── finish() ──▶ gone
                 ▲                      │
                 └────── give_back() ───┘        (waiting messages may be finished too)

    offsets     7 8 9 │ 10 11 12 13 │ 14 15
                gone  │ in hand,    │ waiting       commit_offset = 10, also when 11 is gone
                      │ 11 is gone  │

Messages are put in the order of the queue. ``commit_offset`` is where another client would have to
continue: it never passes a message that is not finished, and never goes back.
"""

from collections import deque
from collections.abc import Callable, Sequence
from itertools import islice

from orbitmq.message.model import MessageQueue, StoredMessage

__all__ = ["Inbox"]


class Inbox:
    """The messages of one queue, from the pull until they are finished; every step is O(1)."""

    __slots__ = (
        "_in_hand",
        "_last",
        "_order",
        "_unfinished",
        "_waiting",
        "bytes",
        "is_dropped",
        "on_room",
        "pulled_ms",
        "queue",
        "taken_ms",
    )

    def __init__(self, queue: MessageQueue) -> None:
        self.queue = queue
        self._waiting: deque[StoredMessage] = deque()
        self._in_hand: dict[int, int] = {}  # offset → when it was taken, the oldest first
        self._unfinished: dict[int, StoredMessage] = {}
        self._order: deque[int] = deque()  # offsets; finished ones leave when they are first
        self._last: int | None = None
        self.bytes = 0
        """The bodies of unfinished messages."""
        self.is_dropped = False
        self.on_room: Callable[[], None] = _ignored
        """Called after each ``finish``."""
        self.pulled_ms = 0
        """When the last answer to a pull came; set by the fetcher."""
        self.taken_ms = 0
        """When the last messages were taken."""

    def __repr__(self) -> str:
        queue, dropped = self.queue, ", dropped" if self.is_dropped else ""
        return (
            f"<Inbox {queue.topic} {queue.broker_name}:{queue.queue_id} {self.waiting} waiting, "
            f"{self.in_hand} in hand{dropped}>"
        )

    # For the fetcher

    def put(self, messages: Sequence[StoredMessage]) -> None:
        """Add messages, in the order of their offsets; those that were put before are skipped."""
        last = self._last
        if last is not None and messages and messages[0].queue_offset <= last:
            messages = [one for one in messages if one.queue_offset > last]
        if not messages:
            return
        offsets = [one.queue_offset for one in messages]
        self._unfinished.update(zip(offsets, messages, strict=True))
        self._order.extend(offsets)
        self._waiting.extend(messages)
        self._last = offsets[-1]
        self.bytes += sum([len(one.body) for one in messages])

    def drop(self) -> None:
        """Hand out no more messages: the queue belongs to another client, or begins elsewhere."""
        self.is_dropped = True

    # For delivery

    def take(self, count: int, now_ms: int) -> list[StoredMessage]:
        """Return up to ``count`` waiting messages; they are in hand until finished or given back.

        None if the inbox is dropped.
        """
        waiting = self._waiting
        if self.is_dropped or not waiting:
            return []
        in_hand = self._in_hand
        unfinished = self._unfinished
        self.taken_ms = now_ms
        taken: list[StoredMessage] = []
        while waiting and len(taken) < count:
            message = waiting.popleft()
            offset = message.queue_offset
            if offset in unfinished:  # not one that was finished while it waited
                in_hand[offset] = now_ms
                taken.append(message)
        return taken

    def finish(self, messages: Sequence[StoredMessage]) -> None:
        """Remove messages that were consumed, or sent back; finishing one twice does nothing."""
        unfinished = self._unfinished
        in_hand = self._in_hand
        for message in messages:
            offset = message.queue_offset
            if unfinished.pop(offset, None) is not None:
                in_hand.pop(offset, None)
                self.bytes -= len(message.body)
        if not unfinished:
            self._waiting.clear()  # only finished ones are left
            self._order.clear()
        self.on_room()

    def give_back(self, messages: Sequence[StoredMessage]) -> None:
        """Put messages in hand back to the front; those that are not in hand are skipped."""
        in_hand = self._in_hand
        for message in reversed(messages):
            if in_hand.pop(message.queue_offset, None) is not None:
                self._waiting.appendleft(message)

    def taken_before(self, time_ms: int, count: int) -> list[StoredMessage]:
        """Return up to ``count`` messages that have been in hand since before a time."""
        unfinished = self._unfinished
        late = (offset for offset, taken_ms in self._in_hand.items() if taken_ms < time_ms)
        return [unfinished[offset] for offset in islice(late, count)]

    # State

    @property
    def commit_offset(self) -> int | None:
        """The smallest offset not finished, else the one after the last; None before any put."""
        order, unfinished = self._order, self._unfinished
        while order:
            if order[0] in unfinished:
                return order[0]
            order.popleft()
        return None if self._last is None else self._last + 1

    @property
    def first_offset(self) -> int | None:
        """The smallest offset that is not finished; None if there is none."""
        return self.commit_offset if self._unfinished else None

    @property
    def last_offset(self) -> int | None:
        """The highest offset that was put; None before the first."""
        return self._last

    @property
    def count(self) -> int:
        """How many messages are not finished."""
        return len(self._unfinished)

    @property
    def span(self) -> int:
        """How far the last message is from the first that is not finished, in offsets."""
        first = self.first_offset
        return 0 if first is None or self._last is None else self._last - first

    @property
    def waiting(self) -> int:
        """How many messages wait to be taken."""
        return len(self._unfinished) - len(self._in_hand)

    @property
    def in_hand(self) -> int:
        """How many messages were taken, and are not finished."""
        return len(self._in_hand)


def _ignored() -> None:
    """Nothing waits for room."""
