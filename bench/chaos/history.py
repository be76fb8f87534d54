"""What clients saw in a run, what the brokers had at its end, and the laws that hold between both.

A send that was acknowledged with SEND_OK is *promised*: what that promises depends on the settings
of the broker. One acknowledged with another status, such as FLUSH_SLAVE_TIMEOUT, is *weaker*: the
master has it, and more is not said.

>>> history = History(rounds=[Round("master killed", began=0.0)])
>>> history.sends.append(Send("a-0", "a", began=1.0, status="SEND_OK", queue=0, offset=0))
>>> history.stored[0] = ["a-0"]
>>> history.copied = history.stored
>>> history.deliveries.append(Delivery("reader", "a-0", 0, 0))
>>> judged(history).broken
[]
>>> history.stored = {0: []}
>>> judged(history).rounds[0].lost
['a-0']
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

import msgspec

__all__ = ["PROMISED", "Delivery", "History", "Judged", "JudgedRound", "Round", "Send", "judged"]

PROMISED: Final = "SEND_OK"
_SHOWN: Final = 5
"""Examples in the text of a broken law."""


class Send(msgspec.Struct):
    """One call of a producer; the retries of a client belong to it. Times are in seconds."""

    key: str
    """The message, by an id that no other has."""
    sender: str
    """Senders send one message after the other."""
    began: float
    ended: float = 0.0
    status: str = ""
    """As acknowledged; empty if the call failed, and then the message may be stored or not."""
    queue: int = -1
    offset: int = -1
    error: str = ""


class Delivery(NamedTuple):
    """A message that a consumer group got."""

    reader: str
    key: str
    queue: int
    offset: int


class Round(msgspec.Struct):
    """The time from the end of the round before to the moment when all is well again."""

    fault: str
    began: float
    fault_at: float = 0.0
    healed_at: float | None = None


class History(msgspec.Struct):
    """A run. ``stored`` has the keys of each queue of the master, from offset 0 on."""

    rounds: list[Round] = msgspec.field(default_factory=list)
    sends: list[Send] = msgspec.field(default_factory=list)
    deliveries: list[Delivery] = msgspec.field(default_factory=list)
    readers: dict[str, bool] = msgspec.field(default_factory=dict)
    """Consumer groups, and whether they were promised the order of each queue."""
    stored: dict[int, list[str]] = msgspec.field(default_factory=dict)
    copied: dict[int, list[str]] = msgspec.field(default_factory=dict)
    """The same of the slave."""
    troubles: list[str] = msgspec.field(default_factory=list)
    """What went wrong in the run itself: a server that logged a traceback, a round without end."""


class JudgedRound(msgspec.Struct):
    """What became of the messages whose sends began in a round."""

    fault: str
    acknowledged: int = 0
    """Promised sends."""
    weaker: int = 0
    failed: int = 0
    lost: list[str] = msgspec.field(default_factory=list)
    """Promised, and not on the master at the end."""
    weaker_lost: int = 0
    stored_twice: int = 0
    """Messages that are stored more than once, since a client tried again."""
    delivered_twice: int = 0
    skipped: int = 0
    """Later messages that a reader did not get, since it had a lost one of this round before, whose
    offset they got."""
    outage_s: float = 0.0
    """The longest time without an acknowledgement, from the last one before the fault on."""


class Judged(NamedTuple):
    """What came of a run."""

    rounds: list[JudgedRound]
    broken: list[str]
    """A line for each broken law. Lost and skipped messages are not among them, since settings may
    allow that."""


def judged(history: History) -> Judged:
    """Return what became of each round's messages, and which laws were broken."""
    places = _places(history.stored)
    rounds = [JudgedRound(one.fault) for one in history.rounds]
    begins = [one.began for one in history.rounds]
    skipped = _skipped(history)
    twice = Counter(one.key for one in _repeats(history.deliveries))
    for send in history.sends:
        into = rounds[max(0, bisect_right(begins, send.began) - 1)]
        where = places.get(send.key, [])
        into.stored_twice += len(where) > 1
        into.delivered_twice += twice[send.key]
        into.skipped += skipped[send.key]
        if send.status == PROMISED:
            into.acknowledged += 1
            if not where:
                into.lost.append(send.key)
        elif send.status:
            into.weaker += 1
            into.weaker_lost += not where
        else:
            into.failed += 1
    acknowledged = sorted(send.ended for send in history.sends if send.status)
    for judged_round, one in zip(rounds, history.rounds, strict=True):
        judged_round.outage_s = _outage(one, acknowledged)
    laws = (_moved, _out_of_order, _invented, _not_copied, _undelivered, _read_out_of_order)
    broken = [*history.troubles]
    broken += [_told(found) for law in laws if (found := list(law(history, places)))]
    return Judged(rounds, broken)


