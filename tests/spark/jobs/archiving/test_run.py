"""A run is whole or absent: the process may end at any step, on any kind of file system."""

from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from orbitmq.errors import DataLost, InvalidInput, LocationDamaged, LocationInUse
from orbitmq.message.model import MessageQueue
from orbitmq.spark.columns.arrow_schema import arrow_schema
from orbitmq.spark.jobs.archiving.directory import ArchiveDirectory
from orbitmq.spark.jobs.archiving.feeds import Work
from orbitmq.spark.jobs.archiving.files import FileOptions
from orbitmq.spark.jobs.archiving.manifest import ArchivedRange, Manifest, ends_by_queue
from orbitmq.spark.jobs.archiving.plan import dealt, loss, planned
from orbitmq.spark.jobs.archiving.run import Archived, TaskReport, TaskWrites, archive_once
from orbitmq.spark.locations.location import Location
from orbitmq.spark.offsets import Range, Slice
from tests.spark.fake_cluster import FakeClock
from tests.spark.faulty_location import BucketLocation, Crash, FaultyLocation

BEGIN = datetime(2026, 11, 18, 22, tzinfo=UTC)
A, B = MessageQueue("orders", "a", 0), MessageQueue("refunds", "b", 1)
Row = tuple[str, str, int, int]


class Queues:
    """A feed of queues in memory: a row a minute, so that two hours pass midnight."""

    kind = "topics"
    schema = arrow_schema(["timestamp", "broker", "queue_id", "queue_offset"])

    def __init__(self) -> None:
        self.ranges_: dict[MessageQueue, Range] = {}
        self.fails_on_loss = True

    def grow(self, queue: MessageQueue, count: int) -> None:
        has = self.ranges_.get(queue, Range(0, 0))
        self.ranges_[queue] = Range(has.min, has.max + count)

    def rows(self) -> list[Row]:
        return sorted(
            (queue.topic, queue.broker_name, queue.queue_id, offset)
            for queue, has in self.ranges_.items()
            for offset in range(has.min, has.max)
        )

    def work(self, last: Manifest | None, parallelism: int) -> Work:
        starts = {queue: has.min for queue, has in self.ranges_.items()}
        ends = {queue: has.max for queue, has in self.ranges_.items()}
        archived = ends_by_queue(last.ends if last else ())
        plan = planned(archived, self.ranges_, starts, ends, {"orders", "refunds"})
        if plan.gaps and self.fails_on_loss:
            raise loss(plan.gaps[0])
        return Work(dealt(plan.wanted, parallelism) if plan.wanted else [], plan.gaps)

    def read(
        self, piece: Slice, note: Callable[[ArchivedRange], object]
    ) -> Iterator[tuple[str, pa.RecordBatch]]:
        rows = [
            {
                "timestamp": BEGIN + timedelta(minutes=offset),
                "broker": piece.queue.broker_name,
                "queue_id": piece.queue.queue_id,
                "queue_offset": offset,
            }
            for offset in range(piece.start, piece.end)
        ]
        yield piece.queue.topic, pa.RecordBatch.from_pylist(rows, schema=self.schema)
        topic, broker, number = piece.queue.topic, piece.queue.broker_name, piece.queue.queue_id
        note(
            ArchivedRange(
                topic=topic,
                broker=broker,
                queue_id=number,
                start=piece.start,
                end=piece.end,
                rows=len(rows),
            )
        )


class Held:
    """A lock that is held."""

    def check(self) -> None:
        pass


def here(writes: TaskWrites) -> Iterable[TaskReport]:
    """Run all tasks; the first one twice, as speculation does."""
    writes.report(0)
    return [writes.report(number) for number in range(len(writes.tasks))]


def run(location: Location, queues: Queues, write: object = here) -> Archived:
    return archive_once(
        ArchiveDirectory(location),
        queues,
        write,  # type: ignore[arg-type]
        owner=Held(),
        clock=FakeClock(),
        parallelism=2,
        files=FileOptions(),
    )


def visible(place: Path) -> list[Row]:
    """Return what any reader of the directory sees."""
    place.mkdir(exist_ok=True)
    found = ds.dataset(place, partitioning="hive", format="parquet")
    if not found.files:
        return []
    columns = ["topic", "broker", "queue_id", "queue_offset"]
    return sorted(tuple(row.values()) for row in found.to_table(columns).to_pylist())


def filled() -> Queues:
    queues = Queues()
    queues.grow(A, 150)
    queues.grow(B, 30)
    return queues


def test_a_run_and_the_next_one(tmp_path: Path) -> None:
    location, queues = Location(str(tmp_path)), filled()
    first = run(location, queues)
    assert (first.run, first.rows) == (1, 180)
    assert visible(tmp_path) == queues.rows()
    assert {(one.topic, one.date) for one in first.files} == {
        *(("orders", "2026-11-18"), ("orders", "2026-11-19"), ("refunds", "2026-11-18")),
    }
    assert [(one.queue, one.start, one.end, one.rows) for one in first.ranges] == [
        *((A, 0, 150, 150), (B, 0, 30, 30)),
    ]
    assert run(location, queues).run is None
    queues.grow(A, 5)
    second = run(location, queues)
    assert [(one.start, one.end) for one in second.ranges] == [(150, 155)]
    assert visible(tmp_path) == queues.rows()
    manifests = [*ArchiveDirectory(location).manifests()]
    assert [one.run for one in manifests] == [1, 2]
    named = {file.name for one in manifests for file in one.files}
    assert named == {file.relative_to(tmp_path).as_posix() for file in tmp_path.rglob("*.parquet")}


