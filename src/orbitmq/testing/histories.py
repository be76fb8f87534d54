"""What happened in a simulated run, and the laws that hold whatever happened. Pure.

>>> history = History()
>>> history.attempts.append(Attempt("a-1", 0, queue_id=0, tag="red", acked_at=0))
>>> history.stored[0] = [Stored(0, "a-1", 0, "red")]
>>> broken_laws(history)
[]
>>> history.stored[0].clear()
>>> broken_laws(history)
['lost: a-1, attempt 0, was acknowledged at offset 0 of queue 0, where nothing is']

"""

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

__all__ = ["Attempt", "History", "Reader", "Stored", "broken_laws"]


class Attempt(msgspec.Struct):
    """A send, as its sender knows it.

    Attributes:
        key: the unique key of the message; all attempts at it share it.
        number: which attempt at it this is.
        queue_id: where it was sent.
        tag: its tag.
        acked_at: the offset that the broker gave it, for good; None if it never said so.
        is_delayed: whether it waits elsewhere first: then the offset is not that of its queue.

    """

    key: str
    number: int
    queue_id: int
    tag: str
    acked_at: int | None = None
    is_delayed: bool = False

    def __str__(self) -> str:
        return f"{self.key}, attempt {self.number},"


class Stored(NamedTuple):
    """A message as a broker gives it out."""

    offset: int
    key: str
    attempt: int
    tag: str


class Reader(NamedTuple):
    """Who follows a queue, and which tag of it; empty for all."""

    group: str
    queue_id: int
    tag: str = ""


class History(msgspec.Struct):
    """A run: what clients saw while it went on, and what was there in the end.

    Attributes:
        attempts: all sends, in the order in which they began.
        read: what each reader was given, in order.
        stored: what each queue held in the end, read from offset 0 on.
        faults: what should not have happened, noted when it did.
        troubles: what was cut, parted, stopped or killed, in that order.
        digest: stands for every byte that crossed the network, and every call of the disk.

    """

    attempts: list[Attempt] = msgspec.field(default_factory=list)
    read: dict[Reader, list[Stored]] = msgspec.field(default_factory=dict)
    stored: dict[int, list[Stored]] = msgspec.field(default_factory=dict)
    faults: list[str] = msgspec.field(default_factory=list)
    troubles: list[str] = msgspec.field(default_factory=list)
    digest: str = ""


def broken_laws(history: History) -> list[str]:
    """Return a line for each thing that a broker must never do, and did."""
    return [
        *history.faults,
        *_gaps(history),
        *_lost(history),
        *_repeated(history),
        *_out_of_order(history),
        *_misread(history),
    ]


def _gaps(history: History) -> Iterator[str]:
    for queue_id, messages in history.stored.items():
        offsets = [message.offset for message in messages]
        if offsets != list(range(len(offsets))):
            yield f"gap or repeat: queue {queue_id} has the offsets {offsets}"


def _lost(history: History) -> Iterator[str]:
    """Find what was acknowledged, and is not where the acknowledgement said."""
    places = {
        (message.key, message.attempt): (queue_id, message.offset)
        for queue_id, messages in history.stored.items()
        for message in messages
    }
    for attempt in history.attempts:
        if attempt.acked_at is None:
            continue
        place = places.get((attempt.key, attempt.number))
        said = f"{attempt} was acknowledged at offset {attempt.acked_at} of queue"
        if place is None:
            yield f"lost: {said} {attempt.queue_id}, where nothing is"
        elif attempt.is_delayed:
            if place[0] != attempt.queue_id:
                yield f"strayed: {attempt} was sent to queue {attempt.queue_id}, and is in {place}"
        elif place != (attempt.queue_id, attempt.acked_at):
            yield f"strayed: {said} {attempt.queue_id}, and is at {place}"


def _repeated(history: History) -> Iterator[str]:
    """Find what is stored more than once for one attempt, or was never sent."""
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
            yield f"invented: {key}, attempt {number}, is stored, and was never sent"


def _out_of_order(history: History) -> Iterator[str]:
    """Hold queues to the order of a sender, who waits for each acknowledgement."""
    last: dict[tuple[str, int], int] = {}
    for attempt in history.attempts:
        if attempt.acked_at is None or attempt.is_delayed:
            continue
        sender = attempt.key.partition("-")[0]
        before = last.get((sender, attempt.queue_id), -1)
        if attempt.acked_at <= before:
            yield f"out of order: {attempt} is at {attempt.acked_at}, behind {before}"
        last[sender, attempt.queue_id] = attempt.acked_at


def _misread(history: History) -> Iterator[str]:
    """Find readers that were not given all they want, once and in order."""
    for reader, given in history.read.items():
        stored = history.stored.get(reader.queue_id, [])
        wanted = [message for message in stored if reader.tag in ("", message.tag)]
        if given != wanted:
            missing = [message.offset for message in wanted if message not in given]
            yield (
                f"misread: {reader} was given the offsets {[one.offset for one in given]}; "
                f"missing: {missing}"
            )
