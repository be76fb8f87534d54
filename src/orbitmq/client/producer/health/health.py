"""What is known of brokers: what a try tells of one, and how much it deserves the next send.

Health is told of every try of a producer, so that what one send met steers all. It is pure: time is
an argument. This one learns nothing; those that do are in ``java_health`` and ``adaptive_health``.
"""

import enum
from collections.abc import Collection
from typing import Final, TypeVar

from orbitmq.errors import (
    BrokerBusy,
    BrokerError,
    BrokerFailed,
    NetworkError,
    RemoteProtocolError,
    ServiceNotAvailable,
    TooManyRequests,
)

__all__ = ["DETECT_EVERY_MS", "AttemptOutcome", "Health", "Standing", "keep", "outcome_of"]

DETECT_EVERY_MS: Final = 3_000
"""How often a detector asks for ``due_probes``."""

_BROKERS_MAX: Final = 4_096
"""More than any cluster has; brokers that were renamed or went away make room for new ones."""


class AttemptOutcome(enum.Enum):
    """What a try told of its broker."""

    STORED = "stored"
    """It stored the message, whatever the status."""
    REFUSED = "refused"
    """It answered with an error that is about the request."""
    UNHEALTHY = "unhealthy"
    """It answered with an error that is about itself: busy, failed, not available."""
    NO_ANSWER = "no answer"
    """No answer: the connection failed, or time ran out."""
    UNKNOWN = "unknown"
    """Nothing: the send was cancelled, or failed before it left."""


class Standing(enum.IntEnum):
    """How much a broker deserves the next send; less is better."""

    GOOD = 0
    PROBE = 1
    """Not known to be well; one first try may go there and find out."""
    BARRED = 2
    """Barred for a time, but reachable."""
    BAD = 3


def outcome_of(error: BaseException | None) -> AttemptOutcome:
    """Return what the end of a try tells of its broker; None is a receipt.

    >>> outcome_of(None), outcome_of(BrokerBusy(2, "[OVERLOAD]system busy"))
    (<AttemptOutcome.STORED: 'stored'>, <AttemptOutcome.UNHEALTHY: 'unhealthy'>)
    """
    match error:
        case None:
            return AttemptOutcome.STORED
        case BrokerBusy() | BrokerFailed() | ServiceNotAvailable():
            return AttemptOutcome.UNHEALTHY
        case BrokerError():
            return AttemptOutcome.REFUSED
        case NetworkError() | TooManyRequests() | RemoteProtocolError():
            return AttemptOutcome.NO_ANSWER
        case _:
            return AttemptOutcome.UNKNOWN


class Health:
    """What is known of brokers; this one learns nothing and holds all of them to be good.

    All times are of one monotonic clock, in milliseconds. A caller tells each try twice: ``sent``
    when it leaves, ``learn`` when it has ended. A oneway send has no end, and is not told.
    """

    active: bool = False
    """Whether anything is learned; if not, callers may leave ``sent`` and ``learn`` out."""

    def sent(self, broker: str, now_ms: int) -> bool:  # noqa: ARG002 - for those that learn
        """Take note of a try that leaves now; return whether it is a probe.

        A probe should leave time for another try: its broker is likely to fail it.
        """
        return False

    def learn(self, broker: str, outcome: AttemptOutcome, took_ms: int, now_ms: int) -> None:
        """Take note of how a try ended."""

    def standing(self, broker: str, now_ms: int) -> Standing:  # noqa: ARG002
        """Return how much the broker deserves the next send. Asking changes nothing."""
        return Standing.GOOD

    def last_resort(self, brokers: Collection[str], now_ms: int) -> str | None:  # noqa: ARG002
        """Return which of the brokers to take when none has a good standing; None: any."""
        return None

    def due_probes(self, now_ms: int) -> list[str]:  # noqa: ARG002
        """Return the brokers to ask for a sign of life now; each is named once per interval.

        The caller asks GET_MAX_OFFSET of any topic and calls ``probed``, or ``forget`` if no
        route knows the broker any more.
        """
        return []

    def probed(self, broker: str, *, reached: bool) -> None:
        """Take note of what became of a probe of :meth:`due_probes`."""

    def forget(self, broker: str) -> None:
        """Drop what is known of a broker."""


T = TypeVar("T")


def keep(known: dict[str, T], broker: str, item: T) -> T:
    """Keep what is known of a new broker; the first one makes room if there are too many."""
    if len(known) >= _BROKERS_MAX:
        del known[next(iter(known))]
    known[broker] = item
    return item
