"""The health of brokers: what an attempt says about one, and whether to prefer it for the next.

Health gets the outcome of every attempt of a producer, so that one send's failure steers all. It is
pure: time is an argument. This one learns nothing; those that do are in ``java`` and ``adaptive``.
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
"""More than any cluster has; brokers that are gone make room for new ones."""


class AttemptOutcome(enum.Enum):
    """What an attempt says about its broker."""

    STORED = "stored"
    """It stored the message, with any status."""
    REFUSED = "refused"
    """It answered with an error about the request."""
    UNHEALTHY = "unhealthy"
    """It answered with an error about itself: busy, failed, not available."""
    NO_ANSWER = "no answer"
    """The connection failed, or time ran out."""
    UNKNOWN = "unknown"
    """Nothing: the send was cancelled, or failed before it left."""


class Standing(enum.IntEnum):
    """Whether to prefer a broker for the next send; less is better."""

    GOOD = 0
    PROBE = 1
    """Maybe bad; one first attempt may find out."""
    BARRED = 2
    """Avoided for a time, but reachable."""
    BAD = 3


def outcome_of(error: BaseException | None) -> AttemptOutcome:
    """Return what the error of an attempt says about its broker; None is a receipt.

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
    """The health of brokers; this one learns nothing and takes all of them for good.

    All times are of one monotonic clock, in milliseconds. A caller calls ``sent`` when an attempt
    leaves, and ``learn`` when it has ended; neither for one-way sends.
    """

    active: bool = False
    """Whether anything is learned; if not, callers may skip ``sent`` and ``learn``."""

    def sent(self, broker: str, now_ms: int) -> bool:  # noqa: ARG002 - for those that learn
        """Record an attempt that leaves now; return whether it is a probe.

        A probe should leave time for another attempt, since its broker is likely to fail it.
        """
        return False

    def learn(self, broker: str, outcome: AttemptOutcome, took_ms: int, now_ms: int) -> None:
        """Record the outcome of an attempt."""

    def standing(self, broker: str, now_ms: int) -> Standing:  # noqa: ARG002
        """Return the standing of a broker; it does not change by the call."""
        return Standing.GOOD

    def last_resort(self, brokers: Collection[str], now_ms: int) -> str | None:  # noqa: ARG002
        """Return which of the brokers to use when none has a good standing; None: any."""
        return None

    def due_probes(self, now_ms: int) -> list[str]:  # noqa: ARG002
        """Return the brokers to probe now, each once per interval.

        The caller asks for GET_MAX_OFFSET of any topic and calls ``probed``, or ``forget`` if the
        broker is in no route any more.
        """
        return []

    def probed(self, broker: str, *, reached: bool) -> None:
        """Record the result of a probe of :meth:`due_probes`."""

    def forget(self, broker: str) -> None:
        """Forget a broker."""


T = TypeVar("T")


def keep(known: dict[str, T], broker: str, item: T) -> T:
    """Add a new broker; the oldest one is dropped if there are too many."""
    if len(known) >= _BROKERS_MAX:
        del known[next(iter(known))]
    known[broker] = item
    return item
