"""The tasks of a job are reported while it runs."""

from pyspark.sql import SparkSession

from orbitmq.spark.jobs.progress import tasks_shown
from orbitmq.threads import Event


def test_tasks_are_reported_while_they_run(spark: SparkSession) -> None:
    seen: list[tuple[int, int]] = []
    reported = Event()

    def bar(done: int, total: int) -> None:
        seen.append((done, total))
        reported.set()

    with tasks_shown(spark, bar):
        while not reported.is_set():
            spark.sparkContext.parallelize(range(2), 2).count()
    assert all(0 <= done <= total for done, total in seen)
    assert seen[-1][1] >= 2


def test_without_a_bar_nothing_is_asked(spark: SparkSession) -> None:
    with tasks_shown(spark, None):
        assert spark.range(3).count() == 3