_Places = Mapping[str, Sequence[tuple[int, int]]]
"""Where each key is stored: queues and offsets."""


def _told(found: Sequence[str]) -> str:
    more = f", and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    return "; ".join(found[:_SHOWN]) + more


def _places(stored: Mapping[int, Sequence[str]]) -> _Places:
    found: dict[str, list[tuple[int, int]]] = {}
    for queue, keys in stored.items():
        for offset, key in enumerate(keys):
            found.setdefault(key, []).append((queue, offset))
    return found


def _repeats(deliveries: Sequence[Delivery]) -> Iterator[Delivery]:
    seen = set()
    for one in deliveries:
        if one in seen:
            yield one
        seen.add(one)


def _outage(one: Round, acknowledged: Sequence[float]) -> float:
    end = float("inf") if one.healed_at is None else one.healed_at
    first = max(0, bisect_right(acknowledged, one.fault_at) - 1)
    moments = acknowledged[first : bisect_right(acknowledged, end)]
    return max((after - before for before, after in pairwise(moments)), default=0.0)


def _moved(history: History, places: _Places) -> Iterator[str]:
    """Find promised sends that are stored, but not where the acknowledgement said."""
    for send in history.sends:
        found = places.get(send.key, ())
        if send.status == PROMISED and found and (send.queue, send.offset) not in found:
            said = f"offset {send.offset} of queue {send.queue}"
            yield f"moved: {send.key} was acknowledged at {said}, and is at {list(found)}"


def _out_of_order(history: History, places: _Places) -> Iterator[str]:
    """Find acknowledged messages that their queue has before what the sender sent earlier."""
    last: dict[tuple[str, int], int] = {}
    for send in history.sends:
        offsets = [offset for queue, offset in places.get(send.key, ()) if queue == send.queue]
        if not send.status or not offsets:
            continue
        before = last.get((send.sender, send.queue), -1)
        if min(offsets) < before:
            yield f"out of order: {send.key} is at {min(offsets)} of queue {send.queue}"
        last[send.sender, send.queue] = max(before, min(offsets))


def _invented(history: History, places: _Places) -> Iterator[str]:
    sent = {send.key for send in history.sends}
    yield from (f"invented: {key} was never sent" for key in places if key not in sent)


def _not_copied(history: History, _places: _Places) -> Iterator[str]:
    for queue, keys in history.stored.items():
        if (copy := history.copied.get(queue, [])) != keys:
            yield (
                f"not copied: queue {queue} has {len(keys)} messages on the master and "
                f"{len(copy)} on the slave, or others"
            )


def _not_had(history: History) -> Iterator[tuple[Delivery, str]]:
    """Yield what a reader did not get, and the message that it had at that offset instead."""
    for reader in history.readers:
        had = {(one.queue, one.offset): one for one in history.deliveries if one.reader == reader}
        keys = {one.key for one in history.deliveries if one.reader == reader}
        for queue, stored in history.stored.items():
            for offset, key in enumerate(stored):
                if key not in keys:
                    instead = had.get((queue, offset))
                    yield Delivery(reader, key, queue, offset), instead.key if instead else ""


def _skipped(history: History) -> Counter[str]:
    """Return how many messages were skipped, by the lost message whose offset they got."""
    return Counter(instead for _, instead in _not_had(history) if instead)


def _undelivered(history: History, _places: _Places) -> Iterator[str]:
    for one, instead in _not_had(history):
        if not instead:
            yield f"undelivered: {one.reader} did not get {one.key} at {one.offset} of {one.queue}"


def _read_out_of_order(history: History, places: _Places) -> Iterator[str]:
    """Find what an ordered reader got for the first time after a later message of the queue."""
    last: dict[tuple[str, int], int] = {}
    seen = set()
    for one in history.deliveries:
        is_there = (one.queue, one.offset) in places.get(one.key, ())
        if not history.readers.get(one.reader) or one in seen or not is_there:
            continue
        seen.add(one)
        before = last.get((one.reader, one.queue), -1)
        if one.offset < before:
            yield f"read out of order: {one.reader} got {one} after offset {before}"
        last[one.reader, one.queue] = max(before, one.offset)
