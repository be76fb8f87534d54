"""How long things took: percentiles, and counts by bucket. Pure, but for the hook that collects.

RocketMQ's statistics have two buckets below 10 ms, where nearly all sends are; these have six.
"""

from bisect import bisect_right
from collections.abc import Iterable
from math import ceil
from typing import Final, NamedTuple

from orbitmq.client.observe.hooks import SendContext, SendHook

__all__ = ["BUCKETS", "SendTimes", "Spread", "by_bucket", "shown_ms", "spread"]

_ENDS_MS: Final = (1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 100, 200, 500, 1_000)
BUCKETS: Final = (
    *((span, "ms") for span in ("< 1", "1", "2", "3–4", "5–6", "7–9", "10–14", "15–19", "20–29")),
    *(("30–49", "ms"), ("50–99", "ms"), ("100–", "199 ms"), ("200–", "499 ms"), ("500–", "999 ms")),
    ("1 s", "or more"),
)
"""Names of the buckets, in two lines each."""
assert len(BUCKETS) == len(_ENDS_MS) + 1
_SECOND_MS: Final = 1_000
_SHARES: Final = (500, 900, 990, 999)  # of a thousand


class Spread(NamedTuple):
    """Percentiles of durations: the least that so many of them did not exceed."""

    durations: int
    p50_ms: int
    p90_ms: int
    p99_ms: int
    p999_ms: int
    longest_ms: int


class SendTimes(SendHook):
    """Collects the milliseconds from each send to its receipt; a hook of a producer."""

    def __init__(self) -> None:
        self.ms: list[int] = []

    def __repr__(self) -> str:
        return f"<SendTimes of {len(self.ms)} sends>"

    def after(self, context: SendContext) -> None:
        """Note how long a send took that has a receipt."""
        if context.receipt is not None:
            self.ms.append(context.took_ms)


def spread(durations_ms: Iterable[int]) -> Spread:
    """Return the percentiles of durations; zeros if there are none.

    >>> spread(range(1, 1_001))
    Spread(durations=1000, p50_ms=500, p90_ms=900, p99_ms=990, p999_ms=999, longest_ms=1000)
    """
    ordered = sorted(durations_ms)
    if not ordered:
        return Spread(0, 0, 0, 0, 0, 0)
    count = len(ordered)
    p50, p90, p99, p999 = (ordered[ceil(count * share / 1_000) - 1] for share in _SHARES)
    return Spread(count, p50, p90, p99, p999, ordered[-1])


def by_bucket(durations_ms: Iterable[int]) -> list[int]:
    """Return how many durations are in each bucket.

    >>> by_bucket([0, 1, 4, 4, 2_500])
    [1, 1, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]
    """
    counts = [0] * len(BUCKETS)
    for duration_ms in durations_ms:
        counts[bisect_right(_ENDS_MS, duration_ms)] += 1
    return counts


def shown_ms(ms: int) -> str:
    """Return a duration for people.

    >>> shown_ms(0), shown_ms(85), shown_ms(6_240)
    ('under 1 ms', '85 ms', '6.2 s')
    """
    if ms == 0:
        return "under 1 ms"
    return f"{ms} ms" if ms < _SECOND_MS else f"{ms / _SECOND_MS:.1f} s"
