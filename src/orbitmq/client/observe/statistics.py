"""Counters of a producer: sends by status, errors by type, and how long sends took.

Durations are counted in buckets that tell one millisecond from nine. Prometheus gets them since the
start; ``last_minute`` has those of the last whole minute, summed to the thirteen that brokers use
for their puts.
"""

from bisect import bisect_right
from collections.abc import Iterator
from itertools import accumulate
from typing import Final

from orbitmq.client.observe.prometheus import Sample, Sampled, page
from orbitmq.message.model import SendStatus

__all__ = ["BUCKET_NAMES", "SendStatistics"]

_MINUTE_MS: Final = 60_000

# As in a broker (Java's StoreStatsService): 10 ms is in the third bucket; the first two are for
# 0 ms, and less than 10 ms.
_BROKERS_ENDS_MS: Final = (10, 50, 100, 200, 500, 1_000, 2_000, 3_000, 4_000, 5_000, 10_000)
BUCKET_NAMES: Final = (
    *("<=0ms", "0~10ms", "10~50ms", "50~100ms", "100~200ms", "200~500ms", "500ms~1s"),
    *("1~2s", "2~3s", "3~4s", "4~5s", "5~10s", "10s~"),
)
assert len(BUCKET_NAMES) == len(_BROKERS_ENDS_MS) + 2

_ENDS_MS: Final = (
    *(1, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 50, 75, 100, 150, 200, 300, 500),
    *(1_000, 2_000, 3_000, 4_000, 5_000, 10_000),
)
"""Ours. A duration is in whole milliseconds, rounded down: 1 is under 2 ms, so within 0.002 s."""
_BROKERS: Final = tuple(
    bisect_right(_BROKERS_ENDS_MS, end - 1) + 1 if end > 1 else 0 for end in (*_ENDS_MS, 10**9)
)
"""The bucket of brokers that each of ours is part of."""
assert set(_BROKERS_ENDS_MS) < set(_ENDS_MS)

_OK: Final = SendStatus.SEND_OK
_ERRORS_MAX: Final = 100
"""The most types of errors that are counted separately; hooks and selectors can raise any type."""
_OTHER: Final = "other"


class SendStatistics:
    """The statistics of one producer; times come from a monotonic clock.

    >>> statistics = SendStatistics("billing", now_ms=0)
    >>> statistics.stored(SendStatus.SEND_OK, took_ms=3, now_ms=1_000)
    >>> statistics.last_minute(now_ms=60_000)["0~10ms"]
    1
    """

    def __init__(self, group: str, now_ms: int) -> None:
        self._group = group
        self._ok = 0  # separate, since hashing an enum costs as much as all the rest
        self._by_status = dict.fromkeys(SendStatus, 0)
        self._by_error: dict[str, int] = {}
        self._oneway = 0
        self._retries = 0
        self._took_ms = 0
        self._minute_ends_ms = now_ms + _MINUTE_MS
        self._minute = [0] * (len(_ENDS_MS) + 1)
        self._last_minute = self._minute.copy()
        self._before = self._minute.copy()  # totals of past minutes

    def __repr__(self) -> str:
        return f"<SendStatistics of {self._group}: {self.sent} sent, {self.failed} failed>"

    @property
    def sent(self) -> int:
        """How many messages brokers stored."""
        return self._ok + sum(self._by_status.values())

    @property
    def failed(self) -> int:
        """How many messages failed."""
        return sum(self._by_error.values())

    # Counting

    def stored(
        self, status: SendStatus, took_ms: int, now_ms: int, count: int = 1, frames: int = 1
    ) -> None:
        """Count messages that a broker stored, and how long that took: as long for each frame."""
        if now_ms >= self._minute_ends_ms:
            self._turn(now_ms)
        if status is _OK:
            self._ok += count
        else:
            self._by_status[status] += count
        self._took_ms += took_ms * frames
        self._minute[bisect_right(_ENDS_MS, took_ms)] += frames

    def failed_with(self, error: BaseException, count: int = 1) -> None:
        """Count messages whose send failed or was cancelled."""
        kind = type(error).__name__
        if kind not in self._by_error and len(self._by_error) >= _ERRORS_MAX:
            kind = _OTHER
        self._by_error[kind] = self._by_error.get(kind, 0) + count

    def retried(self) -> None:
        """Count a retry."""
        self._retries += 1

    def left(self, count: int = 1) -> None:
        """Count one-way messages."""
        self._oneway += count

    # Reading

    def last_minute(self, now_ms: int) -> dict[str, int]:
        """Return the number of frames in each bucket of durations, for the last whole minute."""
        self._turn(now_ms)
        counts = dict.fromkeys(BUCKET_NAMES, 0)
        for place, count in zip(_BROKERS, self._last_minute, strict=True):
            counts[BUCKET_NAMES[place]] += count
        return counts

    def samples(self) -> Iterator[Sample]:
        """Yield all counters since the start."""
        group = (("group", self._group),)
        for status, count in {**self._by_status, _OK: self._ok}.items():
            labels = (*group, ("status", status.value))
            yield Sample("orbitmq_producer_messages_total", labels, count)
        for error, count in sorted(self._by_error.items()):
            labels = (*group, ("error", error))
            yield Sample("orbitmq_producer_errors_total", labels, count)
        yield Sample("orbitmq_producer_oneway_messages_total", group, self._oneway)
        yield Sample("orbitmq_producer_retries_total", group, self._retries)
        counts = [a + b for a, b in zip(self._before, self._minute, strict=True)]
        ends = (*(f"{end / 1000:g}" for end in _ENDS_MS), "+Inf")
        for end, count in zip(ends, accumulate(counts), strict=True):
            yield Sample("orbitmq_producer_send_seconds_bucket", (*group, ("le", end)), count)
        yield Sample("orbitmq_producer_send_seconds_sum", group, self._took_ms / 1000)
        yield Sample("orbitmq_producer_send_seconds_count", group, sum(counts))

    def prometheus(self, *others: Sampled) -> str:
        """Return all counters in the text format of Prometheus.

        A page may describe a metric only once, so the statistics of ``others`` that the same scrape
        reads are arguments: ``producer.statistics.prometheus(consumer.statistics)``.
        """
        return page(sample for one in (self, *others) for sample in one.samples())

    def _turn(self, now_ms: int) -> None:
        """Start a new minute if the old one has ended; after a pause, the last one was empty."""
        if now_ms < self._minute_ends_ms:
            return
        late_ms = now_ms - self._minute_ends_ms
        self._before = [a + b for a, b in zip(self._before, self._minute, strict=True)]
        empty = [0] * len(self._minute)
        self._last_minute = self._minute if late_ms < _MINUTE_MS else empty
        self._minute = empty.copy()
        self._minute_ends_ms += _MINUTE_MS * (1 + late_ms // _MINUTE_MS)
