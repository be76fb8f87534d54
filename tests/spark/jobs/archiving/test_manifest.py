"""Manifests are read as they were written, and say where to continue."""

import msgspec
import pytest

from orbitmq.message.model import MessageQueue
from orbitmq.spark.jobs.archiving.manifest import (
    ArchivedFile,
    ArchivedRange,
    Gap,
    Manifest,
    QueueEnd,
    ends_by_queue,
    merged_ends,
)


def end(number: int, offset: int, *, gone: bool = False) -> QueueEnd:
    return QueueEnd(topic="orders", broker="a", queue_id=number, end=offset, gone=gone)


def part(number: int, start: int, stop: int) -> ArchivedRange:
    return ArchivedRange(topic="orders", broker="a", queue_id=number, start=start, end=stop)


def gap(number: int, start: int, stop: int, why: str) -> Gap:
    fields = {"topic": "orders", "broker": "a", "queue_id": number, "start": start, "end": stop}
    return msgspec.convert({**fields, "why": why}, Gap)


def test_it_is_read_as_it_was_written() -> None:
    manifest = Manifest(
        run=3,
        made_at="2026-11-18T21:40:00.000Z",
        source="topics",
        columns=("key", "value"),
        staging="_orbitmq/staging/3",
        files=(ArchivedFile("topic=a/date=b/c.parquet", "a", "b", 10, 20),),
        ranges=(part(0, 0, 10),),
        gaps=(gap(1, 0, 5, "expired"),),
        ends=(end(0, 10, gone=True),),
    )
    assert msgspec.json.decode(manifest.encode(), type=Manifest) == manifest
    assert manifest.rows == 10


def test_ends_follow_ranges_and_gaps() -> None:
    before = [end(0, 5), end(1, 7), end(2, 9), end(3, 4), end(4, 1)]
    ranges = [part(0, 8, 9), part(0, 5, 8), part(1, 20, 30), part(2, 0, 3)]
    gaps = [
        *(gap(1, 7, 20, "expired"), gap(2, 9, 3, "recreated")),
        *(gap(3, 4, 4, "gone"), gap(4, 1, 8, "expired")),
    ]
    found = merged_ends(before, ranges, gaps)
    assert found == (end(0, 9), end(1, 30), end(2, 3), end(3, 4, gone=True), end(4, 8))


def test_a_queue_that_comes_back_is_no_longer_gone() -> None:
    (found,) = merged_ends([end(0, 5, gone=True)], [part(0, 5, 6)], [])
    assert found == end(0, 6)
    assert ends_by_queue([found]) == {MessageQueue("orders", "a", 0): found}


@pytest.mark.parametrize(
    ("one", "says"),
    [
        (gap(1, 7, 20, "expired"), "offsets 7 to 19 were deleted"),
        (gap(1, 9, 3, "recreated"), "ends at 3"),
        (gap(1, 9, 9, "gone"), "no such queue"),
    ],
)
def test_a_gap_says_what_happened(one: Gap, says: str) -> None:
    assert str(one).startswith("topic orders, queue a:1: ")
    assert says in str(one)
