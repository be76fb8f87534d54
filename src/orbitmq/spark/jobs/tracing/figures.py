"""The figures of traces, and what they say in words; no Spark, no cluster.

Times of sends are those that clients measured, network included; those of brokers alone are in
``orbitmq.broker.figures``, in the same buckets.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Final

import msgspec

__all__ = [
    "BUCKETS",
    "BUCKET_ENDS_MS",
    "SLOW_FROM",
    "Delay",
    "GroupFigures",
    "Latency",
    "Minute",
    "Orphans",
    "PutTimes",
    "Sample",
    "Send",
    "TraceFigures",
    "bucket_of",
    "judgement",
    "put_times",
]

# Those of Java's StoreStatsService: a put of 10 ms is in the third bucket.
BUCKET_ENDS_MS: Final = (10, 50, 100, 200, 500, 1_000, 2_000, 3_000, 4_000, 5_000, 10_000)
BUCKETS: Final = (
    *("0 ms", "< 10", "10–50", "50–100", "100–200", "200–500", "0.5–1 s", "1–2 s", "2–3 s"),
    *("3–4 s", "4–5 s", "5–10 s", "≥ 10 s"),
)
"""In milliseconds unless they say seconds; short, for the side of a chart."""
assert len(BUCKETS) == len(BUCKET_ENDS_MS) + 2
SLOW_FROM: Final = 4
"""The first bucket that counts as slow: 100 ms."""
_JITTER_MAX: Final = 20
"""More slow puts than this in a minute are more than jitter."""


class Minute(msgspec.Struct, frozen=True):
    """The puts of one broker in one minute, by bucket."""

    start_ms: int
    broker: str
    counts: tuple[int, ...]

    @property
    def slow(self) -> int:
        """Puts of 100 ms or more."""
        return sum(self.counts[SLOW_FROM:])


class PutTimes(msgspec.Struct, frozen=True, kw_only=True):
    """What the minutes of one broker come to."""

    broker: str
    puts: int
    slow: int
    minutes: int
    """Minutes with puts."""
    slow_minutes: int
    """Minutes with more than 20 slow puts."""
    worst: Minute

    @property
    def kind(self) -> str:
        """``slow``, ``jitter`` or ``fine``."""
        if self.slow_minutes:
            return "slow"
        return "jitter" if self.slow else "fine"


class Latency(msgspec.Struct, frozen=True, kw_only=True):
    """The sends of one topic, broker or client host; a percentile is one of the times there are."""

    name: str
    sends: int
    failed: int
    p50_ms: int
    p95_ms: int
    p99_ms: int
    max_ms: int


class Send(msgspec.Struct, frozen=True, kw_only=True):
    """One send, for the lists of slow and failed ones."""

    at_ms: int
    topic: str
    broker: str
    client_host: str
    group: str
    message_id: str
    keys: str
    cost_ms: int
    success: bool


class GroupFigures(msgspec.Struct, frozen=True, kw_only=True):
    """What one group consumed; times are those that its listeners took."""

    group: str
    deliveries: int
    redeliveries: int
    results: int
    outcomes: Mapping[str, int]
    p50_ms: int | None = None
    p95_ms: int | None = None
    p99_ms: int | None = None
    max_ms: int | None = None

    @property
    def failed(self) -> int:
        """Results other than success."""
        return self.results - self.outcomes.get("success", 0)


class Delay(msgspec.Struct, frozen=True, kw_only=True):
    """From send to first delivery, of messages that were neither delayed nor in transactions."""

    topic: str
    group: str
    deliveries: int
    negative: int
    """Deliveries before their sends: the clocks of two machines differ."""
    p50_ms: int
    p95_ms: int
    p99_ms: int
    max_ms: int


class Orphans(msgspec.Struct, frozen=True, kw_only=True):
    """Records without their counterpart, with the ids of the first messages.

    ``kind`` is ``never delivered`` (a send, to a group that consumes its topic), ``no send`` (a
    delivery), or ``no result`` (a delivery whose listener did not return).
    """

    kind: str
    group: str
    topic: str = ""
    count: int
    message_ids: tuple[str, ...]


class Sample(msgspec.Struct, frozen=True):
    """A record that could not be read, and where its trace message is."""

    place: str
    text: str


class TraceFigures(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of the traces of some time.

    ``counts`` has the records by kind, without repeated ones, which are in ``repeated``: clients
    that got no answer report twice.
    """

    counts: Mapping[str, int]
    repeated: int = 0
    samples: tuple[Sample, ...] = ()
    first_ms: int | None = None
    last_ms: int | None = None
    minutes: tuple[Minute, ...] = ()
    put_times: tuple[PutTimes, ...] = ()
    topics: tuple[Latency, ...] = ()
    brokers: tuple[Latency, ...] = ()
    clients: tuple[Latency, ...] = ()
    slow: tuple[Send, ...] = ()
    failed: tuple[Send, ...] = ()
    groups: tuple[GroupFigures, ...] = ()
    delays: tuple[Delay, ...] = ()
    orphans: tuple[Orphans, ...] = ()
    transactions: Mapping[str, int] = {}
    judgement: tuple[str, ...] = ()

    @property
    def records(self) -> int:
        """All records, the unreadable ones too."""
        return sum(self.counts.values())


