"""A reconciliation as a page."""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Final

from orbitmq.reports.charts import Series, columns
from orbitmq.reports.page import Page, Tile, note, paragraph, table
from orbitmq.spark.jobs.reconciling.figures import (
    DIFFERENCES,
    VERDICTS,
    Minute,
    Reconciliation,
    Sample,
    Topic,
)

__all__ = ["MEANINGS", "reconcile_page"]

MEANINGS: Final = {
    "lost": "acknowledged by a broker, and not stored",
    "duplicated": "copies of messages that are stored",
    "out_of_order": "stored behind a message that was sent later",
    "late": "stored or delivered long after the send",
    "not_consumed": "stored, and not consumed by a group",
    "found": "sent and stored",
    "gone": "removed by retention, as far as one can tell",
    "delayed": "with a delay, and not delivered yet",
    "waiting": "in an outbox, to be sent again",
    "failed": "the send failed, and the message is not stored",
    "undecided": "half messages without an outcome",
    "withdrawn": "rolled back or recalled",
    "unreported": "stored, and nobody said to have sent them",
}
_OTHERS: Final = tuple(name for name in VERDICTS if name not in DIFFERENCES)
_TOPIC_HEADS: Final = ("topic", "sent", "found", *(name.replace("_", " ") for name in DIFFERENCES))
_BEHIND: Final = "not_consumed"
_BARS: Final = 120
_MINUTES_SHOWN: Final = 50


def reconcile_page(found: Reconciliation, of: str) -> str:
    """Return the page; ``of`` says what was compared."""
    page = Page(f"Reconciliation of {of}", _introduction(found), title=f"orbitmq reconcile: {of}")
    page.tiles(_tiles(found))
    page.section("What was found", table(("", "", "messages"), _meanings(found), left=2))
    if found.minutes:
        page.section("By minute", *_charts(found.minutes), note("Times are UTC, of the sends."))
    page.section("Topics", table(_TOPIC_HEADS, map(_topic_row, found.topics)))
    if found.groups:
        rows = [(one.group, one.topic, f"{one.not_consumed:,}") for one in found.groups]
        page.section("Not consumed", table(("group", "topic", "messages"), rows, left=2))
    wrong = [one for one in found.minutes if one.differences]
    if wrong:
        page.section("Minutes with differences", *_wrong_minutes(wrong))
    for kind in dict.fromkeys(one.kind for one in found.samples):
        shown = [one for one in found.samples if one.kind == kind]
        page.section(f"Examples: {kind.replace('_', ' ')}", *_examples(kind, shown))
    return page.html()


def _introduction(found: Reconciliation) -> str:
    if found.first_ms is None or found.last_ms is None:
        return "Nobody says to have sent anything, and nothing is stored."
    begin, end = (datetime.fromtimestamp(ms / 1000, UTC) for ms in (found.first_ms, found.last_ms))
    return (
        f"Messages sent from {begin:%Y-%m-%d %H:%M} to {end:%Y-%m-%d %H:%M} UTC, as producers say, "
        "against what is stored."
    )


def _tiles(found: Reconciliation) -> Iterator[Tile]:
    if found.equal:
        yield Tile("equal", "to what was sent", "good")
    elif found.differences:
        yield Tile(f"{found.differences:,}", "differences", "bad")
    else:
        yield Tile("not compared", "no report was found", "bad")
    yield Tile(f"{found.sent:,}", "sent")
    for name in DIFFERENCES:
        count = found.count(name)
        yield Tile(f"{count:,}", name.replace("_", " "), _kind(not count))


def _kind(is_good: bool) -> str:
    return "good" if is_good else "bad"


def _meanings(found: Reconciliation) -> Iterator[tuple[str, str, str]]:
    for name in (*DIFFERENCES, *_OTHERS):
        if count := found.count(name):
            yield name.replace("_", " "), MEANINGS[name], f"{count:,}"
    if found.unreadable:
        yield "unreadable", "reports that could not be read", f"{found.unreadable:,}"


def _charts(minutes: Iterable[Minute]) -> Iterator[str]:
    """Yield charts over all topics, of at most 120 bars."""
    ordered = list(minutes)
    first, last = ordered[0].start_ms, ordered[-1].start_ms
    each = 60_000 * ((last - first) // 60_000 // _BARS + 1)
    starts = list(range(first, last + 1, each))
    labels = [f"{datetime.fromtimestamp(at / 1000, UTC):%m-%d %H:%M}" for at in starts]
    names = ("sent", *(name for name in DIFFERENCES if any(getattr(one, name) for one in ordered)))
    sums = {name: [0] * len(starts) for name in names}
    for one in ordered:
        for name in names:
            sums[name][(one.start_ms - first) // each] += getattr(one, name)
    bar = f"{each // 60_000} min" if each > 60_000 else "a minute"
    yield columns(f"messages sent, a bar is {bar}", labels, [Series("sent", sums["sent"])])
    # A chart has four colours.
    wrong = [Series(name.replace("_", " "), sums[name]) for name in names[1:] if name != _BEHIND]
    if wrong:
        yield columns("differences", labels, wrong)
    if _BEHIND in sums:
        yield columns("not consumed", labels, [Series("not consumed", sums[_BEHIND])])


def _topic_row(one: Topic) -> tuple[str, ...]:
    counts = (one.counts.get(name, 0) for name in ("found", *DIFFERENCES))
    return (one.topic, f"{one.sent:,}", *(f"{count:,}" for count in counts))


def _wrong_minutes(wrong: list[Minute]) -> Iterator[str]:
    heads = ("minute", *_TOPIC_HEADS)
    rows = (
        (
            f"{datetime.fromtimestamp(one.start_ms / 1000, UTC):%m-%d %H:%M}",
            one.topic,
            *(f"{getattr(one, name):,}" for name in ("sent", "found", *DIFFERENCES)),
        )
        for one in wrong[:_MINUTES_SHOWN]
    )
    yield table(heads, rows, left=2)
    if len(wrong) > _MINUTES_SHOWN:
        yield note(f"And {len(wrong) - _MINUTES_SHOWN:,} more; --json has all of them.")


def _examples(kind: str, samples: Iterable[Sample]) -> Iterator[str]:
    yield paragraph(f"{MEANINGS[kind][0].upper()}{MEANINGS[kind][1:]}.")
    rows = (
        (
            _moment(one.sent_ms),
            one.topic,
            one.message_id,
            " ".join(filter(None, (one.place, one.note))),
        )
        for one in samples
    )
    yield table(("sent", "topic", "message id", "place"), rows, left=4)


def _moment(at_ms: int) -> str:
    return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%m-%d %H:%M:%S}.{at_ms % 1000:03d}"
