"""Throughput of a broker and latency of its puts: Java's ``StoreStatsService``.

Totals are sampled every second and kept for ten minutes; rates are differences between samples. Put
times are counted in buckets per minute; reports show the last whole minute.
"""

import logging
from bisect import bisect_left, bisect_right
from collections import deque
from typing import Final, NamedTuple

__all__ = ["Throughput"]

log = logging.getLogger("orbitmq.broker")

_SAMPLE_MS: Final = 1_000
_MINUTE_MS: Final = 60_000
_SAMPLES_MAX: Final = 601
_RATES_S: Final = (10, 60, 600)

# A put of 10 ms is in the third bucket; the first two hold 0 ms and less than 10 ms.
_BUCKET_ENDS_MS: Final = (10, 50, 100, 200, 500, 1_000, 2_000, 3_000, 4_000, 5_000, 10_000)
_BUCKET_NAMES: Final = (
    *("[<=0ms]", "[0~10ms]", "[10~50ms]", "[50~100ms]", "[100~200ms]", "[200~500ms]"),
    *("[500ms~1s]", "[1~2s]", "[2~3s]", "[3~4s]", "[4~5s]", "[5~10s]", "[10s~]"),
)
assert len(_BUCKET_NAMES) == len(_BUCKET_ENDS_MS) + 2

# Finer buckets for percentiles, by their upper ends, inclusive.
_FINE_ENDS_MS: Final = (
    *range(1, 21),
    *range(22, 51, 2),
    *range(55, 101, 5),
    *range(110, 201, 10),
    *range(250, 501, 50),
    *range(600, 1_001, 100),
    *range(2_000, 10_001, 1_000),
    2**63 - 1,
)


class _Sample(NamedTuple):
    """The totals at one moment."""

    at_ms: int
    put: int = 0
    found: int = 0
    missed: int = 0
    transferred: int = 0


