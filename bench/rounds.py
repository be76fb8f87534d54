"""Rounds of two sides in turn, after a warm-up, and what they sum up to.

The machine drifts, so the two sides alternate, and only rounds next to each other are compared: the
ratio of a row is the median of the ratios of its pairs of rounds.
"""

from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import Final, NamedTuple, TypeVar

import msgspec

__all__ = ["Plan", "Result", "Round", "Spread", "WarmUp", "alternate", "settle", "summed_up"]

K = TypeVar("K")
T = TypeVar("T")

SETTLED: Final = 0.05
"""The most by which two consecutive rounds of a warm side differ."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The sizes of a run."""

    name: str
    rounds: int
    messages: int
    """Messages of a round, for most loads."""
    warm_messages: int
    """The least of a warm-up; it ends at twice as many if the figures don't settle."""
    starts: int
    backlog: int
    """Stored messages for a consumer."""
    handler_rounds: int
    handler_s: float
    latency_rounds: int
    latency_s: float
    """Seconds of a round."""
    collector_rounds: int
    collector_s: float
    crowd_connections: int
    crowd_queues: int
    recovery_mib: int
    producer_messages: int
    """Messages over which the memory of a producer is measured."""
    later_rounds: int
    """Rounds of loads that wait: until messages are due, or until a consumer has its queues."""
    growth: Mapping[str, tuple[int, ...]]
    """The sizes of each growth row, the smallest first."""


class Round(NamedTuple):
    """What one side took in one round."""

    cost: float
    """In the unit of the row."""
    per_second: float | None = None


class Spread(msgspec.Struct, frozen=True):
    """The median of some rounds, the least and the most."""

    median: float
    least: float
    most: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "Spread":
        """Return the spread of values.

        >>> Spread.of([3.0, 1.0, 2.0])
        Spread(median=2.0, least=1.0, most=3.0)
        """
        return cls(median(values), min(values), max(values))


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """A measured row."""

    name: str
    ours: Spread
    theirs: Spread
    ratio: Spread
    """Of pairs of rounds."""
    ours_per_second: float | None = None
    theirs_per_second: float | None = None
    points: tuple[tuple[int, float], ...] = ()
    """For growth: the cost at each size."""


class WarmUp(msgspec.Struct, frozen=True):
    """How a warm-up went."""

    who: str
    rounds: int
    difference: float
    """Between the last two rounds, as a part."""

    @property
    def is_settled(self) -> bool:
        """Whether the last two rounds differed by less than 5 %."""
        return self.difference < SETTLED


def settle(who: str, run: Callable[[], float], least: int) -> WarmUp:
    """Repeat all loads of a side until the sum of their costs no longer changes.

    Args:
        who: the side, for the report.
        run: runs each load once, mixed as in the measurement; returns the sum of their costs.
        least: the fewest rounds; twice as many are the most.

    >>> costs = iter([90.0, 50.0, 31.0, 30.0])
    >>> settle("Java", lambda: next(costs), least=3).rounds
    4
    """
    rounds, before, difference = 0, 0.0, 1.0
    while rounds < 2 * least and (rounds < least or difference >= SETTLED):
        cost = run()
        rounds += 1
        difference = abs(cost - before) / cost
        before = cost
    return WarmUp(who, rounds, difference)


def alternate(
    sides: Mapping[K, tuple[Callable[[], T], Callable[[], T]]], rounds: int
) -> dict[K, tuple[list[T], list[T]]]:
    """Run some loads on both sides; return the rounds of each load, ours and theirs.

    The two sides of a load run next to each other, and the side that begins changes, so that a
    steady drift cancels out. A round runs all loads, so that a busy minute spoils one round of each
    and not all rounds of one.
    """
    found: dict[K, tuple[list[T], list[T]]] = {load: ([], []) for load in sides}
    for number in range(rounds):
        for load, both in sides.items():
            for side in (0, 1) if number % 2 == 0 else (1, 0):
                found[load][side].append(both[side]())
    return found


def summed_up(name: str, ours: Sequence[Round], theirs: Sequence[Round]) -> Result:
    """Return the result of the paired rounds of both sides.

    >>> summed_up("broker.send", [Round(1.0), Round(3.0)], [Round(4.0), Round(4.0)]).ratio
    Spread(median=0.5, least=0.25, most=0.75)
    """
    return Result(
        name=name,
        ours=Spread.of([one.cost for one in ours]),
        theirs=Spread.of([one.cost for one in theirs]),
        ratio=Spread.of([mine.cost / other.cost for mine, other in zip(ours, theirs, strict=True)]),
        ours_per_second=_rate(ours),
        theirs_per_second=_rate(theirs),
    )


def _rate(rounds: Sequence[Round]) -> float | None:
    rates = [one.per_second for one in rounds if one.per_second is not None]
    return median(rates) if rates else None
