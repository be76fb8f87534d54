"""Errors of the Spark source; all but lost data are raised on the driver before tasks start."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from orbitmq.errors.base import OrbitError
from orbitmq.errors.inputs import InvalidInput

if TYPE_CHECKING:  # at run time this module imports nothing else of the package
    from orbitmq.message.model import MessageQueue

__all__ = [
    "CommitIncomplete",
    "CommitTooLate",
    "DataLost",
    "InvalidColumn",
    "InvalidOffsets",
    "InvalidOption",
    "JavaNotFound",
    "LedgerDamaged",
    "LocationDamaged",
    "LocationInUse",
    "RejectedRow",
    "RowsRejected",
    "SparkTooOld",
    "UnknownOption",
    "WorkerPythonFailed",
]


class InvalidOption(InvalidInput):
    """An option of a read or a write is invalid, or contradicts another one: ``field``."""


class UnknownOption(InvalidOption):
    """There is no such option.

    Attributes:
        nearest: the most similar known option; None if there is none.

    >>> UnknownOption("subscrbe", nearest="subscribe")
    UnknownOption("there is no option 'subscrbe'; did you mean subscribe?")
    """

    def __init__(self, name: str, *, nearest: str | None) -> None:
        hint = f"did you mean {nearest}?" if nearest else "docs/spark.md lists all options"
        super().__init__(f"there is no option {name[:60]!r}; {hint}", field=name)
        self.nearest = nearest


class InvalidOffsets(InvalidOption):
    """Offsets are unreadable, or don't match the queues of the topics.

    Attributes:
        position: the position of the fault in the text; None if it has no single one.
    """

    def __init__(self, message: str, *, field: str, position: int | None = None) -> None:
        super().__init__(message, field=field)
        self.position = position


class InvalidColumn(InvalidInput):
    """A column of a data frame is missing, unknown, or of the wrong type: ``field``."""


class DataLost(OrbitError):
    """Messages to be read are gone: they expired, or the queue was deleted and recreated.

    Attributes:
        queue: the queue.
        wanted: the offset to be read.
        available: the first offset of the queue, and the one after its last.
    """

    def __init__(
        self,
        message: str,
        *,
        queue: "MessageQueue",
        wanted: int,
        available: tuple[int, int],
    ) -> None:
        super().__init__(message)
        self.queue = queue
        self.wanted = wanted
        self.available = available


class LocationInUse(OrbitError):
    """Another run of a job works on an archive or a ledger, or took it over.

    Attributes:
        place: the directory.
        owner: who has it, as far as is known.
    """

    retriable = True

    def __init__(self, message: str, *, place: str, owner: str) -> None:
        super().__init__(message)
        self.place = place
        self.owner = owner


class LocationDamaged(OrbitError):
    """A file of an archive or a ledger is missing or unreadable.

    Attributes:
        place: the file.
    """

    def __init__(self, message: str, *, place: str) -> None:
        super().__init__(message)
        self.place = place


class LedgerDamaged(OrbitError):
    """A file of the ledger of a transactional write is missing, or can't be read.

    Attributes:
        path: the file, relative to the ledger.
    """

    def __init__(self, message: str, *, path: str) -> None:
        super().__init__(message)
        self.path = path


class CommitTooLate(OrbitError):
    """A transactional write took longer than its ``transactionTimeout``; none of it is visible.

    Attributes:
        write: its name in the ledger.
    """

    def __init__(self, write: str, reason: str) -> None:
        super().__init__(
            f"{write} {reason}. It is rolled back: no row is visible. Raise transactionTimeout, "
            "or write less at a time, and start again; a stream repeats the batch"
        )
        self.write = write


class CommitIncomplete(OrbitError):
    """A transactional write is decided, but brokers did not end all of its transactions.

    Attributes:
        write: its name in the ledger.
        left: how many transactions of the current window are left.
    """

    def __init__(self, write: str, left: int, ledger: str, reason: str) -> None:
        super().__init__(
            f"{write} is committed in the ledger, but brokers did not deliver all of it: {left} "
            f"transactions and those after them are left; {reason}. Nothing is lost: start the "
            f"stream again, or run 'orbitmq pipeline settle --ledger {ledger}'"
        )
        self.write = write
        self.left = left


class JavaNotFound(OrbitError):
    """A local Spark session needs Java, and none was found that is new enough.

    Attributes:
        least: the oldest release that works.
    """

    def __init__(self, message: str, *, least: int) -> None:
        super().__init__(message)
        self.least = least


class SparkTooOld(OrbitError):
    """The Spark in use lacks a needed feature; the message says which.

    Attributes:
        least: the oldest release that works.
    """

    def __init__(self, message: str, *, least: str) -> None:
        super().__init__(message)
        self.least = least


class WorkerPythonFailed(OrbitError):
    """The Python that Spark runs for data sources can't load orbitmq.

    Attributes:
        python: its command, or a description of where it runs.
    """

    def __init__(self, message: str, *, python: str) -> None:
        super().__init__(message)
        self.python = python


_ROWS_SHOWN: Final = 5


class RejectedRow(NamedTuple):
    """A row of a write that can't be a message.

    Attributes:
        number: the row's number in its task, from 0.
        column: the invalid column; empty if a broker refused the row.
        reason: what is wrong; never contains a body.
        row_id: the id of the row; empty if it has none.
        key: its key; empty if it has none.
    """

    number: int
    column: str
    reason: str
    row_id: str = ""
    key: str = ""

    def __str__(self) -> str:
        key = f" with key {self.key[:80]!r}" if self.key else ""
        row_id = f" ({self.row_id[:80]})" if self.row_id else ""
        column = f", {self.column}" if self.column else ""
        return f"row {self.number}{key}{row_id}{column}: {self.reason}"


class RowsRejected(OrbitError, ValueError):
    """Rows of a write can't be messages, or a broker refuses them as illegal.

    Earlier rows may be stored; if a broker refused a row, so may others of its batch.

    Attributes:
        partition: Spark's number of the task.
        rows: the rows, in order.
    """

    def __init__(self, partition: int, rows: Sequence[RejectedRow]) -> None:
        shown = "; ".join(str(row) for row in rows[:_ROWS_SHOWN])
        more = f"; and {len(rows) - _ROWS_SHOWN} more" if len(rows) > _ROWS_SHOWN else ""
        super().__init__(
            f"partition {partition}: {len(rows)} rows can't be messages: {shown}{more}. Fix or "
            "drop them, or set the option onReject to a topic for them"
        )
        self.partition = partition
        self.rows = tuple(rows)
