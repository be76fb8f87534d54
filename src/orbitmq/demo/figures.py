"""What a run of the demo measured, and the figures that terminal and report show. Pure."""

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Final, NamedTuple

import msgspec

from orbitmq.demo.latency import Spread, shown_ms, spread

__all__ = [
    "Batch",
    "Billed",
    "Comparison",
    "Jobs",
    "Later",
    "Measured",
    "Rate",
    "Sample",
    "Streamed",
    "Total",
    "latency_of",
]

_SECOND_MS: Final = 1_000


class Sample(NamedTuple):
    """How many messages the producer had sent at one time of the run."""

    at_ms: int
    sent: int


class Batch(NamedTuple):
    """One batch of the stream: when it was complete, and its number of rows."""

    at_ms: int
    rows: int


class Rate(NamedTuple):
    """Messages sent and rows written within one second of the run."""

    sent: int
    written: int


class Total(NamedTuple):
    """The results of both queries for one state of orders."""

    state: str
    topic_messages: int
    topic_cents: int
    file_rows: int
    file_cents: int


class Billed(NamedTuple):
    """What the members of the consumer group did."""

    shares: tuple[int, ...]
    """Messages of each member, deliveries after a failure not counted."""
    missing: int
    """Messages of the topic that no member got."""
    took: Spread
    """From the storing of a message to its handler."""
    refused: str
    """The order that the handler failed on."""
    deliveries: int
    """How often its messages were delivered."""
    dead: int
    """How many dead letters it left."""


class Later(NamedTuple):
    """What became of the payments and reminders."""

    sent: int
    declined: int
    committed: int
    """Payments in the topic."""
    delay_s: float
    late_ms: int
    """How much later than due the reminder was stored."""
    reminders: int
    """Reminders in the topic; one of two was recalled."""


class Comparison(NamedTuple):
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
    arrived: Spread
    """From birth to readable in Parquet, without delayed messages."""

    @property
    def is_equal(self) -> bool:
        """Whether files and topic have the same rows, in order for each customer."""
        return not (self.missing or self.extra or self.out_of_order)


class Jobs(NamedTuple):
    """What the jobs on Spark found, and how long they took."""

    receipts: int
    found: int
    lost: int
    duplicated: int
    out_of_order: int
    reconcile_ms: int
    traced: int
    """Records of traces."""
    judgement: tuple[str, ...]
    """What the traces say."""
    trace_ms: int
    rows: int
    """Rows of the archive."""
    archive_ms: int


class Streamed(NamedTuple):
    """What Spark did."""

    versions: str
    """The versions of Spark and Java."""
    ready_ms: int
    batches: tuple[Batch, ...]
    comparison: Comparison
    jobs: Jobs

    @property
    def written(self) -> int:
        """Number of rows that the stream wrote."""
        return sum(batch.rows for batch in self.batches)


class Measured(msgspec.Struct, frozen=True):
    """Everything that a run measured; ``streamed`` is None without Spark."""

    facts: tuple[tuple[str, str], ...]
    """Version, date and machine, each with its name."""
    broker_ready_ms: int
    delayed: int
    samples: tuple[Sample, ...]
    send_ms: tuple[int, ...]
    """How long each send took."""
    billed: Billed
    later: Later
    streamed: Streamed | None

    @property
    def sent(self) -> int:
        """Number of messages that the broker stored."""
        return self.samples[-1].sent

    @property
    def is_right(self) -> bool:
        """Whether everything that was sent was consumed, and is in the files, once and in order."""
        if self.billed.missing:
            return False
        if self.streamed is None:
            return True
        jobs = self.streamed.jobs
        return self.streamed.comparison.is_equal and jobs.found == jobs.receipts

    @property
    def rates(self) -> list[Rate]:
        """Messages sent and rows written, by second."""
        sent = _by_second(
            (one.at_ms, one.sent - before.sent) for before, one in pairwise(self.samples)
        )
        batches = self.streamed.batches if self.streamed is not None else ()
        written = _by_second((batch.at_ms, batch.rows) for batch in batches)
        seconds = 1 + max((*sent, *written), default=0)
        return [Rate(sent[second], written[second]) for second in range(seconds)]

    @property
    def spreads(self) -> list[tuple[str, Spread]]:
        """The latencies that were measured, each with its name."""
        found = [
            ("from send to receipt", spread(self.send_ms)),
            ("from stored to handler", self.billed.took),
        ]
        if self.streamed is not None:
            found.append(("from send to Parquet", self.streamed.comparison.arrived))
        return found

    @property
    def summary(self) -> list[tuple[str, str]]:
        """The figures to show, each with its label."""
        return [*self._of_messages(), *(self._of_spark(self.streamed) if self.streamed else ())]

    def _of_messages(self) -> Iterator[tuple[str, str]]:
        seconds = max(1, self.samples[-1].at_ms - self.samples[0].at_ms) / _SECOND_MS
        billed, later = self.billed, self.later
        yield "broker ready", shown_ms(self.broker_ready_ms)
        yield "messages sent", f"{self.sent:,} in {seconds:.1f} s, {self.delayed:,} of them delayed"
        yield "from send to receipt", latency_of(spread(self.send_ms))
        yield (
            "consumed",
            f"{sum(billed.shares):,} by {len(billed.shares)} members, {billed.missing:,} missing",
        )
        yield "from stored to handler", latency_of(billed.took)
        yield (
            f"order {billed.refused}",
            f"failed {billed.deliveries} times, left {billed.dead} dead letters",
        )
        yield (
            "transactions",
            f"{later.sent}: {later.committed} committed, {later.declined} rolled back",
        )
        yield (
            "timers",
            f"1 recalled, {later.reminders} delivered, {shown_ms(later.late_ms)} after it was due",
        )

    def _of_spark(self, streamed: Streamed) -> Iterator[tuple[str, str]]:
        compared, jobs = streamed.comparison, streamed.jobs
        yield "Spark ready", f"{shown_ms(streamed.ready_ms)} ({streamed.versions})"
        yield "written to Parquet", f"{streamed.written:,} rows in {len(streamed.batches)} batches"
        yield "from send to Parquet", latency_of(compared.arrived)
        differences = f"{compared.missing:,} missing, {compared.extra:,} extra"
        yield "files against topic", f"{differences}, {compared.out_of_order:,} out of order"
        yield (
            "the same query",
            f"{shown_ms(compared.topic_ms)} on the topic, {shown_ms(compared.files_ms)} on files",
        )
        yield "trace", f"{jobs.traced:,} records in {shown_ms(jobs.trace_ms)}"
        found = f"{jobs.receipts:,} receipts, {jobs.lost} lost, {jobs.duplicated} duplicated"
        yield "reconcile", f"{found}, in {shown_ms(jobs.reconcile_ms)}"
        yield "archive", f"{jobs.rows:,} rows in {shown_ms(jobs.archive_ms)}"


def latency_of(found: Spread) -> str:
    """Return the percentiles of a line.

    >>> latency_of(Spread(900, 0, 2, 7, 60, 61))
    'p50 under 1 ms, p99 7 ms, longest 61 ms'
    """
    p50, p99, longest = map(shown_ms, (found.p50_ms, found.p99_ms, found.longest_ms))
    return f"p50 {p50}, p99 {p99}, longest {longest}"


def _by_second(amounts: Iterable[tuple[int, int]]) -> Counter[int]:
    """Return the sum of the amounts in each second."""
    seconds: Counter[int] = Counter()
    for at_ms, amount in amounts:
        seconds[max(at_ms - 1, 0) // _SECOND_MS] += amount
    return seconds
