"""Finishes what a ledger has decided: delivers what is committed, rolls back the rest.

::

    DECISION ──▶ a window of halves ──▶ ended, each with an answer ──▶ PROGRESS ──▶ … ──▶ COMMITTED
                                                                                     └─▶ cleaned up

A crash repeats at most the window after PROGRESS. Our broker knows a transaction that has ended,
and delivers nothing twice. Java's delivers those again whose answer was not noted; the copies have
the same ``ORBIT_ID``.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final, Protocol, TypeAlias

from orbitmq.errors import CommitIncomplete, LedgerDamaged, OrbitError
from orbitmq.spark.writing.half_list import Half, HalfListHead
from orbitmq.spark.writing.ledger import Decision, LedgerWrite, Progress, State

__all__ = ["Ends", "clean_up", "finish", "give_up"]

log = logging.getLogger("orbitmq.spark")

WINDOW: Final = 1_000
"""Halves between two notes of progress."""

_Window: TypeAlias = tuple[HalfListHead, Sequence[Half], Progress]


class Ends(Protocol):
    """Ends transactions; see ``ends``."""

    def commit(self, halves: Sequence[Half], head: HalfListHead) -> Mapping[int, OrbitError]:
        """Commit all halves; return the errors of those that are left, by index."""
        ...

    def roll_back(self, halves: Sequence[Half], head: HalfListHead) -> Mapping[int, OrbitError]:
        """Roll back all halves, with one try; return the errors by index."""
        ...


def finish(
    write: LedgerWrite,
    ends: Ends,
    *,
    window: int = WINDOW,
    progress: Callable[[int], None] = lambda _count: None,
) -> int:
    """Bring a decided write to its end; return how many halves were committed now.

    ``progress`` is called with the halves of each window. Raise CommitIncomplete if brokers don't
    commit all of it, and LedgerDamaged if the ledger lacks something.
    """
    decision = write.decision()
    if decision is None:
        return 0
    count = 0
    if decision.state is State.COMMITTING and not write.is_committed():
        try:
            count = _deliver(write, decision, ends, window, progress)
        except LedgerDamaged:
            if not write.is_committed():  # else another process finished it, and deleted the lists
                raise
    clean_up(write, decision, ends)
    return count


def _deliver(
    write: LedgerWrite,
    decision: Decision,
    ends: Ends,
    window: int,
    progress: Callable[[int], None],
) -> int:
    """Commit all that a decision names and that is not delivered yet; return how many halves."""
    count = 0
    for head, halves, reached in _windows(write, decision, write.progress(), window):
        if halves and (errors := ends.commit(halves, head)):
            reason = str(next(iter(errors.values())))
            ledger = write.files.location
            raise CommitIncomplete(write.name, len(errors), ledger, reason)
        count += len(halves)
        progress(len(halves))
        if reached.files < len(decision.files):  # else COMMITTED says it
            write.note_progress(reached)
    write.complete()
    return count


def clean_up(write: LedgerWrite, decision: Decision, ends: Ends) -> None:
    """Roll back the attempts that a decision doesn't name, and delete all lists.

    What can't be rolled back now stays invisible: answers to checks roll it back.
    """
    for file in write.attempts():
        if file not in decision.files:
            _roll_back(write, file, ends)
    write.drop_lists()


def give_up(write: LedgerWrite, files: Iterable[str], ends: Ends) -> None:
    """Abort attempts of a write on which there is no decision; nothing happens if there is one."""
    for file in files:
        if write.give_up(file):
            _roll_back(write, file, ends)
            write.files.delete(write.path(file))


def _windows(
    write: LedgerWrite, decision: Decision, done: Progress, window: int
) -> Iterator[_Window]:
    """Yield the halves that are not delivered yet, each window with the progress after it."""
    for number, file in enumerate(decision.files):
        if number < done.files:
            continue
        head = write.head(file)
        if head is None:
            raise LedgerDamaged(
                f"the ledger {write.files.location} lacks {write.path(file)}, which is committed; "
                "restore it, since its rows can't be delivered without it",
                path=write.path(file),
            )
        reached = Progress(number, done.halves if number == done.files else 0)
        halves = islice(write.halves(file), reached.halves, None)
        while reached.files == number:
            some = list(islice(halves, window))
            is_last = len(some) < window
            reached = Progress(number + 1) if is_last else Progress(number, reached.halves + window)
            yield head, some, reached


def _roll_back(write: LedgerWrite, file: str, ends: Ends) -> None:
    head = write.head(file)
    if head is None:
        return
    left, reason = 0, ""
    try:
        halves = write.halves(file, partly=True)
        while some := list(islice(halves, WINDOW)):
            errors = ends.roll_back(some, head)
            left += len(errors)
            reason = next((str(error) for error in errors.values()), reason)
    except OrbitError as error:
        reason = str(error)
    if reason:
        log.warning(
            "%s: %d transactions were not rolled back now; they stay invisible, and the answers to "
            "the checks of brokers roll them back: %s",
            *(write.path(file), left, reason),
        )
