"""Rebuild: consume queues and key index made from a commit log, as the broker writes them.

::

    log files ──▶ a task each ──▶ places by queue ──▶ tasks by queue ──▶ queue files
                      │      └──▶ keys, numbered ──▶ tasks by index file ──▶ index files
                      └──▶ summaries ──▶ driver: what is damaged, which keys are in which file

The log is read once; Spark keeps places and keys until both are written. Tasks write below a
directory of the target that nobody else reads; the driver has it change places with the old parts
when all is on disk (``store/rebuild/target.py``). Every machine must see the store by one path.
"""

from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import msgspec
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it

from orbitmq.errors import StoreDamaged
from orbitmq.randomness import SystemRandomness
from orbitmq.spark.jobs.arrow_tasks import map_in_arrow
from orbitmq.spark.jobs.progress import Progress, tasks_shown
from orbitmq.spark.jobs.rebuilding.tasks import (
    FILE,
    KEYS,
    MADE,
    PLACES,
    QUEUE,
    SCANNED,
    Log,
    index_made,
    queues_made,
    scan,
)
from orbitmq.store.reader.reader import Damage
from orbitmq.store.rebuild.index_files import (
    IndexPlan,
    MadeIndexFile,
    index_plan,
    make_index_file,
)
from orbitmq.store.rebuild.log_parts import LogFile, log_files
from orbitmq.store.rebuild.queue_files import MadeQueue, topics_with_batches
from orbitmq.store.rebuild.target import Target, sync_log, was_java_s
from orbitmq.store.settings import StoreSettings

__all__ = ["Rebuilt", "rebuild"]

_INDEX_TASKS: Final = 1024
_SHOWN: Final = 3


class Rebuilt(msgspec.Struct, frozen=True, kw_only=True):
    """What was rebuilt."""

    directory: str
    log_files: int
    log_begin: int
    log_end: int
    records: int
    queues: int
    queue_entries: int
    index_files: int
    keys: int
    damages: tuple[str, ...] = ()
    """Places of the log that were skipped, and what queues lack for it."""
    cut_at_start: bool = False
    """Whether bytes follow the last record, which the next start of a broker removes."""


def rebuild(
    spark: SparkSession,
    store: str,
    to: str | None = None,
    settings: StoreSettings | None = None,
    *,
    replace: bool = False,
    tag_keys: bool = True,
    skip_damaged: bool = False,
    progress: Progress | None = None,
) -> Rebuilt:
    """Make consume queues and key index from the commit log of a store.

    No broker may have the store open. What is made is complete: a broker, ours or Java's, starts on
    it without reading the log again. See ``docs/pipeline/rebuild.md``.

    Args:
        spark: a session; see ``orbitmq.spark.session``.
        store: the store directory; its log is where ``settings`` say, else in ``commitlog``.
        to: the directory for queues and index, if not the store itself.
        settings: file sizes, delay levels and so on, as the broker has them.
        replace: whether queues and index that are there already are replaced.
        tag_keys: whether tags are indexed, as since RocketMQ 5.4.0.
        skip_damaged: whether damaged places of the log are left out; else they are an error.
        progress: is called with finished tasks and all tasks.

    Raises:
        StoreLocked: a broker has the store open.
        StoreDamaged: a part of the log can't be read, or is missing.
        StoreError: there is no store, or the target is not empty.
        PySparkException: Spark failed; its text ends with our reason, if it was ours.

    ::

        found = rebuild(spark, "/data/store", to="/data/rebuilt")
        print(found.records, found.queues, found.index_files)
    """
    store = str(Path(store).absolute())  # tasks may run elsewhere
    log = Log(store, settings or StoreSettings(), tag_keys)
    reader = log.reader()
    bases = log_files(reader)
    run = SystemRandomness().token(8).hex()
    into = store if to is None else str(Path(to).absolute())
    with_index = log.settings.index_enabled
    target = Target(reader.disk, into, run, replace=replace, with_index=with_index)
    try:
        had_abort = reader.has_abort_file or target.has_abort_file
        with tasks_shown(spark, progress):
            made = _made(spark, log, bases, target.work, skip_damaged)
        sync_log(reader)
        target.publish(made.queues, made.index)
        last, tail = made.last_file, made.has_tail
        target.finish(
            *(made.queues, made.index),
            log_end=last.end,
            last_ms=last.last_ms,
            keep_abort=had_abort or tail,
        )
    finally:
        target.close()
    return made.result(target.directory)


