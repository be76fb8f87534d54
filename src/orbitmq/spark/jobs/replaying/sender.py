"""Sends the copies of one source queue to one target queue, in order, each once.

::

    entry in the ledger? ──no──▶ note: done = -1, next = end of the target queue, attempt = mine
          │ yes                                                │
          ▼                                                    │
    note: attempt = mine; if it was open:                      │
    wait until its last send has arrived or never will         │
    read ids in the target from next on ──▶ known              │
          └──────────────────────┬─────────────────────────────┘
                                 ▼
    piece: offsets above done, ids not known ──▶ still mine? ──▶ send ──▶ note done, next ──▶ piece
                 ▲                                                 │
                 └───── wait, read ids from next on ◀──── failed: some may be stored

So a kill, a retried task and a send without an answer are one case: what the ledger doesn't know,
the target queue does. The producer doesn't repeat a send by itself. An attempt that outlives its
driver sends at most the piece that it is at: then it finds that the entry is another one's.
"""

import logging
from collections.abc import Sequence
from typing import Final, Protocol

import msgspec

from orbitmq.clock import Clock
from orbitmq.errors import (
    LocationInUse,
    NetworkError,
    NoRoute,
    OrbitError,
    PartlySent,
    SendFailed,
    SendIllegal,
    SendUnauthorised,
)
from orbitmq.message.model import Message, MessageQueue
from orbitmq.spark.jobs.replaying.copies import Copy, copy_id
from orbitmq.spark.jobs.replaying.ledger import Ledger, QueueProgress
from orbitmq.spark.jobs.replaying.pace import Pace, Rate
from orbitmq.spark.offset_json import queue_name

__all__ = ["SETTLE_MS", "Pauses", "QueueReplay", "Target", "pieces"]

log = logging.getLogger("orbitmq.spark")

SETTLE_MS: Final = 3_000
"""How long a send may be on its way after its sender died or gave up: the timeout of a request."""
_TRIES: Final = 8


class Target(Protocol):
    """The cluster that copies go to."""

    def end(self, queue: MessageQueue) -> int:
        """Return the offset that the next message of a queue gets."""

    def ids(self, queue: MessageQueue, start: int) -> set[str]:
        """Return the ids of the copies in a queue from an offset on."""

    def send(self, messages: Sequence[Message], queue: MessageQueue) -> int:
        """Send messages in order, once; return the offset behind the last when all are stored."""


class Pauses(Protocol):
    """Blocks for some time."""

    def __call__(self, duration_ms: int, /) -> None:
        """Block for some milliseconds."""


class QueueReplay:
    """The replay of one source queue by one attempt of a task."""

    def __init__(
        self,
        ledger: Ledger,
        target: Target,
        source: MessageQueue,
        queue: MessageQueue,
        *,
        attempt: str,
        clock: Clock,
        pause: Pauses,
    ) -> None:
        self._ledger = ledger
        self._target = target
        self._clock = clock
        self._pause = pause
        self._known: set[str] = set()
        found = ledger.load(source)
        was_open = found is not None and found.is_open
        if found is None:
            found = QueueProgress(source=source, target=queue, next=target.end(queue))
        self._progress = msgspec.structs.replace(found, attempt=attempt, is_open=True)
        ledger.save(self._progress)
        if was_open:
            pause(SETTLE_MS)
            self._known = target.ids(found.target, found.next)

    def __repr__(self) -> str:
        return f"<QueueReplay {self._progress!r}>"

    @property
    def source(self) -> MessageQueue:
        """The queue whose copies are sent."""
        return self._progress.source

    def send(self, given: Sequence[Copy], pace: Pace, rate: Rate) -> None:
        """Send those of some copies that are not stored yet; their offsets rise.

        Raise the error of a send that can't succeed, or didn't in all tries.
        """
        left = [copy for copy in given if copy.offset > self._progress.done]
        for piece in pieces(left, *rate.piece):
            wanted = self._unknown(piece)
            size = sum(len(copy.message.body) for copy in wanted)
            if wait := pace.wait_ms(self._clock.monotonic_ms(), messages=len(wanted), size=size):
                self._pause(wait)
            self._send(piece)

    def close(self) -> None:
        """Note that nothing is on its way."""
        self._progress = msgspec.structs.replace(self._progress, is_open=False)
        self._ledger.save(self._progress)

    def _send(self, piece: Sequence[Copy]) -> None:
        behind, done = self._progress.next, piece[-1].offset
        for number in range(_TRIES):
            wanted = self._unknown(piece)
            try:
                if wanted:
                    self._check()
                    messages = [copy.message for copy in wanted]
                    behind = self._target.send(messages, self._progress.target)
                break
            except (SendFailed, NetworkError, NoRoute) as error:
                if _is_final(error) or number == _TRIES - 1:
                    raise
                log.warning("a piece of %d messages is sent again: %s", len(wanted), error)
                self._pause(SETTLE_MS)
                self._look_again()
        self._progress = msgspec.structs.replace(
            self._progress,
            done=done,
            next=max(behind, self._progress.next),
            sent=self._progress.sent + len(piece),
        )
        self._ledger.save(self._progress)

    def _look_again(self) -> None:
        try:
            self._known |= self._target.ids(self._progress.target, self._progress.next)
        except (NetworkError, NoRoute) as error:
            # Nothing may be sent before this is known.
            log.warning("the target can't be read now: %s", error)
            self._pause(SETTLE_MS)
            self._known |= self._target.ids(self._progress.target, self._progress.next)

    def _unknown(self, piece: Sequence[Copy]) -> list[Copy]:
        if not self._known:
            return [*piece]
        source = self._progress.source
        return [copy for copy in piece if copy_id(source, copy.offset) not in self._known]

    def _check(self) -> None:
        """Raise LocationInUse if another attempt has the queue now."""
        found = self._ledger.load(self.source)
        if found is None or found.attempt != self._progress.attempt:
            raise LocationInUse(
                f"another attempt replays topic {self.source.topic}, queue "
                f"{queue_name(self.source)}; this one has stopped",
                place=self._ledger.location.place,
                owner="" if found is None else found.attempt,
            )


def _is_final(error: OrbitError) -> bool:
    faults = error.errors.values() if isinstance(error, PartlySent) else [error]
    return any(isinstance(fault, SendIllegal | SendUnauthorised) for fault in faults)


def pieces(given: Sequence[Copy], messages: int, size: int) -> list[Sequence[Copy]]:
    """Return runs of at most some messages, and some bytes unless one message has more."""
    found: list[Sequence[Copy]] = []
    start = held = 0
    for at, copy in enumerate(given):
        more = len(copy.message.body)
        if at > start and (at - start >= messages or held + more > size):
            found.append(given[start:at])
            start, held = at, 0
        held += more
    if start < len(given):
        found.append(given[start:])
    return found
