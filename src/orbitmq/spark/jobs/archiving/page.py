"""The result of an archive run as a page."""

from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from orbitmq.reports.charts import Series, columns, ranking
from orbitmq.reports.page import Page, Tile, note, paragraph, table
from orbitmq.spark.jobs.archiving.run import Archived

__all__ = ["archive_page"]

_MIB: Final = 1 << 20
_TOPICS: Final = ("topic", "date", "rows", "MiB", "files")
_QUEUES: Final = ("topic", "queue", "from", "to", "offsets", "rows")
_SHOWN: Final = 500
_BARS: Final = 20


def archive_page(found: Archived, source: str, to: str) -> str:
    """Return the page; ``source`` and ``to`` say what was archived where."""
    introduction = (
        "Nothing was new: the archive has all that the source has."
        if found.run is None
        else f"Run {found.run} of {to}, in {found.seconds:.1f} s."
    )
    page = Page(f"Archive of {source}", introduction, title=f"orbitmq archive: {source}")
    page.tiles(_tiles(found))
    if found.gaps:
        page.section("Gaps", *(paragraph(f"{gap}.") for gap in found.gaps))
    if found.files:
        _add_files(page, found)
    if found.ranges:
        shown = found.ranges[:_SHOWN]
        rows = (
            (
                *(one.topic, f"{one.broker}:{one.queue_id}", f"{one.start:,}", f"{one.end:,}"),
                *(f"{one.end - one.start:,}", f"{one.rows:,}"),
            )
            for one in shown
        )
        about = "“To” is the first offset that is not archived: the next run begins there."
        page.section("Queues", table(_QUEUES, rows), note(about + _rest(len(found.ranges))))
    return page.html()


def _tiles(found: Archived) -> Iterator[Tile]:
    yield Tile(f"{found.rows:,}", "rows")
    yield Tile(f"{found.bytes / _MIB:,.1f} MiB", "of Parquet")
    yield Tile(f"{len(found.files):,}", "files")
    yield Tile(f"{found.rows / found.seconds:,.0f}/s" if found.seconds else "–", "rows a second")
    yield Tile(f"{len(found.gaps):,}", "gaps", "bad" if found.gaps else "good")


def _add_files(page: Page, found: Archived) -> None:
    by_day: dict[str, int] = defaultdict(int)
    by_topic: dict[str, int] = defaultdict(int)
    groups: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0, 0])
    for file in found.files:
        by_day[file.date] += file.rows
        by_topic[file.topic] += file.rows
        sums = groups[file.topic, file.date]
        for at, more in enumerate((file.rows, file.bytes, 1)):
            sums[at] += more
    days = sorted(by_day)
    largest = sorted(by_topic.items(), key=lambda one: -one[1])[:_BARS]
    page.section(
        "Rows",
        columns("rows by day of storage (UTC)", days, [Series("rows", [by_day[d] for d in days])]),
        ranking("rows by topic", [(name, rows, f"{rows:,}") for name, rows in largest]),
    )
    rows = (
        (*key, f"{count:,}", f"{size / _MIB:,.1f}", f"{files:,}")
        for key, (count, size, files) in sorted(groups.items())[:_SHOWN]
    )
    page.section("Files", table(_TOPICS, rows), note(f"A folder a row.{_rest(len(groups))}"))


def _rest(count: int) -> str:
    return f" The first {_SHOWN} of {count:,} are shown." if count > _SHOWN else ""
