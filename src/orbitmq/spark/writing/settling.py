"""Settles a ledger from outside of a write: after a crash, or beside a running query.

::

    COMMITTING, not COMMITTED ──▶ delivered, as the driver would
    OPEN, its time is over ─────▶ ABORTED, rolled back: no commit can come any more
    OPEN, in time ──────────────▶ left to its driver
"""

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

import msgspec

from orbitmq.errors import OrbitError
from orbitmq.message.names import BENCHMARK_TOPIC
from orbitmq.spark.options.options import WriteOptions, write_options
from orbitmq.spark.writing.check_answers import CheckAnswers
from orbitmq.spark.writing.finishing import Ends, clean_up, finish, give_up
from orbitmq.spark.writing.ledger import Ledger, LedgerWrite, State
from orbitmq.spark.writing.ledger_files import LedgerFiles
from orbitmq.spark.writing.producers import new_producer

__all__ = ["Settled", "answering", "ledger_options", "settle_ledger", "settling"]

log = logging.getLogger("orbitmq.spark")

_SKEW_MS: Final = 60_000
"""How far the clock of a driver may be behind: it may still commit until its time is over."""


class Settled(msgspec.Struct, frozen=True, kw_only=True):
    """What was done to a ledger, and what is left; writes are named as their folders."""

    writes: int
    """All that the ledger knows."""
    finished: tuple[str, ...] = ()
    """Writes whose commit was finished."""
    messages: int = 0
    """Messages that this made visible."""
    rolled_back: tuple[str, ...] = ()
    """Attempts of tasks that were rolled back, since their time was over."""
    open: tuple[str, ...] = ()
    """Writes whose drivers may still commit."""
    failed: Mapping[str, str] = {}
    """Writes that could not be settled, and why."""
    forgotten: int = 0
    """Old writes that were deleted from the ledger."""
    answered: Mapping[str, int] = {}
    """The checks of brokers that were answered, by answer."""

    @property
    def is_settled(self) -> bool:
        """Whether nothing is open or failed."""
        return not self.open and not self.failed


def ledger_options(ledger: str, nameserver: str, options: Mapping[str, str]) -> WriteOptions:
    """Return the options of a transactional write with this ledger; raise as ``write_options``."""
    given = {"nameserver": nameserver, "delivery": "transactional", "ledgerLocation": ledger}
    return write_options({**given, **options})


def settle_ledger(
    ledger: Ledger,
    ends: Ends,
    now_ms: int,
    progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> Settled:
    """Finish and roll back what can be; return what was done. A failed write stops no other one.

    ``progress`` is called with the writes that are settled, and all.
    """
    finished, messages = [], 0
    rolled_back: list[str] = []
    left = []
    failed: dict[str, str] = {}
    writes = ledger.writes()
    for number, write in enumerate(writes):
        progress(number, len(writes))
        try:
            decision = write.decision()
            if decision is None:
                rolled_back += _roll_back_expired(write, ends, now_ms)
                if write.attempts():
                    left.append(write.name)
            elif decision.state is State.COMMITTING and not write.is_committed():
                messages += finish(write, ends)
                finished.append(write.name)
            else:
                clean_up(write, decision, ends)
        except OrbitError as error:
            log.error("%s is not settled: %s", write.name, error)
            failed[write.name] = str(error)
    progress(len(writes), len(writes))
    return Settled(
        writes=len(writes),
        finished=tuple(finished),
        messages=messages,
        rolled_back=tuple(rolled_back),
        open=tuple(left),
        failed=failed,
        forgotten=ledger.forget(now_ms),
    )


def _roll_back_expired(write: LedgerWrite, ends: Ends, now_ms: int) -> list[str]:
    """Roll back the attempts of an undecided write whose time is over; return their names."""
    expired = []
    for file in write.attempts():
        head = write.head(file)
        if head is not None and now_ms >= head.expires_ms + _SKEW_MS:
            expired.append(file)
    give_up(write, expired, ends)
    if expired and write.is_batch_write and not write.attempts():
        write.abort(now_ms)  # nobody repeats it, so it may be forgotten
    return [write.path(file) for file in expired if write.state_of(file) is State.ABORTED]


@contextmanager
def answering(options: WriteOptions) -> Iterator[CheckAnswers]:
    """Answer the checks of brokers from a ledger meanwhile, as a member of its producer group.

    Brokers are those of the topic of the options, or all.
    """
    assert options.ledger is not None  # else there is nothing to answer from
    answers = CheckAnswers(Ledger(LedgerFiles(options.ledger)))
    with new_producer(options, answers, topics=(options.topic or BENCHMARK_TOPIC,)):
        yield answers


@contextmanager
def settling(ledger: str, *, nameserver: str, **options: str) -> Iterator[None]:
    """Answer the checks of brokers about transactional writes meanwhile.

    The workers of a query do so as long as they run. For times in which none does, such as long
    pauses between batches, run the query inside of this, on the driver::

        with orbitmq.spark.settling("/data/checkpoint/orbitmq-ledger", nameserver=nameserver):
            query.awaitTermination()

    Args:
        ledger: the ``ledgerLocation`` of the write; that of a stream is by default the folder
            ``orbitmq-ledger`` below its checkpoint.
        nameserver: as for the write.
        options: other options of the write, such as ``accessKey``; ``groupId`` if it has one.

    Raises:
        OrbitError: an option is invalid, or no nameserver answers.
    """
    with answering(ledger_options(ledger, nameserver, options)):
        yield
