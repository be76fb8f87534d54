"""How far the Spark tasks of a job are, for a progress bar.

With a cluster or a local session, Spark's status tracker is asked a few times a second; Spark
Connect reports by itself.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any, Final, TypeAlias

from pyspark.sql import SparkSession, is_remote

from orbitmq.threads import Event, start_thread

__all__ = ["Progress", "tasks_shown"]

Progress: TypeAlias = Callable[[int, int], None]
"""Called with what is done and what there is in all; from any thread."""

_ASK_EACH_S: Final = 0.25
_GROUPS: Final = count(1)


@contextmanager
def tasks_shown(spark: SparkSession, progress: Progress | None) -> Iterator[None]:
    """Report the tasks of all Spark jobs that this thread runs meanwhile.

    ::

        with tasks_shown(spark, bar):
            frame.count()
    """
    if progress is None:
        yield
    elif is_remote():
        with _of_connect(spark, progress):
            yield
    else:
        with _of_tracker(spark, progress):
            yield


@contextmanager
def _of_connect(spark: Any, progress: Progress) -> Iterator[None]:
    def report(stages: Any, **_others: Any) -> None:
        progress(
            sum(stage.num_completed_tasks for stage in stages or ()),
            sum(stage.num_tasks for stage in stages or ()) or 1,
        )

    spark.registerProgressHandler(report)
    try:
        yield
    finally:
        spark.removeProgressHandler(report)


@contextmanager
def _of_tracker(spark: SparkSession, progress: Progress) -> Iterator[None]:
    context = spark.sparkContext
    group = f"orbitmq-pipeline-{next(_GROUPS)}"
    context.setJobGroup(group, "orbitmq pipeline")
    ended = Event()

    def watch() -> None:
        while not ended.wait(_ASK_EACH_S):
            done, total = _tasks(spark, group)
            if total:
                progress(done, total)

    watcher = start_thread(watch, name="orbitmq-progress", daemon=True)
    try:
        yield
    finally:
        ended.set()
        watcher.join()
        context.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]


def _tasks(spark: SparkSession, group: str) -> tuple[int, int]:
    """Return the tasks of a group that are done, and all that are known."""
    tracker = spark.sparkContext.statusTracker()
    done = total = 0
    for job in tracker.getJobIdsForGroup(group):
        found = tracker.getJobInfo(job)
        for stage in found.stageIds if found else ():
            info = tracker.getStageInfo(stage)
            if info is not None:
                done, total = done + info.numCompletedTasks, total + info.numTasks
    return done, total