@pytest.mark.parametrize("kind", [FaultyLocation, BucketLocation])
def test_it_may_end_at_any_step(tmp_path: Path, kind: type[FaultyLocation]) -> None:
    whole = kind(str(tmp_path / "whole"))
    run(whole, filled())
    steps = len(whole.steps)
    assert steps > 8
    for step in range(1, steps + 1):
        place = tmp_path / str(step)
        queues = filled()
        with pytest.raises(Crash):
            run(kind(str(place), step), queues)
        seen, expected = visible(place), queues.rows()
        assert set(seen) <= set(expected)
        assert len(set(seen)) == len(seen)
        committed = ArchiveDirectory(kind(str(place))).runs()
        assert committed or not seen  # nothing is visible before the commit
        queues.grow(B, 3)
        run(kind(str(place)), queues)
        assert visible(place) == queues.rows(), whole.steps[step - 1]
        assert kind(str(place)).all_files("_orbitmq/staging") == []


def test_the_next_run_may_end_at_any_step_too(tmp_path: Path) -> None:
    queues = filled()
    dry = FaultyLocation(str(tmp_path / "dry"))
    with pytest.raises(Crash):
        run(FaultyLocation(str(tmp_path / "dry"), 12), queues)
    run(dry, queues)
    for step in range(1, len(dry.steps) + 1):
        place = tmp_path / str(step)
        with pytest.raises(Crash):
            run(FaultyLocation(str(place), 12), queues)
        with pytest.raises(Crash):
            run(FaultyLocation(str(place), step), queues)
        run(Location(str(place)), queues)
        assert visible(place) == queues.rows(), dry.steps[step - 1]


def test_a_failed_task_leaves_nothing(tmp_path: Path) -> None:
    def fails(writes: TaskWrites) -> Iterable[TaskReport]:
        writes.report(0)
        raise OSError("the executor was killed")

    location, queues = Location(str(tmp_path)), filled()
    with pytest.raises(OSError, match="killed"):
        run(location, queues, fails)
    assert visible(tmp_path) == []
    run(location, queues)
    assert visible(tmp_path) == queues.rows()


def test_of_two_that_lost_track_of_the_lock_one_commits(tmp_path: Path) -> None:
    location, queues = Location(str(tmp_path)), filled()

    def while_another_runs(writes: TaskWrites) -> Iterable[TaskReport]:
        run(location, queues)
        return here(writes)

    with pytest.raises(LocationInUse, match="committed run 1"):
        run(location, queues, while_another_runs)
    assert visible(tmp_path) == queues.rows()


def test_files_that_vanish_before_the_commit_fail_it(tmp_path: Path) -> None:
    location, queues = Location(str(tmp_path)), filled()

    def swept(writes: TaskWrites) -> Iterable[TaskReport]:
        reports = here(writes)
        location.remove_folder(writes.staging)
        return reports

    with pytest.raises(LocationDamaged, match="something else deletes"):
        run(location, queues, swept)
    assert ArchiveDirectory(location).runs() == []


def test_losses_fail_or_are_in_the_manifest(tmp_path: Path) -> None:
    location, queues = Location(str(tmp_path)), filled()
    run(location, queues)
    before = visible(tmp_path)
    queues.ranges_ = {A: Range(160, 165), B: Range(0, 10)}
    with pytest.raises(DataLost, match="orders, queue a:0"):
        run(location, queues)
    queues.fails_on_loss = False
    found = run(location, queues)
    assert [(one.queue, one.why) for one in found.gaps] == [(A, "expired"), (B, "recreated")]
    again = [("refunds", "b", 1, offset) for offset in range(10)]
    assert visible(tmp_path) == sorted([*before, *queues.rows()[:5], *again])
    del queues.ranges_[B]
    assert [one.why for one in run(location, queues).gaps] == ["gone"]
    assert run(location, queues).run is None  # it is said once


def test_another_kind_of_source_is_refused(tmp_path: Path) -> None:
    location, queues = Location(str(tmp_path)), filled()
    run(location, queues)
    queues.kind = "store"
    with pytest.raises(InvalidInput, match="an archive of topics"):
        run(location, queues)


@pytest.mark.parametrize("text", ["", "{}", '{"run": 1'])
def test_a_manifest_that_is_not_ours(tmp_path: Path, text: str) -> None:
    location, queues = Location(str(tmp_path)), filled()
    run(location, queues)
    (tmp_path / "_orbitmq/runs/0000000001.json").write_text(text)
    with pytest.raises(LocationDamaged, match=r"0000000001\.json"):
        run(location, queues)
