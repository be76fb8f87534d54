"""One run of an archive: its steps in their order, and what its tasks do; no Spark."""

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, TypeAlias

import msgspec

from orbitmq.clock import Clock, utc_text
from orbitmq.errors import InvalidInput, LocationInUse
from orbitmq.randomness import SystemRandomness
from orbitmq.spark.jobs.archiving.directory import ArchiveDirectory
from orbitmq.spark.jobs.archiving.feeds import Feed
from orbitmq.spark.jobs.archiving.files import FileOptions, PartitionedFiles
from orbitmq.spark.jobs.archiving.manifest import (
    ArchivedFile,
    ArchivedRange,
    Gap,
    Manifest,
    merged_ends,
)
from orbitmq.spark.locations.location import Location
from orbitmq.spark.locations.lock import Owner

__all__ = ["Archived", "TaskReport", "TaskWrites", "archive_once"]

log = logging.getLogger("orbitmq.spark")


class Archived(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one run."""

    run: int | None
    """Its number; None if there was nothing to do."""
    rows: int = 0
    bytes: int = 0
    """The size of its files."""
    files: tuple[ArchivedFile, ...] = ()
    ranges: tuple[ArchivedRange, ...] = ()
    gaps: tuple[Gap, ...] = ()
    seconds: float = 0.0


class TaskReport(msgspec.Struct, frozen=True):
    """What an attempt of a task has written."""

    files: tuple[ArchivedFile, ...]
    ranges: tuple[ArchivedRange, ...]


class TaskWrites(msgspec.Struct, frozen=True):
    """The tasks of a run; pickled to where they run."""

    location: Location
    staging: str
    run: int
    feed: Any  # a Feed
    tasks: Sequence[Sequence[Any]]
    files: FileOptions

    def report(self, number: int) -> TaskReport:
        """Write the rows of a task, under names that no other attempt has."""
        attempt = SystemRandomness().token(4).hex()
        stem = f"part-{self.run:010d}-{number:05d}-{attempt}"
        files = PartitionedFiles(self.location, self.staging, stem, self.feed.schema, self.files)
        ranges: list[ArchivedRange] = []
        for piece in self.tasks[number]:
            for topic, batch in self.feed.read(piece, ranges.append):
                files.add(topic, batch)
        return TaskReport(tuple(files.finish()), tuple(ranges))


Write: TypeAlias = Callable[[TaskWrites], Iterable[TaskReport]]
"""Runs all tasks somewhere, and returns one report for each."""

_NOTHING: Final = Archived(run=None)


def archive_once(
    directory: ArchiveDirectory,
    feed: Feed,
    write: Write,
    *,
    owner: Owner,
    clock: Clock,
    parallelism: int = 1,
    files: FileOptions | None = None,
) -> Archived:
    """Archive what came since the last run, in the steps that the job draws.

    Raise InvalidInput if the archive is of another kind of source, DataLost if there are gaps and
    the feed doesn't accept them, LocationInUse if the lock was lost, and LocationDamaged.
    """
    began_ms = clock.monotonic_ms()
    last = directory.recover()
    if last is not None:
        _check_kind(directory, feed, last)
    work = feed.work(last, parallelism)
    for gap in work.gaps:
        log.warning("%s: a gap: %s", directory.location.place, gap)
    if not work.tasks and not work.gaps:
        return _NOTHING
    run = last.run + 1 if last else 1
    writes = TaskWrites(
        *(directory.location, directory.staging(run), run, feed, work.tasks),
        files or FileOptions(),
    )
    reports = [*write(writes)] if work.tasks else []
    ranges = _joined([one for report in reports for one in report.ranges])
    manifest = Manifest(
        run=run,
        made_at=utc_text(clock.now_ms()),
        source=feed.kind,
        columns=tuple(feed.schema.names),
        staging=writes.staging,
        files=tuple(sorted((one for each in reports for one in each.files), key=_name)),
        ranges=ranges,
        gaps=tuple(work.gaps),
        log_end=work.log_end,
        ends=merged_ends(last.ends if last else (), ranges, work.gaps),
    )
    owner.check()
    if not directory.commit(manifest):
        raise LocationInUse(
            f"another process committed run {run} of {directory.location.place} meanwhile; this "
            "one has committed nothing. Run it again",
            place=directory.location.place,
            owner="",
        )
    directory.publish(manifest)
    return Archived(
        run=run,
        rows=manifest.rows,
        bytes=sum(file.bytes for file in manifest.files),
        files=manifest.files,
        ranges=manifest.ranges,
        gaps=manifest.gaps,
        seconds=(clock.monotonic_ms() - began_ms) / 1000,
    )


def _name(file: ArchivedFile) -> str:
    return file.name


def _check_kind(directory: ArchiveDirectory, feed: Feed, last: Manifest) -> None:
    if (last.source, last.columns) != (feed.kind, tuple(feed.schema.names)):
        raise InvalidInput(
            f"{directory.location.place} is an archive of {last.source} with the columns "
            f"{', '.join(last.columns)}; this source is {feed.kind}, with "
            f"{', '.join(feed.schema.names)}. Choose another directory",
            field="to",
        )


def _joined(ranges: Sequence[ArchivedRange]) -> tuple[ArchivedRange, ...]:
    """Return the ranges of tasks as one for each queue, where they follow each other.

    >>> parts = [ArchivedRange(topic="t", broker="b", queue_id=0, start=at, end=at + 2, rows=1)
    ...          for at in (2, 0, 7)]
    >>> [(one.start, one.end, one.rows) for one in _joined(parts)]
    [(0, 4, 2), (7, 9, 1)]
    """
    found: list[ArchivedRange] = []
    for one in sorted(ranges, key=lambda each: (each.queue, each.start)):
        if found and found[-1].queue == one.queue and found[-1].end == one.start:
            before = found[-1]
            found[-1] = msgspec.structs.replace(before, end=one.end, rows=before.rows + one.rows)
        else:
            found.append(one)
    return tuple(found)
