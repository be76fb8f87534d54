"""Archive: topics or a store as Parquet files, by topic and day; each message once.

::

    DIR/
      topic=orders/date=2026-11-18/part-….parquet      rows: visible, all of them committed
      _orbitmq/                                        skipped by Spark and pyarrow
        lock                                           who writes (leases/ on object stores)
        runs/0000000001.json  0000000002.json          manifests: one for each committed run
        staging/0000000003-5f3a…/topic=…/date=…/…      files of tasks: not visible

A run, and what is left if its process ends after a step::

    lock                 one writer; freed with its process
    recover              the last run's files at their places, foreign staging removed
    plan                 from the ends in the last manifest to the queues' ends of now
    tasks write          staging/RUN-TOKEN: names differ between attempts     ─▶ nothing visible
    ══ manifest RUN ══   created whole, from the reports of successful tasks  ─▶ committed
    publish              each file moved to its place, then staging removed   ─▶ partly visible
                                                                            (the next run: the rest)

The manifest is written before the files move, and not after: so all that is visible is committed,
always, and a run that was committed is finished by the next one from its manifest alone. The other
way round a crash would leave visible files that no manifest names, and the next run would write
their rows again. What remains is that a reader may see a run half moved, for as long as some
renames take; who must not reads the files that manifests name, as ``replay`` does.

Files of failed, killed and speculative attempts are named by no manifest: they are never moved.
"""

import logging
from collections.abc import Iterable, Iterator

import msgspec
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it
from pyspark.sql.types import BinaryType

from orbitmq.clock import Clock, SystemClock, pause
from orbitmq.errors import NetworkError, NoRoute
from orbitmq.spark.jobs.archiving.directory import OWN, ArchiveDirectory
from orbitmq.spark.jobs.archiving.feeds import Feed, topic_feed
from orbitmq.spark.jobs.archiving.files import FileOptions
from orbitmq.spark.jobs.archiving.run import Archived, TaskReport, TaskWrites, archive_once
from orbitmq.spark.jobs.archiving.store_feed import store_feed
from orbitmq.spark.jobs.parallelism import parallelism
from orbitmq.spark.jobs.progress import Progress, tasks_shown
from orbitmq.spark.jobs.sources import EVERYTHING, Source, Span, Topics
from orbitmq.spark.locations.location import Location
from orbitmq.spark.locations.lock import locked

__all__ = ["Archived", "FileOptions", "archive", "watch"]

log = logging.getLogger("orbitmq.spark")


def archive(
    spark: SparkSession,
    source: Source,
    to: str,
    span: Span = EVERYTHING,
    *,
    files: FileOptions | None = None,
    progress: Progress | None = None,
    clock: Clock | None = None,
) -> Archived:
    """Archive what a source has and the archive lacks, and return what that was.

    Args:
        spark: a session; see ``orbitmq.spark.session``.
        source: topics or a store. Its options are those of the format, such as ``tags`` and
            ``failOnDataLoss``.
        to: the directory of the archive: a path, or an address for ``pyarrow.fs``, which the driver
            and all executors reach.
        span: where a queue begins that the archive doesn't have yet, and where this run ends.
        files: sizes and compression.
        progress: is called with finished tasks and all tasks.
        clock: the time.

    Raises:
        DataLost: messages are gone since the last run, and ``failOnDataLoss`` is not false.
        LocationInUse: another run works on the archive.
        LocationDamaged: a file of the archive is missing or unreadable.
        OrbitError: the cluster can't be reached, or an argument is invalid.
        PySparkException: Spark failed; its text ends with our reason, if it was ours.

    ::

        done = archive(spark, Topics("127.0.0.1:9876", ("orders",)), "archive")
        print(done.rows, done.files)
        spark.read.parquet("archive").where("topic = 'orders'").show()
    """
    clock = clock or SystemClock()
    directory = ArchiveDirectory(Location(to))
    feed = _feed(source, span)

    def write(writes: TaskWrites) -> Iterable[TaskReport]:
        with tasks_shown(spark, progress):
            return run_tasks(spark, writes)

    with locked(directory.location, OWN, clock) as owner:
        return archive_once(
            directory,
            feed,
            write,
            owner=owner,
            clock=clock,
            parallelism=parallelism(spark),
            files=files,
        )


def watch(
    spark: SparkSession,
    source: Source,
    to: str,
    every_s: float,
    *,
    files: FileOptions | None = None,
) -> Iterator[Archived]:
    """Archive again and again, and yield what was found; a run begins ``every_s`` after another.

    A cluster that can't be reached is logged, and tried again. The caller ends it by ending the
    iteration. Raises what ``archive`` does, but for that.
    """
    while True:
        try:
            yield archive(spark, source, to, files=files)
        except (NetworkError, NoRoute) as error:
            log.warning("archiving %r goes on in %g s: %s", source, every_s, error)
        pause(round(every_s * 1000))


def run_tasks(spark: SparkSession, writes: TaskWrites) -> list[TaskReport]:
    """Run all tasks on Spark, and return their reports.

    A column of numbers and a function of it: no RDD, which Spark Connect lacks, and not
    ``mapInArrow``, which needs pandas.
    """
    # Not deterministic, so that Spark calls it once for each number.
    write = F.udf(
        lambda number: msgspec.json.encode(writes.report(number)), BinaryType(), useArrow=False
    ).asNondeterministic()
    count = len(writes.tasks)
    found = spark.range(0, count, 1, count).select(write("id").alias("report")).collect()
    return [msgspec.json.decode(bytes(row.report), type=TaskReport) for row in found]


def _feed(source: Source, span: Span) -> Feed:
    return topic_feed(source, span) if isinstance(source, Topics) else store_feed(source, span)
