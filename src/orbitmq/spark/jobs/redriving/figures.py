"""The figures of dead letters, and of a re-drive; no Spark, no cluster."""

from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

__all__ = [
    "AGES",
    "Cause",
    "DeadLetterFigures",
    "Group",
    "Letter",
    "Redriven",
    "Refused",
    "Slot",
    "age_of",
    "summary",
]

_HOUR_MS: Final = 3_600_000
AGES: Final = (
    *(("under an hour", _HOUR_MS), ("1 to 24 hours", 24 * _HOUR_MS)),
    *(("1 to 7 days", 7 * 24 * _HOUR_MS), ("older", 2**63)),
)
"""Spans of age, with their ends in milliseconds."""


class Letter(msgspec.Struct, frozen=True, kw_only=True):
    """A sample of a cause."""

    id: str
    """The offset id of the dead letter: ``--where "id = '…'"`` selects it."""
    message_id: str
    key: str
    died_ms: int
    deliveries: int
    reason: str
    body: str
    """The beginning, as text."""


class Cause(msgspec.Struct, frozen=True, kw_only=True):
    """The dead letters of one group, topic and cause."""

    group: str
    topic: str
    cause: str
    letters: int
    oldest_ms: int
    newest_ms: int
    samples: tuple[Letter, ...]


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """The dead letters of one group."""

    group: str
    letters: int
    died_again: int
    """Those that had been re-driven, and died once more."""
    oldest_ms: int
    newest_ms: int


class Slot(msgspec.Struct, frozen=True):
    """How many messages died in one slot of time."""

    start_ms: int
    letters: int


class DeadLetterFigures(msgspec.Struct, frozen=True, kw_only=True):
    """The dead letters of some groups; ages as of ``now_ms``."""

    letters: int
    now_ms: int
    bytes: int = 0
    groups: tuple[Group, ...] = ()
    causes: tuple[Cause, ...] = ()
    ages: Mapping[str, int] = {}
    slot_ms: int = 0
    slots: tuple[Slot, ...] = ()


class Refused(msgspec.Struct, frozen=True):
    """A dead letter that can't be re-driven, and why."""

    id: str
    reason: str


class Redriven(msgspec.Struct, frozen=True, kw_only=True):
    """What a re-drive did, or with ``is_dry_run`` would do.

    Attributes:
        chosen: the dead letters of the filter, up to the limit.
        sent: how many were sent, or would be.
        repeated: how many had been re-driven before, and were left.
        topics: how many were sent to which topic.
        refused: those that can't be re-driven; the others go on.
        stopped: why it ended early; empty if it did not. The same call goes on with the rest.
    """

    chosen: int
    sent: int
    repeated: int
    topics: Mapping[str, int]
    refused: tuple[Refused, ...] = ()
    stopped: str = ""
    is_dry_run: bool = False

    @property
    def left(self) -> int:
        """Those that were not reached."""
        return self.chosen - self.sent - self.repeated - len(self.refused)


def age_of(age_ms: int) -> str:
    """Return the span of an age.

    >>> age_of(0), age_of(30 * _HOUR_MS)
    ('under an hour', '1 to 7 days')
    """
    return next(name for name, end_ms in AGES if age_ms < end_ms)


def summary(done: Redriven) -> Iterator[str]:
    """Yield what a re-drive did, in words."""
    verb = "would be sent" if done.is_dry_run else "sent"
    to = ", ".join(f"{topic} {count:,}" for topic, count in sorted(done.topics.items()))
    yield f"Chosen     {done.chosen:,} dead letters"
    yield f"Re-driven  {done.sent:,} {verb}{f' ({to})' if to else ''}"
    yield f"Before     {done.repeated:,} had been re-driven already, and were left"
    for one in done.refused[:10]:
        yield f"Refused    {one.id}: {one.reason}"
    if len(done.refused) > 10:
        yield f"Refused    {len(done.refused) - 10:,} more"
    if done.stopped:
        yield f"Stopped    with {done.left:,} left, repeat the command to go on: {done.stopped}"
