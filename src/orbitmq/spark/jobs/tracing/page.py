"""The figures of traces as a page."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Final

from orbitmq.reports.charts import Series, columns, heatmap, ranking
from orbitmq.reports.page import Page, Tile, note, paragraph, table
from orbitmq.spark.jobs.tracing.figures import (
    BUCKETS,
    Delay,
    GroupFigures,
    Latency,
    Minute,
    Orphans,
    PutTimes,
    Send,
    TraceFigures,
)

__all__ = ["slots", "trace_page"]

_MINUTE_MS: Final = 60_000
_CELLS: Final = 120
_SHOWN: Final = 12
_LATENCY: Final = ("sends", "failed", "p50", "p95", "p99", "longest")
_PUTS: Final = ("broker", "sends", "100 ms or more", "minutes", "of these slow", "judgement")
_SENDS: Final = ("at", "topic", "broker", "client", "message id", "ms")
_GROUPS: Final = ("group", "deliveries", "again", "failed", "p50", "p95", "p99", "longest")
_DELAYS: Final = ("topic", "group", "deliveries", "p50", "p95", "p99", "longest")
_ORPHANS: Final = ("what", "group", "topic", "for example", "count")
_KINDS: Final = {"slow": "bad", "jitter": "", "fine": "good"}


def trace_page(found: TraceFigures, of: str) -> str:
    """Return the page; ``of`` says which traces."""
    page = Page(f"Traces of {of}", _introduction(found), title=f"orbitmq trace: {of}")
    page.tiles(_tiles(found))
    page.section("What they say", *map(paragraph, found.judgement or ("There are no records.",)))
    if found.minutes:
        page.section("Time of sends", *_put_parts(found))
    for heading, name, latencies in (
        ("Topics", "topic", found.topics),
        ("Brokers", "broker", found.brokers),
        ("Clients", "client host", found.clients),
    ):
        if latencies:
            page.section(heading, *_latency_parts(name, latencies))
    if found.delays:
        page.section(
            "From send to delivery",
            table(_DELAYS, map(_delay_row, found.delays), left=2),
            note(
                "Milliseconds to the first delivery by the clocks of both machines; without "
                "delayed messages and transactions."
            ),
        )
    if found.groups:
        page.section("Groups", *_group_parts(found.groups))
    if found.orphans:
        page.section(
            "Orphans",
            table(_ORPHANS, map(_orphan_row, found.orphans), left=4),
            note(
                "never delivered: the group got other messages of the topic. no send: no traced "
                "producer sent it in this time. no result: the listener did not return."
            ),
        )
    for heading, sends in (("Slowest sends", found.slow), ("Last failed sends", found.failed)):
        if sends:
            page.section(heading, table(_SENDS, map(_send_row, sends), left=5))
    if found.transactions:
        ended = [(state, f"{count:,}") for state, count in found.transactions.items()]
        page.section("Ended transactions", table((), ended, facts=True))
    if found.samples:
        samples = [(one.place, one.text) for one in found.samples]
        page.section("Unreadable records", table(("place", "text"), samples, left=9))
    return page.html()


def slots(minutes: Sequence[Minute]) -> list[Minute]:
    """Return minutes without gaps, or longer slots: no more than a chart has room for.

    The counts are those of all brokers.

    >>> minutes = [Minute(0, "a", (1,)), Minute(120_000, "a", (2,)), Minute(120_000, "b", (3,))]
    >>> [one.counts for one in slots(minutes)]
    [(1,), (0,), (5,)]
    """
    begin = min(one.start_ms for one in minutes)
    count = (max(one.start_ms for one in minutes) - begin) // _MINUTE_MS + 1
    each_ms = -(-count // _CELLS) * _MINUTE_MS
    sums = [[0] * len(minutes[0].counts) for _ in range(-(-count * _MINUTE_MS // each_ms))]
    for one in minutes:
        found = sums[(one.start_ms - begin) // each_ms]
        for bucket, puts in enumerate(one.counts):
            found[bucket] += puts
    return [Minute(begin + at * each_ms, "", tuple(counts)) for at, counts in enumerate(sums)]


def _introduction(found: TraceFigures) -> str:
    if found.first_ms is None or found.last_ms is None:
        return "No record was found."
    return f"What clients reported from {_moment(found.first_ms)} to {_moment(found.last_ms)} UTC."


def _moment(at_ms: int) -> str:
    return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%d %H:%M:%S}"


def _tiles(found: TraceFigures) -> Iterator[Tile]:
    failed = sum(one.failed for one in found.topics)
    yield Tile(f"{found.counts.get('send', 0):,}", "sends")
    yield Tile(f"{failed:,}", "failed", "bad" if failed else "good")
    yield Tile(f"{found.counts.get('delivery', 0):,}", "deliveries")
    yield Tile(f"{sum(one.slow for one in found.put_times):,}", "sends of 100 ms or more")
    if found.put_times:
        worst = found.put_times[0].kind
        yield Tile(worst, "the worst broker", _KINDS[worst])


def _put_parts(found: TraceFigures) -> Iterator[str]:
    shown = slots(found.minutes)
    labels = [_moment(one.start_ms)[5:16] for one in shown]
    yield heatmap(
        "sends by time and latency, in ms where no unit stands",
        labels,
        BUCKETS,
        [one.counts for one in shown],
    )
    slow = [one.slow for one in shown]
    yield columns("sends of 100 ms or more", labels, [Series("sends", slow)])
    yield table(_PUTS, map(_put_row, found.put_times))
    minutes = (shown[1].start_ms - shown[0].start_ms) // _MINUTE_MS if len(shown) > 1 else 1
    yield note(
        f"A column is {minutes} min. Times are UTC. A minute is slow with more than 20 sends of "
        "100 ms or more; a few are jitter. Clients measured, network included."
    )


def _put_row(one: PutTimes) -> tuple[str, ...]:
    return (
        one.broker,
        *(f"{count:,}" for count in (one.puts, one.slow, one.minutes, one.slow_minutes)),
        one.kind,
    )


def _latency_parts(name: str, latencies: Sequence[Latency]) -> Iterator[str]:
    slowest = sorted(latencies, key=lambda one: -one.p99_ms)[:_SHOWN]
    if len(latencies) > 1:
        bars = [(one.name, float(one.p99_ms), f"{one.p99_ms:,} ms") for one in slowest]
        yield ranking(f"p99 by {name}", bars)
    yield table((name, *_LATENCY), map(_latency_row, latencies))
    yield note("Milliseconds from send to answer.")


def _latency_row(one: Latency) -> tuple[str, ...]:
    figures = (one.sends, one.failed, one.p50_ms, one.p95_ms, one.p99_ms, one.max_ms)
    return one.name, *(f"{figure:,}" for figure in figures)


def _delay_row(one: Delay) -> tuple[str, ...]:
    figures = (one.deliveries, one.p50_ms, one.p95_ms, one.p99_ms, one.max_ms)
    return one.topic, one.group, *(f"{figure:,}" for figure in figures)


def _group_parts(groups: Sequence[GroupFigures]) -> Iterator[str]:
    yield table(_GROUPS, map(_group_row, groups))
    for group in groups:
        bad = {name: count for name, count in group.outcomes.items() if name != "success"}
        if bad:
            bars = [(name, float(count), f"{count:,}") for name, count in bad.items()]
            yield ranking(f"why listeners of {group.group} failed", bars)
    yield note("Milliseconds that listeners took.")


def _group_row(one: GroupFigures) -> tuple[str, ...]:
    times = (one.p50_ms, one.p95_ms, one.p99_ms, one.max_ms)
    counts = (one.deliveries, one.redeliveries, one.failed)
    shown = ("–" if figure is None else f"{figure:,}" for figure in (*counts, *times))
    return one.group, *shown


def _orphan_row(one: Orphans) -> tuple[str, ...]:
    example = one.message_ids[0] if one.message_ids else ""
    return one.kind, one.group, one.topic or "–", example, f"{one.count:,}"


def _send_row(one: Send) -> tuple[str, ...]:
    at = _moment(one.at_ms)[5:]
    return at, one.topic, one.broker, one.client_host, one.message_id, f"{one.cost_ms:,}"
