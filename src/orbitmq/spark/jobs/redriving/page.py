"""The figures of dead letters as a page."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final

from orbitmq.reports.charts import Series, columns, ranking
from orbitmq.reports.page import Page, Tile, note, table
from orbitmq.spark.jobs.redriving.figures import (
    AGES,
    Cause,
    DeadLetterFigures,
    Group,
    Letter,
    Slot,
)

__all__ = ["dead_letters_page"]

_MINUTE_MS: Final = 60_000
_HOUR_MS: Final = 3_600_000
_DAY_MS: Final = 24 * _HOUR_MS
_CAUSES: Final = ("group", "topic", "cause", "newest", "oldest", "letters")
_GROUPS: Final = ("group", "newest", "oldest", "re-driven before", "letters")
_LETTERS: Final = ("died", "id", "key", "body", "deliveries")
_BARS: Final = 12
_SHOWN: Final = 10


def dead_letters_page(found: DeadLetterFigures, of: str) -> str:
    """Return the page; ``of`` says of which groups."""
    page = Page(
        f"Dead letters of {of}",
        f"Messages that were given up, as of {_moment(found.now_ms)} UTC.",
        title=f"orbitmq dead letters: {of}",
    )
    page.tiles(_tiles(found))
    if found.letters:
        page.section("When they died", *_times(found))
        bars = [(one.cause, float(one.letters), f"{one.letters:,}") for one in found.causes]
        page.section(
            "Causes",
            ranking("letters by cause", bars[:_BARS]),
            table(_CAUSES, map(_cause_row, found.causes), left=3),
            note("Reasons that differ in numbers alone are one cause."),
        )
        page.section("Groups", table(_GROUPS, map(_group_row, found.groups)))
    for one in found.causes[:_SHOWN]:
        reasons = dict.fromkeys(letter.reason for letter in one.samples if letter.reason)
        page.section(
            f"{one.group}: {one.cause}",
            table(_LETTERS, map(_letter_row, one.samples), left=4),
            *(note(reason) for reason in reasons),
        )
    return page.html()


def _moment(at_ms: int) -> str:
    return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%d %H:%M}"


def _age(age_ms: int) -> str:
    return f"{age_ms / _HOUR_MS:.1f} h" if age_ms < 2 * _DAY_MS else f"{age_ms / _DAY_MS:.1f} days"


def _tiles(found: DeadLetterFigures) -> Iterator[Tile]:
    yield Tile(f"{found.letters:,}", "dead letters", "bad" if found.letters else "good")
    yield Tile(f"{len(found.groups):,}", "groups")
    yield Tile(f"{len(found.causes):,}", "causes")
    if found.groups:
        oldest_ms = min(one.oldest_ms for one in found.groups)
        yield Tile(_age(found.now_ms - oldest_ms), "the oldest")
        again = sum(one.died_again for one in found.groups)
        yield Tile(f"{again:,}", "died again after a re-drive", "bad" if again else "")


def _label(slot: Slot, slot_ms: int) -> str:
    at = datetime.fromtimestamp(slot.start_ms / 1000, UTC)
    if slot_ms >= _DAY_MS:
        return f"{at:%m-%d}"
    return f"{at:%H:%M:%S}" if slot_ms < _MINUTE_MS else f"{at:%m-%d %H:%M}"


def _times(found: DeadLetterFigures) -> Iterator[str]:
    labels = [_label(slot, found.slot_ms) for slot in found.slots]
    counts = Series("letters", [slot.letters for slot in found.slots])
    yield columns("letters by the time they died", labels, [counts])
    there = [name for name, _ in AGES if name in found.ages]
    yield ranking(
        "letters by age",
        [(name, float(found.ages[name]), f"{found.ages[name]:,}") for name in there],
    )
    yield note(f"A bar is {found.slot_ms / 1000:g} s. Times are UTC.")


def _cause_row(one: Cause) -> tuple[str, ...]:
    times = (_moment(one.newest_ms), _moment(one.oldest_ms))
    return one.group, one.topic or "–", one.cause, *times, f"{one.letters:,}"


def _group_row(one: Group) -> tuple[str, ...]:
    times = (_moment(one.newest_ms), _moment(one.oldest_ms))
    return one.group, *times, f"{one.died_again:,}", f"{one.letters:,}"


def _letter_row(one: Letter) -> tuple[str, ...]:
    return _moment(one.died_ms), one.id, one.key or "–", one.body, f"{one.deliveries}"
