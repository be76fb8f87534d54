"""The figures of a reconciliation; no Spark, no cluster.

Every message that somebody said to have sent has one verdict::

    stored once ───────────── found          not stored ─┬─ acknowledged ─┬─ LOST
    stored more than once ─── found,                     │                ├─ gone: retention took it
                              the others DUPLICATED      │                └─ delayed: not due yet
                                                         ├─ waiting: in an outbox
    stored, and nobody                                   ├─ failed: the send said so
    said so ───────────────── unreported                 └─ undecided, withdrawn: transactions

A stored message may also be OUT OF ORDER or LATE, and NOT CONSUMED by a group. What stands in
capitals is a difference.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

__all__ = [
    "DIFFERENCES",
    "VERDICTS",
    "Group",
    "Minute",
    "Reconciliation",
    "Sample",
    "Topic",
    "reconciliation",
]

VERDICTS: Final = (
    *("found", "lost", "duplicated", "gone", "delayed", "waiting", "failed", "undecided"),
    *("withdrawn", "unreported"),
)
DIFFERENCES: Final = ("lost", "duplicated", "out_of_order", "late", "not_consumed")


class Minute(msgspec.Struct, frozen=True, kw_only=True):
    """The messages of one topic that were sent in one minute."""

    topic: str
    start_ms: int
    found: int = 0
    lost: int = 0
    duplicated: int = 0
    out_of_order: int = 0
    late: int = 0
    not_consumed: int = 0
    gone: int = 0
    delayed: int = 0
    waiting: int = 0
    failed: int = 0
    undecided: int = 0
    withdrawn: int = 0
    unreported: int = 0

    @property
    def sent(self) -> int:
        """Messages that somebody said to have sent, or tried to."""
        said = (name for name in VERDICTS if name not in ("duplicated", "unreported"))
        return sum(getattr(self, name) for name in said)

    @property
    def differences(self) -> int:
        """Messages with something wrong, counted once for each wrong."""
        return sum(getattr(self, name) for name in DIFFERENCES)


class Topic(msgspec.Struct, frozen=True, kw_only=True):
    """The sums of one topic."""

    topic: str
    sent: int
    differences: int
    counts: Mapping[str, int]
    """By verdict, and by difference."""


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """What a consumer group has not consumed yet."""

    group: str
    topic: str
    not_consumed: int


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """One of the messages with a verdict or a difference; the first ones are kept."""

    kind: str
    topic: str
    message_id: str
    sent_ms: int
    place: str
    """Where it is, or was said to be: ``broker-a:0 at 12``; empty if unknown."""
    note: str = ""


class Reconciliation(msgspec.Struct, frozen=True, kw_only=True):
    """What producers say they sent, against what is stored and was consumed."""

    equal: bool
    """Whether there is no difference, and something was compared, if there is anything."""
    differences: int
    first_ms: int | None
    last_ms: int | None
    late_ms: int
    unreadable: int
    """Reports that could not be read: trace records, lines of receipts."""
    topics: tuple[Topic, ...]
    minutes: tuple[Minute, ...]
    groups: tuple[Group, ...]
    samples: tuple[Sample, ...]

    @property
    def sent(self) -> int:
        """Messages that somebody said to have sent, or tried to."""
        return sum(topic.sent for topic in self.topics)

    def count(self, name: str) -> int:
        """Return a sum over all topics, by verdict or difference."""
        return sum(topic.counts.get(name, 0) for topic in self.topics)


def reconciliation(
    minutes: Iterable[Minute],
    groups: Iterable[Group],
    samples: Sequence[Sample],
    *,
    late_ms: int,
    unreadable: int = 0,
) -> Reconciliation:
    """Return the whole of some minutes.

    >>> one = Minute(topic="orders", start_ms=60_000, found=9, lost=1)
    >>> found = reconciliation([one], [], [], late_ms=1_000)
    >>> found.equal, found.sent, found.count("lost")
    (False, 10, 1)
    """
    ordered = sorted(minutes, key=lambda one: (one.start_ms, one.topic))
    of_topic: dict[str, list[Minute]] = {}
    for one in ordered:
        of_topic.setdefault(one.topic, []).append(one)
    topics = tuple(_topic(name, found) for name, found in sorted(of_topic.items()))
    differences = sum(topic.differences for topic in topics)
    is_compared = any(topic.sent for topic in topics) or not (topics or unreadable)
    return Reconciliation(
        equal=is_compared and not differences,
        differences=differences,
        first_ms=ordered[0].start_ms if ordered else None,
        last_ms=ordered[-1].start_ms + 60_000 if ordered else None,
        late_ms=late_ms,
        unreadable=unreadable,
        topics=topics,
        minutes=tuple(ordered),
        groups=tuple(groups),
        samples=tuple(samples),
    )


def _topic(name: str, minutes: Sequence[Minute]) -> Topic:
    names = dict.fromkeys((*VERDICTS, *DIFFERENCES))
    counts = {one: sum(getattr(minute, one) for minute in minutes) for one in names}
    return Topic(
        topic=name,
        sent=sum(minute.sent for minute in minutes),
        differences=sum(minute.differences for minute in minutes),
        counts={one: count for one, count in counts.items() if count},
    )
