"""The page of an archive run has its figures, and no external resources."""

import re

import msgspec

from orbitmq.spark.jobs.archiving.manifest import ArchivedFile, ArchivedRange, Gap
from orbitmq.spark.jobs.archiving.page import archive_page
from orbitmq.spark.jobs.archiving.run import Archived

FOUND = Archived(
    run=7,
    rows=1_500,
    bytes=3 << 20,
    files=(
        ArchivedFile("a", "orders", "2026-11-17", 1_000, 2 << 20),
        ArchivedFile("b", "orders", "2026-11-18", 500, 1 << 20),
    ),
    ranges=(
        ArchivedRange(
            topic="orders", broker="broker-a", queue_id=3, start=10, end=1_510, rows=1_500
        ),
    ),
    seconds=2.0,
)


def test_it_has_the_figures() -> None:
    page = archive_page(FOUND, "orders", "./archive")
    for shown in ("Run 7", "1,500", "3.0 MiB", "750/s", "2026-11-17", "broker-a:3", "1,510"):
        assert shown in page, shown
    assert "Gaps" not in page


def test_gaps_are_told() -> None:
    gap = Gap(topic="orders", broker="broker-a", queue_id=3, start=0, end=10, why="expired")
    page = archive_page(msgspec.structs.replace(FOUND, gaps=(gap,)), "orders", "./archive")
    assert "offsets 0 to 9 were deleted by retention." in page


def test_a_run_of_nothing() -> None:
    assert "Nothing was new" in archive_page(Archived(run=None), "orders", "./archive")


def test_it_has_no_external_resources() -> None:
    page = archive_page(FOUND, "orders", "./archive")
    assert re.findall(r"(?:src|href|url|@import|<script|<link|//\w)", page) == []