def bucket_of(cost_ms: int) -> int:
    """Return the number of the bucket of a put.

    >>> BUCKETS[bucket_of(0)], BUCKETS[bucket_of(10)], BUCKETS[bucket_of(12_000)]
    ('0 ms', '10–50', '≥ 10 s')
    """
    return 1 + bisect_right(BUCKET_ENDS_MS, cost_ms) if cost_ms > 0 else 0


def put_times(minutes: Iterable[Minute]) -> Iterator[PutTimes]:
    """Yield what minutes come to, by broker; the worst broker first."""
    of_broker: dict[str, list[Minute]] = defaultdict(list)
    for minute in minutes:
        of_broker[minute.broker].append(minute)
    found = [
        PutTimes(
            broker=broker,
            puts=sum(sum(one.counts) for one in those),
            slow=sum(one.slow for one in those),
            minutes=len(those),
            slow_minutes=sum(one.slow > _JITTER_MAX for one in those),
            worst=max(those, key=lambda one: (one.slow, -one.start_ms)),
        )
        for broker, those in of_broker.items()
    ]
    yield from sorted(found, key=lambda one: (-one.slow_minutes, -one.slow, one.broker))


def judgement(found: TraceFigures) -> Iterator[str]:
    """Yield what the figures say, the worst first."""
    for one in found.put_times:
        yield _about_puts(one)
    failed = sum(one.failed for one in found.topics)
    if failed:
        yield f"{_counted(failed, 'send')} failed, or may not be flushed or replicated."
    for group in found.groups:
        if group.failed:
            yield _about_failures(group)
    for orphans in found.orphans:
        yield _about_orphans(orphans)
    early = sum(one.negative for one in found.delays)
    if early:
        yield (
            f"{_counted(early, 'delivery', 'deliveries')} came before the send by the clocks of "
            "the machines: set them by NTP, or read send to delivery times with care."
        )
    for kind, why in (("malformed", "a field is missing or unreadable"), ("unknown", "new kinds")):
        if found.counts.get(kind):
            yield f"{_counted(found.counts[kind], 'record')} could not be read: {why}."


def _about_puts(one: PutTimes) -> str:
    at = f"{datetime.fromtimestamp(one.worst.start_ms / 1000, UTC):%Y-%m-%d %H:%M} UTC"
    if one.kind == "fine":
        return f"No send to {one.broker} took 100 ms or more."
    worst = f"{_counted(one.worst.slow, 'send')} at {at}"
    if one.kind == "jitter":
        return (
            f"{one.broker} shows jitter: {one.slow:,} of {one.puts:,} sends took 100 ms or more, "
            f"in no minute more than {_JITTER_MAX} (worst: {worst})."
        )
    return (
        f"Sends to {one.broker} were slow: in {one.slow_minutes} of {one.minutes} minutes more "
        f"than {_JITTER_MAX} took 100 ms or more (worst: {worst}). Compare with the put times of "
        "its own figures: if those are low, it is the network or the clients."
    )


def _about_failures(group: GroupFigures) -> str:
    causes = sorted(group.outcomes.items(), key=lambda one: (-one[1], one[0]))
    said = ", ".join(f"{name} {count:,}" for name, count in causes if name != "success")
    why = "" if set(group.outcomes) <= {"success", "failed"} else f": {said}"
    return f"Listeners of {group.group} failed on {group.failed:,} of {group.results:,}{why}."


def _about_orphans(one: Orphans) -> str:
    example = one.message_ids[0] if one.message_ids else "–"
    if one.kind == "never delivered":
        return (
            f"{_counted(one.count, 'message')} of {one.topic} never reached {one.group}, such as "
            f"{example}: filtered by tag, waiting, or lost."
        )
    if one.kind == "no send":
        return (
            f"{_counted(one.count, 'message')} reached {one.group} without a traced send, such as "
            f"{example}: sent before this time, or by a producer that does not trace."
        )
    return (
        f"{_counted(one.count, 'delivery', 'deliveries')} to {one.group} have no result, such as "
        f"{example}: the listener hangs, or its process ended."
    )


def _counted(count: int, noun: str, plural: str = "") -> str:
    """Return a number with its noun.

    >>> _counted(1, "send"), _counted(2_000, "delivery", "deliveries")
    ('1 send', '2,000 deliveries')
    """
    return f"{count:,} {noun if count == 1 else plural or f'{noun}s'}"
