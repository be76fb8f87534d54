"""The fault tolerance of Java's clients: slow and failed brokers are avoided, by tables.

After a slow or failed attempt its broker is avoided for a time that a table gives::

    java5  up to 30 s, only ever extended; an unreachable broker is the last choice until a send or
           the detector reaches it (MQFaultStrategy and LatencyFaultToleranceImpl of 5.x)
    java4  up to ten minutes, and the last attempt counts; if all are avoided, the better half of
           them is used round-robin (the same classes of 4.x)
"""

from collections.abc import Collection
from typing import Final

import msgspec

from orbitmq.client.producer.health.health import AttemptOutcome, Health, Standing, keep

__all__ = ["JAVA4_PENALTIES", "JAVA5_PENALTIES", "Java4Health", "Java5Health", "penalty_ms"]

Penalties = tuple[tuple[int, int], ...]
"""Rows of (least latency in ms, how long the broker is avoided), shortest latency first."""

JAVA5_PENALTIES: Final[Penalties] = (
    (50, 0),
    (100, 0),
    (550, 2_000),
    (1_800, 5_000),
    (3_000, 6_000),
    (5_000, 10_000),
    (15_000, 30_000),
)
JAVA4_PENALTIES: Final[Penalties] = (
    (50, 0),
    (100, 0),
    (550, 30_000),
    (1_000, 60_000),
    (2_000, 120_000),
    (3_000, 180_000),
    (15_000, 600_000),
)
# A failed attempt counts as one of this latency.
_JAVA5_FAILED_AS_MS: Final = 10_000
_JAVA4_FAILED_AS_MS: Final = 30_000


def penalty_ms(penalties: Penalties, took_ms: int) -> int:
    """Return how long a broker is avoided after an attempt with that latency.

    >>> penalty_ms(JAVA5_PENALTIES, 549), penalty_ms(JAVA5_PENALTIES, 550)
    (0, 2000)
    """
    found_ms = 0
    for least_ms, barred_ms in penalties:
        if took_ms < least_ms:  # most sends are fast, and end here
            break
        found_ms = barred_ms
    return found_ms


class _FaultItem(msgspec.Struct):
    """What is known of one broker, as in Java's FaultItem."""

    latency_ms: int = 0
    until_ms: int = 0
    reachable: bool = True
    probe_at_ms: int = 0


class _TableHealth(Health):
    """What both have in common: a broker is avoided until a time."""

    active = True

    def __init__(self) -> None:
        self._known: dict[str, _FaultItem] = {}

    def forget(self, broker: str) -> None:
        """Forget a broker."""
        self._known.pop(broker, None)

    def _item(self, broker: str) -> _FaultItem:
        item = self._known.get(broker)
        if item is None:
            item = keep(self._known, broker, _FaultItem())
        return item


class Java5Health(_TableHealth):
    """Fault tolerance of 5.x: a broker is avoided by latency, and is reachable or not.

    A broker is available when its time has ended, even if it is not reachable: that is Java's order
    of filters. The time is only ever extended.

    ``detector`` says whether ``due_probes`` are asked (Java's startDetectorEnable). Only then does
    a network error make a broker unreachable; an error answer always does. ``detect_interval_ms``
    is the least time between two probes of one broker.

    >>> health = Java5Health()
    >>> health.learn("broker-a", AttemptOutcome.STORED, took_ms=600, now_ms=0)
    >>> health.standing("broker-a", 1_999), health.standing("broker-a", 2_000)
    (<Standing.BARRED: 2>, <Standing.GOOD: 0>)
    """

    def __init__(self, *, detector: bool = False, detect_interval_ms: int = 2_000) -> None:
        super().__init__()
        self._detector = detector
        self._detect_interval_ms = detect_interval_ms

    def learn(self, broker: str, outcome: AttemptOutcome, took_ms: int, now_ms: int) -> None:
        """Record the outcome of an attempt."""
        item = self._item(broker)
        item.latency_ms = took_ms
        as_ms = _JAVA5_FAILED_AS_MS if _failed(outcome) else took_ms
        barred_ms = penalty_ms(JAVA5_PENALTIES, as_ms)
        if barred_ms:
            item.until_ms = max(item.until_ms, now_ms + barred_ms)
        if outcome is AttemptOutcome.NO_ANSWER:
            item.reachable = not self._detector
        else:
            item.reachable = not _failed(outcome)

    def standing(self, broker: str, now_ms: int) -> Standing:
        """Return the standing of a broker."""
        item = self._known.get(broker)
        if item is None or now_ms >= item.until_ms:
            return Standing.GOOD
        return Standing.BARRED if item.reachable else Standing.BAD

    def due_probes(self, now_ms: int) -> list[str]:
        """Return the brokers to probe now: all that are due, healthy ones too.

        None without a detector.
        """
        if not self._detector:
            return []
        due = [broker for broker, item in self._known.items() if now_ms >= item.probe_at_ms]
        for broker in due:
            self._known[broker].probe_at_ms = now_ms + self._detect_interval_ms
        return due

    def probed(self, broker: str, *, reached: bool) -> None:
        """Record the result of a probe; a failed one changes nothing, as in Java."""
        item = self._known.get(broker)
        if item is not None and reached:
            item.reachable = True


class Java4Health(_TableHealth):
    """Fault tolerance of 4.x: a longer table, the last attempt counts, none is unreachable.

    >>> health = Java4Health()
    >>> health.learn("broker-a", AttemptOutcome.NO_ANSWER, took_ms=3_000, now_ms=0)
    >>> health.standing("broker-a", 599_999), health.standing("broker-a", 600_000)
    (<Standing.BAD: 3>, <Standing.GOOD: 0>)
    """

    def __init__(self) -> None:
        super().__init__()
        self._turn = 0

    def learn(self, broker: str, outcome: AttemptOutcome, took_ms: int, now_ms: int) -> None:
        """Record the outcome of an attempt; a fast one makes its broker available at once."""
        item = self._item(broker)
        item.latency_ms = took_ms
        as_ms = _JAVA4_FAILED_AS_MS if _failed(outcome) else took_ms
        item.until_ms = now_ms + penalty_ms(JAVA4_PENALTIES, as_ms)

    def standing(self, broker: str, now_ms: int) -> Standing:
        """Return the standing of a broker."""
        item = self._known.get(broker)
        return Standing.GOOD if item is None or now_ms >= item.until_ms else Standing.BAD

    def last_resort(self, brokers: Collection[str], now_ms: int) -> str | None:
        """Return a broker of the better half of all known ones, round-robin.

        As in Java, brokers of other topics are among them. If one of those is chosen, it is
        forgotten, and any queue will do.
        """
        if not self._known:
            return None
        ranked = sorted(self._known, key=lambda broker: self._rank(broker, now_ms))
        self._turn += 1
        chosen = ranked[self._turn % max(1, len(ranked) // 2)]
        if chosen in brokers:
            return chosen
        self.forget(chosen)
        return None

    def _rank(self, broker: str, now_ms: int) -> tuple[bool, int, int]:
        item = self._known[broker]
        return now_ms < item.until_ms, item.latency_ms, item.until_ms


def _failed(outcome: AttemptOutcome) -> bool:
    return outcome is not AttemptOutcome.STORED and outcome is not AttemptOutcome.UNKNOWN
