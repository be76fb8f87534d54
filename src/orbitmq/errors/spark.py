"""Errors of the Spark source: raised on the driver before a task starts, but for lost data."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from orbitmq.errors.base import OrbitError
from orbitmq.errors.inputs import InvalidInput

if TYPE_CHECKING:  # what some errors carry; at run time this module stands on nothing
    from orbitmq.message.model import MessageQueue

__all__ = [
    "DataLost",
    "InvalidColumn",
    "InvalidOffsets",
    "InvalidOption",
    "JavaNotFound",
    "RejectedRow",
    "RowsRejected",
    "SparkTooOld",
    "UnknownOption",
]


class InvalidOption(InvalidInput):
    """An option of a read or a write can't be used, or contradicts another one: ``field``."""


class UnknownOption(InvalidOption):
    """There is no such option.

    Attributes:
        nearest: the known option that looks most like it, None if none does.

    >>> UnknownOption("subscrbe", nearest="subscribe")
    UnknownOption("there is no option 'subscrbe'; did you mean subscribe?")

    """

    def __init__(self, name: str, *, nearest: str | None) -> None:
        hint = f"did you mean {nearest}?" if nearest else "docs/spark.md lists all options"
        super().__init__(f"there is no option {name[:60]!r}; {hint}", field=name)
        self.nearest = nearest


class InvalidOffsets(InvalidOption):
    """Offsets that can't be read, or that are not those of the queues there are.

    Attributes:
        position: the character of the text at which it shows, None if no one place is at fault.

    """

    def __init__(self, message: str, *, field: str, position: int | None = None) -> None:
        super().__init__(message, field=field)
        self.position = position


class InvalidColumn(InvalidInput):
    """A column of a data frame that there isn't, or whose type can't be written: ``field``."""


class DataLost(OrbitError):
    """Messages that were to be read are gone: retention passed them, or the queue was made anew.

    Attributes:
        queue: the queue.
        wanted: the offset to be read.
        available: the first offset the queue has, and the one after its last.

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


class JavaNotFound(OrbitError):
    """A local Spark session needs a Java, and none was found that is new enough.

    Attributes:
        least: the oldest release that would do.

    """

    def __init__(self, message: str, *, least: int) -> None:
        super().__init__(message)
        self.least = least


class SparkTooOld(OrbitError):
    """The Spark in use lacks what is needed; the message says what for.

    Attributes:
        least: the oldest release that would do.

    """

    def __init__(self, message: str, *, least: str) -> None:
        super().__init__(message)
        self.least = least


_ROWS_TOLD: Final = 5


class RejectedRow(NamedTuple):
    """A row of a write that can't be a message.

    Attributes:
        number: the row's number in its task, from 0, in the order it came.
        column: the column at fault; empty if a broker refuses the row, which names none.
        reason: what is wrong with it; never a body.
        row_id: the id of the row, empty if it has none.
        key: its key, empty if it has none.

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
    """Rows of a write can't be messages, or a broker refuses them for what they are.

    Rows before them may be stored; where a broker refuses some, others of their batch too.

    Attributes:
        partition: the task, as Spark numbers them.
        rows: the rows, in their order.

    """

    def __init__(self, partition: int, rows: Sequence[RejectedRow]) -> None:
        told = "; ".join(str(row) for row in rows[:_ROWS_TOLD])
        more = f"; and {len(rows) - _ROWS_TOLD} more" if len(rows) > _ROWS_TOLD else ""
        super().__init__(
            f"partition {partition}: {len(rows)} rows can't be messages: {told}{more}. Mend or "
            "drop them, or name a topic that gets them by the option onReject"
        )
        self.partition = partition
        self.rows = tuple(rows)