class Throughput:
    """Totals, rates and the distribution of put times. Call ``sample`` once a second.

    >>> passed = Throughput(now_ms=0)
    >>> passed.put(count=20, size=20_000, elapsed_ms=3)
    >>> for second in range(1, 12):
    ...     passed.sample(second * 1_000)
    >>> passed.put(count=50, size=50_000, elapsed_ms=3)
    >>> passed.sample(12_000)
    >>> passed.info(12_000)["putTps"]
    '5.0  '
    """

    def __init__(self, now_ms: int) -> None:
        self._started_ms = now_ms
        self._put = 0
        self._put_bytes = 0
        self._put_failed = 0
        self._put_longest_ms = 0
        self._get_longest_ms = 0
        self._found = 0
        self._missed = 0
        self._transferred = 0
        self._samples: deque[_Sample] = deque([_Sample(now_ms)], maxlen=_SAMPLES_MAX)
        self._minute_began_ms = now_ms
        self._buckets = [0] * len(_BUCKET_NAMES)
        self._last_buckets = self._buckets.copy()
        self._fine = [0] * len(_FINE_ENDS_MS)
        self._last_fine = self._fine.copy()

    def __repr__(self) -> str:
        return f"<Throughput {self._put} put, {self._transferred} got>"

    # Counters

    def put(self, count: int, size: int, elapsed_ms: int, times: int = 1) -> None:
        """Count messages stored by ``times`` puts of ``elapsed_ms`` each."""
        self._put += count
        self._put_bytes += size
        bucket = 1 + bisect_right(_BUCKET_ENDS_MS, elapsed_ms) if elapsed_ms > 0 else 0
        self._buckets[bucket] += times
        self._fine[bisect_left(_FINE_ENDS_MS, elapsed_ms)] += times
        if elapsed_ms > self._put_longest_ms:
            self._put_longest_ms = elapsed_ms

    def put_failed(self, times: int = 1) -> None:
        """Count puts that failed."""
        self._put_failed += times

    def got(self, count: int, elapsed_ms: int = 0) -> None:
        """Count a pull that found messages, and the time it took."""
        self._found += 1
        self._transferred += count
        if elapsed_ms > self._get_longest_ms:
            self._get_longest_ms = elapsed_ms

    def missed(self) -> None:
        """Count a pull that found none."""
        self._missed += 1

    def sample(self, now_ms: int) -> None:
        """Sample the totals if a second has passed; once a minute, log the put times."""
        since = now_ms - self._samples[-1].at_ms
        if 0 <= since < _SAMPLE_MS:
            return
        if since < 0:  # the clock was set back; rates over that would be wrong
            self._samples.clear()
            self._minute_began_ms = now_ms
        self._samples.append(
            _Sample(now_ms, self._put, self._found, self._missed, self._transferred)
        )
        if now_ms - self._minute_began_ms >= _MINUTE_MS:
            self._minute_began_ms = now_ms
            self._end_minute()

    def _end_minute(self) -> None:
        self._last_buckets, self._buckets = self._buckets, [0] * len(_BUCKET_NAMES)
        self._last_fine, self._fine = self._fine, [0] * len(_FINE_ENDS_MS)
        if total := sum(self._last_buckets):
            times = zip(_BUCKET_NAMES, self._last_buckets, strict=True)
            shown = " ".join(f"{name}:{count}" for name, count in times if count)
            log.info("[PAGECACHERT] TotalPut %d, PutMessageDistributeTime %s", total, shown)

    # Reports

    def distribution(self) -> str:
        """Return the put times of the last whole minute, in Java's format."""
        return "".join(
            f"{name}:{count} "
            for name, count in zip(_BUCKET_NAMES, self._last_buckets, strict=True)
        )

    def latency_ms(self, part: float) -> float:
        """Return a percentile of the put times of the last minute; ``part`` is from 0 to 1.

        >>> Throughput(now_ms=0).latency_ms(0.99)
        0.0
        """
        wanted, passed, below = int(sum(self._last_fine) * part), 0, 0
        for end, count in zip(_FINE_ENDS_MS, self._last_fine, strict=True):
            if wanted <= passed + count:
                return below + ((end - below) * (wanted - passed) / count if count else 0.0)
            passed, below = passed + count, end
        return float(below)

    def rates(self, field: str) -> tuple[float | None, ...]:
        """Return a rate per second over ten seconds, a minute and ten minutes.

        ``field`` is put, found, missed or transferred. A rate is None until there are samples for
        it.
        """
        last = self._samples[-1]
        rates: list[float | None] = []
        for seconds in _RATES_S:
            if len(self._samples) <= seconds:
                rates.append(None)
                continue
            before = self._samples[-1 - seconds]
            passed_ms = max(1, last.at_ms - before.at_ms)
            rates.append((getattr(last, field) - getattr(before, field)) * 1_000 / passed_ms)
        return tuple(rates)

    def info(self, now_ms: int) -> dict[str, str]:
        """Return the entries of Java's runtime info about throughput."""
        found, missed = self.rates("found"), self.rates("missed")
        total = [(one or 0.0) + (other or 0.0) for one, other in zip(found, missed, strict=True)]
        put = self._put or 1  # Java returns 1 for none, so that it can divide by it
        return {
            "bootTimestamp": str(self._started_ms),
            "runtime": _span(now_ms - self._started_ms),
            "putMessageEntireTimeMax": str(self._put_longest_ms),
            "getMessageEntireTimeMax": str(self._get_longest_ms),
            "putMessageTimesTotal": str(put),
            "putMessageFailedTimes": str(self._put_failed),
            "putMessageSizeTotal": str(self._put_bytes),
            "putMessageDistributeTime": self.distribution(),
            "putMessageAverageSize": str(self._put_bytes / put),
            "putTps": _texts(self.rates("put")),
            "getFoundTps": _texts(found),
            "getMissTps": _texts(missed),
            "getTotalTps": _texts(total),
            "getTransferredTps": _texts(self.rates("transferred")),
            # The spelling of 4.9, whose clusterList fails without it.
            "getTransferedTps": _texts(self.rates("transferred")),
            "putLatency99": f"{self.latency_ms(0.99):.2f}",
            "putLatency999": f"{self.latency_ms(0.999):.2f}",
        }


def _texts(rates: tuple[float | None, ...] | list[float]) -> str:
    return " ".join("" if rate is None else str(float(rate)) for rate in rates)


def _span(span_ms: int) -> str:
    """Return a duration in Java's format; it is negative if the clock was set back since the start.

    >>> _span(93_784_000), _span(-62_000)
    ('[ 1 days, 2 hours, 3 minutes, 4 seconds ]', '[ 0 days, 0 hours, -1 minutes, -2 seconds ]')
    """
    seconds, sign = abs(span_ms) // 1_000, -1 if span_ms < 0 else 1
    parts = (seconds // 86_400, seconds // 3_600 % 24, seconds // 60 % 60, seconds % 60)
    days, hours, minutes, rest = (part * sign for part in parts)
    return f"[ {days} days, {hours} hours, {minutes} minutes, {rest} seconds ]"
