"""Counters of a consumer by topic: messages pulled, consumed and failed, and how long that took.

Operators get them as Java's ``ConsumeStatus``: rates and durations of the last minute, and the
failed messages of the last hour. Prometheus gets them since the start.

::

    totals now ── minus those a minute ago (a sample each 10 s) ──▶ rates and durations
               ── minus those an hour ago (a sample each 10 min) ─▶ failed messages
"""

from collections import deque
from collections.abc import Iterator
from typing import Final, NamedTuple

from orbitmq.client.observe.prometheus import Sample, Sampled, page
from orbitmq.clock import Clock
from orbitmq.wire.bodies.running import ConsumeStatus

__all__ = ["ConsumeStatistics"]

_MINUTE_SAMPLES_MS: Final = 10_000
_HOUR_SAMPLES_MS: Final = 600_000
_SAMPLES: Final = 7
"""A window is as long as six intervals. All three are Java's (``StatsItem``)."""


class _Totals(NamedTuple):
    pulls: int
    pull_ms: int
    pulled: int
    deliveries: int
    consume_ms: int
    consumed: int
    failed: int


_NOTHING: Final = _Totals(*[0] * len(_Totals._fields))


class _Window:
    """The totals at regular moments, the oldest a minute or an hour ago."""

    __slots__ = ("_interval_ms", "_samples", "due_ms")

    def __init__(self, interval_ms: int, now_ms: int) -> None:
        self._interval_ms = interval_ms
        self._samples = deque([(now_ms, _NOTHING)], maxlen=_SAMPLES)
        self.due_ms = now_ms + interval_ms

    def take(self, totals: _Totals, now_ms: int) -> None:
        """Take the samples that are due: nothing was counted since."""
        late = max(now_ms - self.due_ms, 0) // self._interval_ms
        self.due_ms += max(late - _SAMPLES, 0) * self._interval_ms  # older ones would be dropped
        while self.due_ms <= now_ms:
            self._samples.append((self.due_ms, totals))
            self.due_ms += self._interval_ms

    def read(self, totals: _Totals, now_ms: int) -> tuple[_Totals, float]:
        """Return what was counted in the window, and its length in seconds, at least one.

        Changes nothing, so other threads may call it.
        """
        oldest_ms = now_ms - self._interval_ms * (_SAMPLES - 1)
        for at_ms, then in [*tuple(self._samples), (self.due_ms, totals)]:
            if at_ms >= oldest_ms:
                counted = (now - before for now, before in zip(totals, then, strict=True))
                return _Totals(*counted), max(now_ms - at_ms, 1_000) / 1_000
        return _NOTHING, 1.0


class _Topic:
    """The counters of one topic."""

    __slots__ = (*_Totals._fields, "due_ms", "hour", "minute")

    def __init__(self, now_ms: int) -> None:
        self.pulls = self.pull_ms = self.pulled = 0
        self.deliveries = self.consume_ms = self.consumed = self.failed = 0
        self.minute = _Window(_MINUTE_SAMPLES_MS, now_ms)
        self.hour = _Window(_HOUR_SAMPLES_MS, now_ms)
        self.due_ms = self.minute.due_ms

    def totals(self) -> _Totals:
        return _Totals(
            *(self.pulls, self.pull_ms, self.pulled),
            *(self.deliveries, self.consume_ms, self.consumed, self.failed),
        )

    def take_samples(self, now_ms: int) -> None:
        totals = self.totals()
        self.minute.take(totals, now_ms)
        self.hour.take(totals, now_ms)
        self.due_ms = self.minute.due_ms  # the hour's are due at the same moments


class ConsumeStatistics:
    """The statistics of one consumer. Counted on one loop, read by any thread.

    >>> from orbitmq.clock import SystemClock
    >>> statistics = ConsumeStatistics("billing", SystemClock())
    >>> statistics.consumed("orders", count=2, took_ms=30)
    >>> statistics.status("orders").consume_rt
    30.0
    """

    def __init__(self, group: str, clock: Clock) -> None:
        self._group = group
        self._monotonic_ms = clock.monotonic_ms
        self._topics: dict[str, _Topic] = {}

    def __repr__(self) -> str:
        totals = [topic.totals() for topic in tuple(self._topics.values())]
        consumed, failed = sum(one.consumed for one in totals), sum(one.failed for one in totals)
        return f"<ConsumeStatistics of {self._group}: {consumed} consumed, {failed} failed>"

    # Counting

    def pulled(self, topic: str, count: int, took_ms: int) -> None:
        """Count the messages of one pull, and how long it took."""
        counters = self._counters(topic)
        counters.pulls += 1
        counters.pull_ms += took_ms
        counters.pulled += count

    def consumed(self, topic: str, count: int, took_ms: int, calls: int = 1) -> None:
        """Count the messages that calls of the handler consumed, and how long they took."""
        counters = self._counters(topic)
        counters.deliveries += calls
        counters.consume_ms += took_ms
        counters.consumed += count

    def failed(self, topic: str, count: int, took_ms: int | None = None) -> None:
        """Count messages that were not consumed.

        ``took_ms`` is how long the handler took; None if ``consumed`` counted the rest of the call.
        """
        counters = self._counters(topic)
        counters.failed += count
        if took_ms is not None:
            counters.deliveries += 1
            counters.consume_ms += took_ms

    def _counters(self, topic: str) -> _Topic:
        now_ms = self._monotonic_ms()
        counters = self._topics.get(topic)
        if counters is None:
            counters = self._topics[topic] = _Topic(now_ms)
        elif now_ms >= counters.due_ms:
            counters.take_samples(now_ms)
        return counters

    # Reading

    def status(self, topic: str) -> ConsumeStatus:
        """Return the figures of a topic that operators see."""
        counters = self._topics.get(topic)
        if counters is None:
            return ConsumeStatus()
        now_ms, totals = self._monotonic_ms(), counters.totals()
        minute, seconds = counters.minute.read(totals, now_ms)
        hour, _ = counters.hour.read(totals, now_ms)
        consume = minute if minute.consume_ms else hour  # as Java
        return ConsumeStatus(
            pull_rt=_average(minute.pull_ms, minute.pulls),
            pull_tps=minute.pulled / seconds,
            consume_rt=_average(consume.consume_ms, consume.deliveries),
            consume_ok_tps=minute.consumed / seconds,
            consume_failed_tps=minute.failed / seconds,
            consume_failed_msgs=hour.failed,
        )

    def samples(self) -> Iterator[Sample]:
        """Yield all counters since the start."""
        for name, topic in sorted(self._topics.items()):
            labels = (("group", self._group), ("topic", name))
            totals = topic.totals()
            yield Sample("orbitmq_consumer_pulled_messages_total", labels, totals.pulled)
            yield Sample("orbitmq_consumer_pull_seconds_sum", labels, totals.pull_ms / 1000)
            yield Sample("orbitmq_consumer_pull_seconds_count", labels, totals.pulls)
            yield Sample("orbitmq_consumer_consumed_messages_total", labels, totals.consumed)
            yield Sample("orbitmq_consumer_failed_messages_total", labels, totals.failed)
            yield Sample("orbitmq_consumer_consume_seconds_sum", labels, totals.consume_ms / 1000)
            yield Sample("orbitmq_consumer_consume_seconds_count", labels, totals.deliveries)

    def prometheus(self, *others: Sampled) -> str:
        """Return all counters in the text format of Prometheus, with those of ``others``."""
        return page(sample for one in (self, *others) for sample in one.samples())


def _average(total: int, count: int) -> float:
    return total / count if count else 0.0
