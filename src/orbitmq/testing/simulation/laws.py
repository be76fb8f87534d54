"""The laws that every simulated run must keep: what each demands, and how breaches are found.

>>> from orbitmq.testing.simulation.histories import Attempt, Stored
>>> history = History()
>>> history.attempts.append(Attempt("a-1", 0, queue_id=0, tag="red", acked_at=0))
>>> history.stored[0] = [Stored(0, "a-1", 0, "red")]
>>> broken_laws(history)
[]
>>> history.stored[0].clear()
>>> broken_laws(history)
['lost: a-1, attempt 0, was acknowledged at offset 0 of queue 0, but is not stored']

"""

from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from types import MappingProxyType
from typing import Final, NamedTuple

from orbitmq.testing.simulation.histories import Attempt, History, Kind, Progress, Reign, Stored

__all__ = ["LAWS", "NOTED", "Law", "broken_laws"]


class Law(NamedTuple):
    """What every history must keep, and how breaches are found."""

    demand: str
    breaches: Callable[[History], Iterator[str]]


def broken_laws(history: History) -> list[str]:
    """Return a line for each broken law, which begins with its name."""
    found = [f"{name}: {text}" for name, law in LAWS.items() for text in law.breaches(history)]
    return [*history.faults, *found]


def _lost(history: History) -> Iterator[str]:
    """Find acknowledged messages that are not stored."""
    stored = _all_stored(history)
    for attempt in history.attempts:
        if (
            attempt.is_delivered
            and attempt.kind is not Kind.COMMITTED
            and _of(attempt) not in stored
        ):
            yield f"{_acknowledged(attempt)}, but is not stored"


def _uncommitted(history: History) -> Iterator[str]:
    """Find committed transactions that are not stored in their queue."""
    stored = _all_stored(history)
    for attempt in history.attempts:
        if attempt.is_delivered and attempt.kind is Kind.COMMITTED and _of(attempt) not in stored:
            yield f"{attempt} was committed, but is not stored in queue {attempt.queue_id}"


def _aborted(history: History) -> Iterator[str]:
    """Find delivered messages of transactions that were not committed."""
    stored = _all_stored(history)
    for attempt in history.attempts:
        if attempt.kind.is_transaction and not attempt.is_delivered:
            for _, message in stored.get(_of(attempt), ()):
                yield f"{attempt} was delivered at offset {message.offset}"


def _strayed(history: History) -> Iterator[str]:
    """Find messages in another place than the acknowledged one."""
    stored = _all_stored(history)
    for attempt in history.attempts:
        if not attempt.is_delivered:
            continue
        for queue_id, message in stored.get(_of(attempt), ())[:1]:
            if queue_id != attempt.queue_id:
                yield f"{attempt} was sent to queue {attempt.queue_id}, but is in {queue_id}"
            elif attempt.kind is Kind.PLAIN and message.offset != attempt.acked_at:
                yield f"{_acknowledged(attempt)}, but is at {message.offset}"


def _gaps(history: History) -> Iterator[str]:
    """Find queues with other offsets than 0, 1, 2 and so on."""
    for queue_id, messages in history.stored.items():
        offsets = [message.offset for message in messages]
        if offsets != list(range(len(offsets))):
            yield f"queue {queue_id} has the offsets {offsets}"


def _repeated(history: History) -> Iterator[str]:
    """Find attempts that are stored more than once; the progress of timers is not copied."""
    again = {_of(one) for one in history.attempts if one.kind is Kind.TIMED and history.promotions}
    for (key, number), messages in _all_stored(history).items():
        if len(messages) > 1 and (key, number) not in again:
            yield f"{key}, attempt {number}, is stored {len(messages)} times"


def _invented(history: History) -> Iterator[str]:
    """Find stored messages that nobody sent."""
    sent = {_of(attempt) for attempt in history.attempts}
    for key, number in sorted(_all_stored(history).keys() - sent):
        yield f"{key}, attempt {number}, is stored, but was never sent"


