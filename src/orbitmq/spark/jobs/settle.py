"""Settle: finishes transactional writes whose driver died, and answers for them.

It needs the ledger and the cluster, and no Spark session.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from orbitmq.clock import SystemClock, pause
from orbitmq.errors import InvalidOption
from orbitmq.spark.jobs.progress import Progress
from orbitmq.spark.writing.ends import TransactionEnds
from orbitmq.spark.writing.ledger import Ledger
from orbitmq.spark.writing.ledger_files import LedgerFiles
from orbitmq.spark.writing.settling import (
    Settled,
    answering,
    ledger_options,
    settle_ledger,
)

__all__ = ["Settled", "settle"]

_OF_STREAM: Final = "orbitmq-ledger"
"""The ledger of a stream without a ledgerLocation, below its checkpoint."""


def settle(
    ledger: str,
    nameserver: str,
    options: Mapping[str, str] | None = None,
    *,
    answer_ms: int = 0,
    progress: Progress | None = None,
) -> Settled:
    """Finish what a ledger has decided, roll back what is too old; return what was done.

    Args:
        ledger: its location, as in the option ``ledgerLocation``.
        nameserver: of the cluster.
        options: other options of the write, such as ``accessKey``.
        answer_ms: for how long to answer the checks of brokers afterwards.
        progress: is called with the settled and all writes.

    Raises:
        OrbitError: an option is invalid, or there is no ledger, or it can't be opened. A write
            that can't be settled raises nothing; it is in ``failed``.

    ::

        print(settle("/data/checkpoint/orbitmq-ledger", "127.0.0.1:9876").finished)
    """
    parsed = ledger_options(ledger, nameserver, options or {})
    assert parsed.ledger is not None  # given above
    files = LedgerFiles(parsed.ledger)
    _check_is_ledger(files)
    with TransactionEnds(parsed.access, try_ms=parsed.send_timeout_ms) as ends:
        done = settle_ledger(
            Ledger(files),
            ends,
            SystemClock().now_ms(),
            progress or (lambda _done, _total: None),
        )
    if answer_ms <= 0:
        return done
    with answering(parsed) as answers:
        pause(answer_ms)
    counts = {state.name: count for state, count in answers.given.items()}
    return msgspec.structs.replace(done, answered=counts)


def _check_is_ledger(files: LedgerFiles) -> None:
    """Refuse a location that is mistyped: without any writes all would seem settled."""
    reason = ""
    if not files.is_there:
        reason = "does not exist"
    elif _OF_STREAM in files.names():
        reason = f"is a checkpoint; its ledger is the folder {_OF_STREAM} in it"
    if reason:
        raise InvalidOption(
            f"ledgerLocation {files.location[:200]!r} {reason}; give the ledgerLocation of the "
            "writes, or the checkpoint of the stream with /orbitmq-ledger",
            field="ledgerLocation",
        )
