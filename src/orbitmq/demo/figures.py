"""What a run of the demo measured, and the figures that terminal and report show. Pure."""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import accumulate, pairwise
from typing import Final

import msgspec

from orbitmq.client.observe.statistics import BUCKET_NAMES, SendStatistics

__all__ = ["Batch", "Comparison", "Measured", "Rate", "Sample", "Total", "sample"]

_SECOND_MS: Final = 1_000
_MINUTE_MS: Final = 60_000
_NO_SENDS: Final = (0,) * len(BUCKET_NAMES)
_WITHIN: Final = (
    *(f"under {ms} ms" for ms in (1, 10, 50, 100, 200, 500, 1_000)),
    *(f"under {s} s" for s in (2, 3, 4, 5, 10)),
    "over 10 s",
)
assert len(_WITHIN) == len(BUCKET_NAMES)


class Sample(msgspec.Struct, frozen=True):
    """The producer's statistics at one time of the run."""

    at_ms: int
    sent: int
    by_bucket: tuple[int, ...]
    """Sends by latency, in the buckets of the producer's statistics."""


class Batch(msgspec.Struct, frozen=True):
    """One batch of the stream: when it was complete, and its number of rows."""

    at_ms: int
    rows: int


class Rate(msgspec.Struct, frozen=True):
    """Messages sent and rows written within one second of the run."""

    sent: int
    written: int


class Total(msgspec.Struct, frozen=True):
    """The results of both queries for one state of orders."""

    state: str
    topic_messages: int
    topic_cents: int
    file_rows: int
    file_cents: int


class Comparison(msgspec.Struct, frozen=True):
    """The results of a query on the topic, and of the same query on the Parquet files."""

    totals: tuple[Total, ...]
    missing: int
    """Rows of the topic that the files don't have."""
    extra: int
    """Rows of the files that the topic doesn't have."""
    out_of_order: int
    """Rows that come before an earlier one of the same customer."""
    topic_ms: int
    files_ms: int
    arrived_ms: tuple[int, int]
    """From birth to readable in Parquet: median and 99th percentile, without delayed messages."""

    @property
    def is_equal(self) -> bool:
        """Whether files and topic have the same rows, in order for each customer."""
        return not (self.missing or self.extra or self.out_of_order)


class Measured(msgspec.Struct, frozen=True):
    """Everything that a run measured."""

    spark: str
    """The versions of Spark and Java."""
    broker_ready_ms: int
    spark_ready_ms: int
    delayed: int
    samples: tuple[Sample, ...]
    batches: tuple[Batch, ...]
    comparison: Comparison

    @property
    def sent(self) -> int:
        """Number of messages that the broker stored."""
        return self.samples[-1].sent

    @property
    def rates(self) -> list[Rate]:
        """Messages sent and rows written, by second."""
        sent = _by_slot(
            ((one.at_ms, one.sent - before.sent) for before, one in pairwise(self.samples)),
            _SECOND_MS,
        )
        written = _by_slot(((batch.at_ms, batch.rows) for batch in self.batches), _SECOND_MS)
        seconds = 1 + max((*sent, *written), default=0)
        return [Rate(sent[second], written[second]) for second in range(seconds)]

    @property
    def latencies(self) -> list[tuple[int, ...]]:
        """Sends by latency, for each minute."""
        minutes: dict[int, tuple[int, ...]] = {}
        for before, one in pairwise(self.samples):
            minute = max(one.at_ms - 1, 0) // _MINUTE_MS
            so_far = minutes.get(minute, _NO_SENDS)
            counts = zip(so_far, before.by_bucket, one.by_bucket, strict=True)
            minutes[minute] = tuple(sum_ + now - then for sum_, then, now in counts)
        return [minutes.get(minute, _NO_SENDS) for minute in range(1 + max(minutes, default=0))]

    @property
    def summary(self) -> list[tuple[str, str]]:
        """The figures to show, each with its label."""
        compared = self.comparison
        sending_ms = max(1, self.samples[-1].at_ms - self.samples[0].at_ms)
        median, most = (_shown_ms(ms) for ms in compared.arrived_ms)
        buckets = self.samples[-1].by_bucket
        return [
            ("broker ready", _shown_ms(self.broker_ready_ms)),
            ("Spark ready", f"{_shown_ms(self.spark_ready_ms)} ({self.spark})"),
            ("messages sent", f"{self.sent:,}, {self.delayed:,} of them delayed by one second"),
            ("sent per second", f"{self.sent * _SECOND_MS // sending_ms:,}, the pace of the shop"),
            ("send latency", f"{within(buckets, 50)} (median), {within(buckets, 99)} (p99)"),
            ("written to Parquet", f"{self.written:,} rows in {len(self.batches)} batches"),
            ("from send to Parquet", f"{median} (median), {most} (p99)"),
            ("query on the topic", _shown_ms(compared.topic_ms)),
            ("query on the files", _shown_ms(compared.files_ms)),
            ("rows missing, extra", f"{compared.missing:,}, {compared.extra:,}"),
            ("rows out of order", f"{compared.out_of_order:,}"),
        ]

    @property
    def written(self) -> int:
        """Number of rows that the stream wrote."""
        return sum(batch.rows for batch in self.batches)


def sample(statistics: SendStatistics, at_ms: int) -> Sample:
    """Return a sample of a producer's statistics."""
    upto = [
        int(one.value)
        for one in statistics.samples()
        if one.name == "orbitmq_producer_send_seconds_bucket"
    ]
    counts = (now - before for before, now in pairwise((0, *upto)))
    return Sample(at_ms, statistics.sent, tuple(counts))


def within(by_bucket: Sequence[int], percent: int) -> str:
    """Return the latency that ``percent`` of the sends did not exceed.

    >>> within((0, 90, 10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0), 99)
    'under 50 ms'
    """
    needed = sum(by_bucket) * percent / 100
    reached = (upto >= needed for upto in accumulate(by_bucket))
    return next(words for words, enough in zip(_WITHIN, reached, strict=True) if enough)


def _by_slot(amounts: Iterable[tuple[int, int]], slot_ms: int) -> Counter[int]:
    """Return the sum of the amounts in each time slot."""
    slots: Counter[int] = Counter()
    for at_ms, amount in amounts:
        slots[max(at_ms - 1, 0) // slot_ms] += amount
    return slots


def _shown_ms(ms: int) -> str:
    """Return a duration for people.

    >>> _shown_ms(85), _shown_ms(6_240)
    ('85 ms', '6.2 s')
    """
    return f"{ms} ms" if ms < _SECOND_MS else f"{ms / 1000:.1f} s"