def _early(history: History) -> Iterator[str]:
    """Find messages that were delivered before they were due."""
    stored = _all_stored(history)
    for attempt in history.attempts:
        for _, message in stored.get(_of(attempt), ()):
            if message.stored_ms < attempt.due_ms:
                early_ms = attempt.due_ms - message.stored_ms
                yield f"{attempt} was delivered {early_ms} ms before it was due"


def _out_of_order(history: History) -> Iterator[str]:
    """Find messages out of order: a sender waits for each acknowledgement."""
    last: dict[tuple[str, int], int] = {}
    for attempt in history.attempts:
        if attempt.acked_at is None or attempt.kind is not Kind.PLAIN:
            continue
        sender = attempt.key.partition("-")[0]
        before = last.get((sender, attempt.queue_id), -1)
        if attempt.acked_at <= before:
            yield f"{attempt} is at {attempt.acked_at}, not after {before}"
        last[sender, attempt.queue_id] = attempt.acked_at


def _misread(history: History) -> Iterator[str]:
    """Find readers that did not receive all their messages once and in order."""
    for reader, given in history.read.items():
        if reader.queue_id in history.reused:
            continue
        stored = history.stored.get(reader.queue_id, [])
        wanted = [message for message in stored if reader.tag in ("", message.tag)]
        if history.promotions:
            # A slave may keep what its master wrote before it lost power, and wrote again after:
            # the same message at the same place, with another time.
            given = [one._replace(stored_ms=0) for one in given]
            wanted = [one._replace(stored_ms=0) for one in wanted]
        if given != wanted:
            missing = [message.offset for message in wanted if message not in given]
            yield (
                f"{reader} received the offsets {[one.offset for one in given]}; missing: {missing}"
            )


def _undelivered(history: History) -> Iterator[str]:
    """Find messages that no handler of a group has consumed."""
    for group in history.groups:
        consumed = {
            (one.key, one.attempt)
            for one in history.deliveries
            # What was sent back while no slave was there, is lost with the master's disk: a broker
            # says that it is stored, since a consumer that hears otherwise would store it twice.
            if one.group == group.name and (one.succeeded or history.promotions)
        }
        for queue_id, messages in history.stored.items():
            for one in messages:
                wanted = group.tag in ("", one.tag) and queue_id not in history.reused
                if wanted and (one.key, one.attempt) not in consumed:
                    yield (
                        f"{one.key}, attempt {one.attempt}, at offset {one.offset} of queue "
                        f"{queue_id}, was not consumed by {group.name}"
                    )


def _skipped(history: History) -> Iterator[str]:
    """Find messages that an ordered group got before one that is earlier in the queue."""
    ordered = {group.name for group in history.groups if group.ordered}
    ends: dict[tuple[str, int], int] = {}
    for one in history.deliveries:
        if one.group not in ordered or one.queue_id in history.reused:
            continue
        place = (one.group, one.queue_id)
        end = ends.setdefault(place, 0)
        if one.offset > end:
            yield f"{one.group} got offset {one.offset} of queue {one.queue_id} before {end}"
        if one.succeeded:
            ends[place] = max(end, one.offset + 1)


def _went_back(history: History) -> Iterator[str]:
    """Find groups whose progress went back within one age."""
    by_queue: dict[tuple[str, str, int, str], list[Progress]] = {}
    for one in history.progress:
        if one.queue_id in history.reused:
            continue
        by_queue.setdefault((one.group, one.topic, one.queue_id, one.broker), []).append(one)
    for samples in by_queue.values():
        for before, after in pairwise(samples):
            if after.age == before.age and after.offset < before.offset:
                yield (
                    f"{after.group} was at {before.offset} in queue {after.queue_id} of "
                    f"{after.topic}, then at {after.offset}"
                )


def _two_masters(history: History) -> Iterator[str]:
    """Find moments with two masters, and epochs with two."""
    of_epoch: dict[int, str] = {}
    for reign in history.reigns:
        if len(reign.masters) > 1:
            yield f"{_masters(reign)} accept messages at {reign.at_ms} ms"
        for epoch, name in reign.masters:
            if of_epoch.setdefault(epoch, name) != name:
                yield f"in epoch {epoch} {of_epoch[epoch]} was the master, then {name}"