class _Made(msgspec.Struct, frozen=True, kw_only=True):
    """What tasks made, below their directory, and found out."""

    files: Sequence[LogFile]
    queues: Sequence[MadeQueue]
    lacking: Sequence[Damage]
    index: Sequence[MadeIndexFile]
    keys: int

    @property
    def last_file(self) -> LogFile:
        """The last log file with records; the first without any."""
        return max((file for file in self.files if file.records), key=_base, default=self.files[0])

    @property
    def has_tail(self) -> bool:
        """Whether bytes follow the end of the log."""
        return any(damage.harmless for file in self.files for damage in file.damages)

    def result(self, directory: str) -> Rebuilt:
        """Return the job's result."""
        return Rebuilt(
            directory=directory,
            log_files=len(self.files),
            log_begin=self.files[0].base,
            log_end=self.last_file.end,
            records=sum(file.records for file in self.files),
            queues=len(self.queues),
            queue_entries=sum(queue.entries for queue in self.queues),
            index_files=len(self.index),
            keys=self.keys,
            damages=tuple(map(str, [*_harmful(self.files), *self.lacking])),
            cut_at_start=self.has_tail,
        )


def _made(spark: SparkSession, log: Log, bases: Sequence[int], work: str, skip: bool) -> _Made:
    """Have tasks read the log and write queues and index below ``work``."""
    read = partial(scan, log, tuple(bases))
    numbers = spark.range(0, len(bases), 1, len(bases))
    scanned = map_in_arrow(numbers, read, SCANNED).persist(StorageLevel.MEMORY_AND_DISK)
    try:
        files = _summaries(scanned)
        _refuse(_harmful(files), skip)
        queues, lacking = _queues(scanned, log, work, files)
        _refuse(lacking, skip)
        index, plan = _index(scanned, log, work, files)
    finally:
        scanned.unpersist()
    return _Made(files=files, queues=queues, lacking=lacking, index=index, keys=plan.keys)


def _base(file: LogFile) -> int:
    return file.base


def _summaries(scanned: DataFrame) -> list[LogFile]:
    rows = scanned.where(F.col("kind") == FILE).select("data").collect()
    files = [msgspec.msgpack.decode(row.data, type=LogFile) for row in rows]
    return sorted(files, key=_base)


def _harmful(files: Iterable[LogFile]) -> list[Damage]:
    return [damage for file in files for damage in file.damages if not damage.harmless]


def _refuse(damages: Sequence[Damage], skip: bool) -> None:
    if damages and not skip:
        shown = "; ".join(map(str, damages[:_SHOWN]))
        more = f"; and {len(damages) - _SHOWN} more" if len(damages) > _SHOWN else ""
        raise StoreDamaged(
            f"{shown}{more}: restore the log from a copy, or leave these messages out by "
            "--skip-damaged",
            path=damages[0].where,
            position=damages[0].position,
        )


def _queues(
    scanned: DataFrame, log: Log, work: str, files: Sequence[LogFile]
) -> tuple[list[MadeQueue], list[Damage]]:
    """Have the queues written; return them, and what they lack."""
    seen = {topic for file in files for topic in file.batch_topics}
    batched = topics_with_batches(log.reader().disk, log.directory, seen)
    places = (
        scanned.where(F.col("kind") == PLACES)
        .select("topic", "queue_id", "base", "number", "count", "data")
        .repartition("topic", "queue_id")
        .sortWithinPartitions("topic", "queue_id", "base", "number")
    )
    make = partial(queues_made, log, work, batched, _harmful(files))
    made = map_in_arrow(places, make, MADE)
    queues, lacking = [], []
    for row in made.collect():
        if row.kind == QUEUE:
            queues.append(msgspec.msgpack.decode(row.data, type=MadeQueue))
        else:
            lacking.append(msgspec.msgpack.decode(row.data, type=Damage))
    return sorted(queues, key=lambda queue: (queue.topic, queue.queue_id)), lacking


def _index(
    scanned: DataFrame, log: Log, work: str, files: Sequence[LogFile]
) -> tuple[list[MadeIndexFile], IndexPlan]:
    """Have the index files written; return them in order."""
    plan = index_plan(files, log.settings)
    end = max((file.end for file in files if file.records), default=0)
    # A broker of ours notes that the last file covers the log to its end; Java's doesn't.
    reach = None if was_java_s(log.reader()) else end - 1
    if not log.settings.index_enabled or not plan.files:
        return [], plan
    if not plan.keys:
        directory = f"{work}/index"
        return [make_index_file(log.reader().disk, directory, plan, 0, (), reach=reach)], plan
    per_file = F.lit(plan.per_file)
    before = scanned.sparkSession.createDataFrame(
        list(plan.before.items()), "base bigint, before bigint"
    )
    begin = F.col("before") + F.col("number")
    # As IndexPlan.numbers: a file also gets the key before its first.
    lower = F.floor(begin / per_file)
    upper = F.least(F.floor((begin + F.col("count")) / per_file), F.lit(plan.files - 1))
    keys = (
        scanned.where(F.col("kind") == KEYS)
        .join(F.broadcast(before), "base")
        .select(begin.alias("first"), F.explode(F.sequence(lower, upper)).alias("file"), "data")
        .repartition(min(plan.files, _INDEX_TASKS), "file")
        .sortWithinPartitions("file", "first")
    )
    made = map_in_arrow(keys, partial(index_made, log, work, plan, reach), MADE)
    found = [msgspec.msgpack.decode(row.data, type=MadeIndexFile) for row in made.collect()]
    return sorted(found, key=lambda file: file.number), plan
