"""How many tasks run at once."""

from types import SimpleNamespace
from typing import cast

from pyspark.sql import SparkSession

from orbitmq.spark.jobs.parallelism import parallelism


def test_it_is_known_of_a_session_with_a_context(spark: SparkSession) -> None:
    assert parallelism(spark) == 2  # as the fixture says


def test_spark_connect_does_not_say() -> None:
    assert parallelism(cast("SparkSession", SimpleNamespace())) == 8