def _masters(reign: Reign) -> str:
    return " and ".join(f"{name}, in epoch {epoch}," for epoch, name in reign.masters)


def _differing(history: History) -> Iterator[str]:
    """Find the first difference of logs, and queues that differ."""
    names = list(history.logs)
    for name in names[1:]:
        ours, theirs = history.logs[names[0]], history.logs[name]
        if ours != theirs:
            pairs = enumerate(zip(ours, theirs, strict=False))
            place = next((at for at, (a, b) in pairs if a != b), min(len(ours), len(theirs)))
            yield (
                f"the logs of {names[0]} and {name}, of {len(ours)} and {len(theirs)} bytes, "
                f"differ from byte {place} on"
            )
        mine, others = history.queues[names[0]], history.queues[name]
        for queue in sorted(mine.keys() | others.keys()):
            if mine.get(queue, b"") != others.get(queue, b""):
                yield f"{names[0]} and {name} have other entries in queue {queue}"


LAWS: Final[Mapping[str, Law]] = MappingProxyType(
    {
        "lost": Law(
            "what was acknowledged under the promised durability is readable after recovery",
            _lost,
        ),
        "strayed": Law(
            "a message is where it was acknowledged: in its queue, a plain one at its offset",
            _strayed,
        ),
        "gap or repeat": Law(
            "the offsets of a queue have no gap and no repeat",
            _gaps,
        ),
        "repeated": Law(
            "an attempt to send is stored once; a timed one again by a promoted slave",
            _repeated,
        ),
        "invented": Law(
            "what is stored was sent",
            _invented,
        ),
        "aborted": Law(
            "an aborted transaction is never delivered",
            _aborted,
        ),
        "uncommitted": Law(
            "a committed transaction is delivered",
            _uncommitted,
        ),
        "early": Law(
            "a delayed or timed message is not delivered before it is due",
            _early,
        ),
        "out of order": Law(
            "the messages of a sender in a queue are in its order",
            _out_of_order,
        ),
        "misread": Law(
            "a reader receives all its messages once and in order",
            _misread,
        ),
        "undelivered": Law(
            "every stored message is delivered to each group, until a handler succeeds; once, "
            "if the master's disk is lost",
            _undelivered,
        ),
        "skipped": Law(
            "an ordered group gets a message only after it has consumed those before it",
            _skipped,
        ),
        "went back": Law(
            "the progress of a group never goes back, but by a kill or another master, until all "
            "members are back, or while members are cut off",
            _went_back,
        ),
        "replicas differ": Law(
            "replicas are equal byte for byte: the logs, and the queues made of them",
            _differing,
        ),
        "two masters": Law(
            "one elected broker at a time accepts messages, and one in each epoch",
            _two_masters,
        ),
    }
)
"""The laws of a whole history, by name."""

NOTED: Final = {
    "no answer": "a request is answered, unless something was lost",
    "odd answer": "only codes that fit a broker's state are answered; a slave that became the "
    "master may know fewer queues",
    "stuck": "everything comes to its end once the failures are over",
    "moved back": "no pull is answered with an offset before its own",
    "diverged": "logs go different ways only if a master lost power",
    "damage": "the files of a stopped broker agree",
    "logged": "no error is logged, but of a disk that was made to fail",
    "unhandled": "no callback raises",
}
"""The laws that are checked while a run goes on, by name."""


def _all_stored(history: History) -> dict[tuple[str, int], list[tuple[int, Stored]]]:
    found: dict[tuple[str, int], list[tuple[int, Stored]]] = {}
    for queue_id, messages in history.stored.items():
        for message in messages:
            found.setdefault((message.key, message.attempt), []).append((queue_id, message))
    return found


def _of(attempt: Attempt) -> tuple[str, int]:
    return attempt.key, attempt.number


def _acknowledged(attempt: Attempt) -> str:
    return f"{attempt} was acknowledged at offset {attempt.acked_at} of queue {attempt.queue_id}"
