"""The history of a simulated run, and the laws that every run must keep.

>>> history = History()
>>> history.attempts.append(Attempt("a-1", 0, queue_id=0, tag="red", acked_at=0))
>>> history.stored[0] = [Stored(0, "a-1", 0, "red")]
>>> broken_laws(history)
[]
>>> history.stored[0].clear()
>>> broken_laws(history)
['lost: a-1, attempt 0, was acknowledged at offset 0 of queue 0, but is not stored']

"""

import enum
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

__all__ = ["Attempt", "History", "Kind", "Reader", "Stored", "broken_laws"]


class Kind(enum.Enum):
    """When a message becomes visible to consumers."""

    PLAIN = "at once"
    DELAYED = "after the delay of a level"
    TIMED = "at a time"
    COMMITTED = "when its transaction is committed"
    ABORTED = "never: its transaction is rolled back"

    @property
    def is_transaction(self) -> bool:
        """Whether it is sent as a half message."""
        return self in (Kind.COMMITTED, Kind.ABORTED)


class Attempt(msgspec.Struct):
    """One attempt to send a message, as its sender knows it.

    All attempts of a message share its unique ``key``. ``acked_at`` is the queue offset that the
    broker acknowledged, None without acknowledgement; only for a plain message it is an offset of
    its queue. ``due_ms`` is the earliest time of delivery. ``is_over`` is set when the sender does
    not wait for an answer any more.
    """

    key: str
    number: int
    queue_id: int
    tag: str
    acked_at: int | None = None
    kind: Kind = Kind.PLAIN
    due_ms: int = 0
    is_over: bool = False

    def __str__(self) -> str:
        return f"{self.key}, attempt {self.number},"

    @property
    def is_delivered(self) -> bool:
        """Whether consumers must receive it.

        The sender of a half message rolls back every attempt but the one that was acknowledged.
        """
        return self.acked_at is not None and self.kind is not Kind.ABORTED


class Stored(NamedTuple):
    """A message as a broker returned it."""

    offset: int
    key: str
    attempt: int
    tag: str
    stored_ms: int = 0


class Reader(NamedTuple):
    """A consumer group that reads a queue; an empty tag means all tags."""

    group: str
    queue_id: int
    tag: str = ""


class History(msgspec.Struct):
    """What clients saw during a run, and what was stored at its end.

    ``attempts`` are in the order in which they began; ``read`` has the messages that each reader
    received, ``stored`` those of each queue from offset 0 on. ``faults`` are violations noted
    during the run, ``troubles`` the injected failures. ``digest`` is a hash of every byte on the
    network and every call of the disk.
    """

    attempts: list[Attempt] = msgspec.field(default_factory=list)
    read: dict[Reader, list[Stored]] = msgspec.field(default_factory=dict)
    stored: dict[int, list[Stored]] = msgspec.field(default_factory=dict)
    faults: list[str] = msgspec.field(default_factory=list)
    troubles: list[str] = msgspec.field(default_factory=list)
    digest: str = ""


def broken_laws(history: History) -> list[str]:
    """Return a line for each broken law."""
    return [
        *history.faults,
        *_gaps(history),
        *_lost(history),
        *_repeated(history),
        *_aborted(history),
        *_early(history),
        *_out_of_order(history),
        *_misread(history),
    ]


def _gaps(history: History) -> Iterator[str]:
    for queue_id, messages in history.stored.items():
        offsets = [message.offset for message in messages]
        if offsets != list(range(len(offsets))):
            yield f"gap or repeat: queue {queue_id} has the offsets {offsets}"


def _lost(history: History) -> Iterator[str]:
    """Find acknowledged messages that are not at the acknowledged offset."""
    places = {
        (message.key, message.attempt): (queue_id, message.offset)
        for queue_id, messages in history.stored.items()
        for message in messages
    }
    for attempt in history.attempts:
        if not attempt.is_delivered:
            continue
        place = places.get((attempt.key, attempt.number))
        acked = f"{attempt} was acknowledged at offset {attempt.acked_at} of queue"
        if place is None:
            yield f"lost: {acked} {attempt.queue_id}, but is not stored"
        elif attempt.kind is not Kind.PLAIN:
            if place[0] != attempt.queue_id:
                yield f"strayed: {attempt} was sent to queue {attempt.queue_id}, but is in {place}"
        elif place != (attempt.queue_id, attempt.acked_at):
            yield f"strayed: {acked} {attempt.queue_id}, but is at {place}"


def _repeated(history: History) -> Iterator[str]:
    """Find attempts that are stored more than once, and messages that were never sent."""
    sent = {(attempt.key, attempt.number) for attempt in history.attempts}
    counts = Counter(
        (message.key, message.attempt)
        for messages in history.stored.values()
        for message in messages
    )
    for (key, number), count in counts.items():
        if count > 1:
            yield f"repeated: {key}, attempt {number}, is stored {count} times"
        if (key, number) not in sent:
            yield f"invented: {key}, attempt {number}, is stored, but was never sent"


def _aborted(history: History) -> Iterator[str]:
    """Find delivered messages of transactions that were not committed."""
    stored = _all_stored(history)
    for attempt in history.attempts:
        if attempt.kind.is_transaction and not attempt.is_delivered:
            for message in stored.get((attempt.key, attempt.number), ()):
                yield f"aborted: {attempt} was delivered at offset {message.offset}"


def _early(history: History) -> Iterator[str]:
    """Find messages that were delivered before they were due."""
    stored = _all_stored(history)
    for attempt in history.attempts:
        for message in stored.get((attempt.key, attempt.number), ()):
            if message.stored_ms < attempt.due_ms:
                early_ms = attempt.due_ms - message.stored_ms
                yield f"early: {attempt} was delivered {early_ms} ms before it was due"


def _all_stored(history: History) -> dict[tuple[str, int], list[Stored]]:
    found: dict[tuple[str, int], list[Stored]] = {}
    for messages in history.stored.values():
        for message in messages:
            found.setdefault((message.key, message.attempt), []).append(message)
    return found


def _out_of_order(history: History) -> Iterator[str]:
    """Find messages out of order: a sender waits for each acknowledgement."""
    last: dict[tuple[str, int], int] = {}
    for attempt in history.attempts:
        if attempt.acked_at is None or attempt.kind is not Kind.PLAIN:
            continue
        sender = attempt.key.partition("-")[0]
        before = last.get((sender, attempt.queue_id), -1)
        if attempt.acked_at <= before:
            yield f"out of order: {attempt} is at {attempt.acked_at}, not after {before}"
        last[sender, attempt.queue_id] = attempt.acked_at


def _misread(history: History) -> Iterator[str]:
    """Find readers that did not receive all their messages once and in order."""
    for reader, given in history.read.items():
        stored = history.stored.get(reader.queue_id, [])
        wanted = [message for message in stored if reader.tag in ("", message.tag)]
        if given != wanted:
            missing = [message.offset for message in wanted if message not in given]
            yield (
                f"misread: {reader} received the offsets {[one.offset for one in given]}; "
                f"missing: {missing}"
            )
